/* SPDX-License-Identifier: MIT */
/*
 * Cancelling jobs.
 *
 * DESIGN
 *	A cancel changes the job's phase.  Then a worker that takes the job completes it, or the
 *	timer thread takes it out of its queue, whichever is first.  A delayed job is passed to the
 *	timer thread by its address: delayed.h.
 *	A cancel of all jobs does not touch the jobs: job.h.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>

#include "job/delayed.h"
#include "job/job.h"
#include "pool/classes.h"
#include "pool/outside.h"
#include "pool/pool.h"

int rnl_job_cancel(struct rnl_job *job)
{
	int ret = rnl__job_submitted(job, "rnl_job_cancel()");
	struct rnl_pool *pool;
	uint32_t slot;

	if (ret)
		return ret;
	pool = rnl__job_pool(job);
	/* Read before the cancel, after which the job may be done. */
	slot = rnl__classes_slot(job);
	switch (rnl__job_cancel(job)) {
	case RNL__JOB_DELAYED:
		/* The job may have been submitted to another pool since `pool` was read. */
		rnl__delayed_cancelled(rnl__job_pool(job), job);
		return 0;
	case RNL__JOB_QUEUED:
		rnl__classes_mark(pool, slot, job);
		rnl__timer_cancelled(pool, false);
		return 0;
	case RNL__JOB_CANCELLED:
		return 0;
	case RNL__JOB_STARTED:
	case RNL__JOB_ASKED:
		return -EBUSY;
	default:
		return -EALREADY;
	}
}

int rnl_job_is_cancelled(const struct rnl_job *job)
{
	int ret = rnl__job_submitted(job, "rnl_job_is_cancelled()");
	uint32_t phase;

	if (ret)
		return ret;
	phase = rnl__peek(rnl__job_phase(job));
	if (phase == RNL__JOB_ASKED || phase == RNL__JOB_CANCELLED)
		return 1;
	/* Once the job is done, its pool may be gone. */
	return phase != RNL__JOB_DONE && rnl__pool_stops(rnl__job_pool(job));
}

int rnl_pool_cancel(struct rnl_pool *pool)
{
	int ret = rnl__pool_given(pool, "rnl_pool_cancel()");
	uint64_t nr;

	if (ret)
		return ret;
	nr = rnl__pool_queued(pool) + rnl__outside_nr(pool, RNL__DEFERRED) +
	     rnl__outside_nr(pool, RNL__CLASSED) +
	     rnl__outside_nr(pool, RNL__CHAINED) + rnl__outside_nr(pool, RNL__DELAYED);
	/* relaxed: see rnl__job_cancelled_with_all() */
	atomic_fetch_add_explicit(&pool->cancels, RNL__POOL_CANCEL, memory_order_relaxed);
	rnl__timer_cancelled(pool, true);
	return nr < INT_MAX ? (int)nr : INT_MAX;
}
