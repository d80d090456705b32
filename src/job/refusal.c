/* SPDX-License-Identifier: MIT */
/* Why a submit is refused, in words. */
#include "config.h"

#include <errno.h>

#include "job/refusal.h"

bool rnl__refusal_way_fits(const struct rnl_pool *pool, const struct rnl_job *job, unsigned lane)
{
	return !lane && !(job->flags & (RNL__JOB_KEY | RNL__JOB_ORDER) && job->flags & RNL__JOB_URGENT) &&
	       !(job->flags & RNL__JOB_AT && (job->after || job->flags & RNL__JOB_ORDER)) &&
	       !(job->flags & RNL__JOB_ORDER && job->order->pool != pool);
}

/* Of a job with a key, an order or a time.  Return: -EINVAL. */
static int refuse_way(struct rnl_pool *pool, const struct rnl_job *job, unsigned lane)
{
	const char *has = job->flags & RNL__JOB_AT ? "a time" :
			  job->flags & RNL__JOB_ORDER ? "an order" : "a key";

	if (lane & RNL__JOB_CHAINED)
		return rnl__invalid(&pool->log, "submit: job %p has %s, and is behind a job by "
				    "rnl_job_then(): only the first job of a chain can have one",
				    (const void *)job, has);
	if (lane & (RNL__JOB_MARKED | RNL__JOB_TELLS))
		return rnl__invalid(&pool->log, "submit: job %p has %s: rnl_submit_when() and "
				    "rnl_barrier_notify() take no such job", (const void *)job, has);
	if (job->flags & RNL__JOB_AT && job->after)
		return rnl__invalid(&pool->log, "submit: job %p has a time, and comes after a barrier",
				    (const void *)job);
	if (job->flags & RNL__JOB_AT && job->flags & RNL__JOB_ORDER)
		return rnl__invalid(&pool->log, "submit: job %p has a time, and is in an order",
				    (const void *)job);
	if (job->flags & RNL__JOB_URGENT)
		return rnl__invalid(&pool->log, "submit: job %p is urgent, and so cannot have a key",
				    (const void *)job);
	return rnl__invalid(&pool->log, "submit: the order of job %p is of another pool, or has ended",
			    (const void *)job);
}

int rnl__refusal_say(struct rnl_pool *pool, const struct rnl_job *job, unsigned lane)
{
	if (job->flags & RNL__JOB_REQUEST)
		return rnl__invalid(&pool->log, "submit: job %p is of a batcher's request: send it "
				    "with rnl_request_commit()", (const void *)job);
	if (job->fn == rnl__job_no_function && !(lane & (RNL__JOB_TELLS | RNL__JOB_MARKED)))
		return rnl__invalid(&pool->log, "submit: job %p has no function: only "
				    "rnl_barrier_notify() and rnl_submit_when() take such a job",
				    (const void *)job);
	if (rnl__job_misplaced(job, pool)) {
		(void)rnl__pool_lacks(pool, "submit", rnl__job_device(job));
		return -EINVAL;
	}
	if (job->fn != rnl__job_no_function && !rnl__unit_fits(pool, (rnl__function *)job->fn))
		return rnl__unit_refuse(pool, "submit", (rnl__function *)job->fn);
	if (rnl__refusal_belongs(pool, job) && job->flags & RNL__JOB_WAYS && !rnl__refusal_way_fits(pool, job, lane))
		return refuse_way(pool, job, lane);
	if (rnl__refusal_belongs(pool, job))
		return rnl__invalid(&pool->log, "submit: job %p comes after a barrier, and after a "
				    "job by rnl_job_then(): only the first job of a chain can come "
				    "after a barrier", (const void *)job);
	return rnl__invalid(&pool->log, "submit: the barrier that job %p %s is of another pool, or "
			    "was not initialised", (const void *)job,
			    job->barrier && job->barrier->pool != pool ? "was added to" :
									"comes after");
}

int rnl__refusal_busy(struct rnl_pool *pool, const struct rnl_job *first, unsigned nr,
		      const struct rnl_job *met)
{
	const struct rnl_job *job = first;

	for (unsigned i = 0; i <= nr; i++, job = rnl__job_then(job)) {
		if (job == met)
			return rnl__invalid(&pool->log, "submit: the chain of job %p comes back to job "
					    "%p: rnl_job_then() has made a circle",
					    (const void *)first, (const void *)met);
	}
	return rnl__refused(&pool->log, -EBUSY, "submit: job %p, in the chain of job %p, was "
			    "submitted before, and is not done", (const void *)met, (const void *)first);
}
