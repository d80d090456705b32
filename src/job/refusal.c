/* SPDX-License-Identifier: MIT */
/* The reasons why a submit is refused, for the log. */
#include "config.h"

#include <errno.h>

#include "job/refusal.h"

const char *rnl__refusal_clash(const struct rnl_job *job, unsigned lane)
{
	const unsigned has = job->flags;
	const bool keyed = has & (RNL__JOB_KEY | RNL__JOB_ORDER), follows = rnl__job_follows(job);

	if (lane & RNL__JOB_CHAINED && (keyed || has & (RNL__JOB_AT | RNL__JOB_MARKED)))
		return "has a key, an order or a time, or is a notice, and is behind a job by "
		       "rnl_job_set_then(): only the first job of a chain can";
	if (lane & RNL__JOB_TELLS && (keyed || has & (RNL__JOB_AT | RNL__JOB_MARKED)))
		return "has a key, an order or a time, or is a notice: rnl_barrier_notify() takes no "
		       "such job";
	if (has & RNL__JOB_MARKED && (keyed || has & RNL__JOB_AT))
		return "has a key, an order or a time, and is a notice";
	if (has & RNL__JOB_MARKED && (follows || job->barrier || rnl__job_then(job)))
		return follows ? "is a notice, and comes after a barrier: what it waits for could "
				 "wait for it" :
		       job->barrier ? "is a notice, and is in a barrier: what it waits for could wait "
				      "for it" :
				      "is a notice, and has a job behind it: what it waits for could "
				      "wait for it";
	if (has & RNL__JOB_AT && follows)
		return "has a time, and comes after a barrier";
	if (has & RNL__JOB_AT && has & RNL__JOB_ORDER)
		return "has a time, and is in an order";
	if (has & RNL__JOB_KEY && has & RNL__JOB_ORDER && job->key != job->more->order->key)
		return "is in an order, and has another key than the order";
	return NULL;
}

int rnl__refusal_say(struct rnl_pool *pool, const struct rnl_job *job, unsigned lane)
{
	const char *clash;

	if (job->flags & RNL__JOB_REQUEST)
		return rnl__invalid(&pool->log, "submit: job %p is of a batcher's request: send it "
				    "with rnl_request_commit()", (const void *)job);
	if (job->fn == rnl__job_no_function &&
	    !((lane | job->flags) & (RNL__JOB_TELLS | RNL__JOB_MARKED)))
		return rnl__invalid(&pool->log, "submit: job %p has no function: only a "
				    "notice and a job of rnl_barrier_notify() need none",
				    (const void *)job);
	if (rnl__job_misplaced(job, pool)) {
		(void)rnl__pool_lacks(pool, "submit", rnl__job_device(job));
		return -EINVAL;
	}
	if (job->fn != rnl__job_no_function && !rnl__unit_fits(pool, (rnl__function *)job->fn))
		return rnl__unit_refuse(pool, "submit", (rnl__function *)job->fn);
	if (rnl__refusal_belongs(pool, job) && job->flags & (RNL__JOB_KEY | RNL__JOB_MORE) &&
	    (clash = rnl__refusal_clash(job, lane)) != NULL)
		return rnl__invalid(&pool->log, "submit: job %p %s", (const void *)job, clash);
	if (rnl__refusal_belongs(pool, job))
		return rnl__invalid(&pool->log, "submit: job %p comes after a barrier, and after a "
				    "job by rnl_job_set_then(): only the first job of a chain can come "
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
					    "%p: rnl_job_set_then() has made a circle",
					    (const void *)first, (const void *)met);
	}
	return rnl__refused(&pool->log, -EBUSY, "submit: job %p, in the chain of job %p, was "
			    "submitted before, and is not done", (const void *)met, (const void *)first);
}
