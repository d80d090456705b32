/* SPDX-License-Identifier: MIT */
/*
 * Cancelling jobs.
 *
 * DESIGN
 *	A job cannot be taken out of the middle of its queue: so a cancelled job stays there,
 *	and is completed when a worker comes to it.  A notice is on a list that no worker
 *	looks at: so a cancelled notice is queued, and completed as other jobs are.
 */
#include "config.h"

#include <errno.h>

#include "job/job.h"
#include "job/watermark.h"

int rnl_job_cancel(struct rnl_job *job)
{
	int ret = rnl__job_check(job);
	struct rnl_pool *pool;

	if (ret)
		return ret;
	pool = rnl__job_pool(job);
	switch (rnl__job_cancel(job)) {
	case RNL__JOB_NOTICE:
		rnl__watermark_cancelled(pool);
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
