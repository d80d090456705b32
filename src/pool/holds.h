/* SPDX-License-Identifier: MIT */
/*
 * Holds: a hold keeps a job from being done until a thread outside of the pool releases it.
 *
 * DESIGN
 *	A job has a count of shares: one for each hold, and one for its worker.  The worker drops
 *	its share when the function has returned and the device has completed the job.  If other
 *	shares are left, the job waits for its holds, on no list.  The release of the last hold
 *	returns the job to its worker, which completes it: worker/complete.h.
 *	A hold names a pool, a slot of one of its workers, and the number of that use of the slot,
 *	`use`.  A release may come at any time, late, twice, or after the pool's end.  So it pins
 *	the pool by its name before it reads the slot: pool/directory.h.  `use` is odd while the
 *	slot is taken, and grows with each change.  A release exchanges it, so only one of several
 *	releases wins.  The winner owns the slot, and the job is not done before it drops its share.
 *	The worker takes slots, any thread puts them back.  They are freed with the pool.
 *	The timer thread ends the holds of an expired job, like a release.  It keeps them in a heap,
 *	by deadline.  A release does not put back a slot that is in the heap: it puts the slot on a
 *	list, and the timer thread removes that list's slots from the heap and puts them back.  It
 *	does so when a hold expires, and when a worker asks for free slots.
 *	While a job waits for its holds, it has a slot of its own, so rnl__holds_list() finds it.
 *	Model: tests/model/hold.pml.
 *
 *			take	release	expire	await	over	list
 *	take		X	-	-	X	X	-	X: the job's worker only
 *	release		-	-	-	-	-	-
 *	expire		-	-	-	-	-	-
 *	list		-	-	-	-	-	-
 */
#ifndef RNL_HOLDS_H
#define RNL_HOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/hold.h>

#include "pool/worker.h"
#include "sys/atomic.h"

struct rnl__timer_break;

static inline int rnl__holds_result(const struct rnl_job *job)
{
	return rnl__peek(rnl__atomic((int32_t *)&job->result));
}

/* Notes a result of a job that has holds: the first failure stays, else the last result. */
static inline void rnl__holds_note(struct rnl_job *job, int32_t result)
{
	int32_t now = rnl__holds_result(job);

	/* relaxed: the drop of the share, or of the hold, publishes it */
	while (now >= 0 && !atomic_compare_exchange_weak_explicit(
			rnl__atomic(&job->result), &now, result, memory_order_relaxed,
			memory_order_relaxed))
		;
}

/* In the job's function: takes a hold.  Returns 0 or -ENOMEM. */
int rnl__holds_take(struct rnl__worker *w, struct rnl_job *job, struct rnl_hold *hold);

/* Releases a hold of this process.  Returns 0; -EALREADY, -ESTALE: over; -EINVAL: never taken. */
int rnl__holds_release(const struct rnl_hold *hold, int result);

/* After a call of the job's function that must be repeated: ends the holds of that call. */
void rnl__holds_end_of(struct rnl__worker *w, const struct rnl_job *job);

/* The timer thread: ends the pool's expired holds. */
void rnl__holds_expire(struct rnl_pool *pool, uint64_t now, struct rnl__timer_break *brk);

/*
 * On the job's worker, instead of completing the job: drops the worker's share.  Returns true if
 * the job waits for its holds.  It will be returned, and rnl__holds_over() must be called then.
 */
bool rnl__holds_await(struct rnl__worker *w, struct rnl_job *job);

/* Ends the wait of a returned job.  Returns when the wait began. */
uint64_t rnl__holds_over(struct rnl__worker *w, struct rnl_job *job);

/* Calls @fn for each job of a pool that waits for its holds. */
typedef void rnl__holds_fn(void *arg, const struct rnl_job *job, unsigned worker, uint64_t since);
void rnl__holds_list(struct rnl_pool *pool, rnl__holds_fn *fn, void *arg);

/* Called before the timer thread starts. */
void rnl__holds_init(struct rnl_pool *pool);

/* Frees a worker's slots, after the timer thread's end, when no release can find the pool. */
void rnl__holds_fini(struct rnl__holds *holds);

#endif
