/* SPDX-License-Identifier: MIT */
/*
 * How long the jobs on a worker's stream are going to take the device, by what such jobs took
 * before: so a worker issues as many as keep the device busy for a while, and no more.
 *
 * DESIGN
 *	A table has an estimate for a job, by its function; functions may share an entry.  A job
 *	of a function that never ran counts as a long one: with one other job it is enough.  A job
 *	counts as what its estimate was when it was issued, until it is taken off the stream, or
 *	is known to take longer.
 *	What the worker sees are bounds.  It looks seldom, and may be slow itself, in its jobs'
 *	functions or in the driver's lock.  So an estimate is raised, at once, only to what jobs
 *	have taken for certain: a mark was not reached yet.  The jobs on the stream are raised with
 *	it: so behind a job that runs for longer than expected no others are issued.  And it falls,
 *	bit by bit, only to what they took at most: a mark was reached.
 *	Jobs behind one mark share the time by their estimates.
 *	Internal jobs do not count: maps and batches bound what they have in flight.  Nothing is
 *	learned from a time that such a job had a part in.
 *	All of it is the owner's alone.
 */
#ifndef RNL_PACE_H
#define RNL_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct rnl_job;

#define RNL__PACE_ENTRIES 256u
#define RNL__PACE_UNKNOWN_NS 1000000u	/* a job of an unknown function, but see below */

struct rnl__pace_job {
	uint32_t ns;			/* 0: it does not count */
	uint32_t entry;			/* of its function */
};

struct rnl__pace {
	struct rnl__pace_job *jobs;	/* ring of `limit`, by sequence */
	unsigned limit;
	uint64_t enough_ns;		/* the device is busy for a while; UINT64_MAX: never */
	uint64_t ahead_ns;		/* all jobs on the stream */
	uint32_t known[RNL__PACE_ENTRIES];
};

/* Unknown functions take @enough_ns, or RNL__PACE_UNKNOWN_NS if that is less.  0, -ENOMEM. */
int rnl__pace_init(struct rnl__pace *p, unsigned limit, uint64_t enough_ns);
void rnl__pace_fini(struct rnl__pace *p);

/* The estimate for a job; 0: it does not count. */
uint32_t rnl__pace_guess(const struct rnl__pace *p, const struct rnl_job *job);

/* The job gets the sequence @seq; the job with this sequence leaves the stream. */
void rnl__pace_add(struct rnl__pace *p, const struct rnl_job *job, uint64_t seq);
void rnl__pace_drop(struct rnl__pace *p, uint64_t seq);

/* The jobs @first to @last, which are all on the stream, took the device @ns or less, or more. */
void rnl__pace_took_at_most(struct rnl__pace *p, uint64_t first, uint64_t last, uint64_t ns);
void rnl__pace_took_at_least(struct rnl__pace *p, uint64_t first, uint64_t last, uint64_t ns);

/* Whether the jobs on the stream keep the device busy for a while. */
static inline bool rnl__pace_long(const struct rnl__pace *p)
{
	return p->ahead_ns >= p->enough_ns;
}

/* Whether @nr jobs on the stream are enough.  With fewer than two, the device could fall idle. */
static inline bool rnl__pace_enough(const struct rnl__pace *p, unsigned nr)
{
	return nr >= 2 && rnl__pace_long(p);
}

#endif
