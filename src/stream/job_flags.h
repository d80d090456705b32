/* SPDX-License-Identifier: MIT */
/* The bits of a job's `flags`, and its rounds. */
#ifndef RNL_JOB_FLAGS_H
#define RNL_JOB_FLAGS_H

#include <stdbool.h>

#include <runnel/more.h>

_Static_assert(RNL_DEVICES_MAX <= 128, "a device's number leaves a bit for RNL__JOB_TO_REAP");

/* They stay from submit to submit. */
#define RNL__JOB_URGENT 1u	/* goes to the urgent workers, before other jobs */
#define RNL__JOB_DEADLINE 2u	/* is not started later than deadline_ns after its submit */
#define RNL__JOB_LARGE 4u	/* takes the device long: it gets a mark of its own */
#define RNL__JOB_INTERNAL 8u	/* map or batch: its function guards the callers' code itself */
#define RNL__JOB_REAPED 4096u	/* it has a completion queue, and no callback */
#define RNL__JOB_CHAINED 8192u	/* it comes by `then` of the job before it */
#define RNL__JOB_LED 16384u	/* the job that it names by `then` was handed on */
#define RNL__JOB_ORDERED 32768u	/* it waits in its order */
#define RNL__JOB_TELLS 65536u	/* it was given to rnl_barrier_notify() */
#define RNL__JOB_GATHERS 131072u /* what it issues may go with the work of other jobs */
#define RNL__JOB_REPLAYS 262144u /* its function issues the same each time */
/* What most jobs have not is in a job's second line: it is read only if one of these is set. */
#define RNL__JOB_CALLS 524288u	/* it has a callback */
#define RNL__JOB_LEADS 1048576u	/* a job is behind it, by `then` */
#define RNL__JOB_PLACED 2097152u /* it names a device of its pool: `device` */
#define RNL__JOB_REQUEST 4194304u /* a batcher's: it has no function, and is never submitted */
#define RNL__JOB_CAPTURED 16777216u /* it REPLAYS, and is recorded by stream capture */
#define RNL__JOB_KEY 33554432u	/* it has a key of its own: `key` */
#define RNL__JOB_MORE 268435456u /* it names what few jobs have: `more` */
#define RNL__JOB_LASTING \
	(RNL__JOB_URGENT | RNL__JOB_DEADLINE | RNL__JOB_LARGE | RNL__JOB_INTERNAL | \
	 RNL__JOB_REAPED | RNL__JOB_GATHERS | RNL__JOB_REPLAYS | RNL__JOB_CALLS | RNL__JOB_LEADS | \
	 RNL__JOB_PLACED | RNL__JOB_REQUEST | RNL__JOB_CAPTURED | RNL__JOB_KEY | RNL__JOB_MORE)

/*
 * A submit, or the run, sets them anew.  With neither KEYED nor FIRST the lane is the open one, and
 * of a job that is PLACED and not KEYED it is the device's.
 */
#define RNL__JOB_KEYED 16u	/* its lane is the keyed one of its staff's generation */
#define RNL__JOB_FIRST 32u	/* its lane is the urgent one */
#define RNL__JOB_TIMED 64u	/* the statistics get its times */
#define RNL__JOB_TRACED 128u	/* a trace ran when it was submitted */
#define RNL__JOB_OWES 256u	/* its worker has yet to write what it copied out */
#define RNL__JOB_UNRUN 512u	/* its function was not called */
#define RNL__JOB_ORDER 67108864u /* it is in an order, whose key it has */
#define RNL__JOB_AT 134217728u	/* it has a time */
#define RNL__JOB_LAST 1024u	/* a notice that waits for the pool's end: it is cancelled alone */
#define RNL__JOB_MARKED 8388608u /* a notice, which needs no function */
#define RNL__JOB_HELD 2048u	/* its function took a hold: `holds` counts */

/*
 * `device`: the number of the device of a job that is PLACED, and a bit.  Its worker changes `flags`
 * while the job is under way, and never `device`: so a thread that waits for the job reads the bit.
 */
#define RNL__JOB_TO_REAP 128u	/* it has a completion queue */

/* The barrier that rnl_job_set_after() has set; of others `more` knows. */
static inline struct rnl_barrier *rnl__job_first_after(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_MORE ? job->more->first : job->after;
}

/* How many barriers `more` has besides. */
static inline unsigned rnl__job_nr_more_after(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_MORE ? job->more->nr_after : 0;
}

/* Whether the job comes after a barrier. */
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

/* `rounds`: the slot of its round in its barrier, and of the round in the first that it follows << 4. */
#define RNL__NO_ROUND 15	/* it waits for no job */

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
