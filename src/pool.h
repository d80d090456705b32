/* SPDX-License-Identifier: MIT */
/* A pool: workers and their queues on a device, and how jobs get to them. */
#ifndef RNL_POOL_H
#define RNL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "device.h"
#include "worker.h"

struct rnl_pool {
	/* Constant once created. */
	struct rnl__device *device;
	enum rnl_stream_kind stream;
	unsigned nr_workers;
	unsigned generation;		/* rnl__generation of the process that made it */
	unsigned max_in_flight;
	unsigned home_for;		/* submits to the usual worker, see pool.c */
	uint64_t spin_ns;
	uint64_t watchdog_ns;
	rnl_log_fn *log;
	void *log_arg;

	_Alignas(RNL__CACHE_LINE) struct rnl__lot lot;

	/* Touched when workers start, fall idle and end. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t starting; /* latch */
	_Atomic int start_error;
	_Atomic bool stop;
	_Atomic uint32_t drainers;	/* threads in rnl_pool_drain() */
	_Atomic uint32_t idle_turn;	/* futex: moves when a worker falls idle for them */
	_Atomic bool failure_logged;

	struct rnl__worker workers[];
};

/* 0; -EINVAL no pool; -EOWNERDEAD it is a parent's. */
int rnl__pool_check(const struct rnl_pool *pool);

/* Whether the calling thread is one of its workers. */
bool rnl__pool_worker(const struct rnl_pool *pool);

/* Puts an accepted job on its worker's queue and sees that somebody runs it. */
void rnl__pool_start(struct rnl_job *job);

/*
 * A count that drains compare has changed: they look again.  A full barrier
 * stands between the change and this call.
 */
void rnl__pool_settle(struct rnl_pool *pool);

__attribute__((format(printf, 3, 4)))
void rnl__pool_log(struct rnl_pool *pool, enum rnl_log_level level, const char *format, ...);

#endif
