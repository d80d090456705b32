/* SPDX-License-Identifier: MIT */
/*
 * A job's life.
 *
 * DESIGN
 *	                         submit
 *	                           |
 *	                       accepted -----------+--------------------+
 *	                           |               | after a barrier    | has a time, or is a notice
 *	   choose.c: a worker      |            deferred              delayed
 *	                           |               | its jobs issued    | its time, space, a
 *	                           v               v                    v cancel, or a close
 *	                        queued <-----------+--------------------+
 *	                           |
 *	   run.c: its worker  +----+-- cancelled, expired, refused: not called -------+
 *	   takes it           v                                                       |
 *	                       started --- its function left nothing on the stream ---+
 *	                           |                                                  |
 *	   run.c: a mark follows   v                                                  |
 *	   it on the stream     issued                                                |
 *	                           |                                                  |
 *	   complete.c: the device  v                                                  v
 *	   is at the mark       reached --------------------------------------------> done
 *
 *	A job that fails takes the same path.  If the device fails, all issued jobs count as
 *	reached, with -EIO.  A job after a barrier that would be done before the jobs it waits for
 *	is held back until they are: complete.h.
 *	`state` is a latch that counts 1 from the accepted submit until the job is done.  The drop
 *	of this latch is the library's last access to the job, so a waiter may reuse the memory
 *	immediately.  If the job has a completion queue, the reap drops the latch.
 *	A cancel of all jobs increments a count in the pool.  `cancels` of a job that has not
 *	started is that count as of the job's submit.  The job is cancelled if the two counts
 *	differ, or if the pool stops.  Jobs of maps and batches are exempt: their owners end them.
 *	`phase` says whether the job may still be cancelled.  Its start and its cancel both
 *	exchange the phase, so one of them is first.  A cancel that comes second leaves a mark in
 *	the phase, which the function can query.
 *	Model: tests/model/cancel.pml.
 *
 *	Fields whose meaning depends on the phase.  A submit keeps the program's settings.
 *
 *			delayed		queued		started		issued		waits for holds
 *	link		inbox		its lane (*)	-		its stream	-
 *	cancels		of its submit	of its submit	device_error	device_error	device_error
 *	submit_ns	its time	of its submit	of its submit	seq		waiting
 *	producer	thread		thread		holds		holds		holds
 *	staff (**)	-		its lane's	its lane's	its lane's	its lane's
 *	rounds		of `barrier`, and of the first barrier before the job, until that round ends
 *	more		heap		gate of its order, `after`: rounds that have not ended
 *
 *	(*) of a timed job in its class's queue: since when it is there.
 *	(**) of a job of a map or a batch that has a class, always: the slot that it keeps there.
 *	`link` also lists deferred jobs of a round or order, held-back jobs, and jobs of a cq.
 */
#ifndef RNL_JOB_H
#define RNL_JOB_H

#include <errno.h>
#include <stdbool.h>

#include <runnel.h>

#include "stream/job_flags.h"
#include "pool/pool.h"
#include "sys/fence.h"
#include "sys/latch.h"
#include "sys/tsan.h"

_Static_assert(sizeof(struct rnl_job) == 128, "two cache lines");

#define RNL__REQUEST_COMMITTED 2	/* `request`: the job belongs to a committed request */

/* Where a request's answer comes that no worker ends: a waiting thread looks there. */
struct rnl__answers {
	void (*await)(struct rnl__answers *answers, struct rnl_job *job, uint64_t deadline);
};

static inline _Atomic uint32_t *rnl__job_latch(const struct rnl_job *job)
{
	return rnl__atomic((uint32_t *)&job->state);
}

static inline _Atomic uint8_t *rnl__job_phase(const struct rnl_job *job)
{
	return rnl__atomic((uint8_t *)&job->phase);
}

/* Returns the pool of the last accepted submit, or NULL if there was none. */
static inline struct rnl_pool *rnl__job_pool(const struct rnl_job *job)
{
	/* relaxed: the caller knows of the submit */
	return atomic_load_explicit(rnl__atomic((struct rnl_pool **)&job->pool),
				    memory_order_relaxed);
}

/* Claims a job for a submit.  Returns 0, -EBUSY if it is not done, -EINVAL if it is no job. */
static inline int rnl__job_claim(struct rnl_job *job)
{
	uint32_t word;

	if (!job || !job->fn)
		return -EINVAL;
	word = rnl__peek(rnl__job_latch(job)) & RNL__LATCH_SLEEPER;
	/*
	 * [job.S1] acquire: the last run has ended, so the job may be overwritten;
	 * pairs with [latch.D1].  Two submits of one job meet here.
	 */
	while (__builtin_expect(!atomic_compare_exchange_weak_explicit(rnl__job_latch(job), &word,
								       word | RNL__LATCH_ONE,
								       memory_order_acquire,
								       memory_order_relaxed),
				false)) {
		/* A job counts 1: a larger count means that the memory is not a job. */
		if (word >= RNL__LATCH_ONE)
			return word > (RNL__LATCH_ONE | RNL__LATCH_SLEEPER) ? -EINVAL : -EBUSY;
	}
	rnl__tsan_acquire(rnl__job_latch(job));
	return 0;
}

/*
 * Returns a job to the caller, after a claim that was not accepted or when the job is done.  The
 * job's memory may be gone on return.
 */
static inline void rnl__job_drop(struct rnl_job *job)
{
	(void)rnl__latch_drop(rnl__job_latch(job), 1);
}

/* Return the completion queue or the callback of a job; a job has at most one of them. */
static inline struct rnl_cq *rnl__job_cq_of(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_REAPED ? job->cq : NULL;
}

static inline void (*rnl__job_callback_of(const struct rnl_job *job))(struct rnl_job *)
{
	return job->flags & RNL__JOB_CALLS ? job->on_done : NULL;
}

/* Returns the next job in the chain, or NULL. */
static inline struct rnl_job *rnl__job_then(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_LEADS ? job->then : NULL;
}

/* Returns true if the job names a device that the pool does not have. */
static inline bool rnl__job_misplaced(const struct rnl_job *job, const struct rnl_pool *pool)
{
	return job->flags & RNL__JOB_PLACED && rnl__job_device(job) >= pool->devices.nr;
}

/* Marks the job as accepted: from here on it may be cancelled.  @phase: QUEUED or DELAYED. */
static inline void rnl__job_accepted(struct rnl_job *job, uint8_t phase)
{
	/*
	 * [job.P3] release: a thread that cancels a delayed job writes in it after the submit;
	 * pairs with [job.P2]
	 */
	atomic_store_explicit(rnl__job_phase(job), phase, memory_order_release);
}

/* Records, for a submit, the count of cancels of all jobs. */
static inline void rnl__job_note_cancels(struct rnl_job *job, struct rnl_pool *pool)
{
	/* relaxed: see rnl__job_cancelled_with_all() */
	job->cancels = atomic_load_explicit(&pool->cancels, memory_order_relaxed);
}

/* Returns true if all jobs were cancelled after the submit of this one, which has not started. */
static inline bool rnl__job_cancelled_with_all(const struct rnl_job *job)
{
	return rnl__pool_has_cancelled(rnl__job_pool(job), job);
}

/* Returns true if the job's function must run, because it was not cancelled.  A full barrier. */
static inline bool rnl__job_start(struct rnl_job *job)
{
	uint8_t phase = RNL__JOB_QUEUED;
	bool started;

	/*
	 * [job.P1] acq_rel: either this or a cancel changes the word first; pairs with [job.P2].
	 * And a full barrier, with rnl__mb_after_rmw(): the job was taken before the check for
	 * submits that wait for space; pairs with [eventcount.L2], [waitq.W1].  And a worker that
	 * has woken is marked awake before rnl__share_queue() checks whether its queue has more
	 * jobs; else a submit would leave such a job to that worker; pairs with [queue.E1].
	 */
	started = atomic_compare_exchange_strong_explicit(rnl__job_phase(job), &phase,
							  RNL__JOB_STARTED, memory_order_acq_rel,
							  memory_order_acquire);
	rnl__mb_after_rmw();
	return started;
}

/* Sets the result.  The caller then drops the job, or pushes it on its completion queue. */
static inline void rnl__job_set_result(struct rnl_job *job, int result)
{
	job->result = result;
	/* relaxed: a concurrent cancel returns -EBUSY or -EALREADY */
	atomic_store_explicit(rnl__job_phase(job), RNL__JOB_DONE, memory_order_relaxed);
}

/* The function of a job without one: does nothing. */
int rnl__job_no_function(struct rnl_job *job);

/*
 * Returns 0 if the job was submitted in this process, else -EINVAL or -EOWNERDEAD.  If the job is
 * done, its pool may be gone.
 */
int rnl__job_check(const struct rnl_job *job);

/* Like rnl__job_check(), for a public @call: logs -EINVAL. */
int rnl__job_submitted(const struct rnl_job *job, const char *call);

/*
 * Returns 0 if a public @call may change the job; -EINVAL if it is not a job, or -EBUSY if it is
 * not done, both logged; or -EOWNERDEAD.
 */
int rnl__job_settable(const struct rnl_job *job, const char *call);

/* Marks a waiting job, in @phase, as queued.  Returns false if it was cancelled before. */
bool rnl__job_enqueued(struct rnl_job *job, uint8_t phase);

/* Returns true if a job that has not started was cancelled. */
bool rnl__job_cancelled(const struct rnl_job *job);

/* Cancels a job that has not started, or marks one that has.  Returns the phase before the call. */
uint8_t rnl__job_cancel(struct rnl_job *job);

/* Reverses a list of pushed jobs.  Returns the job that was pushed first. */
static inline struct rnl_job *rnl__job_in_order(struct rnl_job *job)
{
	struct rnl_job *next, *first = NULL;

	for (; job; job = next) {
		next = job->link;
		job->link = first;
		first = job;
	}
	return first;
}

#endif
