/* SPDX-License-Identifier: MIT */
/* Whether a job may be submitted as it is set, and the words for why not. */
#ifndef RNL_REFUSAL_H
#define RNL_REFUSAL_H

#include <stdbool.h>

#include "job/job.h"
#include "pool/pool.h"
#include "pool/unit_check.h"

/* Whether the job's barriers are of this pool as well; those of `more` are looked at there. */
static inline bool rnl__refusal_belongs(const struct rnl_pool *pool, const struct rnl_job *job)
{
	const struct rnl_barrier *after = rnl__job_first_after(job);

	return (!job->barrier || job->barrier->pool == pool) && (!after || after->pool == pool);
}

/*
 * Returns which settings of the job exclude each other, in words; NULL: none do.  Called only for jobs
 * with a key or with `more`, which are few: so it is out of line.
 */
const char *rnl__refusal_clash(const struct rnl_job *job, unsigned lane);

/* Whether the pool can take the job. */
static inline bool rnl__refusal_fits(const struct rnl_pool *pool, const struct rnl_job *job, unsigned lane)
{
	return rnl__refusal_belongs(pool, job) && !rnl__job_misplaced(job, pool) &&
	       (job->fn == rnl__job_no_function ?
			(lane | job->flags) & (RNL__JOB_TELLS | RNL__JOB_MARKED) &&
				!(job->flags & RNL__JOB_REQUEST) :
			rnl__unit_fits(pool, (rnl__function *)job->fn)) &&
	       !(job->flags & (RNL__JOB_KEY | RNL__JOB_MORE) && rnl__refusal_clash(job, lane)) &&
	       !(lane == RNL__JOB_CHAINED && rnl__job_follows(job));
}

/* Says why a job does not fit.  Return: -EINVAL, or -ENODEV its unit needs CUDA. */
int rnl__refusal_say(struct rnl_pool *pool, const struct rnl_job *job, unsigned lane);

/*
 * Says why a job that was met in a chain, behind @nr others, is not done, if it is for the chain
 * itself.  Return: -EINVAL, -EBUSY.
 */
int rnl__refusal_busy(struct rnl_pool *pool, const struct rnl_job *first, unsigned nr,
		      const struct rnl_job *met);

#endif
