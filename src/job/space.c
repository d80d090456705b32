/* SPDX-License-Identifier: MIT */
/* Submits that wait for space. */
#include "config.h"

#include <errno.h>

#include "job/job.h"
#include "job/submit.h"
#include "pool/choose.h"
#include "pool/waitq.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/sizes.h"

#define JOB_NS 50u		/* the shortest time that a worker takes for a job */
#define DRAIN_MIN_NS 20000u
#define DRAIN_MAX_NS 200000u

/*
 * Leaves a large full queue alone for a while, in which workers take at most an eighth of it.  A
 * submitter that is woken for the first free place would wait again after one job.
 */
static void let_drain(struct rnl_pool *pool, uint64_t deadline)
{
	const uint64_t ns = pool->max_queued / rnl__pool_nr_workers(pool) / 8 * JOB_NS;
	const uint64_t now = rnl__now();

	if (ns >= DRAIN_MIN_NS && deadline > now)
		rnl__nap(rnl__smaller(rnl__smaller(ns, DRAIN_MAX_NS), deadline - now));
}

/* Returns true if the job or the rest of its chain may have to wait outside of the queues. */
static bool waits_outside(const struct rnl_job *job)
{
	return job->after || rnl__job_then(job) || job->flags & RNL__JOB_MORE;
}

/*
 * Tries once more.  A submit that finds no space for its chain returns its reservation, which wakes
 * waiters.  So this checks for space first: otherwise the thread would wake itself.
 */
static int submit_from_line(struct rnl_pool *pool, struct rnl_job *job, struct rnl__waiter *w)
{
	w->found = RNL__LACKS_OTHER;
	if (w->nr_behind && w->nr_behind <= pool->max_queued && !rnl__tally_closed(&pool->outside[RNL__CHAINED]) &&
	    rnl__outside_nr(pool, RNL__CHAINED) + w->nr_behind > pool->max_queued) {
		w->found = RNL__LACKS_CHAIN;
		return -EAGAIN;
	}
	return rnl__submit_try(pool, job, w);
}

static int wait_in_line(struct rnl_pool *pool, struct rnl_job *job, uint64_t deadline)
{
	/* The previous try did not record which resource it lacked; the next try does. */
	struct rnl__waiter w = { .found = RNL__LACKS_OTHER };
	bool late = false;
	int ret;

	for (const struct rnl_job *it = rnl__job_then(job); it && w.nr_behind <= pool->max_queued;
	     it = rnl__job_then(it))
		w.nr_behind++;
	rnl__waitq_enter(&pool->waitq, &w);
	for (;;) {
		rnl__waitq_look(&pool->waitq, &w);
		ret = submit_from_line(pool, job, &w);
		if (ret != -EAGAIN || late)
			break;
		rnl__waitq_stay(pool, &w);
		late = rnl__waitq_wait(&w, deadline) == -ETIMEDOUT;
	}
	rnl__waitq_leave(pool, &w);
	return ret == -EAGAIN ? -ETIMEDOUT : ret;
}

static int wait_for_queue(struct rnl_pool *pool, struct rnl_job *job, uint64_t deadline)
{
	const struct rnl__wish wish = {
		.job = job, .keyed = job->flags & RNL__JOB_KEY, .key = job->key,
	};
	bool late = false;

	for (;;) {
		uint32_t listened;
		struct rnl__eventcount *eventcount =
			rnl__choose_listen_for_space(pool, &wish, &listened);
		int ret = rnl__submit_try(pool, job, NULL);

		if (ret != -EAGAIN) {
			/* The wake-up was consumed, but not the space: wakes the next waiter. */
			if (ret)
				rnl__eventcount_wake_one(eventcount);
			return ret;
		}
		if (late)
			return -ETIMEDOUT;
		late = rnl__eventcount_wait(eventcount, listened, deadline) == -ETIMEDOUT;
	}
}

static int submit_wait(struct rnl_pool *pool, struct rnl_job *job, int64_t timeout_ns)
{
	int ret = rnl__submit_try(pool, job, NULL);
	uint64_t deadline;

	if (ret != -EAGAIN || rnl__pool_worker(pool))
		return ret;
	deadline = rnl__deadline(timeout_ns);
	let_drain(pool, deadline);
	return waits_outside(job) ? wait_in_line(pool, job, deadline) :
				    wait_for_queue(pool, job, deadline);
}

int rnl_submit_wait(struct rnl_pool *pool, struct rnl_job *job, int64_t timeout_ns)
{
	return rnl__submit_end(pool, job, submit_wait(pool, job, timeout_ns));
}
