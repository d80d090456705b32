/* SPDX-License-Identifier: MIT */
/* Whether a job may be submitted as it is set, and the words for why not. */
#ifndef RNL_REFUSAL_H
#define RNL_REFUSAL_H

#include <stdbool.h>

#include "job/job.h"
#include "pool/pool.h"
#include "pool/unit_check.h"

#define RNL__JOB_WAYS (RNL__JOB_KEY | RNL__JOB_ORDER | RNL__JOB_AT)

/* Whether the job's barriers are of this pool as well. */
static inline bool rnl__refusal_belongs(const struct rnl_pool *pool, const struct rnl_job *job)
{
	return (!job->barrier || job->barrier->pool == pool) &&
	       (!job->after || job->after->pool == pool);
}

/* Whether a job with a key, an order or a time can be submitted so.  Not inline: most jobs have none. */
bool rnl__refusal_way_fits(const struct rnl_pool *pool, const struct rnl_job *job, unsigned lane);

/* Whether the pool can take the job. */
static inline bool rnl__refusal_fits(const struct rnl_pool *pool, const struct rnl_job *job, unsigned lane)
{
	return rnl__refusal_belongs(pool, job) && !rnl__job_misplaced(job, pool) &&
	       (job->fn == rnl__job_no_function ?
			lane & (RNL__JOB_TELLS | RNL__JOB_MARKED) &&
				!(job->flags & RNL__JOB_REQUEST) :
			rnl__unit_fits(pool, (rnl__function *)job->fn)) &&
	       !(job->flags & RNL__JOB_WAYS && !rnl__refusal_way_fits(pool, job, lane)) &&
	       !(lane == RNL__JOB_CHAINED && job->after);
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
