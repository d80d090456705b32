/* SPDX-License-Identifier: MIT */
/*
 * The jobs on a worker's stream, in issue order, and marks that show how far the device has come.
 *
 * DESIGN
 *	Each job gets a sequence number when it is issued.  A mark covers all jobs up to number n.
 *	It is placed after them on the stream, as one or both of:
 *	- an event.  Other streams can wait for it, and it slows no launch until it is queried.  One
 *	  event covers several jobs; the worker queries it only when it may issue no more jobs.
 *	- a write of n to a word of pinned memory.  It is placed when no more jobs are queued, as a
 *	  thread may wait then, and after a group.  Reading the word costs no driver call.
 *	A stream reaches its marks in order, so a reached mark covers all marks before it.  A device
 *	that cannot write words uses only events.
 *	If several streams issue their first work at the same time, followed by writes, some of that
 *	work waits until other work ends (on an H200 with driver 580, only 3 to 7 of 8 kernels ran).
 *	So a worker's stream writes once before its first job.
 *	Events are recorded in turn, in a ring.  A thread that joins searches them from the latest
 *	back, to the earliest event after the awaited job.  That event may be recorded anew
 *	meanwhile, further along the stream.  Then the join waits longer than it must, never less.
 *	A worker notes how far its stream has waited for each other stream, so as not to wait again.
 *	A barrier notes its last job on each of the first workers that it meets.  On other workers a
 *	join searches the jobs on the stream for the barrier's last job, from the latest one back.
 *	Model: tests/model/join.pml.
 *
 *		push	mark	poll	pop	join
 *	all but join: the owning worker only
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

#define RNL__MARK_EVERY 8u	/* jobs that one event covers under backlog ... */
#define RNL__MARK_NS 200000u	/* ... if neither host nor device takes longer for them */
#define RNL__LARGE_MOVE (4u << 20) /* bytes; a job that copies as much gets an event of its own */

struct rnl__mark {
	uint64_t seq;			/* the mark covers all jobs up to this one */
	uint64_t since;			/* at or before the issue of the first of its jobs */
	uint64_t placed;		/* at or after the placement of the mark */
	struct rnl__event *event;	/* NULL: the mark is only the word */
};

/* An event, and the last mark for which it was recorded. */
struct rnl__recorded {
	_Atomic uint64_t seq;
	struct rnl__event *event;
};

/* A job on the stream, as other threads see it. */
struct rnl__place {
	_Atomic(struct rnl_job *) job;	/* for comparison only; NULL: no job */
	_Atomic(struct rnl_barrier *) barrier; /* the job's; for comparison only */
	_Atomic uint64_t since;		/* time of issue; coarse unless the job is TIMED */
};

struct rnl__inflight {
	struct rnl__device *device;
	struct rnl_job *first, *last;	/* issue order */
	uint64_t issued;		/* sequence of the last job */
	uint64_t marked;		/* sequence that the last mark covers */
	uint64_t written;		/* sequence that the last write puts into the word */
	uint64_t asked;			/* sequence of the job whose event the worker queries */
	uint64_t now;			/* the worker's last reading of the clock */
	uint64_t looked;		/* when the worker last looked for a reached mark, or had none */
	uint64_t unmarked_since;	/* at or before the issue of the first unmarked job */
	uint64_t unmarked_ns;		/* estimate for the unmarked jobs */
	uint64_t reached_at;		/* when the worker last saw a mark reached */
	struct rnl__pace pace;
	struct rnl__mark *marks;	/* ring of `limit` */
	unsigned first_mark, nr_marks;
	bool writes;			/* the stream can write the word */
	uint32_t *word;			/* pinned; the low half of a sequence number */
	/* Other threads read these. */
	_Atomic uint32_t nr;		/* jobs */
	_Atomic(struct rnl_job *) oldest; /* for comparison only; NULL: no job */
	_Atomic uint64_t oldest_since;	/* coarse: when that job became the oldest */

	/* Read by threads that join. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t reached;
	_Atomic uint64_t nr_recorded;	/* events recorded so far */
	struct rnl__recorded *recorded;	/* ring of `limit`: the n-th is at n % limit */
	struct rnl__place *places;	/* ring of `limit`, by sequence */
	unsigned limit;
};

/*
 * Sets up room for @limit jobs; fewer are enough if they keep the device busy for @enough_ns.
 * Returns 0, -ENOMEM or -EIO.  After a failure, fini must still be called.
 */
int rnl__inflight_init(struct rnl__inflight *f, struct rnl__device *device, unsigned limit,
		       uint64_t enough_ns);
void rnl__inflight_fini(struct rnl__inflight *f);

/* Uses the calling thread's stream from now on.  Returns 0, -ENOMEM or -EIO. */
int rnl__inflight_begin(struct rnl__inflight *f);

/* Adds a job that was just issued.  There must be space. */
void rnl__inflight_push(struct rnl__inflight *f, struct rnl_job *job);

/* Returns the sequence number that the next job gets. */
static inline uint64_t rnl__inflight_next(const struct rnl__inflight *f)
{
	return f->issued + 1;
}

/*
 * Places a mark after all issued work: @event for joins and backlog, @write for threads that wait.
 * Returns 0, or -EIO if the device has failed; then there is no mark.
 */
int rnl__inflight_mark(struct rnl__inflight *f, bool event, bool write);

/*
 * Notes that the last job has an event and gets no written word, so the worker queries the event.
 * Written words slow streams of large copies by a sixth on an H200.
 */
static inline void rnl__inflight_ask(struct rnl__inflight *f)
{
	f->asked = f->issued;
}

/* Returns true if the worker queries the last job's event. */
static inline bool rnl__inflight_asks(const struct rnl__inflight *f)
{
	return f->asked == f->issued;
}

/* Returns true if the oldest mark must be queried, because no written word will show it. */
static inline bool rnl__inflight_silent(const struct rnl__inflight *f)
{
	return f->nr_marks && f->written < f->marks[f->first_mark].seq;
}

/*
 * Looks how far the device has come.  If the word does not show it, queries the driver for the
 * @query-th oldest mark; 0: no query.  Returns 0 or -EIO.
 */
int rnl__inflight_poll(struct rnl__inflight *f, unsigned query);

/* Takes the first job off if it is completed on the device; else returns NULL. */
struct rnl_job *rnl__inflight_pop(struct rnl__inflight *f);

/* The device has failed: discards its marks. */
void rnl__inflight_forget(struct rnl__inflight *f);

/* Takes the first job off, completed or not; NULL: there is no job. */
struct rnl_job *rnl__inflight_drop(struct rnl__inflight *f);

/* Returns the issue time of a job that was just popped; exact if the job is TIMED. */
static inline uint64_t rnl__inflight_since(const struct rnl__inflight *f, uint64_t seq)
{
	/* relaxed: the owner wrote it */
	return atomic_load_explicit(&f->places[seq % f->limit].since, memory_order_relaxed);
}

/*
 * Prefetch the cache lines that a join reads and other CPUs have written, one after the other.
 * @place: the join looks for a job among those on the stream.
 */
static inline void rnl__inflight_fetch(const struct rnl__inflight *f)
{
	__builtin_prefetch(&f->reached);
}

static inline void rnl__inflight_fetch_event(struct rnl__inflight *f, bool place)
{
	/* relaxed: a guess at where the join will look */
	uint64_t nr = atomic_load_explicit(&f->nr_recorded, memory_order_relaxed);
	/* relaxed: a guess, too */
	uint64_t reached = atomic_load_explicit(&f->reached, memory_order_relaxed);

	__builtin_prefetch(&f->recorded[nr % f->limit]);
	if (place)
		__builtin_prefetch(&f->places[(reached + 1) % f->limit]);
}

/*
 * Returns the full sequence of a job, issued at any time, from its @bits lowest bits.  The job must
 * be on the stream or completed on the device.
 */
uint64_t rnl__inflight_whole(struct rnl__inflight *f, uint64_t low, unsigned bits);

/* Returns a barrier's last job on the stream, which has an event; 0: it is completed. */
uint64_t rnl__inflight_last_of(struct rnl__inflight *f, const struct rnl_barrier *barrier);

/*
 * Makes the calling thread's stream wait for job @seq, which was marked by an event, but not for
 * jobs after that event.  @joined: the last job that the stream has waited for; updated.  @own: the
 * calling worker's jobs, which are marked before its stream waits; NULL: another thread calls.
 */
int rnl__inflight_join(struct rnl__inflight *f, uint64_t seq, uint64_t *joined,
		       struct rnl__inflight *own);

/* Reads the clock, and keeps the reading. */
static inline uint64_t rnl__inflight_clock(struct rnl__inflight *f)
{
	f->now = rnl__now();
	return f->now;
}

static inline unsigned rnl__inflight_nr(struct rnl__inflight *f)
{
	return rnl__figure_read(&f->nr);
}

/* Returns true if no more jobs may be issued now. */
static inline bool rnl__inflight_enough(struct rnl__inflight *f)
{
	unsigned nr = rnl__inflight_nr(f);

	return nr == f->limit || rnl__pace_enough(&f->pace, nr);
}

/* Returns true if there is only one job, which keeps the device busy for a while. */
static inline bool rnl__inflight_one_long(struct rnl__inflight *f)
{
	return rnl__inflight_nr(f) == 1 && rnl__pace_long(&f->pace);
}

/* Returns true if the oldest mark is reached according to the word; makes no query. */
bool rnl__inflight_reached(struct rnl__inflight *f);

#endif
