/* SPDX-License-Identifier: MIT */
/* A pool: what its workers and its callers share. */
#ifndef RNL_POOL_H
#define RNL_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "bell.h"
#include "device.h"
#include "pinned.h"
#include "self.h"
#include "timers.h"
#include "worker.h"

#define RNL__SPIN_CROWDED_NS 2000	/* a spin with no CPU to spare */

/* Which workers serve: a generation, and how many they are beside the urgent ones. */
struct rnl__table {
	uint32_t generation;
	uint32_t nr;
};

struct rnl__guard;

struct rnl_pool {
	/* Constant once created. */
	struct rnl__device *device;
	struct rnl__guard *guard;	/* NULL: off */
	enum rnl_stream_kind stream;
	unsigned generation;		/* rnl__generation of the process that made it */
	unsigned nr_urgent;		/* the first of the workers */
	unsigned max_in_flight;
	unsigned home_for;		/* submits to the usual worker, see place.c */
	uint32_t time_mask;		/* one job in this + 1 is timed */
	_Atomic(struct rnl__trace *) trace; /* changed by resize.c alone; NULL: none runs */
	uint64_t max_queued, high_water, low_water;
	uint64_t spin_ns;		/* before a sleep */
	unsigned spin_cpus;		/* an idle worker's spin goes by these; 0: by the above */
	uint64_t watchdog_ns;
	uint64_t stuck_ns;
	rnl_log_fn *log;
	void *log_arg;
	rnl_worker_start_fn *on_start;
	rnl_worker_stop_fn *on_stop;
	void *hook_arg;
	uint16_t *cpus;			/* ours; NULL: anywhere */
	unsigned nr_cpus;
	char name[64];
	uint64_t scratch_keep, staging_max;
	struct rnl__pinned *pinned;

	struct rnl__lot lot;		/* of the workers that are not urgent */
	struct rnl__lot urgent_lot;

	/* Changed by resizes: resize.c. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t table; /* generation << 32 | nr */
	_Atomic uint32_t serving;	/* the generation whose keyed jobs run */
	_Atomic uint32_t nr_workers;	/* that were ever started, and have streams */

	/* Looked at with every job, changed when somebody waits. */
	_Alignas(RNL__CACHE_LINE) struct rnl__bell room[2]; /* submits without key wait; [1]: urgent */
	struct rnl__bell room_put_off;	/* those that come after a barrier */
	struct rnl__bell room_batch;	/* reservations of batchers */
	_Atomic(struct rnl_job *) notices[2]; /* by enum rnl_water */
	_Atomic uint32_t cancels;	/* of notices, ever */
	struct rnl__bell settled;	/* for all to be done */
	_Atomic bool failure_logged;

	/* Of resizes alone. */
	_Alignas(RNL__CACHE_LINE) pthread_mutex_t resizing;
	_Atomic uint32_t moving;	/* latch: workers that have an order to follow */
	_Atomic int start_error;	/* of the first that could not start */

	struct rnl__timers timers;	/* of maps */

	pthread_mutex_t tracing;	/* who starts, stops or reads a trace */
	pthread_mutex_t joining;	/* who waited, and notes it in the trace */
	struct rnl__trace *joins;	/* in which; NULL: in none; under `joining` */

	struct rnl__queue held;		/* counts who holds the pool, holds no jobs */
	struct rnl__queue put_off;	/* counts jobs that wait for barriers, holds none */
	struct rnl__worker workers[RNL_WORKERS_MAX];
};

/* 0; -EINVAL no pool; -EOWNERDEAD it is a parent's. */
static inline int rnl__pool_check(const struct rnl_pool *pool)
{
	return pool ? rnl__generation_check(pool->generation) : -EINVAL;
}

/*
 * Whether a job is more work than the choice of its worker, so that it pays to choose
 * well: on a device that does not say at once what a job left there.
 */
static inline bool rnl__pool_chooses(const struct rnl_pool *pool)
{
	return !pool->home_for;
}

/* Whether a trace runs, or has just begun, or ended. */
static inline bool rnl__pool_traced(struct rnl_pool *pool)
{
	/* relaxed: a job more or less in the trace; who uses it has it from elsewhere */
	return atomic_load_explicit(&pool->trace, memory_order_relaxed) != NULL;
}

/* Whether the calling thread is one of its workers. */
static inline bool rnl__pool_worker(const struct rnl_pool *pool)
{
	return rnl__self.worker && rnl__self.worker->pool == pool;
}

/*
 * Keeps the pool from being seen drained, for a moment in which a job that was
 * not counted yet, or a barrier, is in our hands.
 */
void rnl__pool_hold(struct rnl_pool *pool);
void rnl__pool_unhold(struct rnl_pool *pool);

/* Has all who wait for room look again. */
void rnl__pool_ring_rooms(struct rnl_pool *pool);

/*
 * There may be more room in a worker's queue: has who waits for that look.  A full
 * barrier stands before this call.
 */
void rnl__pool_made_room(struct rnl__worker *w);

/* Gives a worker orders, and wakes it. */
void rnl__pool_order(struct rnl__worker *w, uint32_t orders);

/* Jobs on all queues, about. */
uint64_t rnl__pool_queued(struct rnl_pool *pool);

__attribute__((format(printf, 3, 4)))
void rnl__pool_log(struct rnl_pool *pool, enum rnl_log_level level, const char *format, ...);

static inline struct rnl__table rnl__pool_table(struct rnl_pool *pool)
{
	/* [pool.T1] acquire: the workers that it leads to serve; pairs with [pool.T2] */
	uint64_t word = atomic_load_explicit(&pool->table, memory_order_acquire);

	return (struct rnl__table){ .generation = (uint32_t)(word >> 32), .nr = (uint32_t)word };
}

/* The generation whose keyed jobs workers take. */
static inline uint32_t rnl__pool_serving(struct rnl_pool *pool)
{
	/* [pool.T3] acquire: the keyed jobs of the generation before are done; pairs with [pool.T4] */
	return atomic_load_explicit(&pool->serving, memory_order_acquire);
}

/* Whether a notice waits for a mark; a full barrier stands before it, see water.h. */
static inline bool rnl__pool_noticed(struct rnl_pool *pool, enum rnl_water mark)
{
	/* relaxed: as said */
	return atomic_load_explicit(&pool->notices[mark], memory_order_relaxed) != NULL;
}

/* Workers that were ever started: [0, this). */
static inline unsigned rnl__pool_nr_workers(struct rnl_pool *pool)
{
	/* [pool.N1] acquire: their streams are there; pairs with [pool.N2] */
	return atomic_load_explicit(&pool->nr_workers, memory_order_acquire);
}

#endif
