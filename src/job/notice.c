/* SPDX-License-Identifier: MIT */
/* Notices of barriers: jobs that are completed when a round has ended. */
#include "config.h"

#include <errno.h>

#include "job/barrier.h"
#include "job/job.h"
#include "job/rounds.h"
#include "job/submit.h"
#include "pool/outside.h"
#include "pool/pool.h"

static int notify(struct rnl_pool *pool, struct rnl_barrier *b, struct rnl_job *job)
{
	int ret = rnl__submit_claim(pool, job, RNL__JOB_TELLS);

	if (ret)
		return ret;
	if (rnl__job_follows(job) || rnl__job_then(job) || job->barrier)
		ret = rnl__invalid(&pool->log, "rnl_barrier_notify(): job %p is in a barrier, "
				   "comes after one, or has a job behind it", (void *)job);
	else if (!rnl__rounds_have_room(b))
		ret = -EAGAIN;
	else	/* It does not yield to the wait queue, whose threads may wait for this barrier. */
		ret = rnl__submit_enter_chained(pool, 1, &(struct rnl__waiter){ .before = 0 });
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	rnl__submit_accept(pool, job, RNL__JOB_STARTED);
	job->flags &= ~RNL__JOB_TIMED;
	ret = rnl__barrier_tell(b, job);
	if (ret) {	/* the barrier may be gone */
		job->device_error = 0;
		rnl__job_set_result(job, ret);
		rnl__job_drop(job);
		rnl__outside_take_back(pool, RNL__CHAINED, 1);
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
	return rnl__submit_end(pool, job, notify(pool, b, job));
}
