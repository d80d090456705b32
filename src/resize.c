/* SPDX-License-Identifier: MIT */
/* Workers that begin and cease to serve; resize.h has the design. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "clock.h"
#include "fence.h"
#include "latch.h"
#include "loop.h"
#include "pool.h"
#include "resize.h"

static void order(struct rnl_pool *pool, struct rnl__worker *w, uint32_t what)
{
	rnl__latch_add(&pool->moving, 1);
	rnl__pool_order(w, what);
}

static void await_orders(struct rnl_pool *pool)
{
	rnl__latch_wait(&pool->moving, 0, RNL__NEVER);
}

/* ---- beginning to serve -------------------------------------------------- */

/* Workers take no signal: handlers are the application's, on its threads. */
static int start_thread(struct rnl__worker *w)
{
	sigset_t all, before;
	int ret;

	/* It could not attach itself, and would stay all the same, as every thread then does. */
	if (rnl__device_failed(w->pool->device))
		return -EIO;
	rnl__latch_add(&w->present, 1);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = -pthread_create(&w->thread, NULL, rnl__loop_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		(void)rnl__latch_drop(&w->present, 1);
	w->started = !ret;
	return ret;
}

/* Its thread ends, or touches nothing any more. */
static void await_end(struct rnl__worker *w)
{
	rnl__latch_wait(&w->present, 0, RNL__NEVER);
	if (w->stays)
		pthread_detach(w->thread);
	else
		pthread_join(w->thread, NULL);
	w->started = false;
}

/* Ends the thread of a worker that serves no more. */
static void end_thread(struct rnl__worker *w)
{
	rnl__pool_order(w, RNL__END);
	await_end(w);
	/* relaxed: its thread looks no more; the next one has not heard of that order */
	atomic_store_explicit(&w->orders, 0, memory_order_relaxed);
}

/* Has workers [from, to) cease to serve, once they have done what they hold. */
static void send_away(struct rnl_pool *pool, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		if (pool->workers[i].serves)
			order(pool, &pool->workers[i], RNL__LEAVE);
	}
	await_orders(pool);
}

static void warn_of_connections(struct rnl_pool *pool)
{
	const char *value = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	int connections = value ? atoi(value) : 8;
	unsigned nr_workers = rnl__pool_nr_workers(pool);

	if (pool->device->info.cuda && connections > 0 && nr_workers > (unsigned)connections)
		rnl__pool_log(pool, RNL_LOG_WARNING,
			      "%u workers share %d hardware queues: call rnl_setup() first in "
			      "main(), or set CUDA_DEVICE_MAX_CONNECTIONS=32",
			      nr_workers, connections);
}

/* Has workers [from, to) serve; if one cannot, none of them does, and why. */
static int bring_in(struct rnl_pool *pool, unsigned from, unsigned to)
{
	int ret = 0;

	atomic_store_explicit(&pool->start_error, 0, memory_order_relaxed); /* relaxed: ours */
	for (unsigned i = from; i < to && !ret; i++) {
		struct rnl__worker *w = &pool->workers[i];

		order(pool, w, RNL__SERVE);
		if (!w->started)
			ret = start_thread(w);
		if (ret) {
			atomic_store_explicit(&w->orders, 0, memory_order_relaxed); /* relaxed: nobody reads */
			(void)rnl__latch_drop(&pool->moving, 1);
		}
	}
	await_orders(pool);
	if (!ret)
		/* relaxed: the latch has published it */
		ret = atomic_load_explicit(&pool->start_error, memory_order_relaxed);
	if (!ret) {
		if (to > rnl__pool_nr_workers(pool))
			/* [pool.N2] release: their streams are there; pairs with [pool.N1] */
			atomic_store_explicit(&pool->nr_workers, to, memory_order_release);
		warn_of_connections(pool);
		return 0;
	}
	send_away(pool, from, to);
	for (unsigned i = from; i < to; i++) {
		if (pool->workers[i].started)
			end_thread(&pool->workers[i]);
	}
	return ret;
}

/* ---- the trace ----------------------------------------------------------- */

void rnl__pool_set_trace(struct rnl_pool *pool, struct rnl__trace *trace)
{
	pthread_mutex_lock(&pool->resizing);
	/* relaxed: the orders publish it, and a thread's start */
	atomic_store_explicit(&pool->trace, trace, memory_order_relaxed);
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (pool->workers[i].started)
			order(pool, &pool->workers[i], RNL__TRACE);
	}
	await_orders(pool);
	pthread_mutex_unlock(&pool->resizing);
}

/* ---- the table ----------------------------------------------------------- */

static uint64_t share(uint64_t whole, unsigned nr)
{
	return (whole + nr - 1) / nr;
}

/* Has workers [0, nr) share what may be queued. */
static void bound(struct rnl_pool *pool, unsigned nr)
{
	for (unsigned i = 0; i < pool->nr_urgent + nr; i++) {
		bool urgent = i < pool->nr_urgent;

		rnl__queue_bound(&pool->workers[i].queue,
				 share(pool->max_queued, urgent ? pool->nr_urgent : nr),
				 share(pool->high_water, pool->nr_urgent + nr) - 1);
	}
}

static void publish(struct rnl_pool *pool, struct rnl__table table)
{
	/* [pool.T2] release: the workers that it leads to serve; pairs with [pool.T1] */
	atomic_store_explicit(&pool->table, (uint64_t)table.generation << 32 | table.nr,
			      memory_order_release);
}

/* Has workers take from the keyed lanes of a generation. */
static void serve_generation(struct rnl_pool *pool, struct rnl__table table)
{
	/* [pool.T4] release: all keyed jobs before are done; pairs with [pool.T3] */
	atomic_store_explicit(&pool->serving, table.generation, memory_order_release);
	/* [resize.S1] full barrier: the lane is open before we look who sleeps; pairs with [park.S1] */
	rnl__full_barrier();
	for (unsigned i = 0; i < pool->nr_urgent + table.nr; i++)
		(void)rnl__park_wake(&pool->workers[i].park);
}

int rnl__pool_staff(struct rnl_pool *pool, unsigned nr)
{
	struct rnl__table table = { .nr = nr };
	int ret = bring_in(pool, 0, pool->nr_urgent + nr);

	if (ret)
		return ret;
	bound(pool, nr);
	for (unsigned i = 0; i < pool->nr_urgent + nr; i++) {
		rnl__queue_open_lane(&pool->workers[i].queue, table.generation);
		rnl__queue_serve(&pool->workers[i].queue);
	}
	publish(pool, table);
	serve_generation(pool, table);
	return 0;
}

/*
 * Changes the table.  Workers that it newly leads to serve already; others
 * serve on, until what they hold is done.
 */
static void change_table(struct rnl_pool *pool, struct rnl__table old, unsigned nr)
{
	struct rnl__table table = { .generation = old.generation + 1, .nr = nr };
	unsigned first = pool->nr_urgent;

	bound(pool, nr);
	for (unsigned i = first; i < first + nr; i++) {
		rnl__queue_open_lane(&pool->workers[i].queue, table.generation);
		rnl__queue_serve(&pool->workers[i].queue);
	}
	publish(pool, table);
	for (unsigned i = first + nr; i < first + old.nr; i++)
		rnl__queue_leave(&pool->workers[i].queue);
	for (unsigned i = first; i < first + old.nr; i++)
		rnl__queue_shut_lane(&pool->workers[i].queue, old.generation);
	/*
	 * [resize.R1] full barrier: the table is out before we look who waits for
	 * room, which may be with other workers now; pairs with [bell.L2].
	 */
	rnl__full_barrier();
	rnl__pool_ring_rooms(pool);
	/* Those that came are asleep, and nobody has seen them idle yet. */
	for (unsigned i = first + old.nr; i < first + nr; i++)
		(void)rnl__park_wake(&pool->workers[i].park);
	for (unsigned i = first; i < first + old.nr; i++) {
		if (!rnl__queue_lane_done(&pool->workers[i].queue, old.generation))
			order(pool, &pool->workers[i], RNL__HAND_OVER);
	}
	await_orders(pool);
	serve_generation(pool, table);
}

static int resize(struct rnl_pool *pool, unsigned nr)
{
	struct rnl__table old = rnl__pool_table(pool);
	unsigned first = pool->nr_urgent;
	int ret = 0;

	if (rnl__queue_closed(&pool->put_off))
		return -ESHUTDOWN;
	if (nr > old.nr)
		ret = bring_in(pool, first + old.nr, first + nr);
	if (ret || nr == old.nr)
		return ret;
	change_table(pool, old, nr);
	if (nr < old.nr)
		send_away(pool, first + nr, first + old.nr);
	return 0;
}

int rnl_pool_resize(struct rnl_pool *pool, unsigned nr_workers)
{
	int ret = rnl__pool_check(pool);

	if (ret)
		return ret;
	if (!nr_workers || nr_workers > RNL_WORKERS_MAX - pool->nr_urgent)
		return -EINVAL;
	if (rnl__pool_worker(pool))
		return -EBUSY;
	pthread_mutex_lock(&pool->resizing);
	ret = resize(pool, nr_workers);
	pthread_mutex_unlock(&pool->resizing);
	return ret;
}

void rnl__pool_dismiss(struct rnl_pool *pool)
{
	/* A thread that was sent away is still there. */
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (pool->workers[i].started)
			rnl__pool_order(&pool->workers[i], RNL__END);
	}
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (pool->workers[i].started)
			await_end(&pool->workers[i]);
	}
}
