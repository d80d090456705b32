/* SPDX-License-Identifier: MIT */
/*
 * Submitting: the way of a job from its caller to a worker's queue.
 *
 * DESIGN
 *	A submit claims the job, reserves space in a queue, puts the job there, and looks for
 *	a sleeping worker: it changes four words, and takes no lock and no memory.
 *	A deferred job has no worker until the jobs of its barrier are issued: so no worker
 *	that leaves has to wait for it.  The pool's count `deferred` bounds such jobs, and
 *	closes as a queue does.  When the barrier starts the job, it is queued even if the
 *	queue is full: so no job is deferred while the queue that it would go to is full.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>

#include "job/barrier.h"
#include "sys/clock.h"
#include "sys/sizes.h"
#include "job/job.h"
#include "pool/choose.h"
#include "pool/pool.h"
#include "job/submit.h"
#include "job/watermark.h"

#define JOB_NS 50u		/* the shortest time that a worker takes for a job */
#define DRAIN_MIN_NS 20000u
#define DRAIN_MAX_NS 200000u

/* Whether the job's barriers are of this pool as well. */
static bool belongs(const struct rnl_pool *pool, const struct rnl_job *job)
{
	return (!job->barrier || job->barrier->pool == pool) &&
	       (!job->after || job->after->pool == pool);
}

/* Claims a job, and sets its lane. */
static int claim(struct rnl_pool *pool, struct rnl_job *job, unsigned lane)
{
	int ret = rnl__pool_check(pool);

	if (ret)
		return ret;
	ret = rnl__job_claim(job);
	if (ret)
		return ret;
	job->flags &= RNL__JOB_LASTING;
	if (!belongs(pool, job) || (lane == RNL__JOB_KEYED && job->flags & RNL__JOB_URGENT))
		ret = -EINVAL;
	else if (rnl__device_failed(pool->device))
		ret = -EIO;
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	job->flags |= (uint16_t)(job->flags & RNL__JOB_URGENT ? RNL__JOB_FIRST : lane);
	return 0;
}

/*
 * Notes the time of the submit, if the job needs it: jobs that are timed, which are chosen at
 * random, jobs with a deadline, and all jobs while a trace runs.
 */
static void stamp(struct rnl_pool *pool, struct rnl_job *job)
{
	static _Thread_local uint64_t random __attribute__((tls_model("initial-exec")));

	/* A linear congruence (Knuth, MMIX); its high bits are the random ones. */
	random = random * 6364136223846793005u + 1442695040888963407u;
	if (!(random >> 32 & pool->time_mask))
		job->flags |= RNL__JOB_TIMED;
	if (rnl__pool_traced(pool)) {
		job->flags |= RNL__JOB_TRACED;
		job->producer = rnl__thread_tid();
	}
	if (job->flags & (RNL__JOB_TIMED | RNL__JOB_DEADLINE | RNL__JOB_TRACED))
		job->submit_ns = rnl__now();
}

/* Everything else that is written in a job between its claim and its start. */
static void accept(struct rnl_pool *pool, struct rnl_job *job, uint32_t phase)
{
	/* relaxed: a waiter of the last run may read it; the value does not change */
	atomic_store_explicit(rnl__atomic(&job->pool), pool, memory_order_relaxed);
	/* relaxed: as the pool */
	atomic_store_explicit(rnl__atomic(&job->generation), pool->generation,
			      memory_order_relaxed);
	stamp(pool, job);
	rnl__job_accepted(job, phase);
	if (job->barrier)
		rnl__barrier_count(job->barrier);
}

/* Looks for notices of high water, if the reservation found the queues that full. */
static void tell_water(struct rnl_pool *pool, int ret, bool high)
{
	if (high)
		rnl__watermark_rose(pool);
	if (ret == -EAGAIN)
		rnl__watermark_refused(pool);
}

/* Submits a claimed job, or gives it back. */
static int submit(struct rnl_pool *pool, struct rnl_job *job)
{
	bool defer = job->after && !rnl__barrier_ready(job->after);
	bool high = false;
	int ret = defer ? rnl__choose_reserve_deferred(pool, job) :
			  rnl__choose_reserve(pool, job, &high);

	tell_water(pool, ret, high);
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	accept(pool, job, RNL__JOB_QUEUED);
	if (defer)
		rnl__barrier_defer(job);
	else
		rnl__choose_put(job);
	return 0;
}

int rnl_submit(struct rnl_pool *pool, struct rnl_job *job)
{
	int ret = claim(pool, job, 0);

	return ret ? ret : submit(pool, job);
}

int rnl_submit_keyed(struct rnl_pool *pool, struct rnl_job *job, uint64_t key)
{
	int ret = claim(pool, job, RNL__JOB_KEYED);

	if (ret)
		return ret;
	job->key = key;
	return submit(pool, job);
}

int rnl__submit_internal(struct rnl_pool *pool, struct rnl_job *job, unsigned home)
{
	int ret = claim(pool, job, 0);

	if (ret)
		return ret;
	accept(pool, job, RNL__JOB_QUEUED);
	rnl__choose_start_at(job, home);
	return 0;
}

void rnl__submit_surely(struct rnl_pool *pool, struct rnl_job *job, unsigned home)
{
	(void)rnl__job_claim(job);
	job->flags &= RNL__JOB_LASTING;
	accept(pool, job, RNL__JOB_QUEUED);
	rnl__choose_start_at(job, home);
}

/* ---- waiting for space --------------------------------------------------- */

static int try(struct rnl_pool *pool, struct rnl_job *job, bool keyed, uint64_t key)
{
	return keyed ? rnl_submit_keyed(pool, job, key) : rnl_submit(pool, job);
}

/*
 * Leaves a large full queue alone for a while, in which workers take an eighth of it at most.
 * A submitter that is woken for the first free place would wait again after one job.
 */
static void let_drain(struct rnl_pool *pool, uint64_t deadline)
{
	const uint64_t ns = pool->max_queued / rnl__pool_nr_workers(pool) / 8 * JOB_NS;
	struct timespec ts;

	if (ns < DRAIN_MIN_NS)
		return;
	ts = rnl__timespec(rnl__smaller(rnl__now() + rnl__smaller(ns, DRAIN_MAX_NS), deadline));
	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static int submit_wait(struct rnl_pool *pool, struct rnl_job *job, bool keyed, uint64_t key,
		       int64_t timeout_ns)
{
	int ret = try(pool, job, keyed, key);
	struct rnl__wish wish;
	uint64_t deadline;
	bool late = false;

	if (ret != -EAGAIN || rnl__pool_worker(pool))
		return ret;
	deadline = rnl__deadline(timeout_ns);
	wish = (struct rnl__wish){
		.deferred = job->after, .keyed = keyed, .key = key,
		.urgent = job->flags & RNL__JOB_URGENT,
	};
	let_drain(pool, deadline);
	for (;;) {
		uint32_t listened;
		struct rnl__bell *bell = rnl__choose_listen_for_space(pool, &wish, &listened);

		ret = try(pool, job, keyed, key);
		if (ret != -EAGAIN) {
			/* The wake-up was consumed without the space: wakes the next waiter. */
			if (ret)
				rnl__bell_ring_once(bell);
			return ret;
		}
		if (late)
			return -ETIMEDOUT;
		late = rnl__bell_wait(bell, listened, deadline) == -ETIMEDOUT;
	}
}

int rnl_submit_wait(struct rnl_pool *pool, struct rnl_job *job, int64_t timeout_ns)
{
	return submit_wait(pool, job, false, 0, timeout_ns);
}

int rnl_submit_keyed_wait(struct rnl_pool *pool, struct rnl_job *job, uint64_t key,
			  int64_t timeout_ns)
{
	return submit_wait(pool, job, true, key, timeout_ns);
}

/* ---- notices ------------------------------------------------------------- */

int rnl_submit_when(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark)
{
	uint32_t cancels;
	int ret;

	if (mark != RNL_LOW_WATER && mark != RNL_HIGH_WATER)
		return -EINVAL;
	ret = claim(pool, job, 0);
	if (ret)
		return ret;
	if (job->after)
		ret = -EINVAL;
	else if (rnl__pool_closed(pool))
		ret = -ESHUTDOWN;
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	cancels = rnl__watermark_cancels(pool);
	accept(pool, job, RNL__JOB_NOTICE);
	job->flags &= (uint16_t)~RNL__JOB_TIMED;	/* it waits on purpose */
	rnl__watermark_wait(pool, job, mark, cancels);
	return 0;
}

/* ---- many ---------------------------------------------------------------- */

/* A chain consists of jobs that any worker may run, and goes to one queue. */
static bool chains(const struct rnl_job *job)
{
	return job && job->fn && !job->after && !(job->flags & RNL__JOB_URGENT);
}

/* Submits a chain to one worker.  Return: how many were accepted, or why none was. */
static int submit_chain(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr)
{
	unsigned worker, nr_claimed = 0;
	bool high = false;
	int ret = 0, space;

	while (nr_claimed < nr && chains(jobs[nr_claimed])) {
		ret = claim(pool, jobs[nr_claimed], 0);
		if (ret)
			break;
		nr_claimed++;
	}
	if (!nr_claimed)
		return ret;
	space = rnl__choose_reserve_chain(pool, nr_claimed, &worker, &high);
	tell_water(pool, 0, high);
	for (unsigned i = space < 0 ? 0 : (unsigned)space; i < nr_claimed; i++)
		rnl__job_drop(jobs[i]);
	if (space < 0)
		return space;
	for (unsigned i = 0; i < (unsigned)space; i++) {
		jobs[i]->worker = (uint16_t)worker;
		accept(pool, jobs[i], RNL__JOB_QUEUED);
	}
	rnl__choose_put_chain(pool, worker, jobs, (unsigned)space);
	return space;
}

int rnl_submit_many(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr)
{
	unsigned share, done = 0, nr_workers;
	int ret = rnl__pool_check(pool);

	if (ret)
		return ret;
	if (!jobs && nr)
		return -EINVAL;
	if (nr > INT_MAX)
		nr = INT_MAX;
	nr_workers = rnl__pool_staff(pool).nr;
	share = (nr + nr_workers - 1) / nr_workers;
	while (done < nr) {
		ret = chains(jobs[done]) ?
		      submit_chain(pool, jobs + done, share < nr - done ? share : nr - done) :
		      -EAGAIN;
		/* A job that a chain cannot take is submitted alone. */
		if (ret == -EAGAIN || ret == -ESTALE) {
			ret = rnl_submit(pool, jobs[done]);
			ret = ret ? ret : 1;
		}
		if (ret < 0)
			break;
		done += (unsigned)ret;
	}
	return done ? (int)done : ret;
}
