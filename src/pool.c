/* SPDX-License-Identifier: MIT */
/*
 * Pools: their life.
 *
 * DESIGN
 *	A pool is one block of memory with its workers in it, constant from the
 *	end of its creation on but for queues, counters and who sleeps.
 *	Draining compares what the queues accepted with what the workers have
 *	let go of; a worker that falls idle has the drainers look again.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "clock.h"
#include "futex.h"
#include "latch.h"
#include "pool.h"
#include "self.h"

#define WORKERS_DEFAULT 8
#define QUEUED_DEFAULT 65536
#define IN_FLIGHT_DEFAULT 64
#define IN_FLIGHT_MAX 1000	/* a CUDA stream holds its caller at 1021 launches */
#define SPIN_DEFAULT_NS 20000
#define WATCHDOG_DEFAULT_MS 100
/*
 * Submits until the usual worker is chosen anew.  A job that is nothing but its
 * function takes less time than the choice; one for a GPU takes microseconds,
 * and streams that are not evenly loaded cost more.
 */
#define HOME_FOR 15
#define FIRST_ATTR_SIZE 56	/* of struct rnl_pool_attr in 0.1 */

_Static_assert(sizeof(struct rnl_pool_attr) >= FIRST_ATTR_SIZE, "attributes only grow");
_Static_assert(sizeof(struct rnl_job) <= 128, "a job is two cache lines");

int rnl__pool_check(const struct rnl_pool *pool)
{
	return pool ? rnl__generation_check(pool->generation) : -EINVAL;
}

bool rnl__pool_worker(const struct rnl_pool *pool)
{
	return rnl__self.worker && rnl__self.worker->pool == pool;
}

void rnl__pool_log(struct rnl_pool *pool, enum rnl_log_level level, const char *format, ...)
{
	char line[256];
	va_list ap;

	if (!pool->log)
		return;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	pool->log(pool->log_arg, level, line);
}

/* ---- creating ------------------------------------------------------------ */

static unsigned nr_cpus(void)
{
	cpu_set_t set;
	long online;

	if (!sched_getaffinity(0, sizeof(set), &set))
		return (unsigned)CPU_COUNT(&set);
	/* More CPUs than such a set can hold. */
	online = sysconf(_SC_NPROCESSORS_ONLN);
	return online > 0 ? (unsigned)online : 1;
}

static int check_attr(const struct rnl_pool_attr *attr)
{
	if (attr->nr_workers > RNL_WORKERS_MAX || attr->stream > RNL_STREAM_PRIVATE ||
	    attr->max_in_flight > IN_FLIGHT_MAX || attr->spin_us < -1 || attr->reserved)
		return -EINVAL;
	return 0;
}

static struct rnl_pool *allocate(unsigned nr_workers)
{
	size_t bytes = sizeof(struct rnl_pool) + nr_workers * sizeof(struct rnl__worker);
	struct rnl_pool *pool = aligned_alloc(RNL__CACHE_LINE, bytes);

	if (pool)
		memset(pool, 0, bytes);
	return pool;
}

static void apply(struct rnl_pool *pool, const struct rnl_pool_attr *attr)
{
	uint64_t queued = attr->max_queued ? attr->max_queued : QUEUED_DEFAULT;

	pool->generation = rnl__generation;
	pool->stream = attr->stream;
	pool->home_for = pool->device->counts ? HOME_FOR : 0;
	pool->max_in_flight = attr->max_in_flight ? attr->max_in_flight : IN_FLIGHT_DEFAULT;
	pool->watchdog_ns = 1000000ull *
			    (attr->watchdog_ms ? attr->watchdog_ms : WATCHDOG_DEFAULT_MS);
	pool->log = attr->log;
	pool->log_arg = attr->log_arg;
	/* A thread that spins on a CPU that another one needs makes both late. */
	if (attr->spin_us > 0)
		pool->spin_ns = (uint64_t)attr->spin_us * 1000;
	else if (!attr->spin_us)
		pool->spin_ns = nr_cpus() > pool->nr_workers ? SPIN_DEFAULT_NS : SPIN_DEFAULT_NS / 10;
	for (unsigned i = 0; i < pool->nr_workers; i++) {
		struct rnl__worker *w = &pool->workers[i];

		rnl__queue_init(&w->queue, (queued + pool->nr_workers - 1) / pool->nr_workers);
		rnl__park_init(&w->park, &pool->lot, i);
		w->pool = pool;
		w->index = i;
	}
}

/* Workers take no signal: handlers are the application's, on its threads. */
static int start_workers(struct rnl_pool *pool, unsigned *nr_started)
{
	sigset_t all, before;
	unsigned i;
	int ret = 0;

	rnl__latch_add(&pool->starting, pool->nr_workers);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (i = 0; i < pool->nr_workers && !ret; i++) {
		ret = -pthread_create(&pool->workers[i].thread, NULL, rnl__worker_main,
				      &pool->workers[i]);
		if (ret)
			break;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	*nr_started = i;
	if (i < pool->nr_workers)
		rnl__latch_drop(&pool->starting, pool->nr_workers - i);
	rnl__latch_wait(&pool->starting, 0, RNL__NEVER);
	if (ret)
		return ret;
	/* relaxed: the latch has published it */
	return atomic_load_explicit(&pool->start_error, memory_order_relaxed);
}

static void stop_workers(struct rnl_pool *pool, unsigned nr_started)
{
	/* relaxed: the barrier below orders it */
	atomic_store_explicit(&pool->stop, true, memory_order_relaxed);
	/* [pool.S1] full barrier: stop is set before we look who sleeps; pairs with [park.S1] */
	rnl__full_barrier();
	for (unsigned i = 0; i < nr_started; i++)
		rnl__park_wake(&pool->workers[i].park);
	for (unsigned i = 0; i < nr_started; i++)
		pthread_join(pool->workers[i].thread, NULL);
}

static void warn_of_connections(struct rnl_pool *pool)
{
	const char *value = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	int connections = value ? atoi(value) : 8;

	if (pool->device->info.cuda && connections > 0 && pool->nr_workers > (unsigned)connections)
		rnl__pool_log(pool, RNL_LOG_WARNING,
			      "%u workers share %d hardware queues: call rnl_setup() first in "
			      "main(), or set CUDA_DEVICE_MAX_CONNECTIONS=32",
			      pool->nr_workers, connections);
}

int rnl_pool_create(struct rnl_pool **poolp, const struct rnl_pool_attr *user_attr)
{
	struct rnl_pool_attr attr;
	struct rnl__device *device;
	struct rnl_pool *pool;
	unsigned nr_started;
	int ret;

	if (!poolp)
		return -EINVAL;
	ret = rnl__copy_in(&attr, sizeof(attr), user_attr, FIRST_ATTR_SIZE);
	if (!ret)
		ret = check_attr(&attr);
	if (!ret)
		ret = rnl__generation_start();
	if (!ret)
		ret = rnl__device_open(attr.device, &device);
	if (ret)
		return ret;
	if (!attr.nr_workers)
		attr.nr_workers = nr_cpus() < WORKERS_DEFAULT ? nr_cpus() : WORKERS_DEFAULT;
	pool = allocate(attr.nr_workers);
	if (!pool)
		return -ENOMEM;
	pool->device = device;
	pool->nr_workers = attr.nr_workers;
	apply(pool, &attr);
	ret = start_workers(pool, &nr_started);
	if (ret) {
		stop_workers(pool, nr_started);
		free(pool);
		return ret;
	}
	warn_of_connections(pool);
	*poolp = pool;
	return 0;
}

/* ---- ending -------------------------------------------------------------- */

int rnl_pool_close(struct rnl_pool *pool)
{
	int ret = rnl__pool_check(pool);

	for (unsigned i = 0; !ret && i < pool->nr_workers; i++)
		rnl__queue_close(&pool->workers[i].queue);
	return ret;
}

/*
 * True if at some moment during the call every job accepted was let go of.
 * False may be for a reservation that is being taken back: its submit tells.
 */
static bool settled(struct rnl_pool *pool)
{
	uint64_t accepted = 0, done = 0;

	for (unsigned i = 0; i < pool->nr_workers; i++)
		/* [pool.D1] acquire: what is counted is let go of; pairs with [worker.D1] */
		done += atomic_load_explicit(&pool->workers[i].settled, memory_order_acquire);
	/* Counted after: a job that came in between makes the sums differ. */
	for (unsigned i = 0; i < pool->nr_workers; i++)
		accepted += rnl__queue_accepted(&pool->workers[i].queue);
	return accepted == done;
}

void rnl__pool_settle(struct rnl_pool *pool)
{
	/* relaxed: the caller's full barrier stands before it; pairs with [pool.D2] */
	if (!atomic_load_explicit(&pool->drainers, memory_order_relaxed))
		return;
	/* [pool.D3] release: our counts, to who sees the turn; pairs with [pool.D4] */
	atomic_fetch_add_explicit(&pool->idle_turn, 1, memory_order_release);
	rnl__futex_wake(&pool->idle_turn, INT_MAX);
}

int rnl_pool_drain(struct rnl_pool *pool, int64_t timeout_ns)
{
	uint64_t deadline = rnl__deadline(timeout_ns);
	int ret = rnl__pool_check(pool);

	if (ret)
		return ret;
	if (rnl__pool_worker(pool))
		return -EBUSY;
	/* relaxed: the barrier below orders it */
	atomic_fetch_add_explicit(&pool->drainers, 1, memory_order_relaxed);
	/*
	 * [pool.D2] full barrier: we are counted before we look at the
	 * counts; workers that fall idle, and submits that take back what they
	 * reserved, count, then look for us, with [worker.D2], [pool.D5]
	 * between.  So the last of them is seen, or sees us.
	 */
	rnl__full_barrier();
	for (;;) {
		/* [pool.D4] acquire: counts as of that turn; pairs with [pool.D3] */
		uint32_t turn = atomic_load_explicit(&pool->idle_turn, memory_order_acquire);

		if (settled(pool))
			break;
		ret = rnl__futex_wait(&pool->idle_turn, turn, deadline);
		if (ret && !settled(pool))
			break;
		ret = 0;
	}
	/* relaxed: nobody acts on its end */
	atomic_fetch_sub_explicit(&pool->drainers, 1, memory_order_relaxed);
	return ret;
}

void rnl_pool_destroy(struct rnl_pool *pool)
{
	if (rnl_pool_close(pool))
		return;		/* none, or a parent's: its workers are not here */
	if (rnl_pool_drain(pool, RNL_FOREVER)) {
		rnl__pool_log(pool, RNL_LOG_ERROR,
			      "rnl_pool_destroy() on a worker of the pool: it is closed, not freed");
		return;
	}
	stop_workers(pool, pool->nr_workers);
	free(pool);
}

/* ---- told by submits and barriers ------------------------------------------ */

void rnl__pool_start(struct rnl_job *job)
{
	struct rnl_pool *pool = job->pool;
	struct rnl__worker *w = &pool->workers[job->worker];
	bool keyed = job->flags & RNL__JOB_KEYED;

	rnl__queue_put(&w->queue, job);
	/* From here on the job may be done, and gone. */
	if (!rnl__park_wake(&w->park) && !keyed)
		rnl__lot_wake_one(&pool->lot);
}

/* ---- looking at it ------------------------------------------------------- */

int rnl_pool_device(struct rnl_pool *pool, struct rnl_device_info *info)
{
	int ret = rnl__pool_check(pool);

	if (!ret)
		ret = rnl__check_out(info, sizeof(*info));
	if (!ret)
		rnl__copy_out(info, &pool->device->info, sizeof(*info));
	return ret;
}

int rnl_pool_stats(struct rnl_pool *pool, struct rnl_pool_stats *stats)
{
	struct rnl_pool_stats sum = { .size = sizeof(sum) };
	int ret = rnl__pool_check(pool);

	if (!ret)
		ret = rnl__check_out(stats, sizeof(sum));
	if (ret)
		return ret;
	sum.nr_workers = pool->nr_workers;
	for (unsigned i = 0; i < pool->nr_workers; i++) {
		struct rnl__worker *w = &pool->workers[i];

		/* relaxed, all of them: figures */
		sum.done += atomic_load_explicit(&w->completed, memory_order_relaxed);
		/* relaxed */
		sum.failed += atomic_load_explicit(&w->failed, memory_order_relaxed);
		/* relaxed */
		sum.stolen += atomic_load_explicit(&w->stolen, memory_order_relaxed);
		/* relaxed */
		sum.slept += atomic_load_explicit(&w->slept, memory_order_relaxed);
		sum.in_flight += rnl__inflight_nr(&w->inflight);
		sum.queued += rnl__queue_length(&w->queue);
		sum.accepted += rnl__queue_accepted(&w->queue);
	}
	rnl__copy_out(stats, &sum, sizeof(sum));
	return 0;
}
