/* SPDX-License-Identifier: MIT */
/*
 * A pool's life: creating, closing, draining, destroying.
 *
 * DESIGN
 *	A worker is allocated when it is first started, and stays until the pool is freed: so a
 *	pointer to a worker is never stale.
 *	A drain compares the number of jobs that the queues accepted with the number that the
 *	workers have released.  A worker that becomes idle or leaves wakes the drain.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/class.h>
#include <runnel/guard.h>

#include "sys/abi.h"
#include "sys/clock.h"
#include "sys/counter.h"
#include "sys/cpus.h"
#include "sys/sizes.h"
#include "sys/text.h"
#include "pool/attach.h"
#include "pool/classes.h"
#include "pool/guard.h"
#include "pool/holds.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "stats/top.h"
#include "watch/nvtx.h"
#include "worker/timer_thread.h"
#include "worker/staff.h"
#include "sys/thread_state.h"
#include "sys/thread.h"

#define CREATE "rnl_pool_create()"
#define WORKERS_DEFAULT 8
#define QUEUED_DEFAULT 65536
#define IN_FLIGHT_DEFAULT 64
#define IN_FLIGHT_DEFAULT_NS 1000000
#define IN_FLIGHT_MAX 1000	/* at 1021 launches a CUDA stream blocks its caller */
#define SPIN_DEFAULT_NS 50000	/* a small job on a GPU takes this long, and so does a wake */
#define WATCHDOG_DEFAULT_MS 100
#define STUCK_DEFAULT_MS 1000
#define TIME_EVERY_DEFAULT 64
#define STAGING_DEFAULT (32u << 20)
#define SCRATCH_DEFAULT (64u << 20)
#define MEMORY_UNKNOWN (1u << 30) /* bytes, if the system does not report its memory */
/*
 * Submits until a thread's usual worker is chosen anew.  On the host device a job may take less
 * time than the choice.  On a GPU a job takes microseconds, and unevenly loaded streams cost more
 * than the choice, so each submit chooses.
 */
#define HOME_FOR 15

_Static_assert(sizeof(struct rnl_job) <= 128, "a job is two cache lines");

/* ---- creating ------------------------------------------------------------ */

/* Sets how long threads spin: a thread that spins on a CPU that another needs delays both. */
static void set_spins(struct rnl_pool *pool, const struct rnl_pool_attr *attr)
{
	const unsigned cpus = rnl__cpus();

	if (attr->spin_us) {
		pool->spin_ns = attr->spin_us > 0 ? (uint64_t)attr->spin_us * 1000 : 0;
		return;
	}
	pool->spin_ns = cpus > attr->nr_workers ? SPIN_DEFAULT_NS : RNL__SPIN_CROWDED_NS;
	pool->spin_cpus = cpus;
}

/* Replaces attributes that are 0 by their defaults, except nr_workers: share_workers(). */
static void life_fill_in(struct rnl_pool_attr *attr)
{
	const uint64_t memory = rnl__devices_host_memory();

	if (!attr->max_queued)
		attr->max_queued = QUEUED_DEFAULT;
	if (!attr->max_in_flight)
		attr->max_in_flight = IN_FLIGHT_DEFAULT;
	if (!attr->in_flight_ns)
		attr->in_flight_ns = IN_FLIGHT_DEFAULT_NS;
	if (!attr->watchdog_ms)
		attr->watchdog_ms = WATCHDOG_DEFAULT_MS;
	if (!attr->stuck_ms)
		attr->stuck_ms = STUCK_DEFAULT_MS;
	if (!attr->time_every)
		attr->time_every = TIME_EVERY_DEFAULT;
	if (!attr->name)
		attr->name = "rnl-worker";
	if (!attr->pinned_max)
		attr->pinned_max = (memory ? memory : MEMORY_UNKNOWN) / 4;
	if (!attr->staging_max)
		attr->staging_max = STAGING_DEFAULT;
	if (!attr->scratch_keep)
		attr->scratch_keep = SCRATCH_DEFAULT;
}

static int life_check_attr(const struct rnl_pool_attr *attr)
{
	const struct rnl__log log = { attr->log, attr->log_arg };
	const unsigned most = attr->cpus ? rnl__cpus_most() : 0;
	const struct rnl__range ranges[] = {
		{ "nr_class_workers", attr->nr_class_workers, 0, RNL_CLASS_WORKERS_MAX },
		{ "nr_workers", rnl__larger(attr->nr_workers, 1), 1,
		  RNL_WORKERS_MAX - attr->nr_class_workers },
		{ "stream", attr->stream, 0, RNL_STREAM_PRIVATE },
		{ "max_in_flight", attr->max_in_flight, 1, IN_FLIGHT_MAX },
		{ "guard", attr->guard, 0, RNL_GUARD_STRICT },
		{ "pinned_preload", attr->pinned_preload, 0, attr->pinned_max },
	};

	if (attr->kept_sms && attr->stream != RNL_STREAM_PRIVATE)
		return rnl__invalid(&log, CREATE ": kept_sms is %u, and stream is %u; it must be "
				    "RNL_STREAM_PRIVATE (%d), because a per-thread stream always uses "
				    "all SMs", attr->kept_sms, attr->stream, RNL_STREAM_PRIVATE);
	if (attr->kept_sms && !attr->nr_class_workers)
		return rnl__invalid(&log, CREATE ": kept_sms is %u, and nr_class_workers is 0; SMs are "
				    "kept for workers of classes", attr->kept_sms);
	if (attr->spin_us < -1)
		return rnl__invalid(&log, CREATE ": spin_us is %d; it must be -1 or more",
				    attr->spin_us);
	if (!attr->cpus != !attr->nr_cpus)
		return rnl__invalid(&log, CREATE ": cpus is %s, and nr_cpus is %u",
				    attr->cpus ? "set" : "NULL", attr->nr_cpus);
	for (unsigned i = 0; attr->cpus && i < attr->nr_cpus; i++) {
		if (attr->cpus[i] >= most)
			return rnl__invalid(&log, CREATE ": cpus[%u] is %u; the system has CPUs "
					    "0 to %u at most", i, attr->cpus[i], most - 1);
	}
	return rnl__check_ranges(&log, CREATE, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

/* Reads the caller's attributes, with defaults for those that are 0, except nr_workers. */
static int read_attr(struct rnl_pool_attr *attr, const struct rnl_pool_attr *user_attr)
{
	int ret = rnl__copy_in(attr, sizeof(*attr), user_attr, RNL__FIRST_POOL_ATTR);

	if (ret)
		return rnl__bad_struct(NULL, CREATE, "the attributes", user_attr, ret);
	life_fill_in(attr);
	return life_check_attr(attr);
}

/* Fills in nr_workers.  Checks that each device gets a worker. */
static int share_workers(struct rnl_pool_attr *attr, unsigned nr_devices)
{
	const struct rnl__log log = { attr->log, attr->log_arg };
	const unsigned most = RNL_WORKERS_MAX - attr->nr_class_workers;
	uint64_t nr = rnl__smaller(rnl__cpus(), WORKERS_DEFAULT * nr_devices);

	if (!attr->nr_workers)
		attr->nr_workers = (uint32_t)rnl__smaller(rnl__larger(nr, nr_devices), most);
	if (attr->nr_workers < nr_devices)
		return rnl__invalid(&log, CREATE ": nr_workers is %u; \"%s\" has %u devices, and "
				    "each needs a worker", attr->nr_workers, attr->device, nr_devices);
	return 0;
}

static int copy_cpus(struct rnl_pool *pool, const struct rnl_pool_attr *attr)
{
	if (!attr->nr_cpus)
		return 0;
	pool->cpus = malloc(attr->nr_cpus * sizeof(*pool->cpus));
	if (!pool->cpus)
		return -ENOMEM;
	memcpy(pool->cpus, attr->cpus, attr->nr_cpus * sizeof(*pool->cpus));
	pool->nr_cpus = attr->nr_cpus;
	return 0;
}

static void take_attr(struct rnl_pool *pool, const struct rnl_pool_attr *attr)
{
	pool->generation = rnl__generation;
	pool->stream = attr->stream;
	rnl__unit_check_init(pool);
	pool->nr_class_workers = attr->nr_class_workers;
	pool->home_for = rnl__pool_any_device(pool)->counts ? HOME_FOR : 0;
	/* Rounds up to a power of two. */
	while (pool->time_mask < attr->time_every - 1 && pool->time_mask < UINT32_MAX)
		pool->time_mask = pool->time_mask << 1 | 1;
	pool->max_queued = attr->max_queued;
	pool->max_in_flight = attr->max_in_flight;
	pool->enough_ns = attr->in_flight_ns;
	pool->watchdog_ns = 1000000ull * attr->watchdog_ms;
	pool->stuck_ns = 1000000ull * attr->stuck_ms;
	pool->log = (struct rnl__log){ attr->log, attr->log_arg };
	pool->on_start = attr->on_start;
	pool->on_stop = attr->on_stop;
	pool->hook_arg = attr->hook_arg;
	pool->scratch_keep = attr->scratch_keep;
	pool->staging_max = attr->staging_max;
	rnl__text_copy(pool->name, sizeof(pool->name), attr->name);
	set_spins(pool, attr);
}

static void init_parts(struct rnl_pool *pool)
{
	struct rnl__eventcount *eventcounts[] = {
		&pool->space, &pool->space_batch, &pool->drained,
	 &pool->timer.eventcount, &pool->timer.cancelled,
	};

	for (unsigned i = 0; i < sizeof(eventcounts) / sizeof(eventcounts[0]); i++)
		rnl__eventcount_init(eventcounts[i]);
	atomic_init(&pool->cancels, (uint32_t)(RNL__START(31, 2) * RNL__POOL_CANCEL));
	atomic_init(&pool->timer.cancels, (uint32_t)RNL__START(32, 2));
	atomic_init(&pool->timer.outside, (uint32_t)RNL__START(32, 2));
	pthread_mutex_init(&pool->resizing, NULL);
	rnl__waitq_init(&pool->waitq);
	pthread_mutex_init(&pool->tracing, NULL);
	pthread_mutex_init(&pool->waiting, NULL);
	for (unsigned i = 0; i < pool->devices.nr; i++)
		rnl__event_cache_init(&pool->timers[i], pool->devices.list[i]);
	rnl__outside_init(pool);
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++)
		pool->of_device[i % pool->devices.nr][i / 64] |= UINT64_C(1) << i % 64;
	rnl__idle_set_init(&pool->idle_set, pool->parks);
	rnl__idle_set_init(&pool->class_idle_set, pool->parks);
	rnl__worker_init(&pool->timer.self, pool, RNL__TIMER);
}

/* Creates the parts whose creation may fail; the workers last. */
static int life_make_parts(struct rnl_pool *pool, const struct rnl_pool_attr *attr)
{
	int ret = copy_cpus(pool, attr);

	if (pool->devices.nr > 1)
		rnl__pool_any_device(pool)->ops->meet(pool->devices.list, pool->devices.nr);
	if (!ret && attr->kept_sms)
		ret = rnl__attach_keep_sms(pool, attr->kept_sms, CREATE);
	if (!ret)
		ret = rnl__guard_create(pool, attr->guard);
	if (!ret)
		ret = rnl__pinned_create(&pool->pinned, rnl__pool_any_device(pool), attr->pinned_max,
					 attr->pinned_preload);
	if (!ret)
		ret = rnl__timer_start(pool);
	if (!ret && attr->top)
		ret = rnl__top_start(pool, attr->top);
	return ret ? ret : rnl__staff_start(pool, attr->nr_workers);
}

static void free_pool(struct rnl_pool *pool)
{
	rnl__top_end(pool);
	rnl__timer_end(pool);
	for (unsigned i = 0; i < pool->nr_made; i++) {
		struct rnl__worker *w = rnl__worker_at(pool, i);

		rnl__inflight_fini(&w->inflight);
		rnl__staging_fini(&w->staging);
		rnl__gather_fini(&w->gather);
		rnl__holds_fini(&w->holds);
		rnl__nvtx_destroy(w->ranges);
		free(w->timing);
	}
	for (unsigned i = 0; i < pool->devices.nr; i++)
		rnl__event_cache_fini(&pool->timers[i]);
	rnl__pinned_destroy(pool->pinned);
	rnl__guard_destroy(pool->guard);
	rnl__attach_free_sms(pool);
	for (unsigned i = 0; i < pool->devices.nr; i++)
		pool->devices.list[i]->ops->trim(pool->devices.list[i]);
	pthread_mutex_destroy(&pool->resizing);
	pthread_mutex_destroy(&pool->tracing);
	pthread_mutex_destroy(&pool->waiting);
	for (unsigned i = 0; i < pool->nr_made; i++)
		free(rnl__worker_at(pool, i));
	rnl__classes_free(pool);
	free(pool->cpus);
	free(pool);
}

static int open_devices(const struct rnl_pool_attr *attr, struct rnl__devices *devices)
{
	const struct rnl__log log = { attr->log, attr->log_arg };
	char why[RNL__WHY_BYTES];
	int ret = rnl__devices_open(attr->device, devices, why);

	if (ret)
		rnl__log(&log, RNL_LOG_ERROR, CREATE ": device is \"%s\": %s",
			 attr->device ? attr->device : "auto", why);
	else if (why[0])
		rnl__log(&log, rnl__units_have(RNL__UNITS_RAW) ? RNL_LOG_WARNING : RNL_LOG_INFO, CREATE
			 ": device is \"auto\": %s. So the pool is on the host device", why);
	return ret;
}

/* Logs what was chosen for attributes that are 0, and for the machine. */
static void log_choices(struct rnl_pool *pool, const struct rnl_pool_attr *attr)
{
	const struct rnl__device *device = rnl__pool_any_device(pool);
	char name[RNL__DEVICE_NAME_BYTES];

	if (!rnl__log_wants(&pool->log, RNL_LOG_DEBUG))
		return;
	rnl__device_name(device, name);
	rnl__pool_log(pool, RNL_LOG_DEBUG, CREATE ": \"%s\": %u devices, the first is %s, \"%s\"; %u "
		      "workers with %s streams, and %u for classes; the process may use %u CPUs; "
		      "spin_us %u; max_queued %u; max_in_flight %u; pinned_max %llu MiB; kept_sms %u; "
		      "marks are %s", pool->name, pool->devices.nr, name, device->info.name,
		      attr->nr_workers,
		      attr->stream == RNL_STREAM_PRIVATE ? "private" : "per-thread",
		      attr->nr_class_workers, rnl__cpus(), (unsigned)(pool->spin_ns / 1000),
		      attr->max_queued, attr->max_in_flight,
		      (unsigned long long)(attr->pinned_max >> 20), attr->kept_sms,
		      device->info.stream_writes ? "written words" : "events");
}

int rnl_pool_create(struct rnl_pool **poolp, const struct rnl_pool_attr *user_attr)
{
	RNL__UNCANCELLED();
	struct rnl_pool_attr attr;
	struct rnl__devices devices;
	struct rnl_pool *pool;
	int ret;

	if (!poolp)
		return rnl__invalid(NULL, CREATE ": poolp is NULL");
	ret = read_attr(&attr, user_attr);
	if (!ret)
		ret = rnl__generation_start();
	if (!ret)
		ret = open_devices(&attr, &devices);
	if (!ret)
		ret = share_workers(&attr, devices.nr);
	if (ret)
		return ret;
	pool = aligned_alloc(RNL__CACHE_LINE, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	memset(pool, 0, sizeof(*pool));
	pool->devices = devices;
	take_attr(pool, &attr);
	init_parts(pool);
	ret = rnl__directory_enter(pool, &pool->known_as);
	if (!ret) {
		ret = life_make_parts(pool, &attr);
		if (ret)
			rnl__directory_leave(pool->known_as);
	}
	if (ret) {
		free_pool(pool);
		return ret;
	}
	log_choices(pool, &attr);
	*poolp = pool;
	return 0;
}

/* ---- ending -------------------------------------------------------------- */

static void life_close(struct rnl_pool *pool)
{
	unsigned nr;

	rnl__tally_close(&pool->outside[RNL__CHAINED]);
	rnl__tally_close(&pool->outside[RNL__CLASSED]);
	/*
	 * [pool.C2] full barrier: closed before the number of workers is read;
	 * pairs with [staff.C1]
	 */
	rnl__mb_after_rmw();
	/* Includes workers that do not serve: a concurrent resize may bring them in. */
	nr = rnl__pool_nr_workers(pool);
	for (unsigned i = 0; i < nr; i++)
		rnl__queue_close(&rnl__worker_at(pool, i)->queue);
	rnl__tally_close(&pool->outside[RNL__DELAYED]);
	/* Closed last: see rnl__pool_closed(). */
	rnl__tally_close(&pool->outside[RNL__DEFERRED]);
	rnl__timer_cancelled(pool, true);
	rnl__pool_wake_spaces(pool);
}

int rnl_pool_close(struct rnl_pool *pool)
{
	int ret = rnl__pool_given(pool, "rnl_pool_close()");

	if (!ret)
		life_close(pool);
	return ret;
}

/* A drain of a closed pool also waits for the notices of the pool's end. */
static bool drained(struct rnl_pool *pool)
{
	return rnl__pool_all_done(pool, rnl__pool_closed(pool));
}

int rnl_pool_drain(struct rnl_pool *pool, int64_t timeout_ns)
{
	uint64_t deadline = rnl__deadline(timeout_ns);
	int ret = rnl__pool_given(pool, "rnl_pool_drain()");

	if (ret)
		return ret;
	if (rnl__pool_worker(pool))
		return timeout_ns ? rnl__pool_waits_for_itself(pool, "rnl_pool_drain()") : -EBUSY;
	for (;;) {
		/*
		 * Workers that become idle, submits that return a reservation, and jobs that leave
		 * a tally change the counts, then wake: [pool.R1], [outside.L1].
		 */
		uint32_t listened = rnl__eventcount_prepare(&pool->drained);

		if (drained(pool))
			return 0;
		if (rnl__eventcount_wait(&pool->drained, listened, deadline))
			return drained(pool) ? 0 : -ETIMEDOUT;
	}
}

int rnl_pool_stop(struct rnl_pool *pool, int64_t timeout_ns)
{
	int ret = rnl__pool_given(pool, "rnl_pool_stop()");

	if (ret)
		return ret;
	life_close(pool);
	/* relaxed: see rnl__pool_stops() */
	atomic_fetch_or_explicit(&pool->cancels, RNL__POOL_STOPS, memory_order_relaxed);
	(void)rnl_pool_cancel(pool);
	return rnl_pool_drain(pool, timeout_ns);
}

struct held {
	const struct rnl_job *job;
	unsigned nr;
};

static void note_held(void *arg, const struct rnl_job *job, unsigned worker, uint64_t since)
{
	struct held *held = arg;

	(void)worker;
	(void)since;
	held->job = job;
	held->nr++;
}

/* Waits for all jobs.  Logs a job with unreleased holds, which would make the wait endless. */
static void await_all(struct rnl_pool *pool)
{
	struct held held = { 0 };

	while (rnl_pool_drain(pool, (int64_t)pool->stuck_ns)) {
		if (held.nr)
			continue;	/* it was logged */
		rnl__holds_list(pool, note_held, &held);
		if (held.nr)
			rnl__pool_log(pool, RNL_LOG_WARNING, "rnl_pool_destroy() waits for job %p, one of "
				      "%u whose holds nobody has released: release them, or give such "
				      "jobs a deadline", (const void *)held.job, held.nr);
	}
}

void rnl_pool_destroy(struct rnl_pool *pool)
{
	RNL__UNCANCELLED();

	if (rnl__pool_check(pool))
		return;		/* no pool, or the parent process's, whose workers are not here */
	life_close(pool);
	if (rnl__pool_worker(pool)) {
		rnl__pool_log(pool, RNL_LOG_ERROR,
			      "rnl_pool_destroy() on a worker of the pool: it is closed, "
			      "not freed");
		return;
	}
	await_all(pool);
	rnl__directory_leave(pool->known_as);
	if (pool->end_trace)
		pool->end_trace(pool);
	rnl__staff_dismiss(pool);
	free_pool(pool);
}
