/* SPDX-License-Identifier: MIT */
/* Notices: jobs that start when a pool has space, or has ended, or when a barrier's round has. */
#include "config.h"

#include <errno.h>

#include "job/barrier.h"
#include "job/delayed.h"
#include "job/job.h"
#include "job/rounds.h"
#include "job/submit.h"
#include "pool/pool.h"

static int submit_when(struct rnl_pool *pool, struct rnl_job *job, bool last)
{
	int ret = rnl__submit_claim(pool, job, RNL__JOB_MARKED | (last ? RNL__JOB_LAST : 0));

	if (ret)
		return ret;
	if (job->after || job->barrier || rnl__job_then(job))
		ret = rnl__invalid(&pool->log, "rnl_submit_when(): job %p %s: what it waits for could "
				   "wait for it", (void *)job,
				   job->after ? "comes after a barrier" :
				   job->barrier ? "is in a barrier" : "has a job behind it");
	if (!ret) {
		ret = rnl__tally_enter(last ? &pool->last : &pool->delayed);
		if (ret)
			rnl__submit_taken_back(pool);
	}
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	rnl__submit_accept(pool, job, RNL__JOB_DELAYED);
	job->flags &= ~RNL__JOB_TIMED;	/* it waits on purpose */
	rnl__delayed_push(job);
	return 0;
}

int rnl_submit_when(struct rnl_pool *pool, struct rnl_job *job, enum rnl_when when)
{
	if (when != RNL_SPACE && when != RNL_EMPTY)
		return rnl__invalid(pool ? &pool->log : NULL, "rnl_submit_when(): when is %d; it "
				    "must be RNL_SPACE or RNL_EMPTY", (int)when);
	return rnl__submit_answer(pool, submit_when(pool, job, when == RNL_EMPTY));
}

/* ---- the end of a round --------------------------------------------------- */

static int notify(struct rnl_pool *pool, struct rnl_barrier *b, struct rnl_job *job)
{
	int ret = rnl__submit_claim(pool, job, RNL__JOB_TELLS);

	if (ret)
		return ret;
	if (job->after || rnl__job_then(job) || job->barrier)
		ret = rnl__invalid(&pool->log, "rnl_barrier_notify(): job %p is in a barrier, "
				   "comes after one, or has a job behind it", (void *)job);
	else if (!rnl__rounds_have_room(b))
		ret = -EAGAIN;
	else	/* It leaves nothing to those in line, which may wait for this barrier. */
		ret = rnl__submit_enter_chained(pool, 1, &(struct rnl__waiter){ .before = 0 });
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	rnl__submit_accept(pool, job, RNL__JOB_STARTED);
	job->flags &= ~RNL__JOB_TIMED;
	ret = rnl__rounds_notify(b, job);
	if (ret) {	/* the barrier may be gone */
		rnl__job_set_result(job, ret);
		rnl__job_drop(job);
		rnl__tally_retract(&pool->chained);
		rnl__submit_taken_back(pool);
	}
	return ret;
}

int rnl_barrier_notify(struct rnl_barrier *b, struct rnl_job *job)
{
	int ret = rnl__barrier_given(b, "rnl_barrier_notify()");
	struct rnl_pool *pool;

	if (ret)
		return ret;
	pool = b->pool;
	return rnl__submit_answer(pool, notify(pool, b, job));
}
