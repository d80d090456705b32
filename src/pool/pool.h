/* SPDX-License-Identifier: MIT */
/* A pool: the state that its workers and its callers share. */
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
#include "pool/spinner.h"
#include "pool/timer.h"
#include "pool/waitq.h"
#include "pool/tally.h"
#include "pool/worker.h"
#include "stream/job_flags.h"

#define RNL__SPIN_CROWDED_NS 2000	/* longest spin with no CPU to spare */

/* The staff: a generation, and the number of workers that serve besides the classes' own. */
struct rnl__staff {
	uint32_t generation;
	uint32_t nr;
};

/* Why an accepted job is in no queue; see outside.h. */
enum rnl__outside {
	RNL__DEFERRED,	/* waits for a barrier's round, or for its turn in an order */
	RNL__CLASSED,	/* is queued in its class */
	RNL__CHAINED,	/* runs after another job, or reports the end of a barrier's round */
	RNL__DELAYED,	/* the timer thread keeps it: waits for its time, or for space */
	RNL__LAST,	/* the timer thread keeps it: waits for the pool's end */
	RNL__OPERATION,	/* not a job: a map, or a short use of the pool by the library */
	RNL__OUTSIDE_NR
};

/* Bits of `cancels`. */
#define RNL__POOL_STOPS 1u	/* rnl_pool_stop() was called: no job starts */
#define RNL__POOL_CANCEL 2u

struct rnl__classes;
struct rnl__guard;
struct rnl__trace;
struct rnl__waits;

struct rnl_pool {
	/* Constant after creation. */
	struct rnl__devices devices;	/* worker i uses device i % devices.nr */
	uint64_t of_device[RNL_DEVICES_MAX][RNL__IDLE_SET_WORDS]; /* a bit per worker */
	struct rnl__guard *guard;	/* NULL: no guard */
	enum rnl_stream_kind stream;
	struct rnl__sms *sms[RNL_DEVICES_MAX]; /* SMs kept for classes; NULL: none */
	uint32_t refuses;	/* bits for rnl__units_have(): which jobs' units are checked */
	_Atomic uint32_t unit_reported; /* the warnings that unit_check.c has logged */
	unsigned generation;		/* rnl__generation of the process that created the pool */
	unsigned nr_class_workers;	/* workers that classes may have, which come first */
	unsigned max_in_flight;
	uint64_t enough_ns;		/* issued jobs keep a worker's stream busy for this long */
	unsigned home_for;		/* consecutive submits to the usual worker; 0: a GPU */
	uint32_t time_mask;		/* one job in time_mask + 1 is timed */
	/* The workers' tracks.  Only staff.c changes the pointer.  NULL: no trace runs. */
	_Atomic(struct rnl__tracks *) tracks;
	uint64_t max_queued;
	uint64_t spin_ns;		/* spin before a sleep */
	unsigned spin_cpus;		/* CPUs, which limit idle workers' spins; 0: spin_ns does */
	uint64_t watchdog_ns;
	uint64_t stuck_ns;
	struct rnl__log log;
	rnl_worker_start_fn *on_start;
	rnl_worker_stop_fn *on_stop;
	void *hook_arg;
	uint16_t *cpus;			/* owned by the pool; NULL: any CPU */
	unsigned nr_cpus;
	char name[64];
	uint64_t scratch_keep, staging_max;
	struct rnl__pinned *pinned;

	struct rnl__idle_set idle_set;		/* of the staff */
	struct rnl__idle_set class_idle_set;	/* of classes' own workers */

	/* Owners that wait for a spinner, or NULL. */
	_Alignas(RNL__CACHE_LINE) _Atomic(struct rnl__spinner *) spinners[RNL__SPINNERS_MAX];

	/* Changed by resizes; see staff.c. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t staff; /* generation << 32 | nr */
	_Atomic uint32_t serving;	/* the generation whose keyed jobs run */
	_Atomic uint32_t nr_workers;	/* of the staff since the creation, and of all classes */
	_Atomic uint32_t cancels;	/* of all jobs: nr * RNL__POOL_CANCEL | RNL__POOL_STOPS */

	/* Read with every job, written when a thread begins to wait. */
	_Alignas(RNL__CACHE_LINE) struct rnl__eventcount
		space;	/* for open submits */
	struct rnl__eventcount space_batch;	/* for reservations of batchers */
	_Atomic uint32_t nr_for_space;	/* RNL_SPACE notices that the timer thread holds */
	struct rnl__waitq waitq; /* submits that wait for space outside of the queues */
	struct rnl__eventcount drained;	/* for drains */
	_Atomic bool failure_logged;
	_Atomic bool positive_logged;	/* that a job's function returned a positive number */

	/* Used by resizes only. */
	_Alignas(RNL__CACHE_LINE) pthread_mutex_t resizing;
	_Atomic uint64_t class_workers;	/* a bit for each worker that a class has */
	_Atomic uint32_t moving;	/* latch: workers that have not finished a command yet */
	_Atomic int start_error;	/* of the first worker that could not start */
	unsigned nr_made;		/* existing workers; the first `nr_workers` count */

	struct rnl__event_cache timers[RNL_DEVICES_MAX]; /* events of maps */

	/*
	 * The request kernel whose lease has not ended for a while, or NULL; and since when, 0: none.
	 * The keeper that sets the time sets the name.
	 */
	_Atomic(const char *) hung;
	_Atomic uint64_t hung_since;

	pthread_mutex_t tracing;	/* held to start or end a trace */
	struct rnl__trace *trace;	/* the running trace, or NULL; under `tracing` */
	void (*end_trace)(struct rnl_pool *pool); /* ends the running trace; NULL: no trace yet */
	struct rnl__top *top;		/* the socket that serves the figures, or NULL */
	pthread_mutex_t waiting;	/* held to note a wait */
	struct rnl__waits *waits;	/* the trace's list of waits, or NULL; under `waiting` */

	_Atomic(struct rnl__classes *) classes; /* NULL: only the pool's own */
	struct rnl__tally outside[RNL__OUTSIDE_NR]; /* by reason; see outside.h */
	struct rnl__name known_as;	/* the pool's name in holds, which may outlive it */
	struct rnl__timer timer;
	/* The existing workers.  A worker is freed with its pool, not before. */
	struct rnl__park *parks[RNL_WORKERS_MAX];
};

/* Returns a worker, which must exist: `staff`, `nr_workers` or a bit of an idle set says so. */
static inline struct rnl__worker *rnl__worker_at(const struct rnl_pool *pool, unsigned index)
{
	return rnl_container_of(pool->parks[index], struct rnl__worker, park);
}

/* Returns how many workers the classes have as their own; a hint. */
static inline unsigned rnl__pool_nr_own(struct rnl_pool *pool)
{
	return (unsigned)__builtin_popcountll(rnl__peek(&pool->class_workers));
}

/* Returns 0, -EINVAL if there is no pool, or -EOWNERDEAD if it belongs to a parent process. */
static inline int rnl__pool_check(const struct rnl_pool *pool)
{
	return pool ? rnl__generation_check(pool->generation) : -EINVAL;
}

/* Logs that there is no pool.  Returns -EINVAL. */
int rnl__pool_missing(const char *call);

/* Logs that a worker of the pool would wait for itself.  Returns -EBUSY. */
int rnl__pool_waits_for_itself(const struct rnl_pool *pool, const char *call);

/* Logs why a thread did not start.  @ret is rnl__thread_create()'s result, and is returned. */
int rnl__pool_no_thread(const struct rnl_pool *pool, const char *what, int ret);

/* Checks a pool like rnl__pool_check(), and logs a missing pool. */
static inline int rnl__pool_given(const struct rnl_pool *pool, const char *call)
{
	return pool ? rnl__pool_check(pool) : rnl__pool_missing(call);
}

/*
 * Returns a device of the pool, for properties that all its devices share: their kind, their
 * failure, page-locked memory.
 */
static inline struct rnl__device *rnl__pool_any_device(const struct rnl_pool *pool)
{
	return pool->devices.list[0];
}

/* Returns true if the pool has that device. */
static inline bool rnl__pool_has(const struct rnl_pool *pool, const struct rnl__device *device)
{
	for (unsigned i = 0; i < pool->devices.nr; i++)
		if (pool->devices.list[i] == device)
			return true;
	return false;
}

/* If the pool has no device of this number, logs that and returns true. */
static inline bool rnl__pool_lacks(const struct rnl_pool *pool, const char *call, unsigned device)
{
	if (device < pool->devices.nr)
		return false;
	(void)rnl__invalid(&pool->log, "%s: device is %u; the pool has devices 0 to %u", call,
			   device, pool->devices.nr - 1);
	return true;
}

/* The devices of a pool that a map or a batcher uses. */
struct rnl__used {
	unsigned nr;
	uint8_t list[RNL_DEVICES_MAX];
};

/* Finds the devices whose bits are set, or all for 0.  Returns 0, or -EINVAL, which is logged. */
int rnl__pool_used(struct rnl_pool *pool, const char *call, uint64_t bits, struct rnl__used *used);

/*
 * Places the i-th of several jobs on its device.
 * Returns the `home` to submit the job with: job/submit.h.
 */
unsigned rnl__pool_place(const struct rnl_pool *pool, const struct rnl__used *used, unsigned i,
			 struct rnl_job *job);

/*
 * Returns true if the device is a GPU.  There a job is more work than the choice of its worker, so
 * a careful choice pays.  On the host device a job may be less work than the choice.
 */
static inline bool rnl__pool_on_gpu(const struct rnl_pool *pool)
{
	return !pool->home_for;
}

/* Returns true if a trace runs, or has just begun or ended. */
static inline bool rnl__pool_traced(struct rnl_pool *pool)
{
	/* relaxed: the trace may have one job more or less; the tracks are not used here */
	return atomic_load_explicit(&pool->tracks, memory_order_relaxed) != NULL;
}

/* Returns true if rnl_pool_close() has closed all ways in; it closes DEFERRED last. */
static inline bool rnl__pool_closed(struct rnl_pool *pool)
{
	return rnl__tally_closed(&pool->outside[RNL__DEFERRED]);
}

/* Returns true if rnl_pool_stop() was called. */
static inline bool rnl__pool_stops(struct rnl_pool *pool)
{
	/* relaxed: a job that starts during the stop may run or not; later looks see the stop */
	return atomic_load_explicit(&pool->cancels, memory_order_relaxed) & RNL__POOL_STOPS;
}

/* Returns true if all jobs were cancelled after the submit of this one. */
static inline bool rnl__pool_has_cancelled(struct rnl_pool *pool, const struct rnl_job *job)
{
	/*
	 * relaxed: a cancel may or may not include a job whose submit or start is concurrent with
	 * it; a scan of the timer thread sees the count, by [timer.C2]
	 */
	uint32_t cancels = atomic_load_explicit(&pool->cancels, memory_order_relaxed);

	return (cancels & RNL__POOL_STOPS || cancels != job->cancels) &&
	       !(job->flags & (RNL__JOB_INTERNAL | RNL__JOB_LAST));
}

/* Returns true if a device has failed; then all devices of the pool count as failed: device.h. */
static inline bool rnl__pool_failed(const struct rnl_pool *pool)
{
	return rnl__device_failed(rnl__pool_any_device(pool));
}

/* Returns 0, -EIO if the pool's devices have failed, or -ESHUTDOWN if the pool is closed. */
static inline int rnl__pool_accepts(struct rnl_pool *pool)
{
	if (rnl__pool_failed(pool))
		return -EIO;
	return rnl__pool_closed(pool) ? -ESHUTDOWN : 0;
}

/* Returns true on a worker or the timer thread of the pool: these must not wait for jobs. */
static inline bool rnl__pool_worker(const struct rnl_pool *pool)
{
	return rnl__thread.worker && rnl__thread.worker->pool == pool;
}

/*
 * Returns true if at some moment during the call all accepted jobs were released; @with_last: also
 * the notices for the pool's end.  May return false because a submit is about to take a reservation
 * back; that submit then wakes the drains.
 */
bool rnl__pool_all_done(struct rnl_pool *pool, bool with_last);

/*
 * Wakes drains and the timer thread after counts of jobs were written.  Begins with a full barrier,
 * which also orders the caller's next look.
 */
void rnl__pool_wake_counts(struct rnl_pool *pool);

/*
 * Wakes threads that wait for space in a batcher: there may be some, or the device has failed.
 * Begins with a full barrier.
 */
void rnl__pool_wake_batches(struct rnl_pool *pool);

/* Wakes all threads that wait for space, so they try again.  Begins with a full barrier. */
void rnl__pool_wake_spaces(struct rnl_pool *pool);

/* Returns the approximate number of jobs in all queues. */
uint64_t rnl__pool_queued(struct rnl_pool *pool);

/*
 * Returns true if refused submits are worth another try: at most half is taken of the places in
 * queues, of those for deferred jobs, and of those for chained jobs; and no thread waits for one.
 */
bool rnl__pool_has_room(struct rnl_pool *pool);

/* Calls the pool's log. */
#define rnl__pool_log(pool, ...) rnl__log(&(pool)->log, __VA_ARGS__)

static inline struct rnl__staff rnl__pool_staff(struct rnl_pool *pool)
{
	/* [pool.T1] acquire: the workers of this staff serve; pairs with [pool.T2] */
	uint64_t word = atomic_load_explicit(&pool->staff, memory_order_acquire);

	return (struct rnl__staff){ .generation = (uint32_t)(word >> 32), .nr = (uint32_t)word };
}

/* Returns the generation whose keyed jobs the workers take. */
static inline uint32_t rnl__pool_serving(struct rnl_pool *pool)
{
	/*
	 * [pool.T3] acquire: the keyed jobs of the last generation are done; pairs with [pool.T4]
	 */
	return atomic_load_explicit(&pool->serving, memory_order_acquire);
}

/*
 * Returns how many workers there were since the pool's creation, from worker 0 on.  A worker for
 * classes may never have served.
 */
static inline unsigned rnl__pool_nr_workers(struct rnl_pool *pool)
{
	/* [pool.N1] acquire: the workers' streams exist; pairs with [pool.N2] */
	return atomic_load_explicit(&pool->nr_workers, memory_order_acquire);
}

/*
 * Wakes the submits that wait for space in the worker's queue, which may have more now.  A full
 * barrier must precede the call.
 */
static inline void rnl__worker_made_space(struct rnl__worker *w)
{
	if (rnl__eventcount_has_waiters(&w->pool->space) |
	    rnl__eventcount_has_waiters(&w->space) |
	    rnl__peek(&w->pool->waitq.nr))
		rnl__worker_wake_space(w);
}

/* Wakes submits in the wait queue that may find space.  A full barrier must precede the call. */
static inline void rnl__waitq_wake(struct rnl_pool *pool)
{
	/* relaxed: the caller's barrier orders it, and pairs with [waitq.W1] */
	if (rnl__peek(&pool->waitq.nr))
		rnl__waitq_wake_some(pool);
}

/*
 * Called after jobs are done or counted elsewhere: wakes drains and, if notices wait, the timer
 * thread.  A full barrier must precede the call.
 */
static inline void rnl__pool_wake_drained(struct rnl_pool *pool)
{
	rnl__eventcount_wake(&pool->drained);
	if (rnl__tally_inside(&pool->outside[RNL__LAST]) || rnl__peek(&pool->nr_for_space))
		rnl__eventcount_wake(&pool->timer.eventcount);
}

#endif
