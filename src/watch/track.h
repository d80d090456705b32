/* SPDX-License-Identifier: MIT */
/*
 * A worker's part of a trace: its notes on each job, and the ring that passes them on.
 *
 * DESIGN
 *	A worker has a pointer to its track, NULL if no trace runs: a job then costs one read of it.
 *	The worker is the ring's only writer, and the trace's writer its only reader, so two counts
 *	are enough, without a lock.  A full ring drops records, and counts them.
 *	A job makes one record when its function returns, and more when it is done, if it left work
 *	on the stream.
 *	track_time.h has the times of the work on the device.
 *
 *	The worker's own thread calls these functions, except where a comment says otherwise.
 */
#ifndef RNL_TRACK_H
#define RNL_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/trace.h>

#include "sys/atomic.h"
#include "device/device.h"

#define RNL__TRACK_OPS 12	/* operations of a job that get their own spans */
#define RNL__TRACK_FIRST 4096	/* jobs of a worker that are all timed by default: runnel/trace.h */

enum rnl__track_kind {
	RNL__TRACK_CALL,	/* a job's function has returned */
	RNL__TRACK_DONE,	/* a job that was in flight is done */
	RNL__TRACK_CUT,		/* a job is still in flight when the trace ends */
	RNL__TRACK_BACK,	/* a callback has returned */
	RNL__TRACK_HELD,	/* a job has waited for its holds */
	RNL__TRACK_FOUND,	/* the guard has found something in a function */
	RNL__TRACK_AFTER,	/* one more barrier that the job of the previous CALL came after */
	RNL__TRACK_IN,		/* an operation: a copy to the device */
	RNL__TRACK_KERNEL,	/* an operation: a kernel, or a fill */
	RNL__TRACK_OUT,		/* an operation: a copy from the device */
};

/* All times are the host's nanoseconds. */
struct rnl__track_record {
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
			uint8_t trace_id[16];	/* zero: the job has none */
			uint32_t class;		/* its class's id; 0: it has none */
			bool in_flight;		/* a DONE or a CUT will follow */
		} call;
		struct {
			int (*fn)(struct rnl_job *job);
			uint64_t issued, done;
			uint64_t begin, end;	/* on the device; 0: the job was not timed */
		} done;
		struct {
			void (*fn)(struct rnl_job *job);
			uint64_t begin, end;
		} back;
		struct {
			int (*fn)(struct rnl_job *job);
			uint64_t begin, end;
		} held;
		struct {
			void (*fn)(void);
			uint64_t at;
			unsigned what;		/* bits, see device.h */
		} found;
		struct {
			const void *barrier;
			uint64_t picked;
		} after;
		struct {
			uint64_t begin, end;
		} op;
	};
};

/* A job from its start to its end. */
struct rnl__track_job {
	uint64_t seq;			/* 0: no job */
	int (*fn)(struct rnl_job *job);
	uint64_t id, queued, picked, issued, staged;
	uint32_t producer;
	struct rnl__event *begin, *end;	/* begin NULL: it begins where the job before it ends */
	struct rnl__event *ops[RNL__TRACK_OPS];
	uint64_t at[RNL__TRACK_OPS];	/* issue time of each operation */
	uint8_t kinds[RNL__TRACK_OPS];
	unsigned nr_ops;
	bool timed;
};

struct rnl__track {
	struct rnl__device *device;
	unsigned index;			/* the worker's */
	bool of_class;
	uint32_t tid;			/* of the worker's thread */
	enum rnl_trace_timing timing;
	int error;			/* why there are no events */
	_Atomic uint64_t *dropped_ever;	/* the worker's own count of dropped records */

	/* Used by the worker only. */
	uint64_t nr_jobs;
	struct rnl__track_job *now;	/* the job whose function runs */
	struct rnl__track_job *jobs;	/* ring of `limit`, by sequence */
	unsigned limit;
	struct rnl__event **events;	/* free ones */
	unsigned nr_events, nr_free;
	uint64_t next_timed;		/* by default, no job is timed before this time */
	uint64_t last_seq, last_end;	/* of the last timed job */
	bool tells;			/* the last timed job called rnl_launch(), rnl_copy() ... */

	/* The clock. */
	bool exact;			/* the device's clock is the host's */
	struct rnl__event *base;
	uint64_t base_ns;		/* the time of `base` on the host */
	uint64_t based;			/* when the base was last measured */

	/* The ring. */
	struct rnl__track_record *records;
	uint64_t nr_records;		/* a power of two */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t head;
	_Atomic uint64_t dropped;
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t tail;
};

/* The tracks of a trace: each worker makes its own. */
struct rnl__tracks {
	enum rnl_trace_timing timing;
	unsigned limit;			/* jobs in flight at once */
	uint64_t nr_records;		/* of each ring */
	_Atomic int error;		/* the first error of a track */
	_Atomic uint32_t tids[RNL_WORKERS_MAX];
	_Atomic(struct rnl__track *) of[RNL_WORKERS_MAX]; /* NULL: the worker has none */
};

/* Returns the track of a worker, or NULL. */
static inline struct rnl__track *rnl__tracks_at(struct rnl__tracks *tracks, unsigned index)
{
	/* [track.N2] acquire: the track, as it was made; pairs with [track.N1] */
	return atomic_load_explicit(&tracks->of[index], memory_order_acquire);
}

/*
 * Begins the calling worker's track, between jobs.  @like has its device, index, of_class and
 * dropped_ever.  Returns NULL if there is no memory.  A track that an earlier thread of the worker
 * made goes on, with that thread's tid.
 */
struct rnl__track *rnl__tracks_begin(struct rnl__tracks *tracks, const struct rnl__track *like);

/* Frees the tracks' memory.  No thread may use them any more. */
void rnl__tracks_free(struct rnl__tracks *tracks);

/*
 * Makes the events and finds the clock's base, between jobs.  After an error no job is timed.
 * Returns false if there is no memory to note jobs.
 */
bool rnl__track_start(struct rnl__track *t);

/* The trace ends: notes that the jobs in flight, from @first on, were cut. */
void rnl__track_stop(struct rnl__track *t, const struct rnl_job *first);

/*
 * A job's function will be called now.
 * @seq: the job's sequence number, if it leaves work on the stream; @staged: bytes that the worker
 * has staged so far; @behind: the previous job may be in flight.
 */
void rnl__track_begin(struct rnl__track *t, const struct rnl_job *job, uint64_t seq,
		      uint64_t staged, bool behind);

/*
 * The function has returned.  @class: the id of the job's class, or 0; @seq: 0 if no work is left
 * on the stream; @staged: as of now.
 */
void rnl__track_called(struct rnl__track *t, const struct rnl_job *job, uint32_t class,
		       uint64_t seq, uint64_t staged, int result);

/* A job's function will not be called. */
void rnl__track_unrun(struct rnl__track *t, const struct rnl_job *job, uint32_t class, int result);

/* A job is done.  @passed: it was completed on the device, which has not failed. */
void rnl__track_done(struct rnl__track *t, uint64_t seq, bool passed);

/* A job's callback, which was called at @begin, has returned. */
void rnl__track_back(struct rnl__track *t, void (*fn)(struct rnl_job *job), uint64_t begin);

/* A job has waited for its holds since @begin, and will be done now. */
void rnl__track_held(struct rnl__track *t, int (*fn)(struct rnl_job *job), uint64_t begin);

/* The guard has found something in a function. */
void rnl__track_found(struct rnl__track *t, void (*fn)(void), unsigned what);

/* The worker has nothing on its stream, and no other work. */
void rnl__track_idle(struct rnl__track *t, uint64_t now);

/* The running job will issue an operation now. */
void rnl__track_issue(struct rnl__track *t);

/* The running job has issued an operation of that kind. */
void rnl__track_op(struct rnl__track *t, enum rnl__track_kind kind);

/* The running job has issued a copy.  Finds out the copy's direction. */
void rnl__track_copy(struct rnl__track *t, const struct rnl__copy *copy);

/* For the trace's writer: returns the next records, @nr consecutive ones. */
const struct rnl__track_record *rnl__track_peek(struct rnl__track *t, uint64_t *nr);
void rnl__track_skip(struct rnl__track *t, uint64_t nr);

/* Frees the track's resources.  No thread may use it any more. */
void rnl__track_free(struct rnl__track *t);

#endif
