/* SPDX-License-Identifier: MIT */
/* Rarely used settings of a job, struct rnl_job_more: what a submit takes from it, and refuses. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <runnel/more.h>

#include "job/job.h"
#include "job/more.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/thread_state.h"

#define DELAY_MAX_NS (INT64_C(366) * 24 * 3600 * 1000000000)

unsigned rnl__more_flags(const struct rnl_job *job)
{
	const struct rnl_job_more *more = job->more;

	return (more->order ? RNL__JOB_ORDER : 0) | (more->start_ns > 0 ? RNL__JOB_AT : 0) |
	       (more->when ? RNL__JOB_MARKED : 0) | (more->when == RNL_EMPTY ? RNL__JOB_LAST : 0);
}

/* Returns true if another job, which comes after one of the barriers, uses the list. */
static bool is_in_use(const struct rnl_job_more *more)
{
	for (unsigned i = 0; i < more->nr_after; i++)
		if (more->after[i].round)
			return true;
	return false;
}

/* Returns the index of the first further barrier that the job cannot come after, or nr_after. */
static unsigned find_wrong_barrier(const struct rnl_pool *pool, const struct rnl_job *job)
{
	const struct rnl_job_more *more = job->more;
	unsigned i = 0;

	while (i < more->nr_after && more->after && more->after[i].barrier &&
	       more->after[i].barrier != job->barrier && more->after[i].barrier->pool == pool)
		i++;
	return i;
}

static bool is_too_late(int64_t start_ns)
{
	const int64_t now = rnl_clock();

	/* CLOCK_REALTIME is decades ahead of CLOCK_MONOTONIC. */
	return start_ns > now && start_ns - now > DELAY_MAX_NS;
}

int rnl__more_check(struct rnl_pool *pool, const struct rnl_job *job)
{
	const struct rnl_job_more *more = job->more;
	const unsigned wrong = find_wrong_barrier(pool, job);

	if (more->job != job)
		return rnl__invalid(&pool->log, "submit: struct rnl_job_more %p of job %p was given to "
				    "job %p: each job has its own", (const void *)more,
				    (const void *)job, (const void *)more->job);
	if (more->when > RNL_EMPTY)
		return rnl__invalid(&pool->log, "submit: `when` of job %p is %u; it must be RNL_NOW, "
				    "RNL_SPACE or RNL_EMPTY", (const void *)job, more->when);
	if (more->start_ns > 0 && is_too_late(more->start_ns))
		return rnl__invalid(&pool->log, "submit: start_ns of job %p is %" PRId64 ", and "
				    "rnl_clock() is %" PRId64 ": more than a year later. It must be a "
				    "time of rnl_clock(), which is not the time of day",
				    (const void *)job, more->start_ns, rnl_clock());
	if (more->order && more->order->pool != pool)
		return rnl__invalid(&pool->log, "submit: the order of job %p is of another pool, was not "
				    "initialised, or has ended", (const void *)job);
	if (wrong < more->nr_after)
		return rnl__invalid(&pool->log, "submit: barrier %u of %u that job %p comes after is NULL, "
				    "of another pool, was not initialised, or has the job itself", wrong,
				    more->nr_after, (const void *)job);
	if (is_in_use(more))
		return rnl__invalid(&pool->log, "submit: the list `after` of job %p is in use by another "
				    "job, or did not begin as zero: each job has its own",
				    (const void *)job);
	return 0;
}

/* ---- trace ids ----------------------------------------------------------- */

#define ID_BYTES sizeof(((struct rnl_job_more *)0)->trace_id)

static const uint8_t no_id[ID_BYTES];

static const uint8_t *more_id_of(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_MORE ? job->more->carried_id : no_id;
}

static const uint8_t *more_id_of_thread(void)
{
	return rnl__thread.job ? more_id_of(rnl__thread.job) : rnl__thread.trace_id;
}

static void more_set_id(struct rnl_job_more *more, const uint8_t *others)
{
	memcpy(more->carried_id, memcmp(more->trace_id, no_id, ID_BYTES) ? more->trace_id : others,
	       ID_BYTES);
}

void rnl__more_set_id(const struct rnl_job *job)
{
	more_set_id(job->more, more_id_of_thread());
}

void rnl__more_follow(const struct rnl_job *job, const struct rnl_job *before)
{
	if (before->flags & RNL__JOB_MORE)
		more_set_id(job->more, before->more->carried_id);
}

int rnl_job_trace_id(const struct rnl_job *job, uint8_t *id)
{
	int ret = job ? rnl__job_submitted(job, "rnl_job_trace_id()") : 0;

	if (!id)
		return rnl__invalid(NULL, "rnl_job_trace_id(): id is NULL");
	if (ret)
		return ret;
	memcpy(id, job ? more_id_of(job) : more_id_of_thread(), ID_BYTES);
	return memcmp(id, no_id, ID_BYTES) != 0;
}

/* ---- public: the setting ------------------------------------------------- */

int rnl_job_set_more(struct rnl_job *job, struct rnl_job_more *more)
{
	int ret = rnl__job_settable(job, "rnl_job_set_more()");
	struct rnl_barrier *first;

	if (ret)
		return ret;
	if (more && job->flags & RNL__JOB_MORE && job->more == more && more->job != job)
		return rnl__invalid(NULL, "rnl_job_set_more(): struct rnl_job_more %p has begun anew while "
				    "job %p named it: take it away before, by NULL", (void *)more,
				    (void *)job);
	first = rnl__job_first_after(job);
	if (more) {
		more->job = job;
		more->first = first;
		more->before = NULL;
		job->more = more;
		job->flags |= RNL__JOB_MORE;
	} else {
		job->after = first;
		job->flags &= ~RNL__JOB_MORE;
	}
	return 0;
}
