/* SPDX-License-Identifier: MIT */
/* When a job of a class would end; predict.h has the design. */
#include "config.h"

#include "class/predict.h"
#include "sys/clock.h"
#include "sys/sizes.h"

#define UNIT_BITS 14u		/* the first eight buckets have 16 us each */
#define EACH_BITS 3u		/* buckets of a power of two */

void rnl__predict_begin(struct rnl__predict *p, struct rnl_class *c)
{
	p->by_deadline = rnl__figure_read(&c->order) == RNL_CLASS_DEADLINE;
	p->weight = rnl__figure_read(&c->weight);
	p->max_jobs = rnl__figure_read(&c->max_jobs);
	p->interval_ns = rnl__figure_read(&c->interval_ns);
	p->burst_ns = rnl__figure_read(&c->burst_ns);
	p->rate_at = rnl__figure_read(&c->rate_at);
	p->own_under_way_ns = rnl__figure_read(&c->under_way_ns);
	p->nr_others = 0;
	p->ahead_ns = p->ahead = 0;
	p->any_later = false;
	/* The other fields of a bucket are set with its first job. */
	for (unsigned i = 0; i < RNL__PREDICT_BUCKETS; i++)
		p->later[i].nr = 0;
}

void rnl__predict_other(struct rnl__predict *p, uint64_t ns, uint32_t weight)
{
	p->others[p->nr_others].ns = ns;
	p->others[p->nr_others++].weight = weight;
}

/* Returns the bucket of a deadline that comes in @ns. */
static unsigned later_bucket(uint64_t ns)
{
	const uint64_t units = ns >> UNIT_BITS;
	unsigned power;

	if (units < 1u << EACH_BITS)
		return (unsigned)units;
	power = 63 - (unsigned)__builtin_clzll(units) - EACH_BITS;
	return (unsigned)rnl__smaller((power << EACH_BITS) + (units >> power), RNL__PREDICT_BUCKETS - 1);
}

static void count_later(struct rnl__predict *p, uint64_t deadline, uint64_t ns)
{
	struct rnl__predict_later *l = &p->later[later_bucket(deadline - p->now)];

	if (!l->nr++) {
		*l = (struct rnl__predict_later){ ns, 1, deadline, deadline, ns, ns };
		return;
	}
	l->ns += ns;
	if (deadline < l->first) {
		l->first = deadline;
		l->first_ns = ns;
	}
	if (deadline >= l->last) {
		l->last = deadline;
		l->last_ns = ns;
	}
}

void rnl__predict_queued(struct rnl__predict *p, uint64_t deadline, uint64_t ns)
{
	/* It expires, and is not started. */
	if (p->by_deadline && deadline < p->now)
		return;
	if (!p->by_deadline || deadline <= p->deadline) {
		p->ahead++;
		p->ahead_ns += ns;
	} else if (deadline != RNL__NEVER) {
		p->any_later = true;
		count_later(p, deadline, ns);
	}
}

/*
 * Returns when @ns of the class's work has been done, if its last job takes @last_ns.  @at_best: what is
 * under way is about to end.
 */
static uint64_t time_of_work(const struct rnl__predict *p, uint64_t ns, uint64_t last_ns, bool at_best)
{
	const unsigned nr_devices = p->nr_devices;
	double all = (double)(p->before_ns + ns + (at_best ? 0 : p->under_way_ns)), limited = 0;

	for (unsigned i = 0; i < p->nr_others; i++) {
		const double most = (double)ns * p->others[i].weight / p->weight;

		all += most < (double)p->others[i].ns ? most : (double)p->others[i].ns;
	}
	if (p->max_jobs && p->max_jobs < p->nr_busy)
		limited = (double)(ns + (at_best ? 0 : p->own_under_way_ns)) * p->nr_busy / p->max_jobs;
	/* One device does the last job, for as long as that takes. */
	return p->now + (uint64_t)(((all > limited ? all : limited) - (double)last_ns) / nr_devices +
				   (double)last_ns * p->stretch);
}

/* Returns the earliest time at which the rate allows a job after @nr others. */
static uint64_t time_of_rate(const struct rnl__predict *p, uint64_t nr)
{
	const uint64_t at = rnl__larger(p->rate_at, p->now) + nr * p->interval_ns;

	return at > p->now + p->burst_ns ? at - p->burst_ns : p->now;
}

/* Returns when a job ends that is the last of @ns and comes after @nr others. */
static uint64_t predicted_end(const struct rnl__predict *p, uint64_t nr, uint64_t ns, uint64_t last_ns,
			      bool at_best)
{
	return rnl__larger(time_of_work(p, ns, last_ns, at_best),
			   time_of_rate(p, nr) + (uint64_t)((double)last_ns * p->stretch));
}

uint64_t rnl__predict_start(const struct rnl__predict *p)
{
	return predicted_end(p, p->ahead, p->ahead_ns, 0, false);
}

/* Returns true if a job is in time only if @more_ns is not before it. */
static bool becomes_late(const struct rnl__predict *p, uint64_t deadline, uint64_t nr, uint64_t ns,
			 uint64_t last_ns, uint64_t more_ns)
{
	return predicted_end(p, nr + 1, ns + more_ns, last_ns, false) > deadline &&
	       predicted_end(p, nr, ns, last_ns, true) <= deadline;
}

bool rnl__predict_fits(const struct rnl__predict *p, uint64_t known_ns, uint64_t guess_ns)
{
	uint64_t ns = p->ahead_ns, nr = p->ahead;

	/* A function that is not known is tried: otherwise it never will be. */
	if (predicted_end(p, nr, ns + known_ns, known_ns, false) > p->deadline)
		return false;
	for (unsigned i = 0; p->any_later && i < RNL__PREDICT_BUCKETS; i++) {
		const struct rnl__predict_later *l = &p->later[i];

		if (!l->nr)
			continue;
		if (becomes_late(p, l->first, nr, ns + l->first_ns, l->first_ns, guess_ns))
			return false;
		ns += l->ns;
		nr += l->nr;
		if (becomes_late(p, l->last, nr - 1, ns, l->last_ns, guess_ns))
			return false;
	}
	return true;
}
