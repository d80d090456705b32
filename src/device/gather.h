/* SPDX-License-Identifier: MIT */
/*
 * Operations that a thread notes, and issues together later to save calls of the driver.
 *
 * DESIGN
 *	An operation is noted with its job.  The effect of one job's operations is that of the order
 *	in which they were noted.  Operations of different jobs are issued in any order.
 *	For this, an operation has a step: copies and fills have even steps, launches odd ones.  All
 *	of step 0 is issued, then all of step 1, and so on.  An operation joins the step of its
 *	job's previous operation if both are launches, or both are copies or fills, and else the
 *	next step.  Copies and fills of one step have no order.  So if one of them writes memory
 *	that another one of the same job reads or writes, the later one goes two steps further.
 *	A hundred jobs that copy in, launch and copy out have three steps, like one such job.
 *	Call rnl__gather_flush() before work is issued in another way, and before a wait for the
 *	stream.
 *	An operation that fails when it is issued fails only its own job.  The job's later steps are
 *	left out: the function would have returned at the error, and a kernel might misbehave
 *	without the failed operation.  If the function still runs, its next call returns the error.
 *	Only the thread that owns the stream uses its gather.
 */
#ifndef RNL_GATHER_H
#define RNL_GATHER_H

#include <runnel/kernel.h>

#include "device/device.h"
#include "device/notes.h"

/* Called when an operation of @job, which may still run, has failed. */
typedef void rnl__gather_failed_fn(struct rnl_job *job, int error);

/* Called for a copy that is left out: it was not issued, and will never be. */
typedef void rnl__gather_left_out_fn(const struct rnl__copy *copy);

struct rnl__gather {
	struct rnl__noted *noted;	/* NULL: nothing can be noted */
	char *args;			/* arguments of the launches */
	uint32_t nr, args_bytes;
	uint32_t first;			/* index of the running job's first operation */
	uint16_t step, last_step;	/* step of that job's last operation; last step of all */
	bool on;			/* the running job's calls are noted */
	int error;			/* of an already issued operation of that job */
	_Atomic uint64_t nr_graphs;	/* figure: launched graphs */
	rnl__gather_failed_fn *failed;
	rnl__gather_left_out_fn *left_out;
};

/* Returns 0 or -ENOMEM.  The memory is only touched as far as it is used. */
int rnl__gather_init(struct rnl__gather *g, rnl__gather_failed_fn *failed,
		     rnl__gather_left_out_fn *left_out);
void rnl__gather_fini(struct rnl__gather *g);

/* Begins to note the calls of rnl__thread.job, until rnl__gather_end(). */
void rnl__gather_begin(struct rnl__gather *g);

static inline void rnl__gather_end(struct rnl__gather *g)
{
	g->on = false;
	g->error = 0;
}

/* Issues all noted operations. */
void rnl__gather_issue(struct rnl__gather *g);

/* Issues the calling thread's noted operations. */
static inline void rnl__gather_flush(void)
{
	struct rnl__gather *g = rnl__thread.stream->gather;

	if (g && g->nr)
		rnl__gather_issue(g);
}

/* Issues the noted operations; later calls of the running job are not noted. */
static inline void rnl__gather_stop(void)
{
	struct rnl__gather *g = rnl__thread.stream->gather;

	if (!g || !g->on)
		return;
	g->on = false;
	rnl__gather_flush();
}

/*
 * Returns the error of an operation that the running job noted, and that failed when it was issued
 * later; or 0.  After such an error, the job may issue nothing more.
 */
static inline int rnl__gather_error(void)
{
	return rnl__thread.stream->gather ? rnl__thread.stream->gather->error : 0;
}

/* Returns true if the running job's calls are noted. */
static inline bool rnl__gather_notes(void)
{
	return rnl__thread.stream->gather && rnl__thread.stream->gather->on;
}

/* Like the device's copy, fill and launch, except that they are noted if the job's calls are. */
int rnl__gather_copy(const struct rnl__copy *copy);
int rnl__gather_fill(void *dst, uint8_t value, size_t bytes);
int rnl__gather_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
		       const void *args);

#endif
