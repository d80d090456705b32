/* SPDX-License-Identifier: MIT */
/*
 * Estimates how long the jobs on a worker's stream will take the device, from the times of earlier
 * jobs.  So a worker issues enough jobs to keep the device busy for a while, and no more.
 *
 * DESIGN
 *	A table has an estimate for each job function; functions may share an entry.  A job of a
 *	function that never ran counts as long: together with one other job it is enough.  A job
 *	keeps the estimate of its issue until it leaves the stream, or is known to take longer.
 *	The worker measures only bounds.  It looks seldom, and may itself be delayed, in its jobs'
 *	functions or by the driver's lock.  So an estimate rises immediately, but only to the time
 *	that jobs have certainly taken: their mark was not reached yet.  The estimates of the jobs
 *	on the stream rise, too, so no more jobs are issued after a job that runs longer than
 *	expected.  An estimate falls step by step, and only to the longest time that jobs can have
 *	taken: their mark was reached.
 *	Jobs of one mark share the time in proportion to their estimates.
 *	Internal jobs do not count: maps and batches limit their jobs in flight themselves.  A time
 *	that includes such a job is not used.
 *	Only the owning worker uses all of it.
 */
#ifndef RNL_PACE_H
#define RNL_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct rnl_job;

#define RNL__PACE_ENTRIES 256u
#define RNL__PACE_UNKNOWN_NS 1000000u	/* most that a function that never ran counts */

struct rnl__pace_job {
	uint32_t ns;			/* 0: the job does not count */
	uint32_t entry;			/* of the job's function */
};

struct rnl__pace {
	struct rnl__pace_job *jobs;	/* ring of `limit`, by sequence */
	unsigned limit;
	uint64_t enough_ns;		/* how long to keep the device busy; UINT64_MAX: no limit */
	uint64_t ahead_ns;		/* sum of all jobs on the stream */
	uint32_t known[RNL__PACE_ENTRIES];
};

/* Until it ran, a function counts @enough_ns, RNL__PACE_UNKNOWN_NS at most.  Returns 0, -ENOMEM. */
int rnl__pace_init(struct rnl__pace *p, unsigned limit, uint64_t enough_ns);
void rnl__pace_fini(struct rnl__pace *p);

/* Returns the estimate for a job; 0: it does not count. */
uint32_t rnl__pace_guess(const struct rnl__pace *p, const struct rnl_job *job);

/* Returns the estimate that the job with sequence @seq had on the stream. */
static inline uint32_t rnl__pace_of(const struct rnl__pace *p, uint64_t seq)
{
	return p->jobs[seq % p->limit].ns;
}

/* _add: the job gets sequence @seq.  _drop: the job with sequence @seq leaves the stream. */
void rnl__pace_add(struct rnl__pace *p, const struct rnl_job *job, uint64_t seq);
void rnl__pace_drop(struct rnl__pace *p, uint64_t seq);

/* The jobs @first to @last, all still on the stream, took the device at most, or at least, @ns. */
void rnl__pace_took_at_most(struct rnl__pace *p, uint64_t first, uint64_t last, uint64_t ns);
void rnl__pace_took_at_least(struct rnl__pace *p, uint64_t first, uint64_t last, uint64_t ns);

/* Returns true if the jobs on the stream keep the device busy for a while. */
static inline bool rnl__pace_long(const struct rnl__pace *p)
{
	return p->ahead_ns >= p->enough_ns;
}

/* Returns true if @nr jobs on the stream are enough.  With only one, the device could fall idle. */
static inline bool rnl__pace_enough(const struct rnl__pace *p, unsigned nr)
{
	return nr >= 2 && rnl__pace_long(p);
}

#endif
