/* SPDX-License-Identifier: MIT */
/*
 * A job's life.
 *
 * DESIGN
 *	`state` is a latch that counts 1 from the accepted submit until the job
 *	is done.  Who completes it touches it last with that drop, so that a
 *	waiter may reuse its memory at once.  A job that names a completion
 *	queue is dropped by who reaps it there.
 *	`phase` says whether it may still be cancelled.  Its start and its
 *	cancel both exchange it, so one of them is first.
 *	Model: tests/model/cancel.pml.
 */
#ifndef RNL_JOB_H
#define RNL_JOB_H

#include <errno.h>
#include <stdbool.h>

#include <runnel.h>

#include "fence.h"
#include "latch.h"

/* In a job's flags, beside the lanes of queue.h: what stays from submit to submit ... */
#define RNL__JOB_URGENT 8u
#define RNL__JOB_DEADLINE 16u
#define RNL__JOB_LARGE 128u	/* takes the device long: it is marked for itself */
#define RNL__JOB_OWN 256u	/* its function is the library's: guard looks at what that calls */
#define RNL__JOB_LASTING (RNL__JOB_URGENT | RNL__JOB_DEADLINE | RNL__JOB_LARGE | RNL__JOB_OWN)
/* ... and what does not. */
#define RNL__JOB_TIMED 32u
#define RNL__JOB_OWES 64u	/* its worker has yet to write what it copied out */
#define RNL__JOB_TRACED 512u	/* a trace ran at its submit, which is stamped */
_Static_assert(!(RNL__JOB_TRACED & (RNL__JOB_LASTING | RNL__JOB_TIMED | RNL__JOB_OWES)), "one bit for each");

enum {
	RNL__JOB_WAITING = 1,	/* a notice, for its water mark */
	RNL__JOB_QUEUED,
	RNL__JOB_STARTED,
	RNL__JOB_CANCELLED,
	RNL__JOB_FINISHED,
};

static inline _Atomic uint32_t *rnl__job_latch(const struct rnl_job *job)
{
	return rnl__atomic((uint32_t *)&job->state);
}

static inline _Atomic uint32_t *rnl__job_phase(const struct rnl_job *job)
{
	return rnl__atomic((uint32_t *)&job->phase);
}

/* The pool of the last accepted submit; NULL if there was none. */
static inline struct rnl_pool *rnl__job_pool(const struct rnl_job *job)
{
	/* relaxed: who asks knows of the submit */
	return atomic_load_explicit(rnl__atomic((struct rnl_pool **)&job->pool),
				    memory_order_relaxed);
}

/* Claims a job that is not under way: 0, -EBUSY it is, -EINVAL no such job. */
static inline int rnl__job_claim(struct rnl_job *job)
{
	uint32_t word;

	if (!job || !job->fn)
		return -EINVAL;
	/* relaxed: the exchange decides */
	word = atomic_load_explicit(rnl__job_latch(job), memory_order_relaxed) &
	       RNL__LATCH_SLEEPER;
	/*
	 * [job.S1] acquire: what the last run left in the job is ours to
	 * overwrite; pairs with [latch.D1].  Two submits of one job meet here.
	 */
	while (!atomic_compare_exchange_weak_explicit(rnl__job_latch(job), &word,
						      word | RNL__LATCH_ONE,
						      memory_order_acquire,
						      memory_order_relaxed)) {
		if (word >= RNL__LATCH_ONE)
			return -EBUSY;
	}
	return 0;
}

/*
 * Lets go of a job: of a claim that was not accepted after all, or of a finished
 * job, which is the caller's then and may be gone on return.
 */
static inline void rnl__job_drop(struct rnl_job *job)
{
	(void)rnl__latch_drop(rnl__job_latch(job), 1);
}

/* From here on it may be cancelled; @phase: QUEUED or WAITING. */
static inline void rnl__job_accepted(struct rnl_job *job, uint32_t phase)
{
	/* relaxed: who cancels it knows of the submit */
	atomic_store_explicit(rnl__job_phase(job), phase, memory_order_relaxed);
}

/* Whether its function is to run: it was not cancelled.  A full barrier. */
static inline bool rnl__job_start(struct rnl_job *job)
{
	uint32_t phase = RNL__JOB_QUEUED;
	bool started;

	/*
	 * [job.P1] acq_rel: of this and a cancel one changes the word first;
	 * pairs with [job.P2].  And a full barrier, with M1: the job was taken
	 * before we look who waits for room; pairs with [bell.L2].  And a worker
	 * that left its sleep says so before share() looks whether its queue has
	 * more: else a submitter thinks it woken for that; pairs with [queue.E1].
	 */
	started = atomic_compare_exchange_strong_explicit(rnl__job_phase(job), &phase,
							  RNL__JOB_STARTED, memory_order_acq_rel,
							  memory_order_acquire);
	rnl__mb_after_rmw();
	return started;
}

/* Notes how it ended; then it is dropped, or pushed on its completion queue. */
static inline void rnl__job_finish(struct rnl_job *job, int result)
{
	job->result = result;
	/* relaxed: a cancel beside this is told -EBUSY or -EALREADY */
	atomic_store_explicit(rnl__job_phase(job), RNL__JOB_FINISHED, memory_order_relaxed);
}

/*
 * Whether a job was submitted, in this process: 0, -EINVAL, -EOWNERDEAD.  Its pool
 * may be gone if it is done.
 */
int rnl__job_check(const struct rnl_job *job);

/* Whether a job may be changed: 0; -EINVAL none; -EBUSY under way; -EOWNERDEAD. */
int rnl__job_settable(const struct rnl_job *job);

/* A notice waits no more. */
void rnl__job_enqueued(struct rnl_job *job);

/* Of a notice: whether it was cancelled. */
bool rnl__job_cancelled(struct rnl_job *job);

/* Cancels it, if it has not started; its phase before. */
uint32_t rnl__job_cancel(struct rnl_job *job);

#endif
