/* SPDX-License-Identifier: MIT */
/*
 * When a job of a class would end, by the estimates of the work that goes before it.
 *
 * DESIGN
 *	Work is device time.  Before a job goes what is under way and what is queued in classes that
 *	workers choose first; then its own class's work ahead of it.  Meanwhile each other class of
 *	its tier gets its work done, but at most weight / weight of what the job's class gets: they
 *	share the device as a fluid would (generalised processor sharing; Parekh 1993).
 *	A rate and max_jobs are lower bounds of the same time.
 *	What is under way counts in full, though a part of it is done.  A device that its workers share
 *	does other work at the same time: there a job takes longer than its device time, by the
 *	factor that its function's jobs did before.  Queued jobs have the same factor.
 *	A job with a deadline must not make jobs with later deadlines late.  One that is late anyway
 *	does not count, but that must be sure: there, nothing is under way.  Their work is counted in
 *	buckets by deadline, eight for each power of two from now.  Of a bucket, the first and the
 *	last job are checked exactly, and those in between by the two.
 *	All of this is of one caller, on its stack; it knows no pool and no clock.
 */
#ifndef RNL_CLASS_PREDICT_H
#define RNL_CLASS_PREDICT_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel/class.h>

#include "class/class.h"

#define RNL__PREDICT_BUCKETS 128u

struct rnl__predict_later {
	uint64_t ns;			/* of all jobs of the bucket */
	uint32_t nr;
	uint64_t first, last;		/* deadlines */
	uint64_t first_ns, last_ns;	/* the estimates of the two jobs */
};

struct rnl__predict {
	/* Set by the caller. */
	uint64_t now;
	uint64_t deadline;		/* the job's; RNL__NEVER: none */
	unsigned nr_devices;
	unsigned nr_busy;		/* workers that max_jobs is a part of */
	double stretch;			/* how long a job takes, / its device time */
	uint64_t under_way_ns;		/* of all classes */
	uint64_t before_ns;		/* queued in classes that go first */

	/* The job's class: rnl__predict_begin(). */
	bool by_deadline;
	uint32_t weight, max_jobs;
	uint64_t interval_ns, burst_ns, rate_at;
	uint64_t own_under_way_ns;

	/* Queued work. */
	struct {
		uint64_t ns;
		uint32_t weight;
	} others[RNL_CLASSES_MAX + 1];	/* of the tier */
	unsigned nr_others;
	uint64_t ahead_ns;		/* of the class, before the job */
	uint32_t ahead;			/* jobs */
	bool any_later;
	struct rnl__predict_later later[RNL__PREDICT_BUCKETS];
};

/* Begins a prediction for a job of the class, whose caller has set the first fields. */
void rnl__predict_begin(struct rnl__predict *p, struct rnl_class *c);

/* Counts the queued work of another class of the tier. */
void rnl__predict_other(struct rnl__predict *p, uint64_t ns, uint32_t weight);

/* Counts a queued job of the class.  @deadline: RNL__NEVER: none, or the order is another one. */
void rnl__predict_queued(struct rnl__predict *p, uint64_t deadline, uint64_t ns);

/* Returns when the devices have done what goes before the job, and its rate allows it. */
uint64_t rnl__predict_start(const struct rnl__predict *p);

/*
 * Returns true if a job would end by its deadline, and makes no other job late that would not be late
 * without it.  @known_ns: its function's mean, or 0; @guess_ns: its estimate.
 */
bool rnl__predict_fits(const struct rnl__predict *p, uint64_t known_ns, uint64_t guess_ns);

#endif
