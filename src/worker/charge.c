/* SPDX-License-Identifier: MIT */
/* Charges classes for the jobs on a worker; charge.h has the design. */
#include "config.h"

#include "sys/clock.h"
#include "sys/probe.h"
#include "sys/sizes.h"
#include "worker/charge.h"

#define NAP_PART 16u		/* of the mean time between two ends on the device */
#define NAP_FAR 64u		/* of those times */

static struct rnl__share_clock *clock_of(struct rnl__worker *w)
{
	return &rnl__classes_of(w->pool)->clocks[w->device_index];
}

static struct rnl_class *charged_class(struct rnl__worker *w, const struct rnl_job *job)
{
	return rnl__class_at(rnl__classes_of(w->pool), job->class_index & RNL__CLASS_INDEX);
}

/* Returns the clock's time since the last charge, and begins the next one. */
static uint64_t charge_since(struct rnl__worker *w)
{
	const uint64_t now = rnl__now(), at = rnl__share_clock_read(clock_of(w), now);
	const uint64_t ns = rnl__share_clock_since(at, w->charged);

	w->charged = at;
	w->charged_at = now;
	return ns;
}

void rnl__charge_begins(struct rnl__worker *w, struct rnl_job *job)
{
	const uint64_t now = rnl__now();
	struct rnl__class_start start;
	struct rnl_class *c;

	if (!w->clocked) {
		w->clocked = true;
		w->charged = rnl__share_clock_change(clock_of(w), 1, now);
		w->charged_at = now;
	}
	w->begun = rnl__share_clock_read(clock_of(w), now);
	if (job->class_index & RNL__CLASS_CHARGED)
		return;
	c = charged_class(w, job);
	(void)rnl__class_start(c, now, true, &start);
	rnl__job_set_class_slot(job, rnl__class_charge(c, (const void *)(uintptr_t)job->fn, now,
						       w->pool->devices.nr));
	rnl__job_set_class_index(job, job->class_index | RNL__CLASS_CHARGED);
}

void rnl__charge_ends(struct rnl__worker *w, struct rnl_job *job, uint64_t ns, bool ran)
{
	struct rnl_class *c;

	/* Jobs that began before the pool had classes were not charged. */
	if (!(job->class_index & RNL__CLASS_CHARGED))
		return;
	c = charged_class(w, job);
	rnl__class_end(c, (const void *)(uintptr_t)job->fn, job->class_slot, ns, ran,
		      rnl__now(), w->pool->devices.nr);
	rnl__job_set_class_index(job, job->class_index & RNL__CLASS_INDEX);
	rnl__classes_freed(w->pool, c);
}

void rnl__charge_expired(struct rnl__worker *w, const struct rnl_job *job, bool late)
{
	struct rnl_class *c;

	RNL__PROBE_EXPIRE(w, job, late);
	if (!(job->flags & RNL__JOB_CLASSED))
		return;
	c = charged_class(w, job);
	if (late)
		rnl__figure_add_any(&c->late, 1);
	else
		rnl__figure_add_any(&c->expired, 1);
}

void rnl__charge_idles(struct rnl__worker *w)
{
	w->clocked = false;
	(void)rnl__share_clock_change(clock_of(w), -1, rnl__now());
}

void rnl__charge_empties(struct rnl__worker *w, struct rnl_job *job)
{
	const uint64_t before_at = w->charged_at;
	/* With work on the stream, the time is that work's. */
	const uint64_t ns = w->inflight.first ? 0 : charge_since(w);

	if (ns && job->class_index & RNL__CLASS_CHARGED)
		(void)rnl__cost_learn_took(&charged_class(w, job)->costs, (const void *)(uintptr_t)job->fn,
					   w->charged_at - before_at);
	rnl__charge_ends(w, job, ns, true);
}

/*
 * Charges the reached jobs.  If a function was called since, for a job that is not reached, they have
 * ended at some time after that call: after their estimate, which is for time as it passes.
 */
static void charge_reached_jobs(struct rnl__worker *w, bool all)
{
	const uint64_t before = w->charged, before_at = w->charged_at, ns = charge_since(w);
	const uint64_t seen_at = w->charged_at, passed = seen_at - before_at;
	const uint64_t least = all ? ns : rnl__smaller(ns, rnl__share_clock_since(w->begun, before));
	const uint64_t guess = passed ? (uint64_t)((double)w->charge_sum * (double)ns / (double)passed) : 0;

	w->serial_ns = rnl__share_clock_end(clock_of(w), seen_at);
	w->took_ns = passed;
	w->charge_ns = rnl__larger(least, rnl__smaller(ns, guess));
	if (w->charge_ns == ns)
		return;
	/* The rest is the next jobs'. */
	w->charged = (before + w->charge_ns) & RNL__SHARE_MASK;
	w->charged_at = before_at + (uint64_t)((double)passed * (double)w->charge_ns / (double)ns);
}

/* Returns how much of the device's time a job takes, on average, if jobs run one at a time. */
static uint64_t serial_time_of(struct rnl__worker *w, const struct rnl_job *job)
{
	uint64_t ns = 0;

	if (job->class_index & RNL__CLASS_CHARGED)
		ns = rnl__cost_serial(&charged_class(w, job)->costs, (const void *)(uintptr_t)job->fn);
	return ns ? ns : rnl__pace_of(&w->inflight.pace, job->seq);
}

void rnl__charge_reaches(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	/* relaxed: the owner wrote it */
	const uint64_t reached = atomic_load_explicit(&f->reached, memory_order_relaxed);
	const struct rnl_job *job;

	if (!f->first || f->first->seq > reached)
		return;
	w->charge_sum = w->serial_sum = w->charge_nr = 0;
	for (job = f->first; job && job->seq <= reached; job = job->link) {
		if (job->flags & RNL__JOB_UNRUN)
			continue;
		w->charge_sum += rnl__pace_of(&f->pace, job->seq);
		w->serial_sum += serial_time_of(w, job);
		w->charge_nr++;
	}
	charge_reached_jobs(w, !job);
}

/* Returns a job's part of a time that belongs to all jobs that were reached with it. */
static uint64_t part_of(struct rnl__worker *w, uint64_t ns, uint64_t estimate, uint64_t sum)
{
	if (w->charge_nr <= 1)
		return w->charge_nr ? ns : 0;
	/* Internal jobs have no estimate: together with such jobs, all have equal parts. */
	if (!sum)
		return ns / w->charge_nr;
	/* The estimate may have changed since the sum. */
	return (uint64_t)((double)ns * (double)rnl__smaller(estimate, sum) / (double)sum);
}

void rnl__charge_passes(struct rnl__worker *w, struct rnl_job *job)
{
	const void *fn = (const void *)(uintptr_t)job->fn;
	struct rnl__share_clock *clock = clock_of(w);
	struct rnl__costs *costs;
	uint64_t ns, serial;

	if (!(job->class_index & RNL__CLASS_CHARGED))
		return;
	if (job->flags & RNL__JOB_UNRUN) {
		rnl__charge_ends(w, job, 0, false);
		return;
	}
	costs = &charged_class(w, job)->costs;
	ns = part_of(w, w->charge_ns, rnl__pace_of(&w->inflight.pace, job->seq), w->charge_sum);
	serial = part_of(w, w->serial_ns, serial_time_of(w, job), w->serial_sum);
	/* Jobs that were reached together say nothing of each one. */
	if (w->charge_nr == 1)
		rnl__cost_learn(costs, clock, fn, serial, ns, w->took_ns);
	rnl__charge_ends(w, job, rnl__cost_is_serial(clock) ? serial : ns, true);
}

uint64_t rnl__charge_naps(struct rnl__worker *w, uint64_t now, uint64_t nap)
{
	const struct rnl_job *job = w->inflight.first;
	const uint64_t mean = (uint64_t)rnl__figure_read(&clock_of(w)->mean);
	uint64_t took = 0, end;

	if (job && job->class_index & RNL__CLASS_CHARGED)
		took = rnl__cost_took(&charged_class(w, job)->costs, (const void *)(uintptr_t)job->fn);
	if (!took)
		return nap;
	end = w->charged_at + took;
	if (now >= end)
		return now - end > 4 * took ? nap :
		       rnl__smaller(nap, rnl__smaller(mean / NAP_PART, (now - end) / 8));
	/* A job that is far longer than others needs no look for each of their ends. */
	if (end - now > NAP_FAR * mean)
		return rnl__smaller(nap, (end - now) / NAP_FAR);
	return rnl__smaller(nap, rnl__smaller(mean / NAP_PART, (end - now) / 2));
}
