/* SPDX-License-Identifier: MIT */
/*
 * A worker's state as other threads see it, and which threads the worker wakes.
 *
 * DESIGN
 *	A worker is occupied while it runs a function, a callback or a copy: it does not check its
 *	queue.  Other workers may steal the jobs there, and a submit that finds the worker occupied
 *	wakes an idle worker.  A worker that sleeps is not occupied: a job wakes it.
 *	A worker marks itself occupied, then checks its queue.  A submit puts its job there, then
 *	checks whether the worker is occupied.  A full barrier separates the two steps on both
 *	sides, so at least one side sees the other.
 *	A wake-up names no job.  So a woken worker that takes a job wakes another if jobs are left.
 *	All functions here run on the worker's own thread.
 */
#ifndef RNL_SHARE_H
#define RNL_SHARE_H

#include <stdbool.h>

#include "pool/pool.h"
#include "sys/clock.h"

/* Marks the worker occupied.  A full barrier and rnl__share_queue() must follow. */
static inline void rnl__share_occupied(struct rnl__worker *w)
{
	/*
	 * [run.O1] relaxed: a full barrier follows, then the worker checks its queue.  A submit
	 * reads this word after [queue.E1]: one of the two sees the other.
	 */
	atomic_store_explicit(&w->occupied, true, memory_order_relaxed);
}

/*
 * Like rnl__share_occupied(), but includes the full barrier and rnl__share_queue().
 * Returns whether the worker was occupied before, an argument for rnl__share_attend().
 */
bool rnl__share_occupy(struct rnl__worker *w);

/* Marks the worker as about to check its queue, unless it @was_occupied before. */
static inline void rnl__share_attend(struct rnl__worker *w, bool was_occupied)
{
	/*
	 * [run.O3] release: the jobs that the worker has put on its stream are counted before;
	 * pairs with [worker.O4].
	 */
	atomic_store_explicit(&w->occupied, was_occupied, memory_order_release);
}

/* Wakes an idle worker for a job of this worker's queue; after a wake-up, of any queue. */
void rnl__share_queue(struct rnl__worker *w);

/*
 * Returns true if the pool counts the worker.  A worker that is not counted yet takes no job from
 * others: if the resize failed, its figures would be lost.
 */
static inline bool rnl__share_counted(struct rnl__worker *w)
{
	return w->index < rnl__pool_nr_workers(w->pool);
}

/*
 * Returns a worker to steal from, or NULL.  A thief with an empty stream steals from any worker,
 * another thief only from a worker with more queued jobs than it has in flight: the stolen job runs
 * after the thief's jobs, but would run concurrently with them if it waited for its own worker to
 * wake.  A job that another worker could start immediately is not stolen to go after a long job.
 */
struct rnl__worker *rnl__share_victim(struct rnl__worker *w);

/* Takes a job of a class, if it is a class's turn and not the turn of the workers' queues; or NULL. */
struct rnl_job *rnl__share_take_classed(struct rnl__worker *w);

/* Return true if there is a job of a class that the worker may take now, or when it has room. */
bool rnl__share_has_classed(struct rnl__worker *w);
bool rnl__share_awaits_classed(struct rnl__worker *w);

/*
 * Returns true if the worker leaves the jobs of its queue to others: other workers may take each
 * job, and one such worker has nothing to do.
 */
bool rnl__share_leave(struct rnl__worker *w);

/*
 * Called when a job was taken off the queue of @from: wakes threads that wait for space there, and
 * perhaps an idle worker for this worker's queue.  A full barrier must separate the take and this
 * call.
 */
static inline void rnl__share_taken(struct rnl__worker *w, struct rnl__worker *from)
{
	struct rnl_pool *pool = w->pool;

	rnl__worker_made_space(from);
	if (from != w)
		/* The other worker may wait to leave, after it saw the job still counted. */
		(void)rnl__park_wake(&from->park);
	if (w->woken || rnl__idle_set_any(&pool->idle_set))
		rnl__share_queue(w);
}

/* Records the job whose function or callback runs on the worker, for health; @job NULL: none. */
static inline void rnl__share_running(struct rnl__worker *w, struct rnl_job *job)
{
	if (job)
		/* relaxed: the store below publishes it */
		atomic_store_explicit(&w->running_since, rnl__now_coarse(), memory_order_relaxed);
	/* [worker.H1] release: publishes `running_since` with the job; pairs with [stats.H1] */
	atomic_store_explicit(&w->running, job, memory_order_release);
}

#endif
