/* SPDX-License-Identifier: MIT */
/*
 * What a worker has on its stream: its jobs in issue order, and marks that tell how far the
 * device has come.
 *
 * DESIGN
 *	Each job gets a sequence number when it is issued.  A mark stands for all jobs
 *	up to number n.  It is placed behind them on the stream, as one or both of:
 *	- an event, which other streams can wait for, and which slows no launch until it is queried.
 *	  One event stands for several jobs; the worker queries it only when it may issue no more.
 *	- a write of n into a word of pinned memory.  It is placed when nothing is queued
 *	  behind, since a thread may wait then.  Reading the word costs no driver call.
 *	A stream reaches its marks in order, so a mark that is reached speaks for all
 *	before it.  A device that cannot write words gets events throughout.
 *	If several streams issue their first work at the same time, with writes behind it, some of
 *	that work waits until other work ends (seen on an H200 with driver 580: of 8 kernels 3 to 7
 *	ran).  So a worker's stream writes once before its first job.
 *	Events are recorded in turn, in a ring.  A thread that joins goes through them from the
 *	latest back, to the earliest one behind its job.  That one may be recorded anew meanwhile,
 *	further along the stream: then the join waits longer than it has to, never too short.
 *	A worker notes how far its stream has waited for others, and waits once.
 *	A barrier has places for its last jobs on the first workers that it meets.  On the others a
 *	join looks for that job among those on the stream, from the latest one back.
 *	Model: tests/model/join.pml.
 *
 *		push	mark	poll	pop	join
 *	all but join: the worker that owns it
 *	join	-	-	-	-	-	any thread
 */
#ifndef RNL_INFLIGHT_H
#define RNL_INFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/atomic.h"
#include "sys/clock.h"
#include "device/device.h"
#include "stream/pace.h"

#define RNL__MARK_EVERY 8u	/* jobs that one event stands for under backlog ... */
#define RNL__MARK_NS 200000u	/* ... if neither host nor device takes longer for them */

struct rnl__mark {
	uint64_t seq;			/* the mark stands for all jobs up to this one */
	uint64_t since;			/* not before that the first of its jobs was issued */
	uint64_t placed;		/* not after that the mark was */
	struct rnl__event *event;	/* NULL: the word alone tells */
};

/* An event, and the mark that it was last recorded for. */
struct rnl__recorded {
	_Atomic uint64_t seq;
	struct rnl__event *event;
};

/* A job on the stream, for other threads. */
struct rnl__place {
	_Atomic(struct rnl_job *) job;	/* to be compared only; NULL: none */
	_Atomic(struct rnl_barrier *) barrier; /* that it is in; to be compared only */
	_Atomic uint64_t since;		/* when it was issued; coarse, unless it is TIMED */
};

struct rnl__inflight {
	struct rnl__device *device;
	struct rnl_job *first, *last;	/* issue order */
	uint64_t issued;		/* sequence of the last job */
	uint64_t marked;		/* sequence that the last mark stands for */
	uint64_t written;		/* sequence that the last write puts in the word */
	uint64_t asked;			/* up to this one, see rnl__inflight_ask() */
	uint64_t now;			/* the clock, as the worker has last read it */
	uint64_t looked;		/* when it last asked for a mark, by the word or the driver */
	uint64_t unmarked_since;	/* not before that the first job behind the marks was */
	uint64_t unmarked_ns;		/* estimate of the jobs behind the marks */
	uint64_t reached_at;		/* when it last saw a mark reached */
	struct rnl__pace pace;
	struct rnl__mark *marks;	/* ring of `limit` */
	unsigned first_mark, nr_marks;
	bool writes;			/* the stream can write the word */
	uint32_t *word;			/* pinned; the low half of a sequence number */
	/* Other threads read these. */
	_Atomic uint32_t nr;		/* jobs */
	_Atomic(struct rnl_job *) oldest; /* to be compared only; NULL: none */
	_Atomic uint64_t oldest_since;	/* coarse: when that job became the oldest */

	/* Read by threads that join. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t reached;
	_Atomic uint64_t nr_recorded;	/* events, ever */
	struct rnl__recorded *recorded;	/* ring of `limit`: the n-th is at n % limit */
	struct rnl__place *places;	/* ring of `limit`, by sequence */
	unsigned limit;
};

/*
 * @limit jobs at most, and fewer if they keep the device busy for @enough_ns.  0, -ENOMEM, -EIO;
 * after a failure fini is still due.
 */
int rnl__inflight_init(struct rnl__inflight *f, struct rnl__device *device, unsigned limit,
		       uint64_t enough_ns);
void rnl__inflight_fini(struct rnl__inflight *f);

/* The calling thread's stream is the one from now on.  0, -ENOMEM, -EIO. */
int rnl__inflight_begin(struct rnl__inflight *f);

/* Adds a job that was just issued; there is space. */
void rnl__inflight_push(struct rnl__inflight *f, struct rnl_job *job);

/* The sequence number that the next job gets. */
static inline uint64_t rnl__inflight_next(const struct rnl__inflight *f)
{
	return f->issued + 1;
}

/*
 * Places a mark behind all that was issued: @event for joins and backlog, @write for threads
 * that wait.  0, or -EIO: the device has failed, and there is no mark.
 */
int rnl__inflight_mark(struct rnl__inflight *f, bool event, bool write);

/*
 * The last job has an event, and gets no written word: the worker asks for the event.  Written
 * words slow streams of large copies, by a sixth on an H200.
 */
static inline void rnl__inflight_ask(struct rnl__inflight *f)
{
	f->asked = f->issued;
}

/* Whether the worker asks for the last job's event. */
static inline bool rnl__inflight_asks(const struct rnl__inflight *f)
{
	return f->asked == f->issued;
}

/* Whether the oldest mark has to be asked for, since no written word will tell. */
static inline bool rnl__inflight_silent(const struct rnl__inflight *f)
{
	return f->nr_marks && f->written < f->marks[f->first_mark].seq;
}

/*
 * Looks how far the device is; @query: asks the driver for the @query-th of the marks, counted
 * from the oldest, if the word does not tell; 0: does not ask.  0, or -EIO.
 */
int rnl__inflight_poll(struct rnl__inflight *f, unsigned query);

/* Takes the first job off, if the device has passed it; or NULL. */
struct rnl_job *rnl__inflight_pop(struct rnl__inflight *f);

/* The device has failed: its marks are void. */
void rnl__inflight_forget(struct rnl__inflight *f);

/* Takes the first job off, passed or not; or NULL. */
struct rnl_job *rnl__inflight_drop(struct rnl__inflight *f);

/* When a job was issued that was just popped; for one that is TIMED. */
static inline uint64_t rnl__inflight_since(const struct rnl__inflight *f, uint64_t seq)
{
	/* relaxed: the owner wrote it */
	return atomic_load_explicit(&f->places[seq % f->limit].since, memory_order_relaxed);
}

/*
 * Begins to fetch what a join reads, which other CPUs have written: its lines, in turn.  @place: the join
 * looks for a job among those on the stream.
 */
static inline void rnl__inflight_fetch(const struct rnl__inflight *f)
{
	__builtin_prefetch(&f->reached);
}

static inline void rnl__inflight_fetch_event(struct rnl__inflight *f, bool place)
{
	/* relaxed: a guess at where the join will look */
	uint64_t nr = atomic_load_explicit(&f->nr_recorded, memory_order_relaxed);
	/* relaxed: the same */
	uint64_t reached = atomic_load_explicit(&f->reached, memory_order_relaxed);

	__builtin_prefetch(&f->recorded[nr % f->limit]);
	if (place)
		__builtin_prefetch(&f->places[(reached + 1) % f->limit]);
}

/*
 * The sequence of a job, issued at any time, from the @bits lowest bits of it: of one that is on the
 * stream, or of one that the device has passed.
 */
uint64_t rnl__inflight_whole(struct rnl__inflight *f, uint64_t low, unsigned bits);

/* The last job of a barrier on the stream, which has an event; 0: the device has passed it. */
uint64_t rnl__inflight_last_of(struct rnl__inflight *f, const struct rnl_barrier *barrier);

/*
 * Makes the calling thread's stream wait for job @seq, which was marked by an event, and for no
 * job behind that event.  @joined: up to which job the stream has waited before; it is changed.
 */
int rnl__inflight_join(struct rnl__inflight *f, uint64_t seq, uint64_t *joined);

/* Reads the clock. */
static inline uint64_t rnl__inflight_clock(struct rnl__inflight *f)
{
	f->now = rnl__now();
	return f->now;
}

static inline unsigned rnl__inflight_nr(struct rnl__inflight *f)
{
	return rnl__figure_read(&f->nr);
}

/* Whether no more jobs may be issued now. */
static inline bool rnl__inflight_enough(struct rnl__inflight *f)
{
	unsigned nr = rnl__inflight_nr(f);

	return nr == f->limit || rnl__pace_enough(&f->pace, nr);
}

/* Whether there is one job alone, which keeps the device busy for a while. */
static inline bool rnl__inflight_one_long(struct rnl__inflight *f)
{
	return rnl__inflight_nr(f) == 1 && rnl__pace_long(&f->pace);
}

/* Whether the oldest mark is reached, by the word alone. */
bool rnl__inflight_reached(struct rnl__inflight *f);

#endif
