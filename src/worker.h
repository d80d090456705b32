/* SPDX-License-Identifier: MIT */
/*
 * A worker: a thread with a queue, an implicit stream, and what is on it.  What it
 * does is in loop.c and run.c.
 */
#ifndef RNL_WORKER_H
#define RNL_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "bell.h"
#include "hist.h"
#include "inflight.h"
#include "park.h"
#include "queue.h"
#include "scratch.h"
#include "staging.h"
#include "track.h"

/*
 * Orders to a worker; it is woken for one.  It takes an order off when it has
 * followed it, and then drops the pool's latch `moving`, but for END.
 */
enum {
	RNL__SERVE = 1,		/* begin to */
	RNL__HAND_OVER = 2,	/* say when all jobs of the keyed lane that was shut are done */
	RNL__LEAVE = 4,		/* cease to serve when the queue is empty and all is done */
	RNL__END = 8,		/* the same, and end */
	RNL__TRACE = 16,	/* begin to note jobs in the pool's trace, or cease to */
};

/* How long jobs took. */
struct rnl__timing {
	struct rnl__hist queue_wait, host, device;
};

/* Jobs of one barrier that were completed, which the barrier has yet to be told. */
struct rnl__owed {
	struct rnl_barrier *barrier;	/* NULL: nothing is owed */
	uint32_t nr_issued, nr_done, nr_settled;
};

struct rnl__worker {
	struct rnl__queue queue;

	/* Read by who puts jobs on the queue, seldom written. */
	_Alignas(RNL__CACHE_LINE) struct rnl__park park;
	struct rnl__bell room;		/* keyed submits wait for it in this queue */
	struct rnl_pool *pool;
	unsigned index;
	bool urgent;
	bool started;			/* there is a thread; the resizer's */
	bool serves;			/* read by the resizer when there are no orders */
	bool stays;			/* its thread does not end: the device has failed */
	_Atomic uint32_t present;	/* a latch: its thread may touch it, or the pool */
	_Atomic uint32_t orders;
	pthread_t thread;

	/* The owner's alone, but for atomics, which others may read. */
	_Alignas(RNL__CACHE_LINE) void *data; /* of the pool's hooks */
	uint64_t wait_since;		/* in flight and nothing to do since; 0: not */
	uint64_t last_check;		/* of the device's health */
	uint64_t moved;			/* bytes that the job which runs has copied */
	unsigned inside;		/* callers' code, if there is a guard; how deep */
	uint64_t look_in;		/* jobs until it looks at the low water mark */
	bool woken;			/* for a job that it may not have come for: share() */
	struct rnl__track *track;	/* NULL: no trace runs */
	struct rnl__ranges *ranges;	/* NULL: no tool for them is attached */
	struct rnl__owed owed;
	_Atomic bool occupied;		/* does not look at its queue soon: rnl__run_occupy() */
	_Atomic(struct rnl_job *) running; /* whose function runs; to be compared only */
	_Atomic uint64_t running_since;	/* coarse */
	_Atomic uint64_t completed;	/* counted before the job can be seen done */
	_Atomic uint64_t settled;	/* counted when it will not be touched again */
	_Atomic uint64_t failed, cancelled, timed_out, stolen, slept;
	_Atomic uint64_t untraced;	/* records that did not fit into a trace */
	struct rnl__timing *timing;

	struct rnl__inflight inflight;
	struct rnl__scratch scratch;
	struct rnl__staging staging;
};

/* Whether a worker that is awake comes to look at its queue, and has nothing else to do. */
static inline bool rnl__worker_attends(struct rnl__worker *w)
{
	/* The line that its owner writes for each job is looked at last. */
	if (rnl__inflight_nr(&w->inflight))
		return false;
	/* [worker.O4] acquire: what was put on its stream since is counted; pairs with [run.O3] */
	return !atomic_load_explicit(&w->occupied, memory_order_acquire) &&
	       !rnl__inflight_nr(&w->inflight);
}

#endif
