/* SPDX-License-Identifier: MIT */
/* The bits of a job's `flags`, its rounds, and its phases. */
#ifndef RNL_JOB_FLAGS_H
#define RNL_JOB_FLAGS_H

#include <stdbool.h>

#include <runnel/more.h>

#include "sys/atomic.h"

_Static_assert(RNL_DEVICES_MAX <= 128, "a device's number leaves a bit for RNL__JOB_TO_REAP");

/* `phase`: job/job.h. */
enum {
	RNL__JOB_DELAYED =
		1, /* with the timer thread: waits for its time, space, or the pool's end */
	RNL__JOB_QUEUED,
	RNL__JOB_STARTED,
	RNL__JOB_ASKED, /* started, and cancelled since: it may end early */
	RNL__JOB_CANCELLED,
	RNL__JOB_DONE,
};

/* Kept from submit to submit. */
#define RNL__JOB_DEADLINE 2u	/* expires if it has not started deadline_ns after its submit */
#define RNL__JOB_LARGE 4u	/* keeps the device busy for long: it gets its own mark */
#define RNL__JOB_INTERNAL 8u	/* a map or a batch: its function guards the callers' code itself */
#define RNL__JOB_REAPED 4096u	/* has a completion queue, and no callback */
#define RNL__JOB_CHAINED 8192u	/* is named by `then` of the job before it */
#define RNL__JOB_LED 16384u	/* the next job of its chain was passed on */
#define RNL__JOB_ORDERED 32768u	/* waits for its turn in an order */
#define RNL__JOB_TELLS 65536u	/* was given to rnl_barrier_notify() */
#define RNL__JOB_GATHERS 131072u /* its work may be issued together with that of other jobs */
#define RNL__JOB_REPLAYS 262144u /* its function issues the same work each time */
/* Rarely used fields are in the job's second cache line; these flags say whether to read it. */
#define RNL__JOB_CALLS 524288u	/* has a callback */
#define RNL__JOB_LEADS 1048576u	/* has a next job in its chain: `then` */
#define RNL__JOB_PLACED 2097152u /* names a device of its pool: `device` */
#define RNL__JOB_REQUEST 4194304u /* a batcher's request: without a function, never submitted */
#define RNL__JOB_CAPTURED 16777216u /* is replayed, and recorded by stream capture */
#define RNL__JOB_KEY 33554432u	/* has a key of its own: `key` */
#define RNL__JOB_MORE 268435456u /* has rarely used properties: `more` */
#define RNL__JOB_CLASS 536870912u /* names a class: `class_id` */
#define RNL__JOB_CLASS_DEADLINE 2147483648u /* its deadline is its class's */
#define RNL__JOB_LASTING \
	(RNL__JOB_DEADLINE | RNL__JOB_LARGE | RNL__JOB_INTERNAL | \
	 RNL__JOB_REAPED | RNL__JOB_GATHERS | RNL__JOB_REPLAYS | RNL__JOB_CALLS | RNL__JOB_LEADS | \
	 RNL__JOB_PLACED | RNL__JOB_REQUEST | RNL__JOB_CAPTURED | RNL__JOB_KEY | RNL__JOB_MORE | \
	 RNL__JOB_CLASS | RNL__JOB_CLASS_DEADLINE)

/*
 * Set anew by each submit, or by the run.  With neither KEYED nor FIRST, the lane is the open one.
 * The lane of a job that is PLACED and not KEYED is the one for placed jobs.
 */
#define RNL__JOB_KEYED 16u	/* its lane is the keyed one of its staff's generation */
#define RNL__JOB_FIRST 32u	/* a notice for space: its lane is the first one */
#define RNL__JOB_TIMED 64u	/* its times go to the statistics */
#define RNL__JOB_TRACED 128u	/* a trace ran when it was submitted */
#define RNL__JOB_OWES 256u	/* staged output or a hold may outlast its work on the stream */
#define RNL__JOB_UNRUN 512u	/* its function was not called */
#define RNL__JOB_ORDER 67108864u /* is in an order, and has the order's key */
#define RNL__JOB_AT 134217728u	/* has a start time */
#define RNL__JOB_LAST 1024u	/* a notice for the pool's end; only its own cancel cancels it */
#define RNL__JOB_MARKED 8388608u /* a notice, which needs no function */
#define RNL__JOB_HELD 2048u	/* its function took a hold: `holds` counts */
#define RNL__JOB_CLASSED 1073741824u /* is in a class: `class_index` */

/* Writes the job's class, which a thread that cancels the job may read. */
static inline void rnl__job_set_class_index(struct rnl_job *job, unsigned index)
{
	/* relaxed: a cancel that reads another class finds nothing to do there */
	atomic_store_explicit(rnl__atomic(&job->class_index), (uint8_t)index, memory_order_relaxed);
}

/* Writes the job's place in its class's queue, or what it is expected to cost. */
static inline void rnl__job_set_class_slot(struct rnl_job *job, unsigned slot)
{
	/* relaxed: like the class */
	atomic_store_explicit(rnl__atomic(&job->class_slot), (uint16_t)slot, memory_order_relaxed);
}

/* Returns true if the job is queued in its class, and not in a worker's queue. */
static inline bool rnl__job_in_class(const struct rnl_job *job)
{
	return (job->flags & (RNL__JOB_CLASSED | RNL__JOB_KEYED)) == RNL__JOB_CLASSED;
}

/*
 * `device`: the device number of a PLACED job, and one more bit.  The worker changes `flags` while
 * the job is under way, but never `device`, so a thread that waits for the job reads the bit.
 */
#define RNL__JOB_TO_REAP 128u	/* has a completion queue */

/* Returns the barrier that rnl_job_set_after() has set; `more` has the other ones. */
static inline struct rnl_barrier *rnl__job_first_after(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_MORE ? job->more->first : job->after;
}

/* Returns how many further barriers `more` has. */
static inline unsigned rnl__job_nr_more_after(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_MORE ? job->more->nr_after : 0;
}

/* Returns true if the job comes after a barrier. */
static inline bool rnl__job_follows(const struct rnl_job *job)
{
	return rnl__job_first_after(job) || rnl__job_nr_more_after(job);
}

static inline unsigned rnl__job_device(const struct rnl_job *job)
{
	return job->device & ~RNL__JOB_TO_REAP;
}

static inline void rnl__job_set_device(struct rnl_job *job, unsigned device)
{
	job->device = (uint8_t)((job->device & RNL__JOB_TO_REAP) | device);
}

static inline void rnl__job_set_to_reap(struct rnl_job *job, bool to_reap)
{
	job->device = (uint8_t)(rnl__job_device(job) | (to_reap ? RNL__JOB_TO_REAP : 0));
}

/* `rounds`: the slot of the job's own round | the slot of the round that it comes after << 4. */
#define RNL__NO_ROUND 15	/* waits for no job */

static inline unsigned rnl__job_round(const struct rnl_job *job)
{
	return job->rounds & 15u;
}

static inline unsigned rnl__job_after_round(const struct rnl_job *job)
{
	return job->rounds >> 4;
}

static inline void rnl__job_set_round(struct rnl_job *job, unsigned round)
{
	job->rounds = (uint8_t)((job->rounds & 0xf0u) | round);
}

static inline void rnl__job_set_after_round(struct rnl_job *job, unsigned round)
{
	job->rounds = (uint8_t)(rnl__job_round(job) | round << 4);
}

#endif
