/* SPDX-License-Identifier: MIT */
/* A pool: what its workers and its callers share. */
#ifndef RNL_POOL_H
#define RNL_POOL_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "sys/eventcount.h"
#include "sys/log.h"
#include "device/devices.h"
#include "memory/pinned.h"
#include "sys/thread_state.h"
#include "memory/event_cache.h"
#include "pool/directory.h"
#include "pool/timer.h"
#include "pool/waitq.h"
#include "pool/tally.h"
#include "pool/worker.h"

#define RNL__SPIN_CROWDED_NS 2000	/* a spin with no CPU to spare */

/* The staff: a generation, and how many workers serve beside the urgent ones. */
struct rnl__staff {
	uint32_t generation;
	uint32_t nr;
};

/* Why an accepted job is in no queue: outside.h. */
enum rnl__outside {
	RNL__DEFERRED,	/* it waits for a barrier's round, or for its place in an order */
	RNL__CHAINED,	/* it runs after another job, or reports the end of a barrier's round */
	RNL__DELAYED,	/* the timer thread has it: it waits for its time, or for space */
	RNL__LAST,	/* the timer thread has it: it waits for the pool's end */
	RNL__OPERATION,	/* no job: a map, or a moment in which the library has a job of its own */
	RNL__OUTSIDE_NR
};

/* In `cancels`. */
#define RNL__POOL_STOPS 1u	/* rnl_pool_stop() was called: no job starts */
#define RNL__POOL_CANCEL 2u

struct rnl__guard;
struct rnl__trace;
struct rnl__waits;

struct rnl_pool {
	/* Constant once created. */
	struct rnl__devices devices;	/* worker i has the (i % devices.nr)-th */
	uint64_t of_device[RNL_DEVICES_MAX][RNL__IDLE_SET_WORDS]; /* its workers, a bit each */
	struct rnl__guard *guard;	/* NULL: off */
	enum rnl_stream_kind stream;
	uint32_t refuses;	/* bits of rnl__units_have: its jobs' units are looked at */
	_Atomic uint32_t unit_reported; /* what unit_check.c has logged */
	unsigned generation;		/* rnl__generation of the process that made it */
	unsigned nr_urgent;		/* the first of the workers */
	unsigned max_in_flight;
	uint64_t enough_ns;		/* jobs that a worker issues keep its stream busy for this */
	unsigned home_for;		/* submits to the usual worker in a row; 0: on a GPU */
	uint32_t time_mask;		/* one job in this + 1 is timed */
	/* The workers'; staff.c alone changes the pointer; NULL: no trace runs. */
	_Atomic(struct rnl__tracks *) tracks;
	uint64_t max_queued;
	uint64_t spin_ns;		/* before a sleep */
	unsigned spin_cpus;		/* an idle worker's spin goes by these; 0: by the above */
	uint64_t watchdog_ns;
	uint64_t stuck_ns;
	struct rnl__log log;
	rnl_worker_start_fn *on_start;
	rnl_worker_stop_fn *on_stop;
	void *hook_arg;
	uint16_t *cpus;			/* ours; NULL: anywhere */
	unsigned nr_cpus;
	char name[64];
	uint64_t scratch_keep, staging_max;
	struct rnl__pinned *pinned;

	struct rnl__idle_set idle_set;		/* of the workers that are not urgent */
	struct rnl__idle_set urgent_idle_set;

	/* Changed by resizes: staff.c. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t staff; /* generation << 32 | nr */
	_Atomic uint32_t serving;	/* the generation whose keyed jobs run */
	_Atomic uint32_t nr_workers;	/* that were ever started, and have streams */
	_Atomic uint32_t cancels;	/* of all jobs at once, each RNL__POOL_CANCEL; | _STOPS */

	/* Read with every job, written when a thread waits. */
	_Alignas(RNL__CACHE_LINE) struct rnl__eventcount
		space[2]; /* open submits wait; [1]: urgent */
	struct rnl__eventcount space_batch;	/* reservations of batchers wait */
	_Atomic uint32_t nr_for_space;	/* notices for RNL_SPACE that the timer thread has */
	struct rnl__waitq waitq; /* submits of jobs that wait outside of the queues */
	struct rnl__eventcount drained;	/* drains wait */
	_Atomic bool failure_logged;
	_Atomic bool positive_logged;	/* that a job's function returned a positive number */

	/* Of resizes alone. */
	_Alignas(RNL__CACHE_LINE) pthread_mutex_t resizing;
	_Atomic uint32_t moving;	/* latch: workers that have yet to follow a command */
	_Atomic int start_error;	/* of the first worker that could not start */
	unsigned nr_made;		/* workers that there are; the first `nr_workers` have streams */

	struct rnl__event_cache timers[RNL_DEVICES_MAX]; /* of maps */

	pthread_mutex_t tracing;	/* a thread has it that starts or ends a trace */
	struct rnl__trace *trace;	/* the one that runs, or NULL; under `tracing` */
	void (*end_trace)(struct rnl_pool *pool); /* ends one that runs; NULL: none ever ran */
	struct rnl__top *top;		/* the socket of figures, or NULL */
	pthread_mutex_t waiting;	/* a thread has it that notes a wait */
	struct rnl__waits *waits;	/* the trace's list, or NULL; under `waiting` */

	struct rnl__tally outside[RNL__OUTSIDE_NR]; /* by reason: outside.h */
	struct rnl__name known_as;	/* to holds, which may be released when it is gone */
	struct rnl__timer timer;
	/* Of the workers that there are; a worker stays until the pool is freed. */
	struct rnl__park *parks[RNL_WORKERS_MAX];
};

/* A worker; the caller knows by `staff`, `nr_workers` or a bit of an idle set that it is there. */
static inline struct rnl__worker *rnl__worker_at(const struct rnl_pool *pool, unsigned index)
{
	return rnl_container_of(pool->parks[index], struct rnl__worker, park);
}

/* 0; -EINVAL no pool; -EOWNERDEAD a parent's pool. */
static inline int rnl__pool_check(const struct rnl_pool *pool)
{
	return pool ? rnl__generation_check(pool->generation) : -EINVAL;
}

/* Logs that there is no pool.  Return: -EINVAL. */
int rnl__pool_missing(const char *call);

/* Logs that a worker of the pool would wait for itself.  Return: -EBUSY. */
int rnl__pool_waits_for_itself(const struct rnl_pool *pool, const char *call);

/* Logs why a thread did not start, @ret of rnl__thread_create().  Return: @ret. */
int rnl__pool_no_thread(const struct rnl_pool *pool, const char *what, int ret);

/* As rnl__pool_check(); logs that there is no pool. */
static inline int rnl__pool_given(const struct rnl_pool *pool, const char *call)
{
	return pool ? rnl__pool_check(pool) : rnl__pool_missing(call);
}

/*
 * A device of the pool, for what is one for all of them: their kind, their failure, page-locked
 * memory.
 */
static inline struct rnl__device *rnl__pool_any_device(const struct rnl_pool *pool)
{
	return pool->devices.list[0];
}

/* Whether the pool has that device. */
static inline bool rnl__pool_has(const struct rnl_pool *pool, const struct rnl__device *device)
{
	for (unsigned i = 0; i < pool->devices.nr; i++)
		if (pool->devices.list[i] == device)
			return true;
	return false;
}

/* Whether the pool has no device of this number, which is said. */
static inline bool rnl__pool_lacks(const struct rnl_pool *pool, const char *call, unsigned device)
{
	if (device < pool->devices.nr)
		return false;
	(void)rnl__invalid(&pool->log, "%s: device is %u; the pool has devices 0 to %u", call,
			   device, pool->devices.nr - 1);
	return true;
}

/* Devices of a pool that a map or a batcher uses. */
struct rnl__used {
	unsigned nr;
	uint8_t list[RNL_DEVICES_MAX];
};

/* Those whose bits are set, or all; 0, or -EINVAL the pool lacks one, which is logged. */
int rnl__pool_used(struct rnl_pool *pool, const char *call, uint64_t bits, struct rnl__used *used);

/*
 * Places the i-th of several jobs on its device.
 * Return: the `home` that it is to be submitted with: job/submit.h.
 */
unsigned rnl__pool_place(const struct rnl_pool *pool, const struct rnl__used *used, unsigned i,
			 struct rnl_job *job);

/*
 * Whether the device is a GPU.  There a job is more work than the choice of its worker, so it
 * pays to choose well; on the host device it may be less.
 */
static inline bool rnl__pool_on_gpu(const struct rnl_pool *pool)
{
	return !pool->home_for;
}

/* Whether a trace runs, or has just begun or ended. */
static inline bool rnl__pool_traced(struct rnl_pool *pool)
{
	/* relaxed: a job more or less is in the trace; the tracks are not used here */
	return atomic_load_explicit(&pool->tracks, memory_order_relaxed) != NULL;
}

/* Whether rnl_pool_close() has closed all ways in: DEFERRED is the last one. */
static inline bool rnl__pool_closed(struct rnl_pool *pool)
{
	return rnl__tally_closed(&pool->outside[RNL__DEFERRED]);
}

/* Whether rnl_pool_stop() was called. */
static inline bool rnl__pool_stops(struct rnl_pool *pool)
{
	/* relaxed: a job that is beside the stop may start or not, and learns of it in time */
	return atomic_load_explicit(&pool->cancels, memory_order_relaxed) & RNL__POOL_STOPS;
}

/* Whether a device has failed, and with it all of the pool's: device.h. */
static inline bool rnl__pool_failed(const struct rnl_pool *pool)
{
	return rnl__device_failed(rnl__pool_any_device(pool));
}

/* 0; -EIO the pool's devices have failed; -ESHUTDOWN the pool is closed. */
static inline int rnl__pool_accepts(struct rnl_pool *pool)
{
	if (rnl__pool_failed(pool))
		return -EIO;
	return rnl__pool_closed(pool) ? -ESHUTDOWN : 0;
}

/* Whether the calling thread is a worker of the pool, or its timer thread: it must not wait for jobs. */
static inline bool rnl__pool_worker(const struct rnl_pool *pool)
{
	return rnl__thread.worker && rnl__thread.worker->pool == pool;
}

/*
 * True if at some moment during the call all accepted jobs were released, and, @with_last, the notices
 * for the pool's end.  It may be false for a reservation that is being taken back: that submit rings
 * afterwards.
 */
bool rnl__pool_all_done(struct rnl_pool *pool, bool with_last);

/*
 * Counts of jobs were written: rings for drains and for the timer thread.  A full barrier stands between,
 * which also orders what the caller looks for next.
 */
void rnl__pool_wake_counts(struct rnl_pool *pool);

/*
 * A batcher may have space, or will have none: rings for reservations that wait.  A full barrier stands
 * between.
 */
void rnl__pool_wake_batches(struct rnl_pool *pool);

/* There may be space, or a pool is closed: rings for all that wait for space.  As the first one. */
void rnl__pool_wake_spaces(struct rnl_pool *pool);

/* Jobs on all queues, about. */
uint64_t rnl__pool_queued(struct rnl_pool *pool);

/*
 * Whether submits that were refused are worth another try: at most half of the places are taken, in the
 * queues, for deferred jobs and for jobs behind others, and no thread in line has them to itself.
 */
bool rnl__pool_has_room(struct rnl_pool *pool);

/* Calls the pool's log. */
#define rnl__pool_log(pool, ...) rnl__log(&(pool)->log, __VA_ARGS__)

static inline struct rnl__staff rnl__pool_staff(struct rnl_pool *pool)
{
	/* [pool.T1] acquire: the workers that it leads to serve; pairs with [pool.T2] */
	uint64_t word = atomic_load_explicit(&pool->staff, memory_order_acquire);

	return (struct rnl__staff){ .generation = (uint32_t)(word >> 32), .nr = (uint32_t)word };
}

/* The generation whose keyed jobs workers take. */
static inline uint32_t rnl__pool_serving(struct rnl_pool *pool)
{
	/*
	 * [pool.T3] acquire: the keyed jobs of the generation before are done; pairs with [pool.T4]
	 */
	return atomic_load_explicit(&pool->serving, memory_order_acquire);
}

/* How many workers were ever started; these are the first ones. */
static inline unsigned rnl__pool_nr_workers(struct rnl_pool *pool)
{
	/* [pool.N1] acquire: their streams are there; pairs with [pool.N2] */
	return atomic_load_explicit(&pool->nr_workers, memory_order_acquire);
}

/*
 * A worker's queue may have more space: rings for the submits that wait for that.  A full barrier
 * stands before the call.
 */
static inline void rnl__worker_made_space(struct rnl__worker *w)
{
	if (rnl__eventcount_has_waiters(&w->pool->space[w->urgent]) |
	    rnl__eventcount_has_waiters(&w->space) |
	    rnl__peek(&w->pool->waitq.nr))
		rnl__worker_wake_space(w);
}

/* A submit that is in line may find space.  A full barrier stands before the call. */
static inline void rnl__waitq_wake(struct rnl_pool *pool)
{
	/* relaxed: the caller's barrier orders it, and pairs with [waitq.W1] */
	if (rnl__peek(&pool->waitq.nr))
		rnl__waitq_wake_some(pool);
}

/*
 * Jobs are done or counted elsewhere: rings for drains and, if notices wait, for the timer thread.  A full
 * barrier stands before the call.
 */
static inline void rnl__pool_wake_drained(struct rnl_pool *pool)
{
	rnl__eventcount_wake(&pool->drained);
	if (rnl__tally_inside(&pool->outside[RNL__LAST]) || rnl__peek(&pool->nr_for_space))
		rnl__eventcount_wake(&pool->timer.eventcount);
}

#endif
