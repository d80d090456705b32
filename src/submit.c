/* SPDX-License-Identifier: MIT */
/*
 * Submitting: the way of a job from its caller to a worker's queue.
 *
 * DESIGN
 *	A submit claims the job, reserves room in a queue, puts the job there,
 *	and looks who sleeps: four words changed, no lock, no allocation.
 *	A job that comes after a barrier has no worker until that lets it go: it
 *	is counted in `put_off`, which bounds these jobs and closes as a queue
 *	does.  So no worker that leaves has to wait for it.  Once let go it is
 *	queued, full or not; so none is accepted while its queue is full.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>

#include "barrier.h"
#include "clock.h"
#include "job.h"
#include "place.h"
#include "pool.h"
#include "queue.h"
#include "submit.h"
#include "water.h"

#define JOB_NS 50u		/* the shortest that a worker needs for one */
#define DRAIN_MIN_NS 20000u
#define DRAIN_MAX_NS 200000u

/* Whether its barriers are of this pool, too. */
static bool belongs(const struct rnl_pool *pool, const struct rnl_job *job)
{
	return (!job->barrier || job->barrier->pool == pool) &&
	       (!job->after || job->after->pool == pool);
}

/* Claims a job for its caller, and sets which lane it will take. */
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
 * One job in so many has its times taken, at random, and all in a trace; one with a
 * deadline needs the first of them.
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
		job->producer = rnl__self_tid();
	}
	if (job->flags & (RNL__JOB_TIMED | RNL__JOB_DEADLINE | RNL__JOB_TRACED))
		job->stamp_ns = rnl__now();
}

/* Everything else that is written in a job between its claim and its start. */
static void accept(struct rnl_pool *pool, struct rnl_job *job, uint32_t phase)
{
	/* relaxed: a second waiter may read it, the value is the same */
	atomic_store_explicit(rnl__atomic(&job->pool), pool, memory_order_relaxed);
	/* relaxed: the same */
	atomic_store_explicit(rnl__atomic(&job->generation), pool->generation,
			      memory_order_relaxed);
	stamp(pool, job);
	rnl__job_accepted(job, phase);
	if (job->barrier)
		rnl__barrier_count(job->barrier);
}

/* What a reservation told of the queues, to notices that wait for high water. */
static void tell_water(struct rnl_pool *pool, int ret, bool high)
{
	if (high)
		rnl__water_rose(pool);
	if (ret == -EAGAIN)
		rnl__water_refused(pool);
}

/* Submits a claimed job, or gives it back. */
static int submit(struct rnl_pool *pool, struct rnl_job *job)
{
	bool put_off = job->after && !rnl__barrier_ready(job->after);
	bool high = false;
	int ret = put_off ? rnl__place_put_off(pool, job) : rnl__place_reserve(pool, job, &high);

	tell_water(pool, ret, high);
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	accept(pool, job, RNL__JOB_QUEUED);
	if (put_off)
		rnl__barrier_defer(job);
	else
		rnl__place_put(job);
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
	job->number = key;
	return submit(pool, job);
}

int rnl__submit_held(struct rnl_pool *pool, struct rnl_job *job, unsigned home)
{
	int ret = claim(pool, job, 0);

	if (ret)
		return ret;
	accept(pool, job, RNL__JOB_QUEUED);
	rnl__place_at(job, home);
	return 0;
}

void rnl__submit_surely(struct rnl_pool *pool, struct rnl_job *job, unsigned home)
{
	(void)rnl__job_claim(job);
	job->flags &= RNL__JOB_LASTING;
	accept(pool, job, RNL__JOB_QUEUED);
	rnl__place_at(job, home);
}

/* ---- waiting for room ---------------------------------------------------- */

static int try(struct rnl_pool *pool, struct rnl_job *job, bool keyed, uint64_t key)
{
	return keyed ? rnl_submit_keyed(pool, job, key) : rnl_submit(pool, job);
}

/*
 * A large queue that is full is left alone for a while, in which no more than an eighth of it
 * can be taken: who is woken for the first place that is free is back after one job.
 */
static void let_drain(struct rnl_pool *pool, uint64_t deadline)
{
	uint64_t ns = pool->max_queued / rnl__pool_nr_workers(pool) / 8 * JOB_NS;
	uint64_t until;
	struct timespec ts;

	if (ns < DRAIN_MIN_NS)
		return;
	until = rnl__now() + (ns < DRAIN_MAX_NS ? ns : DRAIN_MAX_NS);
	until = until < deadline ? until : deadline;
	ts = (struct timespec){ .tv_sec = (time_t)(until / 1000000000u),
				.tv_nsec = (long)(until % 1000000000u) };
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
		.put_off = job->after, .keyed = keyed, .key = key,
		.urgent = job->flags & RNL__JOB_URGENT,
	};
	let_drain(pool, deadline);
	for (;;) {
		uint32_t listened;
		struct rnl__bell *bell = rnl__place_listen(pool, &wish, &listened);

		ret = try(pool, job, keyed, key);
		if (ret != -EAGAIN) {
			/* Room that we were woken for, and do not take, is another's. */
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
	else if (rnl__queue_closed(&pool->put_off))
		ret = -ESHUTDOWN;
	if (ret) {
		rnl__job_drop(job);
		return ret;
	}
	cancels = rnl__water_cancels(pool);
	accept(pool, job, RNL__JOB_WAITING);
	job->flags &= (uint16_t)~RNL__JOB_TIMED;	/* it waits by intention */
	rnl__water_wait(pool, job, mark, cancels);
	return 0;
}

/* ---- many ---------------------------------------------------------------- */

/* A chain takes jobs that any worker may run, and knows nothing of room elsewhere. */
static bool chains(const struct rnl_job *job)
{
	return job && job->fn && !job->after && !(job->flags & RNL__JOB_URGENT);
}

/* Submits a chain to one worker; how many it took, or why not the first. */
static int submit_chain(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr)
{
	unsigned worker, nr_claimed = 0;
	bool high = false;
	int ret = 0, room;

	while (nr_claimed < nr && chains(jobs[nr_claimed])) {
		ret = claim(pool, jobs[nr_claimed], 0);
		if (ret)
			break;
		nr_claimed++;
	}
	if (!nr_claimed)
		return ret;
	room = rnl__place_reserve_chain(pool, nr_claimed, &worker, &high);
	tell_water(pool, 0, high);
	for (unsigned i = room < 0 ? 0 : (unsigned)room; i < nr_claimed; i++)
		rnl__job_drop(jobs[i]);
	if (room < 0)
		return room;
	for (unsigned i = 0; i < (unsigned)room; i++) {
		jobs[i]->worker = (uint16_t)worker;
		accept(pool, jobs[i], RNL__JOB_QUEUED);
	}
	rnl__place_put_chain(pool, worker, jobs, (unsigned)room);
	return room;
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
	nr_workers = rnl__pool_table(pool).nr;
	share = (nr + nr_workers - 1) / nr_workers;
	while (done < nr) {
		ret = chains(jobs[done]) ?
		      submit_chain(pool, jobs + done, share < nr - done ? share : nr - done) :
		      -EAGAIN;
		/* What a chain cannot take goes alone. */
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
