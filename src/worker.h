/* SPDX-License-Identifier: MIT */
/*
 * A worker: a thread with a queue, an implicit stream, and what is on it.
 */
#ifndef RNL_WORKER_H
#define RNL_WORKER_H

#include <pthread.h>
#include <stdint.h>

#include <runnel.h>

#include "inflight.h"
#include "park.h"
#include "queue.h"

struct rnl__worker {
	struct rnl__queue queue;
	_Alignas(RNL__CACHE_LINE) struct rnl__park park;

	/* The owner's alone, but for the counters, which others may read. */
	_Alignas(RNL__CACHE_LINE) struct rnl_pool *pool;
	unsigned index;
	pthread_t thread;
	uint64_t wait_since;		/* in flight and nothing to do since; 0: not */
	uint64_t last_check;		/* of the device's health */
	_Atomic uint64_t completed;	/* counted before the job can be seen done */
	_Atomic uint64_t settled;	/* counted when it will not be touched again */
	_Atomic uint64_t failed, stolen, slept;

	struct rnl__inflight inflight;
};

/* The thread's function; @arg is its worker. */
void *rnl__worker_main(void *arg);

#endif
