/* SPDX-License-Identifier: MIT */
/*
 * Twice as much work as a device can do, with deadlines; and what schedulers that know each job's time
 * get done of it.
 *
 * DESIGN
 *	Jobs of eight functions, of 20 us to 20 ms, come in log-normal gaps; a job's deadline is
 *	200 us and 2 to 10 times its time.  All come in half the time that the workers need for them.
 *	The models have the same arrivals and workers, do not preempt, and take 10 us more for each
 *	job: earliest deadline first, which admits exactly, and shortest first, which drops what would
 *	be late.
 */
#ifndef ARRIVALS_H
#define ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "seed.h"

enum { ARRIVAL_FNS = 8, ARRIVALS_MOST = 4096, ARRIVAL_WORKERS = 4, ARRIVAL_EACH_NS = 10000 };

static const unsigned arrival_us[ARRIVAL_FNS] = { 20, 54, 144, 386, 1036, 2780, 7456, 20000 };

struct arrival {
	uint64_t at, ns, deadline;	/* at and deadline: from the begin */
	unsigned fn;
};

/* Returns e^x. */
static inline double power_of_e(double x)
{
	double y = 1 + x / 1024;

	for (int i = 0; i < 10; i++)
		y *= y;
	return y;
}

/* Draws from about a normal distribution, as the sum of twelve even ones. */
static inline double draw_normal(uint64_t *random)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += draw(random, 1 << 20) / (double)(1 << 20);
	return sum;
}

/* @sigma: of the gaps' logarithms.  @nr: ARRIVALS_MOST at most. */
static inline void draw_arrivals(struct arrival *list, unsigned nr, uint64_t random, double sigma,
				 unsigned nr_workers)
{
	static double gaps[ARRIVALS_MOST];
	double at = 0, all_gaps = 0, all_ns = 0;

	for (unsigned i = 0; i < nr; i++) {
		struct arrival *a = &list[i];

		gaps[i] = power_of_e(sigma * draw_normal(&random));
		a->fn = draw(&random, ARRIVAL_FNS);
		a->ns = arrival_us[a->fn] * 1000;
		all_gaps += gaps[i];
		all_ns += (double)a->ns;
	}
	for (unsigned i = 0; i < nr; i++) {
		struct arrival *a = &list[i];

		at += gaps[i] / all_gaps * all_ns / (2 * nr_workers);
		a->at = (uint64_t)at;
		a->deadline = a->at + 200000 + a->ns * (2000 + draw(&random, 8000)) / 1000;
	}
}

/* ---- the models ----------------------------------------------------------------- */

enum model_order { BY_DEADLINE, SHORTEST_FIRST };

static struct {
	enum model_order order;
	unsigned nr_workers, nr, nr_good;
	uint64_t free_at[ARRIVAL_WORKERS], good_ns;
	const struct arrival *queue[ARRIVALS_MOST]; /* in the order */
} model;

/* Returns the worker that is free first. */
static inline uint64_t *first_free(uint64_t *free_at)
{
	uint64_t *first = free_at;

	for (unsigned i = 1; i < model.nr_workers; i++)
		first = free_at[i] < *first ? &free_at[i] : first;
	return first;
}

/* Runs a job on the worker that is free first.  Returns true if it is in time. */
static inline bool model_runs(uint64_t *free_at, const struct arrival *a, uint64_t now)
{
	uint64_t *worker = first_free(free_at);

	*worker = (*worker > now ? *worker : now) + ARRIVAL_EACH_NS + a->ns;
	return *worker <= a->deadline;
}

/* Starts jobs on the workers that are free until @at. */
static inline void model_goes_on(uint64_t at)
{
	while (model.nr && *first_free(model.free_at) <= at) {
		const struct arrival *a = model.queue[0];
		const uint64_t free_at = *first_free(model.free_at);
		const bool drops = model.order == SHORTEST_FIRST &&
				   (free_at > a->at ? free_at : a->at) + ARRIVAL_EACH_NS + a->ns > a->deadline;

		memmove(&model.queue[0], &model.queue[1], --model.nr * sizeof(model.queue[0]));
		if (drops || !model_runs(model.free_at, a, a->at))
			continue;
		model.good_ns += a->ns;
		model.nr_good++;
	}
}

static inline bool model_goes_before(const struct arrival *a, const struct arrival *b)
{
	return model.order == SHORTEST_FIRST ? a->ns <= b->ns : a->deadline <= b->deadline;
}

/* Returns true if all jobs are in time, with job @a in place @i. */
static inline bool all_in_time(const struct arrival *a, unsigned i)
{
	uint64_t free_at[ARRIVAL_WORKERS];
	bool good = true;

	memcpy(free_at, model.free_at, sizeof(free_at));
	for (unsigned k = 0; k < i; k++)
		(void)model_runs(free_at, model.queue[k], a->at);
	good = model_runs(free_at, a, a->at);
	for (unsigned k = i; k < model.nr && good; k++)
		good = model_runs(free_at, model.queue[k], a->at);
	return good;
}

/* Returns how much work is done in time, in ns. */
static inline uint64_t model_good_ns(const struct arrival *list, unsigned nr, enum model_order order,
				     unsigned nr_workers)
{
	memset(&model, 0, sizeof(model));
	model.order = order;
	model.nr_workers = nr_workers;
	for (unsigned n = 0; n < nr; n++) {
		const struct arrival *a = &list[n];
		unsigned i = 0;

		model_goes_on(a->at);
		while (i < model.nr && model_goes_before(model.queue[i], a))
			i++;
		if (order == BY_DEADLINE && !all_in_time(a, i))
			continue;
		memmove(&model.queue[i + 1], &model.queue[i], (model.nr++ - i) * sizeof(model.queue[0]));
		model.queue[i] = a;
	}
	model_goes_on(UINT64_MAX);
	return model.good_ns;
}

#endif
