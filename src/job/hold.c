/* SPDX-License-Identifier: MIT */
/* Holds: the public calls; pool/holds.h has the design. */
#include "config.h"

#include <errno.h>

#include <runnel/hold.h>

#include "job/job.h"
#include "pool/holds.h"
#include "sys/log.h"
#include "sys/thread_state.h"

int rnl_job_hold(struct rnl_job *job, struct rnl_hold *hold)
{
	const int ret = job ? rnl__job_check(job) : -EINVAL;

	if (ret && ret != -EINVAL)
		return ret;
	if (ret || job != rnl__thread.job)
		return rnl__invalid(ret ? NULL : &rnl__job_pool(job)->log, "rnl_job_hold(): job %p "
				    "does not run on this thread: call it in the job's function",
				    (void *)job);
	if (!hold)
		return rnl__invalid(&rnl__job_pool(job)->log, "rnl_job_hold(): hold is NULL");
	return rnl__holds_take(rnl__thread.worker, job, hold);
}

int rnl_hold_release(const struct rnl_hold *hold, int result)
{
	int ret;

	if (!hold)
		return rnl__invalid(NULL, "rnl_hold_release(): hold is NULL");
	/* Zeroes are not a hold in any process. */
	ret = hold->use ? rnl__generation_check(hold->generation) : -EINVAL;
	if (!ret)
		ret = rnl__holds_release(hold, result);
	if (ret == -EINVAL)
		return rnl__invalid(NULL, "rnl_hold_release(): %p is no hold: rnl_job_hold() makes "
				    "one", (const void *)hold);
	return ret;
}
