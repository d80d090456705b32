/* SPDX-License-Identifier: MIT */
/* Which worker a job goes to; place.h has the design. */
#include "config.h"

#include <errno.h>

#include "job.h"
#include "park.h"
#include "place.h"
#include "pool.h"
#include "queue.h"

/* Workers that a job may go to. */
struct crew {
	struct rnl__lot *lot;
	unsigned first, nr;
};

static struct crew crew_of(struct rnl_pool *pool, struct rnl__table table, bool urgent)
{
	if (urgent && pool->nr_urgent)
		return (struct crew){ &pool->urgent_lot, 0, pool->nr_urgent };
	return (struct crew){ &pool->lot, pool->nr_urgent, table.nr };
}

/* ---- choosing ------------------------------------------------------------ */

static uint64_t load(struct rnl_pool *pool, unsigned worker)
{
	struct rnl__worker *w = &pool->workers[worker];

	return rnl__queue_length(&w->queue) + rnl__inflight_nr(&w->inflight);
}

/* A submitter's usual worker. */
struct home {
	uint64_t random;
	unsigned index, left;		/* left: submits before it looks at another one */
};

static struct home *own_home(void)
{
	static _Thread_local struct home own __attribute__((tls_model("initial-exec")));

	/* Threads start at different workers: `own` lies elsewhere in each. */
	if (!own.random) {
		own.random = (uintptr_t)&own / 64 * 0x9e3779b97f4a7c15u | 1;
		own.index = (unsigned)(own.random >> 32);
	}
	return &own;
}

/* The usual worker; now and then that becomes the less loaded of two. */
static unsigned usual(struct rnl_pool *pool, struct crew crew, struct home *home)
{
	unsigned other;

	if (home->left) {
		home->left--;
		return crew.first + home->index % crew.nr;
	}
	/* xorshift64 (Marsaglia 2003) */
	home->random ^= home->random << 13;
	home->random ^= home->random >> 7;
	home->random ^= home->random << 17;
	home->index %= crew.nr;
	other = (home->index + 1 +
		 (unsigned)(home->random >> 32) % (crew.nr > 1 ? crew.nr - 1 : 1)) % crew.nr;
	if (load(pool, crew.first + other) < load(pool, crew.first + home->index))
		home->index = other;
	home->left = pool->home_for;
	return crew.first + home->index;
}

/*
 * A worker for an unkeyed job.  The usual one, if it is awake and has nothing to do: nobody
 * has to be woken for that, and its stream, and the driver's part of it, are in a cache.
 * Else one that spins, else one that sleeps, and the usual one first.  Else the usual
 * one; at once, if nobody sleeps, where a job may be less work than the choice.
 */
static unsigned pick(struct rnl_pool *pool, struct crew crew)
{
	struct home *home = own_home();
	unsigned first = crew.first + home->index % crew.nr;
	struct rnl__worker *w = &pool->workers[first];
	int index;

	if (!rnl__pool_chooses(pool) && !rnl__lot_idle(crew.lot))
		return usual(pool, crew, home);
	if (!rnl__queue_length(&w->queue) && rnl__park_awake(&w->park) && rnl__worker_attends(w)) {
		rnl__park_claimed(&w->park);
		return first;
	}
	index = rnl__lot_claim_spinning(crew.lot);
	if (index < 0)
		index = rnl__lot_claim(crew.lot, first);
	return index >= 0 ? (unsigned)index : usual(pool, crew, home);
}

static unsigned worker_of_key(struct crew crew, uint64_t key)
{
	/* Fibonacci hashing (Knuth, TAOCP 6.4): neighbouring keys spread. */
	return crew.first + (unsigned)((key * 0x9e3779b97f4a7c15u) >> 32) % crew.nr;
}

/* ---- reserving ----------------------------------------------------------- */

/*
 * A reservation was taken back.  A drain may have counted it, or somebody who
 * waits for room; the worker may have been taken for the job, or count on it
 * before it leaves.
 */
static void took_back(struct rnl_pool *pool, unsigned worker)
{
	struct rnl__worker *w = &pool->workers[worker];

	/* [place.D1] full barrier: taken back before we look who waits; pairs with [bell.L2], [park.S1] */
	rnl__full_barrier();
	rnl__bell_ring(&pool->settled);
	rnl__pool_made_room(w);
	rnl__park_wake(&w->park);
}

/* Room for one; @high: NULL: even if the queue is full or closed. */
static int reserve_one(struct rnl_pool *pool, unsigned worker, bool *high)
{
	struct rnl__queue *q = &pool->workers[worker].queue;
	int ret;

	if (high)
		ret = rnl__queue_reserve(q, 1, high);
	else
		ret = rnl__queue_move_in(q) ? 0 : -ESTALE;
	if (ret < 0)
		took_back(pool, worker);
	return ret < 0 ? ret : 0;
}

static int reserve_keyed(struct rnl_pool *pool, struct rnl_job *job, struct rnl__table table,
			 bool *high)
{
	unsigned worker = worker_of_key(crew_of(pool, table, false), job->number);
	struct rnl__queue *q = &pool->workers[worker].queue;
	int ret = reserve_one(pool, worker, high);

	if (ret)
		return ret;
	if (rnl__queue_promise(q, table.generation)) {
		/*
		 * A lane is used again after two resizes; so if there were two
		 * since we looked, the promise went to a later generation.
		 */
		if (rnl__pool_table(pool).generation == table.generation) {
			job->worker = (uint16_t)worker;
			job->table = table.generation;
			return 0;
		}
		rnl__queue_unpromise(q, table.generation);
	}
	rnl__queue_unreserve(q, 1);
	took_back(pool, worker);
	return -ESTALE;
}

/* Room with the one it should go to, or with another. */
static int reserve_open(struct rnl_pool *pool, struct rnl_job *job, struct rnl__table table,
			bool *high)
{
	struct crew crew = crew_of(pool, table, job->flags & RNL__JOB_URGENT);
	unsigned worker = pick(pool, crew);
	int ret = reserve_one(pool, worker, high);

	for (unsigned i = 1; ret == -EAGAIN && i < crew.nr; i++) {
		worker = crew.first + (worker - crew.first + 1) % crew.nr;
		ret = reserve_one(pool, worker, high);
	}
	job->worker = (uint16_t)worker;
	return ret;
}

static int reserve(struct rnl_pool *pool, struct rnl_job *job, bool *high)
{
	int ret;

	do {
		struct rnl__table table = rnl__pool_table(pool);

		ret = job->flags & RNL__JOB_KEYED ? reserve_keyed(pool, job, table, high) :
						    reserve_open(pool, job, table, high);
	} while (ret == -ESTALE);
	return ret;
}

int rnl__place_reserve(struct rnl_pool *pool, struct rnl_job *job, bool *high)
{
	return reserve(pool, job, high);
}

int rnl__place_reserve_chain(struct rnl_pool *pool, unsigned nr, unsigned *worker, bool *high)
{
	int room;

	*worker = pick(pool, crew_of(pool, rnl__pool_table(pool), false));
	room = rnl__queue_reserve(&pool->workers[*worker].queue, nr, high);
	if (room < (int)nr)
		took_back(pool, *worker);
	return room;
}

/* The queue that a job would go to now. */
static struct rnl__queue *queue_for(struct rnl_pool *pool, const struct rnl_job *job)
{
	struct rnl__table table = rnl__pool_table(pool);
	unsigned worker;

	if (job->flags & RNL__JOB_KEYED)
		worker = worker_of_key(crew_of(pool, table, false), job->number);
	else
		worker = usual(pool, crew_of(pool, table, job->flags & RNL__JOB_URGENT), own_home());
	return &pool->workers[worker].queue;
}

int rnl__place_put_off(struct rnl_pool *pool, struct rnl_job *job)
{
	bool high;
	int ret = rnl__queue_reserve(&pool->put_off, 1, &high);

	if (ret > 0) {
		if (rnl__queue_roomy(queue_for(pool, job)))
			return 0;
		rnl__queue_unreserve(&pool->put_off, 1);
		ret = -EAGAIN;
	}
	/* [place.D2] full barrier: as [place.D1]; pairs with [bell.L2] */
	rnl__full_barrier();
	rnl__bell_ring(&pool->settled);
	if (rnl__queue_roomy(&pool->put_off) && rnl__queue_roomy(queue_for(pool, job)))
		rnl__bell_ring_once(&pool->room_put_off);
	return ret;
}

/* ---- waiting for room ---------------------------------------------------- */

static struct rnl__bell *bell_of(struct rnl_pool *pool, struct rnl__table table,
				 const struct rnl__wish *wish)
{
	if (wish->put_off)
		return &pool->room_put_off;
	if (wish->keyed)
		return &pool->workers[worker_of_key(crew_of(pool, table, false), wish->key)].room;
	return &pool->room[wish->urgent && pool->nr_urgent];
}

struct rnl__bell *rnl__place_listen(struct rnl_pool *pool, const struct rnl__wish *wish,
				    uint32_t *listened)
{
	for (;;) {
		struct rnl__table table = rnl__pool_table(pool);
		struct rnl__bell *bell = bell_of(pool, table, wish);

		*listened = rnl__bell_listen(bell);
		/* A resize rings when its table is out: it has yet to, or it was before this one. */
		if (rnl__pool_table(pool).generation == table.generation)
			return bell;
	}
}

/* ---- putting ------------------------------------------------------------- */

/* A job was put on its queue, and may be gone by now. */
static void wake(struct rnl_pool *pool, struct rnl__worker *w, bool keyed)
{
	struct rnl__lot *lot = w->urgent ? &pool->urgent_lot : &pool->lot;

	if (rnl__park_wake(&w->park) || keyed)
		return;
	if (!rnl__lot_idle(&pool->lot) && !rnl__lot_idle(lot))
		return;
	/*
	 * [place.W1] It is awake.  The put's full barrier [queue.E1] stands before this look:
	 * if it attends, it has yet to see our job, or to share it; pairs with [run.O1].
	 */
	if (rnl__worker_attends(w))
		return;
	/* It is busy: somebody who sleeps may have the job. */
	if (w->urgent && (rnl__lot_wake_one(lot) || pool->device->priorities))
		return;
	rnl__lot_wake_one(&pool->lot);
}

void rnl__place_put(struct rnl_job *job)
{
	struct rnl_pool *pool = job->pool;
	struct rnl__worker *w = &pool->workers[job->worker];
	bool keyed = job->flags & RNL__JOB_KEYED;

	rnl__queue_put(&w->queue, job);
	wake(pool, w, keyed);
}

void rnl__place_put_chain(struct rnl_pool *pool, unsigned worker, struct rnl_job *const *jobs,
			  unsigned nr)
{
	struct rnl__worker *w = &pool->workers[worker];

	rnl__queue_put_chain(&w->queue, jobs, nr);
	wake(pool, w, false);
}

void rnl__place_deferred(struct rnl_job *job)
{
	struct rnl_pool *pool = job->pool;

	(void)reserve(pool, job, NULL);
	rnl__queue_move_out(&pool->put_off);
	/* [place.B1] full barrier: room was made before we look who waits; pairs with [bell.L2] */
	rnl__mb_after_rmw();
	rnl__bell_ring_once(&pool->room_put_off);
	rnl__place_put(job);
}

void rnl__place_at(struct rnl_job *job, unsigned home)
{
	struct rnl_pool *pool = job->pool;
	unsigned worker;

	do {
		struct crew crew = crew_of(pool, rnl__pool_table(pool), false);

		worker = crew.first + home % crew.nr;
	} while (reserve_one(pool, worker, NULL));
	job->worker = (uint16_t)worker;
	rnl__place_put(job);
}

void rnl__place_first(struct rnl_job *job)
{
	job->flags |= RNL__JOB_FIRST;
	(void)reserve(job->pool, job, NULL);
	rnl__place_put(job);
}
