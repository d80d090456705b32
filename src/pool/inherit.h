/* SPDX-License-Identifier: MIT */
/*
 * Priority inheritance: jobs that a job of a smaller tier waits for run at that tier.
 *
 * DESIGN
 *	A job waits for jobs in two ways.  After a barrier it waits for rounds of jobs; with a key,
 *	for the jobs before it in its worker's keyed lane.
 *	Of each round a barrier has the largest tier of the round's jobs, whether some of them go to
 *	workers' queues, and the smallest tier of the jobs that wait for the round.  All are in one
 *	word.  So a job that is counted before the round is raised is seen by the raise, which looks
 *	for the jobs; and a job that is counted or put later sees the raise, and is put as raised.
 *	In its class's queue a raised job has a key of its own range, which names the tier.  So it
 *	goes before the other jobs of its class, and its class competes at that tier while it has
 *	such a job.  The timer thread changes the keys of jobs that are queued: a raise sets the
 *	barrier's tag in a set of 254 tags, and a search looks at the jobs that have such a tag, one
 *	byte of the slot.  A put that comes between the two asks for another search.
 *	In workers' queues, lanes are raised, up to the jobs that they have at that moment: the own
 *	class competes at that tier at the worker, or for its thief, until these are taken.  A keyed
 *	job of a class raises its own lane.  Which worker has a job of a round is not known, so a
 *	round raises the lanes of all workers.
 *	A job inherits when it is put, or when a job that is submitted waits for it.  So a job that
 *	waits already passes a later raise on only when it is put itself.
 */
#ifndef RNL_INHERIT_H
#define RNL_INHERIT_H

#include "class/class.h"
#include "pool/classes.h"
#include "pool/pool.h"
#include "stream/job_flags.h"

#define RNL__TIER_NONE (RNL__TIERS - 1)	/* no job is raised to the last tier */

/*
 * `slots` of a barrier: a bit for each slot in use; from ROUNDS on, for each slot the largest tier of
 * the round's jobs, RNL__TIER_NONE - the smallest tier of those that wait, and whether jobs are at workers.
 */
#define RNL__ROUND_SLOTS 8u
#define RNL__ROUND_BITS 7u
#define RNL__ROUND_TIER 7u
#define RNL__ROUND_RAISED_SHIFT 3u
#define RNL__ROUND_AT_WORKERS 64u

_Static_assert(RNL__TIER_NONE <= RNL__ROUND_TIER, "a tier has three bits");
_Static_assert(RNL__ROUND_SLOTS * (1 + RNL__ROUND_BITS) <= 64, "a word has all slots");

static inline unsigned rnl__round_shift(unsigned slot)
{
	return RNL__ROUND_SLOTS + slot * RNL__ROUND_BITS;
}

/* Returns the bits of a slot: in use, and of its round. */
static inline uint64_t rnl__round_mask(unsigned slot)
{
	return UINT64_C(1) << slot |
	       ((UINT64_C(1) << RNL__ROUND_BITS) - 1) << rnl__round_shift(slot);
}

/* ---- for jobs ------------------------------------------------------------ */

/* rnl__inherit_count() in a pool with classes. */
void rnl__inherit_count_tier(const struct rnl_job *job, const struct rnl_job *queued);

/*
 * Counts an accepted job in the tiers of its barrier's round.  @queued: the job, or the first one of
 * its chain.
 */
static inline void rnl__inherit_count(const struct rnl_job *job, const struct rnl_job *queued)
{
	if (__builtin_expect(rnl__classes_of(queued->pool) != NULL, false))
		rnl__inherit_count_tier(job, queued);
}

/* Returns the tier of the class of a claimed job.  The pool has classes. */
unsigned rnl__inherit_class(const struct rnl_pool *pool, const struct rnl_job *job);

/* Returns true if the job may inherit a tier. */
static inline bool rnl__inherit_may(const struct rnl_job *job)
{
	return job->barrier || job->flags & RNL__JOB_LEADS;
}

/* Returns the tier of an accepted job: its class's, or a smaller one that it inherits. */
unsigned rnl__inherit_tier(const struct rnl_job *job);

/*
 * Raises a round, which a job of the tier waits for.  Returns the round's bits if the caller must raise
 * queued jobs: rnl__classes_raise(); else 0.
 */
unsigned rnl__inherit_wait(struct rnl_barrier *b, unsigned slot, unsigned tier);

/* ---- for classes' queues ------------------------------------------------- */

/* Return the tag of a slot with a job of the barrier, and with this job. */
uint8_t rnl__inherit_tag_of(const struct rnl_barrier *b);
uint8_t rnl__inherit_tag(const struct rnl_job *job);

/* Returns a count that each raise changes; a put reads it before it reads the job's tier. */
uint32_t rnl__inherit_raises(struct rnl__classes *classes);

/* Takes the tags of the jobs that a search must look at. */
void rnl__inherit_take_tags(struct rnl__classes *classes, uint64_t tags[RNL__PRIOQ_TAGS / 64]);

/* ---- for workers' queues ------------------------------------------------- */

#define RNL__LANE_OPEN 2u

/* Returns the lane of a job, for rnl__inherit_raise_lane(). */
unsigned rnl__inherit_lane(const struct rnl__queue *q, const struct rnl_job *job);

/* Raises a lane up to the jobs that it has now.  A full barrier must precede. */
void rnl__inherit_raise_lane(struct rnl__queue *q, unsigned lane, unsigned tier);

/* Raises all lanes of all workers in this way. */
void rnl__inherit_raise_workers(struct rnl_pool *pool, unsigned tier);

/* Returns the tier of the own class for a worker that takes its jobs @from a worker, or itself. */
unsigned rnl__inherit_tier_at(const struct rnl__worker *w, struct rnl__worker *from);

#endif
