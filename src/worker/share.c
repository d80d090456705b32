/* SPDX-License-Identifier: MIT */
/* A worker's state for other threads, and wake-ups by the worker; share.h has the design. */
#include "config.h"

#include "pool/classes.h"
#include "pool/pool.h"
#include "worker/command.h"
#include "worker/share.h"

/*
 * Returns true if a worker of a GPU has one job in its queue, and is about to take it.  A thief
 * that also got a job of its own would have two jobs, one after the other, and the worker no job.
 */
static bool comes_for_it(struct rnl__worker *w)
{
	/* A worker that becomes occupied after this check wakes the thief for the job. */
	return rnl__pool_on_gpu(w->pool) && rnl__queue_length(&w->queue) <= 1 &&
	       rnl__worker_attends(w);
}

/* Returns true if both are in the staff, or both of one class. */
static bool serves_the_same(struct rnl__worker *w, struct rnl__worker *other)
{
	return w->in_staff == other->in_staff &&
	       rnl__figure_read(&w->own.class) == rnl__figure_read(&other->own.class);
}

/* Returns true if the queue of @other holds a job that @w may take. */
static bool share_may_have(struct rnl__worker *w, struct rnl__worker *other)
{
	return rnl__queue_stealable(&other->queue, rnl__worker_takes_placed(w, other)) &&
	       !comes_for_it(other);
}

/*
 * Returns the next of the first @nr workers, from @i on, that a thief must check.  With over 64
 * workers, skips idle sleepers: a worker sets its idle bit with an empty queue, and a thread that
 * puts a job there clears the bit and wakes it.  The full barriers of share.h make stale bits safe.
 */
static unsigned share_next(struct rnl_pool *pool, unsigned i, unsigned nr)
{
	if (nr <= 64)
		return i;
	while (i < nr) {
		const uint64_t idle = rnl__idle_set_word(&pool->idle_set, i / 64) |
				      rnl__idle_set_word(&pool->class_idle_set, i / 64);
		const uint64_t awake = ~idle >> i % 64;

		if (awake)
			return i + (unsigned)__builtin_ctzll(awake);
		i = (i / 64 + 1) * 64;
	}
	return nr;
}

/* Returns true if another worker has a job that is not placed. */
static bool others_have(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	unsigned nr = rnl__pool_nr_workers(pool);

	for (unsigned i = share_next(pool, 0, nr); i < nr; i = share_next(pool, i + 1, nr)) {
		struct rnl__worker *other = rnl__worker_at(pool, i);

		if (other != w && rnl__queue_stealable(&other->queue, false) &&
		    !comes_for_it(other))
			return true;
	}
	return false;
}

/* Returns true if a worker, asleep or awake, has an empty stream and queue, and may take jobs. */
static bool share_idles(struct rnl__worker *w)
{
	/* relaxed: a worker that must leave may steal nothing; the caller checks again soon */
	return !atomic_load_explicit(&w->commands, memory_order_relaxed) &&
	       rnl__worker_attends(w) && !rnl__queue_length(&w->queue) &&
	       !rnl__queue_away(&w->queue);
}

/* Returns true if another worker, which may take the same jobs, has nothing to do. */
static bool share_one_idles(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	unsigned nr = rnl__pool_nr_workers(pool);

	for (unsigned i = 0; i < nr; i++) {
		struct rnl__worker *other = rnl__worker_at(pool, i);

		if (other != w && serves_the_same(other, w) && share_idles(other))
			return true;
	}
	return false;
}

/* Returns the first of workers [from, to) to steal from, or NULL. */
static struct rnl__worker *share_victim_in(struct rnl__worker *w, unsigned from, unsigned to)
{
	struct rnl_pool *pool = w->pool;
	const unsigned load = rnl__inflight_nr(&w->inflight);

	for (unsigned i = share_next(pool, from, to); i < to; i = share_next(pool, i + 1, to)) {
		struct rnl__worker *other = rnl__worker_at(pool, i);

		if (share_may_have(w, other) && (!load || rnl__queue_length(&other->queue) > load))
			return other;
	}
	return NULL;
}

struct rnl__worker *rnl__share_victim(struct rnl__worker *w)
{
	struct rnl__worker *victim;

	/* A worker that leaves does not steal. */
	if (!w->in_staff || rnl__commands(w) & (RNL__LEAVE | RNL__END) || !rnl__share_counted(w) ||
	    rnl__inflight_enough(&w->inflight))
		return NULL;
	victim = share_victim_in(w, w->index + 1, rnl__pool_nr_workers(w->pool));
	if (!victim)
		victim = share_victim_in(w, 0, w->index);
	return victim && rnl__inflight_one_long(&w->inflight) && share_one_idles(w) ? NULL : victim;
}

/* Returns true if the worker serves classes. */
static bool takes_classed(struct rnl__worker *w)
{
	return rnl__classes_any(w->pool) && !(rnl__commands(w) & (RNL__LEAVE | RNL__END)) &&
	       rnl__share_counted(w);
}

/* Returns true if the worker's stream has room for one more of them. */
static bool has_room(struct rnl__worker *w)
{
	return !rnl__inflight_enough(&w->inflight) &&
	       !(rnl__inflight_one_long(&w->inflight) && share_one_idles(w));
}

struct rnl_job *rnl__share_take_classed(struct rnl__worker *w)
{
	struct rnl__worker *from = w;

	if (__builtin_expect(!rnl__classes_any(w->pool), true) || !takes_classed(w) || !has_room(w))
		return NULL;
	if (!rnl__queue_holds(&w->queue, rnl__pool_serving(w->pool)))
		from = rnl__share_victim(w);
	return rnl__classes_take(w, from);
}

bool rnl__share_has_classed(struct rnl__worker *w)
{
	return takes_classed(w) && has_room(w) && rnl__classes_have(w);
}

bool rnl__share_awaits_classed(struct rnl__worker *w)
{
	return takes_classed(w) && rnl__classes_have(w);
}

bool rnl__share_leave(struct rnl__worker *w)
{
	return rnl__queue_stealable(&w->queue, false) &&
	       !rnl__queue_holds_keyed(&w->queue, rnl__pool_serving(w->pool)) && share_one_idles(w);
}

/*
 * In a pool of several devices, a worker that is woken for an open job does not take jobs that are
 * placed on another device.  So each device with placed jobs gets a wake of its own.
 */
static void wake_for_placed(struct rnl__worker *w, bool woken)
{
	struct rnl_pool *pool = w->pool;
	unsigned nr = rnl__pool_nr_workers(pool);
	uint64_t devices = 0;

	for (unsigned i = share_next(pool, 0, nr); i < nr; i = share_next(pool, i + 1, nr)) {
		struct rnl__worker *other = rnl__worker_at(pool, i);

		if ((other == w || woken) && rnl__queue_holds_placed(&other->queue))
			devices |= UINT64_C(1) << other->device_index;
	}
	for (unsigned i = 0; i < pool->devices.nr; i++)
		if (devices >> i & 1)
			rnl__idle_set_wake_one(&pool->idle_set, pool->of_device[i]);
}

/*
 * The thread that put a job on this queue either woke this worker, or saw it about to check its
 * queue, and left the other workers asleep.  Now one of them can take the job.  A wake may be for a
 * job in any queue: a woken worker that took some job must wake another worker for the rest.
 */
void rnl__share_queue(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	bool woken = w->woken;

	w->woken = false;
	if (woken && rnl__classes_any(pool))
		rnl__classes_wake(pool);
	if (!rnl__idle_set_any(&pool->idle_set))
		return;
	if (rnl__queue_stealable(&w->queue, false) || (woken && others_have(w)))
		rnl__idle_set_wake_one(&pool->idle_set, RNL__ANY_WORKER);
	if (w->queue.takes_placed)
		wake_for_placed(w, woken);
}

bool rnl__share_occupy(struct rnl__worker *w)
{
	bool was = rnl__own_read(&w->occupied);

	rnl__share_occupied(w);
	/* [run.O2] full barrier: for [run.O1], like [job.P1]; pairs with [queue.E1] */
	rnl__full_barrier();
	rnl__share_queue(w);
	return was;
}
