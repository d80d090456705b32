/* SPDX-License-Identifier: MIT */
/* Checks whether a job may be submitted with its settings, and logs the reason if not. */
#ifndef RNL_REFUSAL_H
#define RNL_REFUSAL_H

#include <stdbool.h>

#include "job/job.h"
#include "pool/pool.h"
#include "pool/unit_check.h"

/* Returns true if the job's barriers are of this pool; more.c checks the barriers in `more`. */
static inline bool rnl__refusal_belongs(const struct rnl_pool *pool, const struct rnl_job *job)
{
	const struct rnl_barrier *after = rnl__job_first_after(job);

	return (!job->barrier || job->barrier->pool == pool) && (!after || after->pool == pool);
}

/*
 * Describes which settings of the job exclude each other; NULL: all agree.  Called only for the
 * few jobs with a key or with `more`, so it is not inline.
 */
const char *rnl__refusal_clash(const struct rnl_job *job, unsigned lane);

/* Returns true if the pool can take the job. */
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

/* Logs why a job does not fit.  Returns -EINVAL, or -ENODEV if its unit needs CUDA. */
int rnl__refusal_say(struct rnl_pool *pool, const struct rnl_job *job, unsigned lane);

/*
 * Logs why the job @met, after the first @nr jobs of a chain, cannot be claimed: the chain has a
 * circle, or the job is not done.  Returns -EINVAL or -EBUSY.
 */
int rnl__refusal_busy(struct rnl_pool *pool, const struct rnl_job *first, unsigned nr,
		      const struct rnl_job *met);

#endif
