/* SPDX-License-Identifier: MIT */
/* Workers that begin and cease to serve; staff.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/counter.h"
#include "sys/fence.h"
#include "sys/latch.h"
#include "sys/mps.h"
#include "sys/thread.h"
#include "sys/tsan.h"
#include "worker/serve.h"
#include "pool/pool.h"
#include "worker/staff.h"

static void command(struct rnl_pool *pool, struct rnl__worker *w, uint32_t what)
{
	rnl__latch_add(&pool->moving, 1);
	rnl__worker_command(w, what);
}

static void await_commands(struct rnl_pool *pool)
{
	rnl__latch_wait(&pool->moving, 0, RNL__NEVER);
}

/* ---- beginning to serve -------------------------------------------------- */

static int start_thread(struct rnl__worker *w)
{
	int ret;

	/* On a failed device a thread cannot attach, and does not end: see serve_end_thread(). */
	if (rnl__device_failed(w->device))
		return -EIO;
	rnl__latch_add(&w->present, 1);
	ret = rnl__pool_no_thread(w->pool, "a worker",
				  rnl__thread_create(&w->thread, rnl__serve_main, w));
	if (ret)
		(void)rnl__latch_drop(&w->present, 1);
	w->started = !ret;
	return ret;
}

/* Waits until the thread has ended, or accesses nothing any more. */
static void await_end(struct rnl__worker *w)
{
	rnl__latch_wait(&w->present, 0, RNL__NEVER);
	if (w->stays)
		pthread_detach(w->thread);
	else
		pthread_join(w->thread, NULL);
	w->started = false;
}

/* Ends the thread of a worker that does not serve. */
static void end_thread(struct rnl__worker *w)
{
	rnl__worker_command(w, RNL__END);
	await_end(w);
	/* relaxed: the thread no longer reads it, and the next thread must not see the command */
	atomic_store_explicit(&w->commands, 0, memory_order_relaxed);
}

/* Makes workers [from, to) cease to serve.  Their jobs are done on return. */
static void send_away(struct rnl_pool *pool, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		if (rnl__worker_at(pool, i)->serves)
			command(pool, rnl__worker_at(pool, i), RNL__LEAVE);
	}
	await_commands(pool);
}

static void warn_of_connections(struct rnl_pool *pool)
{
	const char *value = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	int connections = value ? atoi(value) : 8;
	unsigned nr_workers = (rnl__pool_nr_workers(pool) + pool->devices.nr - 1) / pool->devices.nr;

	if (!rnl__pool_any_device(pool)->info.cuda)
		return;
	rnl__pool_log(pool, RNL_LOG_DEBUG, "%u workers of a GPU use %d hardware queues: "
		      "CUDA_DEVICE_MAX_CONNECTIONS is %s", nr_workers, connections,
		      value ? value : "not set");
	if (connections <= 0 || nr_workers <= (unsigned)connections)
		return;
	if (rnl__pool_any_device(pool)->shared || rnl__mps_directory())
		rnl__pool_log(pool, RNL_LOG_INFO,
			      "%u workers share %d hardware queues: under MPS, a larger "
			      "CUDA_DEVICE_MAX_CONNECTIONS leaves fewer to other processes",
			      nr_workers, connections);
	else
		rnl__pool_log(pool, RNL_LOG_WARNING,
			      "%u workers share %d hardware queues: call rnl_setup() first in "
			      "main(), or set CUDA_DEVICE_MAX_CONNECTIONS=32",
			      nr_workers, connections);
}

/* Allocates the missing workers below @to. */
static int make_workers(struct rnl_pool *pool, unsigned to)
{
	for (; pool->nr_made < to; pool->nr_made++) {
		struct rnl__worker *w = aligned_alloc(RNL__CACHE_LINE, sizeof(*w));

		if (!w)
			return -ENOMEM;
		memset(w, 0, sizeof(*w));
		rnl__worker_init(w, pool, pool->nr_made);
		rnl__park_init(&w->park, w->in_staff ? &pool->idle_set : &pool->class_idle_set,
			       w->index);
	}
	return 0;
}

/* Makes the pool count workers [from, to). */
static void count_workers(struct rnl_pool *pool, unsigned from, unsigned to)
{
	/* [pool.N2] release: the workers' streams exist; pairs with [pool.N1] */
	atomic_store_explicit(&pool->nr_workers, to, memory_order_release);
	/*
	 * [staff.C1] full barrier: the workers are counted before the check whether the pool is
	 * closed: a close that does not see them is seen here; pairs with [pool.C2]
	 */
	rnl__full_barrier();
	for (unsigned i = from; i < to && rnl__tally_closed(&pool->outside[RNL__CHAINED]); i++)
		rnl__queue_close(&rnl__worker_at(pool, i)->queue);
}

/* Makes workers [from, to) serve: all of them, or, if one fails, none.  Returns 0 or the error. */
static int bring_in(struct rnl_pool *pool, unsigned from, unsigned to)
{
	int ret = make_workers(pool, to);

	if (ret)
		return ret;

	/* relaxed: `resizing` is held */
	atomic_store_explicit(&pool->start_error, 0, memory_order_relaxed);
	for (unsigned i = from; i < to && !ret; i++) {
		struct rnl__worker *w = rnl__worker_at(pool, i);

		command(pool, w, RNL__SERVE);
		if (!w->started)
			ret = start_thread(w);
		if (ret) {
			/* relaxed: no thread reads it */
			atomic_store_explicit(&w->commands, 0, memory_order_relaxed);
			(void)rnl__latch_drop(&pool->moving, 1);
		}
	}
	await_commands(pool);
	if (!ret)
		/* relaxed: the latch has published it */
		ret = atomic_load_explicit(&pool->start_error, memory_order_relaxed);
	if (!ret) {
		if (to > rnl__pool_nr_workers(pool))
			count_workers(pool, rnl__pool_nr_workers(pool), to);
		warn_of_connections(pool);
		return 0;
	}
	send_away(pool, from, to);
	for (unsigned i = from; i < to; i++) {
		if (rnl__worker_at(pool, i)->started)
			end_thread(rnl__worker_at(pool, i));
	}
	return ret;
}

/* ---- the trace ----------------------------------------------------------- */

void rnl__staff_set_tracks(struct rnl_pool *pool, struct rnl__tracks *tracks)
{
	pthread_mutex_lock(&pool->resizing);
	/* relaxed: the commands publish it, and the start of a thread */
	atomic_store_explicit(&pool->tracks, tracks, memory_order_relaxed);
	for (unsigned i = 0; i < pool->nr_made; i++) {
		if (rnl__worker_at(pool, i)->started)
			command(pool, rnl__worker_at(pool, i), RNL__TRACE);
	}
	await_commands(pool);
	pthread_mutex_unlock(&pool->resizing);
}

/* ---- the staff ----------------------------------------------------------- */

static uint64_t staff_part(uint64_t whole, unsigned nr)
{
	return (whole + nr - 1) / nr;
}

/* Divides the pool's bounds among the queues of the staff. */
static void bound_queues(struct rnl_pool *pool, unsigned nr)
{
	const unsigned first = pool->nr_class_workers;

	for (unsigned i = first; i < first + nr; i++)
		rnl__queue_bound(&rnl__worker_at(pool, i)->queue, staff_part(pool->max_queued, nr));
}

static void staff_publish(struct rnl_pool *pool, struct rnl__staff staff)
{
	/* [pool.T2] release: the staff's workers serve; pairs with [pool.T1] */
	atomic_store_explicit(&pool->staff, (uint64_t)staff.generation << 32 | staff.nr,
			      memory_order_release);
}

/* Makes the workers take from the keyed lanes of this generation. */
static void serve_generation(struct rnl_pool *pool, struct rnl__staff staff)
{
	rnl__tsan_release(&pool->serving);
	/* [pool.T4] release: all earlier keyed jobs are done; pairs with [pool.T3] */
	atomic_store_explicit(&pool->serving, staff.generation, memory_order_release);
	/* [staff.S1] full barrier: the lane is open before the wakes; pairs with [park.S1] */
	rnl__full_barrier();
	for (unsigned i = pool->nr_class_workers; i < pool->nr_class_workers + staff.nr; i++)
		(void)rnl__park_wake(&rnl__worker_at(pool, i)->park);
}

int rnl__staff_start(struct rnl_pool *pool, unsigned nr)
{
	struct rnl__staff staff = { .generation = (uint32_t)RNL__START(31, 2), .nr = nr };
	const unsigned first = pool->nr_class_workers;
	int ret = bring_in(pool, first, first + nr);

	if (ret)
		return ret;
	bound_queues(pool, nr);
	for (unsigned i = first; i < first + nr; i++) {
		rnl__queue_open_lane(&rnl__worker_at(pool, i)->queue, staff.generation);
		rnl__queue_serve(&rnl__worker_at(pool, i)->queue);
	}
	staff_publish(pool, staff);
	serve_generation(pool, staff);
	return 0;
}

/*
 * Changes the staff.  Workers that join it serve already; workers that leave it serve until their
 * jobs are done.
 */
static void change_staff(struct rnl_pool *pool, struct rnl__staff old, unsigned nr)
{
	struct rnl__staff staff = {
		.generation = old.generation + 1,
		.nr = nr,
	};
	unsigned first = pool->nr_class_workers;

	bound_queues(pool, nr);
	for (unsigned i = first; i < first + nr; i++) {
		rnl__queue_open_lane(&rnl__worker_at(pool, i)->queue, staff.generation);
		rnl__queue_serve(&rnl__worker_at(pool, i)->queue);
	}
	staff_publish(pool, staff);
	for (unsigned i = first + nr; i < first + old.nr; i++)
		rnl__queue_leave(&rnl__worker_at(pool, i)->queue);
	for (unsigned i = first; i < first + old.nr; i++)
		rnl__queue_shut_lane(&rnl__worker_at(pool, i)->queue, old.generation);
	/* Other workers may have space now. */
	rnl__pool_wake_spaces(pool);
	/* The new workers sleep, and no submit has seen them idle yet. */
	for (unsigned i = first + old.nr; i < first + nr; i++)
		(void)rnl__park_wake(&rnl__worker_at(pool, i)->park);
	for (unsigned i = first; i < first + old.nr; i++) {
		if (!rnl__queue_lane_done(&rnl__worker_at(pool, i)->queue, old.generation))
			command(pool, rnl__worker_at(pool, i), RNL__HAND_OVER);
	}
	await_commands(pool);
	serve_generation(pool, staff);
}

static int resize(struct rnl_pool *pool, unsigned nr)
{
	struct rnl__staff old = rnl__pool_staff(pool);
	unsigned first = pool->nr_class_workers;
	int ret = 0;

	if (rnl__pool_closed(pool))
		return -ESHUTDOWN;
	if (nr > old.nr)
		ret = bring_in(pool, first + old.nr, first + nr);
	if (ret || nr == old.nr)
		return ret;
	change_staff(pool, old, nr);
	if (nr < old.nr)
		send_away(pool, first + nr, first + old.nr);
	return 0;
}

int rnl_pool_resize(struct rnl_pool *pool, unsigned nr_workers)
{
	RNL__UNCANCELLED();
	int ret = rnl__pool_given(pool, "rnl_pool_resize()");
	struct rnl__range range;

	if (ret)
		return ret;
	range = (struct rnl__range){ "nr_workers", nr_workers, pool->devices.nr, RNL_WORKERS_MAX - pool->nr_class_workers };
	if (rnl__check_ranges(&pool->log, "rnl_pool_resize()", &range, 1))
		return -EINVAL;
	if (rnl__pool_worker(pool))
		return rnl__pool_waits_for_itself(pool, "rnl_pool_resize()");
	pthread_mutex_lock(&pool->resizing);
	ret = resize(pool, nr_workers);
	pthread_mutex_unlock(&pool->resizing);
	return ret;
}

/* ---- workers of classes -------------------------------------------------- */

static uint64_t bits_of(unsigned first, unsigned nr)
{
	return (nr < 64 ? (UINT64_C(1) << nr) - 1 : UINT64_MAX) << first;
}

/* Returns the first of @nr workers in a row that no class has, or -1. */
static int find_row(struct rnl_pool *pool, unsigned nr)
{
	for (unsigned first = 0; first + nr <= pool->nr_class_workers; first++)
		if (!(rnl__peek(&pool->class_workers) & bits_of(first, nr)))
			return (int)first;
	return -1;
}

/* Prepares a worker that does not serve.  A thread with another stream ends. */
static void prepare_own(struct rnl__worker *w, const struct rnl__own *like)
{
	struct rnl__stream_wish *has = &w->own.stream;

	if (w->started && (has->level != like->stream.level || has->kept != like->stream.kept))
		end_thread(w);
	has->level = like->stream.level;
	has->kept = like->stream.kept;
	w->own.spin_ns = like->spin_ns;
}

static int lend(struct rnl_pool *pool, unsigned nr, const struct rnl__own *like, uint64_t *workers)
{
	const int first = find_row(pool, nr);
	int ret;

	if (rnl__pool_closed(pool))
		return -ESHUTDOWN;
	if (first < 0)
		return rnl__refused(&pool->log, -EAGAIN, "rnl_class_create(): nr_workers is %u, and classes "
				    "have %u of the %u workers (nr_class_workers) of the pool: that many in "
				    "a row are not free", nr, rnl__pool_nr_own(pool), pool->nr_class_workers);
	for (unsigned i = 0; i < nr; i++)
		prepare_own(rnl__worker_at(pool, (unsigned)first + i), like);
	ret = bring_in(pool, (unsigned)first, (unsigned)first + nr);
	if (ret)
		return ret;
	*workers = bits_of((unsigned)first, nr);
	rnl__figure_write(&pool->class_workers, rnl__peek(&pool->class_workers) | *workers);
	return 0;
}

int rnl__staff_lend(struct rnl_pool *pool, unsigned nr, const struct rnl__own *like, uint64_t *workers)
{
	int ret;

	pthread_mutex_lock(&pool->resizing);
	ret = lend(pool, nr, like, workers);
	pthread_mutex_unlock(&pool->resizing);
	return ret;
}

void rnl__staff_assign(struct rnl_pool *pool, uint64_t workers, unsigned class)
{
	for (uint64_t bits = workers; bits; bits &= bits - 1) {
		struct rnl__worker *w = rnl__worker_at(pool, (unsigned)__builtin_ctzll(bits));

		if (class)
			rnl__queue_serve(&w->queue);
		else
			rnl__queue_leave(&w->queue);
		rnl__figure_write(&w->own.class, class);
	}
	/* [staff.S2] full barrier: like [staff.S1], for workers that slept away; pairs with [park.S1] */
	rnl__full_barrier();
	for (uint64_t bits = workers; bits; bits &= bits - 1)
		(void)rnl__park_wake(&rnl__worker_at(pool, (unsigned)__builtin_ctzll(bits))->park);
}

void rnl__staff_take_back(struct rnl_pool *pool, uint64_t workers)
{
	const unsigned first = workers ? (unsigned)__builtin_ctzll(workers) : 0;

	if (!workers)
		return;
	pthread_mutex_lock(&pool->resizing);
	rnl__staff_assign(pool, workers, 0);
	send_away(pool, first, first + (unsigned)__builtin_popcountll(workers));
	rnl__figure_write(&pool->class_workers, rnl__peek(&pool->class_workers) & ~workers);
	pthread_mutex_unlock(&pool->resizing);
}

/* ---- the end ------------------------------------------------------------- */

void rnl__staff_dismiss(struct rnl_pool *pool)
{
	/* The thread of a worker that was sent away still exists. */
	for (unsigned i = 0; i < pool->nr_made; i++) {
		if (rnl__worker_at(pool, i)->started)
			rnl__worker_command(rnl__worker_at(pool, i), RNL__END);
	}
	for (unsigned i = 0; i < pool->nr_made; i++) {
		if (rnl__worker_at(pool, i)->started)
			await_end(rnl__worker_at(pool, i));
	}
}
