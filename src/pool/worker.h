/* SPDX-License-Identifier: MIT */
/*
 * A worker: a thread with a queue, an implicit stream, and what is on it.  What it
 * does is in src/worker/: loop.c and run.c.
 */
#ifndef RNL_WORKER_H
#define RNL_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "device/gather.h"
#include "sys/eventcount.h"
#include "sys/hist.h"
#include "sys/inbox.h"
#include "pool/guard.h"
#include "stream/inflight.h"
#include "pool/park.h"
#include "pool/queue.h"
#include "memory/scratch.h"
#include "memory/staging.h"
#include "watch/track.h"

/*
 * Commands to a worker.  The worker clears a command's bit when it has followed the command,
 * and then drops the pool's latch `moving`; but not for END.
 */
enum {
	RNL__SERVE = 1,		/* begin to serve */
	RNL__HAND_OVER = 2,	/* tell when all jobs of the keyed lane that was shut are done */
	RNL__LEAVE = 4,		/* cease to serve when the queue is empty and all jobs are done */
	RNL__END = 8,		/* as LEAVE, and end the thread */
	RNL__TRACE = 16,	/* begin to note jobs in the pool's trace, or cease to */
};

/* Two workers with one place forget each other's: then a stream waits twice. */
#define RNL__JOINED 64u

/* How long jobs took. */
struct rnl__timing {
	struct rnl__hist queue_wait, host, device;
};

/* Jobs of one round of a barrier that were completed, and that the barrier has yet to be told. */
struct rnl__owed {
	struct rnl_barrier *barrier;	/* NULL: nothing is owed */
	unsigned round;
	uint32_t nr_issued, nr_done, nr_released;
};

/* Jobs whose work is issued together: worker/group.h. */
#define RNL__GROUP_MAX 32u

struct rnl__group {
	uint32_t nr, nr_keys;		/* jobs; those of them that have a key */
	bool mark;			/* a job needs a mark: it is large, or has a barrier */
	struct rnl_job *first;		/* on the stream */
	uint64_t since;			/* when the group began */
	uint64_t keys[RNL__GROUP_MAX];
};

/* Functions whose work is recorded, and replayed: worker/replay.h. */
#define RNL__REPLAYS_MAX 32u

struct rnl__replay {
	rnl__function *fn;		/* NULL: the place is free */
	struct rnl__notes notes;	/* of the last run that was noted; none: not known */
	struct rnl__record *record;	/* made of them, or of the last run that was captured */
	const void *scratch;		/* the worker's block then */
	uint64_t moved;			/* bytes that the run copied */
	uint64_t used;			/* when, by the worker's count */
	uint32_t left;			/* replays until the next comparison; 0: it is not stable */
	uint32_t wait, next_wait;	/* calls as they are, until the next try; after that one */
	bool captured;			/* its runs are captured, not noted */
	bool notified;			/* that it issued something else, or cannot be recorded */
};

struct rnl__replays {
	struct rnl__replay *list;	/* NULL: no such job has come */
	struct rnl__notes notes;	/* of the run that is noted now */
	uint64_t clock;
	_Atomic uint64_t nr;		/* figure: replays */
};

#define RNL__HOLD_CHUNKS 16

struct rnl__hold_slot;

/* The slots that a worker has for holds: pool/holds.h. */
struct rnl__holds {
	_Alignas(RNL__CACHE_LINE) _Atomic(struct rnl__hold_slot *) chunks[RNL__HOLD_CHUNKS];
	unsigned nr_chunks, nr_fresh;	/* nr_fresh: slots that the last chunk has left */
	struct rnl__hold_slot *fresh, *free;	/* the first of those; slots that were used before */
	uint32_t nr_taken;		/* since the timer thread was asked for slots in its heap */
};

struct rnl__worker {
	struct rnl__queue queue;

	/* Read by threads that put jobs on the queue, seldom written. */
	_Alignas(RNL__CACHE_LINE) struct rnl__park park;
	struct rnl__eventcount space;		/* keyed submits wait for it in this queue */
	struct rnl_pool *pool;
	struct rnl__device *device;	/* for life */
	unsigned index, device_index;	/* device_index: of the device in its pool */
	bool urgent;
	bool started;			/* there is a thread; the resizing thread's */
	bool serves;			/* not in its hooks; the resizing thread reads it, too */
	bool stays;			/* its thread does not end: the device has failed */
	_Atomic uint32_t present;	/* a latch: its thread may touch the worker, or the pool */
	_Atomic uint32_t commands;
	struct rnl__inbox returned;	/* jobs that waited for a round or for holds, and go on */
	struct rnl__inbox freed_holds;	/* slots that were put back */
	pthread_t thread;

	/* The owner's alone; other threads may read the atomics. */
	_Alignas(RNL__CACHE_LINE) void *data; /* of the pool's hooks */
	uint64_t wait_since;		/* since when it has nothing to do; 0: it has */
	uint64_t half_since;		/* since when it sees a job that it cannot take; 0: it does not */
	uint64_t last_check;		/* of the device's health */
	uint64_t moved;			/* bytes that the running job has copied */
	unsigned inside;		/* callers' code, how deep, if a guard watches */
	unsigned unlooked;		/* calls since the guard last looked for a stray */
	bool woken;			/* perhaps for a job that it does not take: share() */
	struct rnl__track *track;	/* NULL: no trace runs */
	struct rnl__nvtx *ranges;	/* NULL: no tool reads NVTX */
	struct rnl__owed owed;
	struct rnl_job *next, *next_last; /* jobs whose turn has come by a chain: worker/chain.h */
	uint32_t nr_held_back;		/* jobs that wait for rounds or for holds, and come back */
	_Atomic bool occupied;		/* does not look at its queue soon: rnl__share_occupy() */
	_Atomic(struct rnl_job *) running; /* its function runs; to be compared only */
	_Atomic uint64_t running_since;	/* coarse */
	_Atomic uint64_t completed;	/* jobs, counted before they can be seen done */
	_Atomic uint64_t released;	/* jobs, counted when they will not be touched again */
	_Atomic uint64_t failed, cancelled, timed_out, stolen, slept;
	_Atomic uint64_t held;		/* jobs that wait for holds alone, now */
	_Atomic uint64_t gathered;	/* jobs that were issued in a group of several */
	_Atomic uint64_t untraced;	/* records that did not fit into a trace */
	struct rnl__timing *timing;

	struct rnl__inflight inflight;
	/* The last job of other workers that our stream waited for, * RNL_WORKERS_MAX + the worker. */
	uint64_t joined[RNL__JOINED];
	struct rnl__scratch scratch;
	struct rnl__staging staging;
	struct rnl__gather gather;
	struct rnl__group group;
	struct rnl__replays replays;
	struct rnl__holds holds;
};

/* Of a worker that is all zero. */
void rnl__worker_init(struct rnl__worker *w, struct rnl_pool *pool, unsigned index);

/* The worker's stream has waited for none; it need not wait for itself. */
void rnl__worker_forget_joins(struct rnl__worker *w);

/* Gives a worker commands, and wakes it. */
void rnl__worker_command(struct rnl__worker *w, uint32_t commands);

/* What rnl__worker_made_space() of pool.h does once it has seen a submit that waits. */
void rnl__worker_wake_space(struct rnl__worker *w);

/* Any thread: returns a job that its worker has held back, and wakes the worker. */
void rnl__worker_return(struct rnl__worker *w, struct rnl_job *job);

/* Whether a job was returned; rnl__park_prepare() orders it, or the owner looks again. */
static inline bool rnl__worker_has_returned(struct rnl__worker *w)
{
	return rnl__inbox_holds(&w->returned);
}

/* Whether a worker may take what is placed on the device of another one, or its own. */
static inline bool rnl__worker_takes_placed(const struct rnl__worker *w,
					    const struct rnl__worker *from)
{
	return w->queue.takes_placed && w->device == from->device;
}

/* Whether a worker that is awake comes to look at its queue, and has nothing else to do. */
static inline bool rnl__worker_attends(struct rnl__worker *w)
{
	/* The owner writes the line of `occupied` with each job, so that is read last. */
	if (rnl__inflight_nr(&w->inflight))
		return false;
	/* [worker.O4] acquire: jobs put on its stream since are counted; pairs with [run.O3] */
	return !atomic_load_explicit(&w->occupied, memory_order_acquire) &&
	       !rnl__inflight_nr(&w->inflight);
}

#endif
