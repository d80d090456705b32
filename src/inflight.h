/* SPDX-License-Identifier: MIT */
/*
 * What a worker has on its stream: its jobs in issue order, and marks that
 * tell how far the device has come.
 *
 * DESIGN
 *	Jobs are numbered as they are issued.  A mark says "all up to number n"
 *	and is placed behind them on the stream, in one of two ways or both:
 *	- an event, which costs the launches of nobody until it is queried, and
 *	  which other streams can wait for.  One stands for several jobs; it
 *	  is queried only when the worker may issue no more.
 *	- a write of n into a word of pinned memory, placed when nothing is
 *	  queued behind, because then somebody may be waiting.  Looking at the
 *	  word costs no driver call.
 *	A stream passes its marks in order, so a mark reached speaks for all
 *	before it.  A device that cannot write words gets events throughout.
 *	When the first work of several streams is issued at the same time, with writes behind
 *	it, some of it waits for that of others to end (seen on an H200 with driver 580: of 8
 *	kernels 3 to 7 ran).  So a worker's stream writes once before its first job.
 *	The event published last is what other streams join on.  It may be
 *	recorded anew meanwhile: that is further along the same stream, so the
 *	join waits longer than needed, never too short.
 *
 *		push	mark	poll	pop	join
 *	all but join: the worker that owns it
 *	join	-	-	-	-	-	any thread
 */
#ifndef RNL_INFLIGHT_H
#define RNL_INFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"
#include "device.h"

struct rnl__mark {
	uint64_t seq;			/* speaks for all jobs up to this one */
	struct rnl__event *event;
	bool recorded;			/* the event says it; else only the word */
};

struct rnl__inflight {
	struct rnl__device *device;
	struct rnl_job *first, *last;	/* issue order */
	uint64_t issued;		/* number of the last job */
	uint64_t marked;		/* that the last mark speaks for */
	uint64_t written;		/* that the last write will put in the word */
	uint64_t asked;			/* up to here no word is wanted: see rnl__inflight_ask() */
	struct rnl__mark *marks;	/* ring of `limit`, each with its event */
	unsigned first_mark, nr_marks;
	unsigned limit;
	bool writes;			/* the stream can write the word */
	uint32_t *word;			/* pinned; the low half of a job's number */
	_Atomic uint32_t nr;		/* jobs; others read it, and these: */
	_Atomic(struct rnl_job *) oldest; /* to be compared only; NULL: none */
	_Atomic uint64_t oldest_since;	/* coarse: when it became that */

	/* Read by threads that join. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t reached;
	_Atomic(struct rnl__event *) joinable;
};

/* @limit jobs at most.  0, -ENOMEM, -EIO; after a failure fini is still due. */
int rnl__inflight_init(struct rnl__inflight *f, struct rnl__device *device, unsigned limit);
void rnl__inflight_fini(struct rnl__inflight *f);

/* The calling thread's stream, new to it, will have the jobs.  0, -ENOMEM, -EIO. */
int rnl__inflight_begin(struct rnl__inflight *f);

/* Takes a job that was just issued; there is room. */
void rnl__inflight_push(struct rnl__inflight *f, struct rnl_job *job);

/* The number that the next job gets. */
static inline uint64_t rnl__inflight_next(const struct rnl__inflight *f)
{
	return f->issued + 1;
}

/*
 * Marks the end of what was issued: @event for joins and backlog, @write for
 * who waits.  0, or -EIO: the device has failed, and nothing is marked.
 */
int rnl__inflight_mark(struct rnl__inflight *f, bool event, bool write);

/*
 * The last job, marked by an event, gets no word behind it, but is asked for: writing
 * words holds up streams of large copies, by a sixth on an H200.
 */
static inline void rnl__inflight_ask(struct rnl__inflight *f)
{
	f->asked = f->issued;
}

/* Whether it is so with the last job. */
static inline bool rnl__inflight_asks(const struct rnl__inflight *f)
{
	return f->asked == f->issued;
}

/* Whether the oldest mark has to be asked for: no word will tell. */
static inline bool rnl__inflight_silent(const struct rnl__inflight *f)
{
	return f->nr_marks && f->written < f->marks[f->first_mark].seq;
}

/*
 * Looks how far the device is; @query asks the driver if the word does not
 * tell.  0, or -EIO.
 */
int rnl__inflight_poll(struct rnl__inflight *f, bool query);

/* The first job that the device has passed, taken off; or NULL. */
struct rnl_job *rnl__inflight_pop(struct rnl__inflight *f);

/* The device has failed: its marks say nothing any more. */
void rnl__inflight_forget(struct rnl__inflight *f);

/* The first job, whatever the device says. */
struct rnl_job *rnl__inflight_drop(struct rnl__inflight *f);

/* Makes the calling thread's stream wait for job @seq, which was marked by an event. */
int rnl__inflight_join(struct rnl__inflight *f, uint64_t seq);

static inline unsigned rnl__inflight_nr(struct rnl__inflight *f)
{
	/* relaxed: the owner's own count, or a figure */
	return atomic_load_explicit(&f->nr, memory_order_relaxed);
}

/* A look at the word alone: has the last mark been reached? */
bool rnl__inflight_passed(struct rnl__inflight *f);

#endif
