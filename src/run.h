/* SPDX-License-Identifier: MIT */
/*
 * A job on its worker: its function is called, its end marked on the stream, and
 * it is completed when the device has passed it.
 *
 * DESIGN
 *	With jobs queued behind, one event stands for several jobs, and the
 *	driver is asked only when the stream is full.  With none queued, the
 *	stream writes a word, and the worker looks at that.
 *	A job that copied much gets an event alone, and is asked for: a word that
 *	the stream writes would hold up other streams' copies.
 *	A job that was added to a barrier gets an event of its own, at once:
 *	jobs that come after it, and streams that join it, wait for no function
 *	but those of the barrier's own jobs.
 *	A barrier is told of several jobs at once: as long as the worker has yet
 *	to run one of the same barrier, that cannot be done, and nobody sees
 *	that it was not told of those before.
 *	A device that failed gives every job -EIO.
 *	All of it is the worker's own thread's.
 */
#ifndef RNL_RUN_H
#define RNL_RUN_H

#include <stdbool.h>

#include "worker.h"

/* Runs a job that was taken from the queue of @from. */
void rnl__run(struct rnl__worker *w, struct rnl_job *job, struct rnl__worker *from);

/*
 * Completes what the device has passed; @query asks the driver, if nothing else
 * tells.  True if that was any.
 */
bool rnl__run_retire(struct rnl__worker *w, bool query);

/*
 * Tells the barrier of the jobs that were completed last; due before the worker does
 * anything but to run another one of them.
 */
void rnl__run_tell_barrier(struct rnl__worker *w);

/*
 * Completes, on the worker, what was accepted as a job, but never was on a queue: a
 * request of a batch.  It is its caller's then; its barrier is told by the call above.
 */
void rnl__run_finish(struct rnl__worker *w, struct rnl_job *job, int result);

/* Whether another's queue holds a job that a worker may take. */
bool rnl__run_may_have(struct rnl__worker *w, struct rnl__worker *other);

/*
 * The worker does not look at its queue for a while: what is there, and what comes, is
 * to be run by others; until it attends again.  A worker that sleeps attends: a job wakes it.
 * Return: whether it was so before; then it stays so.
 */
bool rnl__run_occupy(struct rnl__worker *w);

static inline void rnl__run_attend(struct rnl__worker *w, bool was_occupied)
{
	/*
	 * [run.O3] release: what the function left on the stream is counted before; pairs
	 * with [worker.O4].
	 */
	atomic_store_explicit(&w->occupied, was_occupied, memory_order_release);
}

/* Nothing is queued behind: somebody may wait for what was issued last. */
void rnl__run_mark_last(struct rnl__worker *w);

/* Whether the pool has fallen to its low water mark, if somebody waits for that. */
void rnl__run_look_at_mark(struct rnl__worker *w);

#endif
