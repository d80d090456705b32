/* SPDX-License-Identifier: MIT */
/*
 * A worker's part of a trace: what it notes of each job, and a ring in which it
 * hands that over.
 *
 * DESIGN
 *	A worker has a track while a trace runs, else NULL, and looks at that one
 *	word of its own.  It alone writes the ring, the trace's writer alone
 *	reads it: two counts, no lock.  A full ring drops records, and counts them.
 *	A job gives one record when its function has returned, and, if it left
 *	something on the stream, more when that is done.
 *	Device times are those of timed events around what the job issues.  Such
 *	an event costs more than a microsecond, part of it under the driver's
 *	lock: so by default a worker times as many jobs as take a twentieth of
 *	its time, which are all of those that are worth it and some of the small
 *	ones.  Behind a timed job that is still under way, its end is the begin.
 *	A stream that has nothing to do reaches an event at once, and what comes
 *	behind it would seem to begin too early.  So of jobs that issue by functions
 *	of this library the begin is recorded right before the first of them, and
 *	nothing begins before it was issued; of others, when their function is
 *	called.  Which of the two the next job is, is taken from the last one.
 *	Where the device's clock is another than the host's, an event whose time
 *	on the host is known is what the others are counted from.  It is made
 *	anew when the worker is idle, and moved on once in a second, since
 *	clocks drift and CUDA counts in floats; and no job begins before its
 *	function, or ends after the worker saw it done: what says so is moved.
 *
 *	What the guard has captured is not on the stream yet: it has no times of its own.
 *
 *	All but the ring's reader are the worker's own thread.
 */
#ifndef RNL_TRACK_H
#define RNL_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "atomic.h"
#include "device.h"

#define RNL__TRACK_OPS 12	/* of one job, that have spans of their own */

enum rnl__track_kind {
	RNL__TRACK_CALL,	/* a job's function has returned */
	RNL__TRACK_DONE,	/* a job that was in flight is done */
	RNL__TRACK_CUT,		/* ... is not, but the trace ends */
	RNL__TRACK_BACK,	/* a callback has returned */
	RNL__TRACK_FOUND,	/* the guard has found something in a function */
	RNL__TRACK_IN,		/* an operation: a copy to the device, */
	RNL__TRACK_KERNEL,	/* a kernel, or a fill, */
	RNL__TRACK_OUT,		/* a copy from it */
};

/* All times are the host's nanoseconds. */
struct rnl__record {
	uint64_t id;			/* of the job, in the trace */
	uint64_t kind;			/* enum rnl__track_kind */
	union {
		struct {
			uint64_t queued;	/* 0: before the trace */
			uint64_t picked, issued;
			int (*fn)(struct rnl_job *job);
			const void *job, *barrier, *after;
			uint32_t producer;	/* thread that submitted it */
			int32_t result;
			uint64_t staged;	/* bytes of pageable memory that a CPU copied */
			bool in_flight;		/* there will be a DONE or a CUT */
		} call;
		struct {
			int (*fn)(struct rnl_job *job);
			uint64_t issued, done;
			uint64_t begin, end;	/* on the device; 0: it was not timed */
		} done;
		struct {
			void (*fn)(struct rnl_job *job);
			uint64_t begin, end;
		} back;
		struct {
			void (*fn)(void);
			uint64_t at;
			unsigned what;		/* bits, see device.h */
		} found;
		struct {
			uint64_t begin, end;
		} op;
	};
};

/* A job from its start to its end. */
struct rnl__track_job {
	uint64_t number;		/* its place on the stream; 0: none */
	int (*fn)(struct rnl_job *job);
	uint64_t id, queued, picked, issued, staged;
	struct rnl__event *begin, *end;	/* begin NULL, end not: at the end of the one before */
	struct rnl__event *ops[RNL__TRACK_OPS];
	uint64_t at[RNL__TRACK_OPS];	/* when each was issued: none begins before */
	uint8_t kinds[RNL__TRACK_OPS];
	unsigned nr_ops;
	bool timed;
};

struct rnl__track {
	struct rnl__device *device;
	unsigned index;			/* the worker's */
	bool urgent;
	uint32_t tid;			/* of its thread; 0: it has not come yet */
	enum rnl_trace_timing timing;
	int error;			/* of making events */
	_Atomic uint64_t *dropped_ever;	/* the worker's own figure */

	/* The worker's alone. */
	uint64_t nr_jobs;
	struct rnl__track_job *now;	/* whose function runs, if it is timed */
	struct rnl__track_job *jobs;	/* ring of `limit`, by number */
	unsigned limit;
	struct rnl__event **events;	/* free ones */
	unsigned nr_events, nr_free;
	uint64_t next_timed;		/* not before, by default */
	uint64_t last_number, last_end;	/* of the last timed job */
	bool tells;			/* that one told of its operations */

	/* The clock. */
	bool exact;			/* the device's is the host's */
	struct rnl__event *base;
	uint64_t base_ns;		/* when it was */
	uint64_t based;			/* when that was found out */

	/* The ring. */
	struct rnl__record *records;
	uint64_t nr_records;		/* a power of two */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t head;
	_Atomic uint64_t dropped;
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t tail;
};

/*
 * On the worker's thread, in between jobs, once there is memory for it: events and
 * the clock.  An error leaves the track untimed.
 */
void rnl__track_start(struct rnl__track *t);

/* The trace ends: those jobs in flight, the first of which is @first, stay unfinished. */
void rnl__track_stop(struct rnl__track *t, const struct rnl_job *first);

/*
 * A job's function is about to be called.
 * @number: its place on the stream, should it take one; @staged: bytes that the
 * worker has staged so far; @behind: the job before it may be under way.
 */
void rnl__track_begin(struct rnl__track *t, const struct rnl_job *job, uint64_t number,
		      uint64_t staged, bool behind);

/*
 * It returned, or was not called: @number 0 nothing is in flight.  @staged: as
 * before, now.
 */
void rnl__track_called(struct rnl__track *t, const struct rnl_job *job, uint64_t number,
		       uint64_t staged, int result);

/* A job that is not called at all. */
void rnl__track_unrun(struct rnl__track *t, const struct rnl_job *job, int result);

/* The job is done; @passed: by the device, and not by its failure. */
void rnl__track_done(struct rnl__track *t, uint64_t number, bool passed);

/* A job's callback was called at @begin, and has returned. */
void rnl__track_back(struct rnl__track *t, void (*fn)(struct rnl_job *job), uint64_t begin);

/* The guard has found that in a function. */
void rnl__track_found(struct rnl__track *t, void (*fn)(void), unsigned what);

/* The worker has nothing on its stream, and nothing to do. */
void rnl__track_idle(struct rnl__track *t, uint64_t now);

/* The job that runs is about to issue an operation. */
void rnl__track_issue(struct rnl__track *t);

/* It has issued such an operation. */
void rnl__track_op(struct rnl__track *t, enum rnl__track_kind kind);

/* The same of a copy, whose direction is to be found out. */
void rnl__track_copy(struct rnl__track *t, const struct rnl__copy *copy);

/* For the trace's writer: the next records in a row, and how many of them there are. */
const struct rnl__record *rnl__track_peek(struct rnl__track *t, uint64_t *nr);
void rnl__track_skip(struct rnl__track *t, uint64_t nr);

/* All events go; nobody records any more. */
void rnl__track_free(struct rnl__track *t);

#endif
