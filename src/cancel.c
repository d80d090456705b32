/* SPDX-License-Identifier: MIT */
/*
 * Cancelling jobs.
 *
 * DESIGN
 *	A job cannot be taken out of the middle of its queue: so it stays there,
 *	marked, and completes when a worker comes to it.  A notice that waits
 *	for its water mark is on a list that no worker looks at: so it is
 *	started, and completes as the others do.
 */
#include "config.h"

#include <errno.h>

#include "job.h"
#include "water.h"

int rnl_job_cancel(struct rnl_job *job)
{
	int ret = rnl__job_check(job);
	struct rnl_pool *pool;

	if (ret)
		return ret;
	pool = rnl__job_pool(job);
	switch (rnl__job_cancel(job)) {
	case RNL__JOB_WAITING:
		rnl__water_cancelled(pool);
		return 0;
	case RNL__JOB_QUEUED:
	case RNL__JOB_CANCELLED:
		return 0;
	case RNL__JOB_STARTED:
		return -EBUSY;
	default:
		return -EALREADY;
	}
}
