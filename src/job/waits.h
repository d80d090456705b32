/* SPDX-License-Identifier: MIT */
/*
 * Waits that have ended, which a trace draws as arrows, and requests that resident kernels answered.
 *
 * DESIGN
 *	While a trace runs, the pool has a list of the waits for its jobs and its barriers.  The
 *	trace owns the list: it gives the list to the pool when it begins, and draws the waits when
 *	it ends.  A thread records a wait when the wait is over, so the mutex that guards the list
 *	delays no job.  A request is recorded by the thread that ends it, which may be any.
 */
#ifndef RNL_WAITS_H
#define RNL_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#define RNL__WAIT_KERNEL 48

/* A wait that has ended, or an answered request.  All times are the host's nanoseconds. */
struct rnl__wait {
	uint64_t begin, end;
	const void *what;		/* the job or the barrier */
	uint32_t tid;			/* of the thread that waited */
	bool of_job;			/* no thread waited: a job came after the barrier */
	uint32_t class;			/* of a request: its class's id; 0: it has none */
	char kernel[RNL__WAIT_KERNEL];	/* of a request: the request kernel's name; "": it is a wait */
};

struct rnl__waits {
	uint64_t start;			/* a wait that began earlier is not recorded */
	struct rnl__wait *list;		/* the trace frees it */
	size_t nr, space;
	uint64_t lost;			/* waits for which the list had no room */
};

/* Makes the pool record waits in @waits, whose `start` is set.  NULL: stops recording. */
void rnl__waits_note_in(struct rnl_pool *pool, struct rnl__waits *waits);

/*
 * Mark the begin and the end of the calling thread's wait for a job or a barrier of the pool.  The
 * pool exists until the second call returns.  @begin: the first call's result, 0 if no trace runs.
 */
uint64_t rnl__waits_begin(struct rnl_pool *pool);
void rnl__waits_end(struct rnl_pool *pool, uint64_t begin, const void *what);

/* Records a wait. */
void rnl__waits_add(struct rnl_pool *pool, const struct rnl__wait *wait);

#endif
