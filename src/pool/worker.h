/* SPDX-License-Identifier: MIT */
/*
 * A worker: a thread with a queue, an implicit stream, and the jobs on that stream.  Its code is in
 * src/worker/: loop.c and run.c.
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
 * Commands to a worker.  When the worker has carried a command out, it clears the command's bit and
 * drops the pool's latch `moving`.  END is an exception.
 */
enum {
	RNL__SERVE = 1,		/* begin to serve */
	RNL__HAND_OVER = 2,	/* report when all jobs of the shut keyed lane are done */
	RNL__LEAVE = 4,		/* stop serving when the queue is empty and all jobs are done */
	RNL__END = 8,		/* LEAVE, then end the thread */
	RNL__TRACE = 16,	/* begin or stop noting jobs in the pool's trace */
};

/* Places in `joined`.  If two workers have the same place, a stream may wait twice. */
#define RNL__JOINED 64u

/* How long jobs took. */
struct rnl__timing {
	struct rnl__hist queue_wait, host, device;
};

#define RNL__CQ_CHAINS 8u	/* queues for which a worker collects jobs */

/* Completed jobs for one queue; `link` of each job is the job that completed before it. */
struct rnl__cq_chain {
	struct rnl_cq *cq;		/* NULL: the chain is empty */
	struct rnl_job *oldest, *newest;
};

/*
 * Jobs that complete together are collected, and pushed by one exchange for each queue: a reader that
 * spins would take them one by one, and delay the worker at each.
 */
struct rnl__cq_chains {
	struct rnl__cq_chain list[RNL__CQ_CHAINS];
	bool any;
};

/* Jobs of one round whose progress the barrier was not notified of yet. */
struct rnl__owed {
	struct rnl_barrier *barrier;	/* NULL: nothing is owed */
	unsigned round;
	uint32_t nr_issued, nr_done, nr_released;
	bool unmarked;			/* issued jobs are on the stream without an event */
};

/* Jobs whose work is issued together: worker/group.h. */
#define RNL__GROUP_MAX 32u

struct rnl__group {
	uint32_t nr, nr_keys;		/* jobs; jobs that have a key */
	bool mark;			/* a job needs a mark: it is large, or has a barrier */
	struct rnl_job *first;		/* the first one on the stream */
	uint64_t moved;			/* bytes that the jobs copy */
	uint64_t since;			/* when the group began */
	uint64_t keys[RNL__GROUP_MAX];
};

/* Functions whose work is recorded and replayed: worker/replay.h. */
#define RNL__REPLAYS_MAX 32u

struct rnl__replay {
	rnl__function *fn;		/* NULL: the entry is free */
	struct rnl__notes notes;	/* of the last noted run; empty: unknown */
	struct rnl__record *record;	/* made of the notes, or of the last captured run */
	const void *scratch;		/* the worker's scratch block in that run */
	uint64_t moved;			/* bytes that the run copied */
	uint64_t used;			/* the `clock` of the last use */
	uint32_t left;			/* replays until the next comparison; 0: the work varies */
	uint32_t wait, next_wait;	/* plain calls before the next try, and the try after it */
	bool captured;			/* its runs are captured, not noted */
	bool notified;			/* logged: it issued other work, or cannot be recorded */
};

struct rnl__replays {
	struct rnl__replay *list;	/* NULL: no job to be replayed has run */
	struct rnl__notes notes;	/* of the run that is being noted */
	uint64_t clock;
	_Atomic uint64_t nr;		/* replays, for the statistics */
};

#define RNL__HOLD_CHUNKS 16

struct rnl__hold_slot;

/* A worker's slots for holds: pool/holds.h. */
struct rnl__holds {
	_Alignas(RNL__CACHE_LINE) _Atomic(struct rnl__hold_slot *) chunks[RNL__HOLD_CHUNKS];
	unsigned nr_chunks, nr_fresh;	/* nr_fresh: unused slots of the last chunk */
	struct rnl__hold_slot *fresh, *free;	/* first unused slot; slots that are free again */
	uint32_t nr_taken;		/* slots taken since the last request to the timer thread */
};

/* Of a worker that a class has: written before it begins to serve, but for the class. */
struct rnl__own {
	_Atomic uint32_t class;		/* the class's place in the table; 0: none */
	uint64_t spin_ns;		/* spin before a sleep with an empty stream; 0: as the staff */
	struct rnl__stream_wish stream;
};

struct rnl__worker {
	struct rnl__queue queue;

	/* Read by threads that put jobs on the queue, seldom written. */
	_Alignas(RNL__CACHE_LINE) struct rnl__park park;
	struct rnl__eventcount space;		/* for keyed submits: space in this queue */
	struct rnl_pool *pool;
	struct rnl__device *device;	/* constant */
	unsigned index, device_index;	/* device_index: the device's number in its pool */
	bool in_staff;			/* constant; false: a class may have it */
	struct rnl__own own;
	_Atomic bool made;		/* its first thread was set up */
	bool started;			/* a thread exists; used by the resizing thread */
	bool serves;			/* false in its hooks; the resizing thread reads it, too */
	bool stays;			/* its thread does not end, because the device has failed */
	_Atomic uint32_t present;	/* latch: its thread may still use the worker or the pool */
	_Atomic uint32_t commands;
	struct rnl__inbox returned;	/* jobs to continue: their round or their holds are over */
	struct rnl__inbox freed_holds;	/* hold slots that are free again */
	pthread_t thread;

	/* The owner's; other threads may only read the atomics. */
	_Alignas(RNL__CACHE_LINE) void *data; /* of the pool's hooks */
	uint64_t wait_since;		/* when it ran out of work; 0: it has work */
	uint64_t half_since;		/* since when it sees only jobs it cannot take; or 0 */
	uint64_t last_check;		/* time of the last check of the device's health */
	uint64_t moved;			/* bytes that the running job has copied */
	unsigned inside;		/* nesting depth in callers' code, if a guard watches */
	unsigned unlooked;		/* calls since the guard last looked for a stray */
	bool woken;			/* by a wake, perhaps for another worker's job: share.c */
	struct rnl__track *track;	/* NULL: no trace runs */
	struct rnl__nvtx *ranges;	/* NULL: no tool reads NVTX */
	struct rnl__cq_chains collected; /* completed jobs that are not on their queues yet */
	struct rnl__owed owed;
	struct rnl_job *next, *next_last; /* jobs whose turn in a chain has come: worker/chain.h */
	uint32_t nr_held_back;		/* jobs that wait for rounds or holds, to be returned */
	_Atomic bool occupied;		/* will not look at its queue soon: rnl__share_occupy() */
	_Atomic(struct rnl_job *) running; /* the running function's job; for comparison only */
	_Atomic uint64_t running_since;	/* coarse clock */
	_Atomic uint64_t completed;	/* jobs; counted before they can be seen done */
	_Atomic uint64_t released;	/* jobs; counted when no thread touches them any more */
	_Atomic uint64_t failed, cancelled, timed_out, stolen, slept;
	_Atomic uint64_t held;		/* jobs that now wait only for holds */
	_Atomic uint64_t gathered;	/* jobs issued in a group of two or more */
	_Atomic uint64_t untraced;	/* records that did not fit into a trace */
	struct rnl__timing *timing;

	struct rnl__inflight inflight;
	/* Of classes: charge.h. */
	bool clocked;			/* counted as busy by its device's clock */
	unsigned charge_nr;		/* jobs that share `charge_ns`, by `charge_sum` */
	uint64_t charged, charged_at;	/* the clock of its device, and ns, at the last charge */
	uint64_t begun;			/* the clock when the last function was called */
	uint64_t charge_ns, serial_ns, took_ns, charge_sum, serial_sum;
	/* By worker: (its last job that our stream waited for) * RNL_WORKERS_MAX + the worker. */
	uint64_t joined[RNL__JOINED];
	struct rnl__scratch scratch;
	struct rnl__staging staging;
	struct rnl__gather gather;
	struct rnl__group group;
	struct rnl__replays replays;
	struct rnl__holds holds;
};

/* Initializes a worker whose memory is zero. */
void rnl__worker_init(struct rnl__worker *w, struct rnl_pool *pool, unsigned index);

/* Forgets for which jobs the worker's stream has waited.  It never waits for its own jobs. */
void rnl__worker_forget_joins(struct rnl__worker *w);

/* Gives a worker commands, and wakes it. */
void rnl__worker_command(struct rnl__worker *w, uint32_t commands);

/* The slow path of rnl__worker_made_space() in pool.h: a submit waits. */
void rnl__worker_wake_space(struct rnl__worker *w);

/* Any thread: returns a held-back job to its worker, and wakes the worker. */
void rnl__worker_return(struct rnl__worker *w, struct rnl_job *job);

/* Returns true if the worker has served: a class has had it, or it is in the staff. */
static inline bool rnl__worker_is_made(struct rnl__worker *w)
{
	/* [worker.M1] acquire: its parts; pairs with [worker.M2] */
	return atomic_load_explicit(&w->made, memory_order_acquire);
}

/* Returns true if a job was returned: rnl__park_prepare() orders this, or the owner looks again. */
static inline bool rnl__worker_has_returned(struct rnl__worker *w)
{
	return rnl__inbox_holds(&w->returned);
}

/* Returns true if @w may take jobs that are placed on the device of @from; @from may be @w. */
static inline bool rnl__worker_takes_placed(const struct rnl__worker *w,
					    const struct rnl__worker *from)
{
	return w->queue.takes_placed && w->device == from->device;
}

/* Returns true if the worker, when awake, has nothing to do but look at its queue. */
static inline bool rnl__worker_attends(struct rnl__worker *w)
{
	/* The owner writes the cache line of `occupied` with each job, so it is read last. */
	if (rnl__inflight_nr(&w->inflight))
		return false;
	/* [worker.O4] acquire: if false, the jobs on the stream are counted; pairs with [run.O3] */
	return !atomic_load_explicit(&w->occupied, memory_order_acquire) &&
	       !rnl__inflight_nr(&w->inflight);
}

#endif
