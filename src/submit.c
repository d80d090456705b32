/* SPDX-License-Identifier: MIT */
/*
 * Submitting: the way of a job from its caller to a worker's queue.
 *
 * DESIGN
 *	A submit claims the job, reserves room in a queue, puts the job there,
 *	and looks who sleeps: four words changed, no lock, no allocation.
 *	An unkeyed job goes to an idle worker, if one sleeps, else to the
 *	submitter's usual one, which now and then becomes the less loaded of
 *	two.  If its worker is busy and another idle, that one is woken, and
 *	steals it.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>

#include "barrier.h"
#include "job.h"
#include "park.h"
#include "pool.h"
#include "queue.h"

static uint64_t load(struct rnl__worker *w)
{
	return rnl__queue_length(&w->queue) + rnl__inflight_nr(&w->inflight);
}

/* The submitter's usual worker; now and then that becomes the less loaded of two. */
static unsigned usual(struct rnl_pool *pool)
{
	static _Thread_local struct {
		uint64_t random;
		unsigned home, left;
	} own __attribute__((tls_model("initial-exec")));
	unsigned nr = pool->nr_workers, other;

	if (own.left) {
		own.left--;
		return own.home % nr;
	}
	/* Threads start at different workers: `own` lies elsewhere in each. */
	if (!own.random) {
		own.random = (uintptr_t)&own / 64 * 0x9e3779b97f4a7c15u | 1;
		own.home = (unsigned)(own.random >> 32);
	}
	/* xorshift64 (Marsaglia 2003) */
	own.random ^= own.random << 13;
	own.random ^= own.random >> 7;
	own.random ^= own.random << 17;
	own.home %= nr;
	other = (own.home + 1 + (unsigned)(own.random >> 32) % (nr > 1 ? nr - 1 : 1)) % nr;
	if (load(&pool->workers[other]) < load(&pool->workers[own.home]))
		own.home = other;
	own.left = pool->home_for;
	return own.home;
}

/* A worker for an unkeyed job: an idle one, taken for it, or the usual one. */
static unsigned pick(struct rnl_pool *pool)
{
	int index = rnl__lot_idle(&pool->lot) ? rnl__lot_claim(&pool->lot) : -1;

	return index >= 0 ? (unsigned)index : usual(pool);
}

static unsigned worker_of_key(const struct rnl_pool *pool, uint64_t key)
{
	/* Fibonacci hashing (Knuth, TAOCP 6.4): neighbouring keys spread. */
	return (unsigned)((key * 0x9e3779b97f4a7c15u) >> 32) % pool->nr_workers;
}

/* Whether its barriers are of this pool, too. */
static bool belongs(const struct rnl_pool *pool, const struct rnl_job *job)
{
	return (!job->barrier || job->barrier->pool == pool) &&
	       (!job->after || job->after->pool == pool);
}

/* Everything that is written in a job between its claim and its start. */
static void accept(struct rnl_pool *pool, struct rnl_job *job, unsigned worker, bool keyed)
{
	/* relaxed: a second waiter may read it, the value is the same */
	atomic_store_explicit(rnl__atomic(&job->pool), pool, memory_order_relaxed);
	/* relaxed: the same */
	atomic_store_explicit(rnl__atomic(&job->generation), pool->generation,
			      memory_order_relaxed);
	job->worker = (uint16_t)worker;
	job->flags = keyed ? RNL__JOB_KEYED : 0;
	if (job->barrier)
		rnl__barrier_count(job->barrier);
}

static int claim(struct rnl_pool *pool, struct rnl_job *job)
{
	int ret = rnl__pool_check(pool);

	if (ret)
		return ret;
	ret = rnl__job_claim(job);
	if (ret)
		return ret;
	if (!belongs(pool, job))
		ret = -EINVAL;
	else if (rnl__device_failed(pool->device))
		ret = -EIO;
	if (ret)
		rnl__job_unclaim(job);
	return ret;
}

/*
 * A reservation was taken back: a drain may have counted it and sleep now, and
 * the worker may have been taken for the job: wake it, so that others find it.
 */
static void took_back(struct rnl_pool *pool, unsigned worker)
{
	/* [pool.D5] full barrier: taken back before we look for drains; pairs with [pool.D2] */
	rnl__full_barrier();
	rnl__pool_settle(pool);
	rnl__park_wake(&pool->workers[worker].park);
}

/* Room in that queue, or, for a job that any worker may run, in another. */
static int reserve(struct rnl_pool *pool, unsigned *worker, bool keyed)
{
	unsigned first = *worker;
	int ret = rnl__queue_reserve(&pool->workers[first].queue, 1);

	for (unsigned i = 1; ret == -EAGAIN && !keyed && i < pool->nr_workers; i++) {
		*worker = (first + i) % pool->nr_workers;
		ret = rnl__queue_reserve(&pool->workers[*worker].queue, 1);
	}
	if (*worker != first || ret < 0)
		took_back(pool, first);
	return ret < 0 ? ret : 0;
}

static int submit(struct rnl_pool *pool, struct rnl_job *job, unsigned worker, bool keyed)
{
	int ret = reserve(pool, &worker, keyed);

	if (ret) {
		rnl__job_unclaim(job);
		return ret;
	}
	accept(pool, job, worker, keyed);
	if (job->after)
		rnl__barrier_defer(job);
	else
		rnl__pool_start(job);
	return 0;
}

int rnl_submit(struct rnl_pool *pool, struct rnl_job *job)
{
	int ret = claim(pool, job);

	if (ret)
		return ret;
	/* One that is put off finds an idle worker when it starts. */
	return submit(pool, job, job->after ? usual(pool) : pick(pool), false);
}

int rnl_submit_keyed(struct rnl_pool *pool, struct rnl_job *job, uint64_t key)
{
	int ret = claim(pool, job);

	return ret ? ret : submit(pool, job, worker_of_key(pool, key), true);
}

/*
 * Submits a chain to one worker, jobs that wait for a barrier apart; how many
 * it took, or why not the first.
 */
static int submit_chain(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr)
{
	unsigned index, nr_claimed = 0;
	struct rnl__worker *w;
	int ret = 0, room;

	while (nr_claimed < nr && jobs[nr_claimed] && !jobs[nr_claimed]->after) {
		ret = claim(pool, jobs[nr_claimed]);
		if (ret)
			break;
		nr_claimed++;
	}
	if (!nr_claimed)
		return ret;
	index = pick(pool);
	w = &pool->workers[index];
	room = rnl__queue_reserve(&w->queue, nr_claimed);
	if (room < (int)nr_claimed)
		took_back(pool, index);
	for (unsigned i = room < 0 ? 0 : (unsigned)room; i < nr_claimed; i++)
		rnl__job_unclaim(jobs[i]);
	if (room < 0)
		return room;
	for (unsigned i = 0; i < (unsigned)room; i++)
		accept(pool, jobs[i], index, false);
	rnl__queue_put_chain(&w->queue, jobs, (unsigned)room);
	if (!rnl__park_wake(&w->park))
		rnl__lot_wake_one(&pool->lot);
	return room;
}

int rnl_submit_many(struct rnl_pool *pool, struct rnl_job *const *jobs, unsigned nr)
{
	unsigned share, done = 0;
	int ret = rnl__pool_check(pool);

	if (ret)
		return ret;
	if (!jobs && nr)
		return -EINVAL;
	if (nr > INT_MAX)
		nr = INT_MAX;
	share = (nr + pool->nr_workers - 1) / pool->nr_workers;
	while (done < nr) {
		struct rnl_job *job = jobs[done];

		/* What a chain cannot take goes alone: a barrier, a full queue. */
		ret = job && job->fn && !job->after ?
		      submit_chain(pool, jobs + done, share < nr - done ? share : nr - done) :
		      -EAGAIN;
		if (ret == -EAGAIN) {
			ret = rnl_submit(pool, job);
			ret = ret ? ret : 1;
		}
		if (ret < 0)
			break;
		done += (unsigned)ret;
	}
	return done ? (int)done : ret;
}
