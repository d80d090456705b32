/* SPDX-License-Identifier: MIT */
/* Which worker a job goes to; choose.h has the design. */
#include "config.h"

#include <errno.h>

#include "pool/choose.h"
#include "pool/candidates.h"
#include "pool/classes.h"
#include "pool/inherit.h"
#include "stream/job_flags.h"
#include "pool/park.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "pool/queue.h"
#include "sys/flat.h"
#include "sys/sizes.h"

/* ---- choosing ------------------------------------------------------------ */

static uint64_t load_of(struct rnl_pool *pool, unsigned worker)
{
	struct rnl__worker *w = rnl__worker_at(pool, worker);

	return rnl__queue_length(&w->queue) + rnl__inflight_nr(&w->inflight);
}

/* The usual worker of a thread that submits. */
struct home {
	uint64_t random;
	unsigned index, left;		/* left: submits until the next look at another worker */
};

static struct home *own_home(void)
{
	static _Thread_local struct home own __attribute__((tls_model("initial-exec")));

	/* Threads start at different workers, because each has its own address of `own`. */
	if (!own.random) {
		own.random = (uintptr_t)&own / 64 * 0x9e3779b97f4a7c15u | 1;
		own.index = (unsigned)(own.random >> 32);
	}
	return &own;
}

/* Returns the usual worker.  Avoids a division, which would take a tenth of a submit's time. */
static unsigned home_in(const struct rnl__candidates *from, unsigned index)
{
	return rnl__candidates_worker(from, index < from->nr ? index : index % from->nr);
}

/* Returns the usual worker, which now and then becomes the less loaded of two. */
static unsigned usual_worker(struct rnl_pool *pool, const struct rnl__candidates *from,
			     struct home *home)
{
	unsigned other;

	if (home->left) {
		home->left--;
		return home_in(from, home->index);
	}
	/* xorshift64 (Marsaglia 2003) */
	home->random ^= home->random << 13;
	home->random ^= home->random >> 7;
	home->random ^= home->random << 17;
	home->index %= from->nr;
	other = (home->index + 1 +
		 (unsigned)(home->random >> 32) % (from->nr > 1 ? from->nr - 1 : 1)) % from->nr;
	if (load_of(pool, rnl__candidates_worker(from, other)) <
	    load_of(pool, rnl__candidates_worker(from, home->index)))
		home->index = other;
	home->left = pool->home_for;
	return rnl__candidates_worker(from, home->index);
}

/* Returns the candidates on the device with most idle workers, or all if no worker is idle. */
static struct rnl__candidates candidates_with_room(struct rnl_pool *pool,
						   const struct rnl__candidates *from,
						   const struct home *home)
{
	const unsigned nr = pool->devices.nr, usual = home_in(from, home->index) % nr;
	unsigned best = usual, most;	/* on a tie, the usual device is the best */

	if (!rnl__idle_set_nr_free(&pool->idle_set, RNL__ANY_WORKER))
		return *from;
	most = rnl__idle_set_nr_free(&pool->idle_set, pool->of_device[usual]);
	for (unsigned i = 1; i < nr; i++) {
		const unsigned device = (usual + i) % nr;
		const unsigned nr_free = rnl__idle_set_nr_free(&pool->idle_set,
							       pool->of_device[device]);

		if (nr_free <= most)
			continue;
		most = nr_free;
		best = device;
	}
	return rnl__candidates_on(pool, *from, best);
}

/*
 * Returns a worker for an unkeyed job: the usual one, if it is awake and has nothing to do, because
 * it needs no wake then and its stream is in a cache.  Else one that spins; else one that sleeps,
 * the usual one first; else the usual one.  On the host device a job may be less work than the
 * choice, so the usual one is taken unless a worker sleeps.
 */
static unsigned choose_open(struct rnl_pool *pool, const struct rnl__candidates *all)
{
	struct home *home = own_home();
	struct rnl__candidates from = *all;
	struct rnl__worker *w;
	unsigned first;
	int index;

	if (!rnl__pool_on_gpu(pool) && !rnl__idle_set_any(&pool->idle_set))
		return usual_worker(pool, all, home);
	if (from.mixed)
		from = candidates_with_room(pool, all, home);
	first = home_in(&from, home->index / from.step);
	w = rnl__worker_at(pool, first);
	if (!rnl__queue_length(&w->queue) && rnl__park_awake(&w->park) && rnl__worker_attends(w)) {
		rnl__park_claimed(&w->park);
		return first;
	}
	index = rnl__idle_set_claim_spinning(&pool->idle_set, from.among);
	if (index < 0)
		index = rnl__idle_set_claim(&pool->idle_set, first, from.among);
	return index >= 0 ? (unsigned)index : usual_worker(pool, all, home);
}

/* ---- reserving ----------------------------------------------------------- */

/*
 * Wakes waiters after a reservation was taken back.  A drain may have counted it, and a submit that
 * waits for space may have been refused because of it.  The worker may have been claimed for the
 * job, or may be waiting for the job before leaving.
 */
static void took_back(struct rnl_pool *pool, unsigned worker)
{
	struct rnl__worker *w = rnl__worker_at(pool, worker);

	rnl__pool_wake_counts(pool);
	/* The barrier of rnl__pool_wake_counts() orders the next two calls as well. */
	rnl__worker_made_space(w);
	rnl__park_wake(&w->park);
}

/* Reserves for a refusable job.  Returns 0, -EAGAIN, -ESHUTDOWN, or -ESTALE (worker left). */
static int reserve_bounded(struct rnl_pool *pool, unsigned worker)
{
	int ret = rnl__queue_reserve(&rnl__worker_at(pool, worker)->queue, 1);

	if (ret < 0)
		took_back(pool, worker);
	return ret < 0 ? ret : 0;
}

/* Reserves for a job that is accepted already.  Returns false if the worker has left. */
static bool reserve_accepted(struct rnl_pool *pool, unsigned worker)
{
	if (rnl__queue_reserve_accepted(&rnl__worker_at(pool, worker)->queue)) {
		/*
		 * [inherit.W2] full barrier: reserved before the put looks for a raise of the job's
		 * round; pairs with [inherit.W1]
		 */
		rnl__mb_after_rmw();
		return true;
	}
	took_back(pool, worker);
	return false;
}

/* Promises a keyed lane a job that has a reservation.  Returns false if the staff changed. */
static bool promise(struct rnl_pool *pool, struct rnl_job *job, struct rnl__staff staff,
		    unsigned worker)
{
	struct rnl__queue *q = &rnl__worker_at(pool, worker)->queue;

	if (rnl__queue_promise(q, staff.generation)) {
		/*
		 * A lane is used again after two resizes.  If two came since we read the staff, the
		 * promise went to a later generation.
		 */
		if (rnl__pool_staff(pool).generation == staff.generation) {
			job->worker = (uint16_t)worker;
			job->staff = (uint16_t)staff.generation;
			return true;
		}
		rnl__queue_unpromise(q, staff.generation);
	}
	rnl__queue_unreserve(q, 1);
	took_back(pool, worker);
	return false;
}

static int reserve_keyed(struct rnl_pool *pool, struct rnl_job *job, struct rnl__staff staff)
{
	unsigned worker =
		rnl__candidates_keyed(pool, rnl__candidates_of(pool, staff, job), job->key);
	int ret = reserve_bounded(pool, worker);

	if (ret)
		return ret;
	return promise(pool, job, staff, worker) ? 0 : -ESTALE;
}

/* Reserves space at the worker that the job should go to, or if that is full, at another worker. */
static int reserve_open(struct rnl_pool *pool, struct rnl_job *job, struct rnl__staff staff)
{
	struct rnl__candidates from = rnl__candidates_of(pool, staff, job);
	unsigned worker = choose_open(pool, &from);
	int ret = reserve_bounded(pool, worker);

	for (unsigned i = 1; ret == -EAGAIN && i < from.nr; i++) {
		worker = rnl__candidates_worker(&from, ((worker - from.first) / from.step + 1) % from.nr);
		ret = reserve_bounded(pool, worker);
	}
	job->worker = (uint16_t)worker;
	return ret;
}

RNL__FLAT
int rnl__choose_reserve(struct rnl_pool *pool, struct rnl_job *job)
{
	int ret;

	if (rnl__job_in_class(job))
		return rnl__outside_enter(pool, RNL__CLASSED, 1);
	do {
		struct rnl__staff staff = rnl__pool_staff(pool);

		ret = job->flags & RNL__JOB_KEYED ? reserve_keyed(pool, job, staff) :
						    reserve_open(pool, job, staff);
	} while (ret == -ESTALE);
	return ret;
}

/* Reserves like rnl__choose_reserve(), for a job that is accepted already. */
static void reserve_always(struct rnl_pool *pool, struct rnl_job *job)
{
	const bool keyed = job->flags & RNL__JOB_KEYED;

	if (rnl__job_in_class(job)) {
		rnl__outside_move_to(pool, RNL__CLASSED);
		return;
	}
	for (;;) {
		struct rnl__staff staff = rnl__pool_staff(pool);
		struct rnl__candidates from = rnl__candidates_of(pool, staff, job);
		unsigned worker = keyed ? rnl__candidates_keyed(pool, from, job->key) :
					  choose_open(pool, &from);

		if (!reserve_accepted(pool, worker))
			continue;
		if (!keyed)
			job->worker = (uint16_t)worker;
		if (!keyed || promise(pool, job, staff, worker))
			return;
	}
}

int rnl__choose_reserve_row(struct rnl_pool *pool, unsigned nr, unsigned *worker)
{
	struct rnl__candidates from = rnl__candidates_all(pool, rnl__pool_staff(pool));
	int space;

	*worker = choose_open(pool, &from);
	space = rnl__queue_reserve(&rnl__worker_at(pool, *worker)->queue, nr);
	if (space < (int)nr)
		took_back(pool, *worker);
	return space;
}

int rnl__choose_reserve_deferred(struct rnl_pool *pool, struct rnl_job *job)
{
	struct rnl__candidates from = rnl__candidates_of(pool, rnl__pool_staff(pool), job);
	/* The worker that the job would go to if it were put now. */
	unsigned worker = job->flags & RNL__JOB_KEYED ?
				  rnl__candidates_keyed(pool, from, job->key) :
				  usual_worker(pool, &from, own_home());

	/* A job of a class has a slot there. */
	if (!rnl__job_in_class(job) && !rnl__queue_has_space(&rnl__worker_at(pool, worker)->queue))
		return -EAGAIN;
	return rnl__outside_enter(pool, RNL__DEFERRED, 1);
}

void rnl__choose_unreserve(struct rnl_pool *pool, struct rnl_job *job)
{
	struct rnl__queue *q;

	if (rnl__job_in_class(job)) {
		rnl__outside_take_back(pool, RNL__CLASSED, 1);
		return;
	}
	q = &rnl__worker_at(pool, job->worker)->queue;
	if (job->flags & RNL__JOB_KEYED)
		rnl__queue_unpromise(q, job->staff);
	rnl__queue_unreserve(q, 1);
	took_back(pool, job->worker);
}

/* ---- waiting for space --------------------------------------------------- */

static struct rnl__eventcount *eventcount_of(struct rnl_pool *pool, struct rnl__staff staff,
				 const struct rnl__wish *wish)
{
	struct rnl__eventcount *of_class = rnl__classes_space(pool, wish->job);

	if (of_class)
		return of_class;
	if (wish->keyed)
		return &rnl__worker_at(pool, rnl__candidates_keyed(pool,
								   rnl__candidates_of(pool, staff,
										      wish->job),
								   wish->key))
				->space;
	return &pool->space;
}

struct rnl__eventcount *rnl__choose_listen_for_space(struct rnl_pool *pool,
						     const struct rnl__wish *wish,
						     uint32_t *listened)
{
	for (;;) {
		struct rnl__staff staff = rnl__pool_staff(pool);
		struct rnl__eventcount *eventcount = eventcount_of(pool, staff, wish);

		*listened = rnl__eventcount_prepare(eventcount);
		/* A resize publishes its staff, then wakes: a later resize ends the wait. */
		if (rnl__pool_staff(pool).generation == staff.generation)
			return eventcount;
	}
}

/* ---- putting ------------------------------------------------------------- */

/* Wakes a worker for a job that was put on @w's queue.  The job may be done by now. */
static void choose_wake(struct rnl_pool *pool, struct rnl__worker *w, bool keyed,
			const uint64_t *takers)
{
	if (rnl__park_wake(&w->park) || keyed || !rnl__idle_set_any(&pool->idle_set))
		return;
	/*
	 * [choose.W1] relaxed: the put's full barrier [queue.E1] precedes this look at an awake
	 * worker.  If not busy, the worker will take our job, or wake another; pairs with [run.O1].
	 */
	if (rnl__worker_attends(w))
		return;
	/* The worker is busy: a worker that sleeps may steal the job. */
	rnl__idle_set_wake_one(&pool->idle_set, takers);
}

/* Puts a job that may have a smaller tier than the own class. */
static __attribute__((noinline)) void choose_put_raised(struct rnl__queue *q, struct rnl_job *job)
{
	/* Read before the put, after which the job may be done. */
	const unsigned lane = rnl__inherit_lane(q, job), tier = rnl__inherit_tier(job);

	rnl__queue_put(q, job);
	if (tier < RNL__TIER_OWN)
		rnl__inherit_raise_lane(q, lane, tier);
}

RNL__FLAT
void rnl__choose_put(struct rnl_job *job)
{
	struct rnl_pool *pool = job->pool;
	struct rnl__worker *w;
	const uint64_t *takers;
	uint64_t expires_at;
	bool keyed;

	if (rnl__job_in_class(job)) {
		rnl__classes_put(job);
		return;
	}
	w = rnl__worker_at(pool, job->worker);
	/* Read before the put, after which the job may be done. */
	keyed = job->flags & RNL__JOB_KEYED;
	takers = job->flags & RNL__JOB_PLACED ? pool->of_device[w->device_index] : RNL__ANY_WORKER;
	expires_at = rnl__timer_expiry(job);
	if (rnl__classes_of(pool) && (rnl__inherit_may(job) || job->flags & RNL__JOB_CLASSED))
		choose_put_raised(&w->queue, job);
	else
		rnl__queue_put(&w->queue, job);
	choose_wake(pool, w, keyed, takers);
	if (expires_at != RNL__NEVER)
		rnl__timer_expect(w, expires_at);
}

void rnl__choose_put_row(struct rnl_pool *pool, unsigned worker, struct rnl_job *const *jobs,
			  unsigned nr)
{
	struct rnl__worker *w = rnl__worker_at(pool, worker);
	uint64_t expires_at = RNL__NEVER, tier = RNL__TIER_OWN;

	for (unsigned i = 0; i < nr; i++) {
		expires_at = rnl__smaller(expires_at, rnl__timer_expiry(jobs[i]));
		if (rnl__inherit_may(jobs[i]))
			tier = rnl__smaller(tier, rnl__inherit_tier(jobs[i]));
	}
	rnl__queue_put_row(&w->queue, jobs, nr);
	if (tier < RNL__TIER_OWN)
		rnl__inherit_raise_lane(&w->queue, RNL__LANE_OPEN, (unsigned)tier);
	choose_wake(pool, w, false, RNL__ANY_WORKER);
	if (expires_at != RNL__NEVER)
		rnl__timer_expect(w, expires_at);
}

void rnl__choose_start(struct rnl_job *job)
{
	reserve_always(job->pool, job);
	rnl__choose_put(job);
}

void rnl__choose_start_deferred(struct rnl_job *job)
{
	struct rnl_pool *pool = job->pool;

	reserve_always(pool, job);
	rnl__outside_leave(pool, RNL__DEFERRED);
	rnl__choose_put(job);
}

void rnl__choose_start_at(struct rnl_job *job, unsigned home)
{
	struct rnl_pool *pool = job->pool;
	unsigned worker;

	if (rnl__job_in_class(job)) {
		rnl__choose_start(job);
		return;
	}
	do {
		struct rnl__candidates from = rnl__candidates_of(pool, rnl__pool_staff(pool), job);

		/* Jobs are placed on devices in turn: each device gets every @step-th of them. */
		worker = rnl__candidates_worker(&from, home / from.step % from.nr);
	} while (!reserve_accepted(pool, worker));
	job->worker = (uint16_t)worker;
	rnl__choose_put(job);
}
