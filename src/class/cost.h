/* SPDX-License-Identifier: MIT */
/*
 * What jobs cost, as device time by their function: an estimate for the next one.
 *
 * DESIGN
 *	A class has a small table of words.  A function has one of the eight from its hash on; of
 *	more functions there, the last ones replace each other.  A word has a part of the function's
 *	address, how many jobs were measured (up to 2), and the mean, to which each job contributes a
 *	quarter.  A job that is refused because of it is not measured, so it lowers the mean by an
 *	eighth: after an outlier, a later job is tried.  A function with fewer than two measured jobs
 *	has the class's upper tenth as its estimate, which a frugal quantile keeps: a longer job moves
 *	it up by nine steps, a shorter one down by one. All is relaxed: a lost update is one job of
 *	many.
 */
#ifndef RNL_CLASS_COST_H
#define RNL_CLASS_COST_H

#include <math.h>
#include <stdint.h>

#include "class/share_clock.h"
#include "sys/atomic.h"
#include "sys/sizes.h"

#define RNL__COST_ENTRIES 32u
#define RNL__COST_PROBES 8u	/* places of a function */
#define RNL__COST_NS_BITS 40u
#define RNL__COST_MOST ((UINT64_C(1) << RNL__COST_NS_BITS) - 1)
#define RNL__COST_MEASURED 2u	/* jobs */
#define RNL__COST_FEW 4u		/* fewer jobs have no mean */
#define RNL__COST_JOBS 64u	/* that a mean of a measure is about */

struct rnl__costs {
	_Atomic uint64_t upper;		/* the upper tenth, ns */
	_Atomic uint64_t known[RNL__COST_ENTRIES]; /* function << 42 | measured << 40 | mean, ns */
	struct {
		_Atomic uint32_t name;	/* of the function, as in `known` */
		_Atomic uint32_t nr;	/* jobs, RNL__COST_JOBS at most; 0: none */
		_Atomic float serial, concurrent; /* means of the two measures, ns */
		_Atomic float took;	/* mean from the end before on the stream; 0: not known */
	} seen[RNL__COST_ENTRIES];
};

static inline void rnl__costs_init(struct rnl__costs *costs)
{
	rnl__figure_write(&costs->upper, 0);
	for (unsigned i = 0; i < RNL__COST_ENTRIES; i++) {
		rnl__figure_write(&costs->known[i], 0);
		rnl__figure_write(&costs->seen[i].nr, 0);
		rnl__figure_write(&costs->seen[i].took, 0);
	}
}

/*
 * Returns the bits of a function's word that do not change, and in *@at its place: where it is, or else
 * where it goes.
 */
static inline uint64_t rnl__cost_name(struct rnl__costs *costs, const void *fn, unsigned *at)
{
	/* Most compilers align functions to 16 bytes; otherwise two small ones may share a name. */
	const uint64_t hash = ((uint64_t)(uintptr_t)fn >> 4) * UINT64_C(0x9e3779b97f4a7c15);
	const uint64_t name = hash << 5 >> 42 << 42;

	for (unsigned i = 0; i < RNL__COST_PROBES; i++) {
		const unsigned place = (unsigned)((hash >> 59) + i) % RNL__COST_ENTRIES;
		const uint64_t word = rnl__figure_read(&costs->known[place]);

		*at = place;
		if (!word || word >> 42 == name >> 42)
			return name;
	}
	*at = (unsigned)(hash >> 59);
	return name;
}

/* Returns a function's mean, in ns; 0: it was not measured twice. */
static inline uint64_t rnl__cost_known(struct rnl__costs *costs, const void *fn)
{
	unsigned at;
	const uint64_t name = rnl__cost_name(costs, fn, &at), word = rnl__figure_read(&costs->known[at]);

	return word >> 42 == name >> 42 && (word >> RNL__COST_NS_BITS & 3) == RNL__COST_MEASURED ?
		       word & RNL__COST_MOST : 0;
}

/* A job was refused because of its function's mean: lowers it, so that a later job is tried. */
static inline void rnl__cost_doubt(struct rnl__costs *costs, const void *fn)
{
	unsigned at;
	uint64_t name, word;

	name = rnl__cost_name(costs, fn, &at);
	word = rnl__figure_read(&costs->known[at]);
	if (word >> 42 == name >> 42)
		rnl__figure_write(&costs->known[at], word - (word & RNL__COST_MOST) / 8);
	if (rnl__figure_read(&costs->seen[at].name) == name >> 42)
		rnl__figure_write(&costs->seen[at].took, rnl__figure_read(&costs->seen[at].took) * 7 / 8);
}

/* Returns the estimate for a job, in ns. */
static inline uint64_t rnl__cost_guess(struct rnl__costs *costs, const void *fn)
{
	const uint64_t known = rnl__cost_known(costs, fn);

	return known ? known : rnl__figure_read(&costs->upper);
}

/* Moves a mean of the last @nr values, and returns it. */
static inline float rnl__cost_mean(_Atomic float *mean, float value, unsigned nr)
{
	/* relaxed: a lost update is one job of many */
	float old = atomic_load_explicit(mean, memory_order_relaxed);

	old += (value - old) / (float)nr;
	/* relaxed: as above */
	atomic_store_explicit(mean, old, memory_order_relaxed);
	return old;
}

/* Returns true if the device runs one job at a time: share_clock.h. */
static inline bool rnl__cost_is_serial(struct rnl__share_clock *clock)
{
	const float differ = rnl__figure_read(&clock->serial_differ);

	return differ > rnl__figure_read(&clock->concurrent_differ) &&
	       differ > rnl__figure_read(&clock->serial_vary);
}

/* Returns a function's place in `seen`; *@nr: how many of its jobs were learned from. */
static inline unsigned rnl__cost_seen(struct rnl__costs *costs, const void *fn, unsigned *nr)
{
	unsigned at;
	const uint64_t name = rnl__cost_name(costs, fn, &at);

	*nr = rnl__figure_read(&costs->seen[at].name) == name >> 42 ?
		      rnl__figure_read(&costs->seen[at].nr) : 0;
	return at;
}

/* Learns how long a job took from the end before on its stream.  Returns the function's place in `seen`. */
static inline unsigned rnl__cost_learn_took(struct rnl__costs *costs, const void *fn, uint64_t took)
{
	unsigned at;
	const uint32_t name = (uint32_t)(rnl__cost_name(costs, fn, &at) >> 42);

	if (rnl__figure_read(&costs->seen[at].name) != name) {
		rnl__figure_write(&costs->seen[at].name, name);
		rnl__figure_write(&costs->seen[at].nr, 0);
		rnl__figure_write(&costs->seen[at].took, 0);
	}
	(void)rnl__cost_mean(&costs->seen[at].took, (float)took,
			     rnl__figure_read(&costs->seen[at].took) > 0 ? 8 : 1);
	return at;
}

/*
 * Learns from a job that was the only one to end at its worker's look.  @serial: its use of the device if
 * jobs run one at a time; @concurrent: if they run concurrently; @took: since the end before on the
 * stream.
 */
static inline void rnl__cost_learn(struct rnl__costs *costs, struct rnl__share_clock *clock,
				   const void *fn, uint64_t serial, uint64_t concurrent, uint64_t took)
{
	const unsigned at = rnl__cost_learn_took(costs, fn, took);
	const unsigned nr = (unsigned)rnl__smaller(rnl__figure_read(&costs->seen[at].nr) + 1, RNL__COST_JOBS);
	float mean_serial, mean_concurrent, mean;

	rnl__figure_write(&costs->seen[at].nr, nr);
	mean_serial = rnl__cost_mean(&costs->seen[at].serial, (float)serial, nr);
	mean_concurrent = rnl__cost_mean(&costs->seen[at].concurrent, (float)concurrent, nr);
	/* A single job is no mean, and not far from itself. */
	if (nr < RNL__COST_FEW)
		return;
	mean = rnl__figure_read(&clock->mean);
	mean = rnl__cost_mean(&clock->mean, (mean_serial + mean_concurrent) / 2,
			      mean > 0 ? RNL__COST_JOBS : 1);
	(void)rnl__cost_mean(&clock->serial_vary, fabsf((float)serial - mean_serial), RNL__COST_JOBS);
	(void)rnl__cost_mean(&clock->serial_differ, fabsf(mean_serial - mean), RNL__COST_JOBS);
	(void)rnl__cost_mean(&clock->concurrent_differ, fabsf(mean_concurrent - mean), RNL__COST_JOBS);
}

/* Returns the mean of a function's serial measure; 0: not known. */
static inline uint64_t rnl__cost_serial(struct rnl__costs *costs, const void *fn)
{
	unsigned nr, at = rnl__cost_seen(costs, fn, &nr);

	return nr < RNL__COST_FEW ? 0 : (uint64_t)rnl__figure_read(&costs->seen[at].serial);
}

/* Returns how long a job takes from the end before on its stream, on average; 0: not known. */
static inline uint64_t rnl__cost_took(struct rnl__costs *costs, const void *fn)
{
	unsigned nr, at = rnl__cost_seen(costs, fn, &nr);

	return nr < RNL__COST_FEW ? 0 : (uint64_t)rnl__figure_read(&costs->seen[at].took);
}

/*
 * Returns how long a job takes from its start to its end, on average, in ns: more than its device
 * time if the device runs others meanwhile.  0: not known.
 */
static inline uint64_t rnl__cost_elapsed(struct rnl__costs *costs, struct rnl__share_clock *clock,
					 const void *fn)
{
	const uint64_t known = rnl__cost_known(costs, fn);
	unsigned at;
	const uint64_t name = rnl__cost_name(costs, fn, &at);

	if (!known || rnl__figure_read(&costs->seen[at].name) != name >> 42 || rnl__cost_is_serial(clock))
		return known;
	return rnl__larger(known, (uint64_t)rnl__figure_read(&costs->seen[at].took));
}

/* Notes what a job has cost. */
static inline void rnl__cost_note(struct rnl__costs *costs, const void *fn, uint64_t ns)
{
	unsigned at;
	const uint64_t name = rnl__cost_name(costs, fn, &at), word = rnl__figure_read(&costs->known[at]);
	uint64_t upper = rnl__figure_read(&costs->upper), mean = word & RNL__COST_MOST;
	uint64_t measured = word >> RNL__COST_NS_BITS & 3;
	const uint64_t step = upper / 64 + 1;

	ns = rnl__smaller(ns, RNL__COST_MOST);
	if (word >> 42 != name >> 42)
		mean = measured = 0;
	mean = measured ? mean - mean / 4 + ns / 4 : ns;
	measured += measured < RNL__COST_MEASURED;
	rnl__figure_write(&costs->known[at], name | measured << RNL__COST_NS_BITS | mean);
	if (!upper)
		upper = ns;
	else if (ns > upper)
		upper = rnl__smaller(upper + 9 * step, ns);
	else if (ns < upper)
		upper = rnl__larger(upper - step, ns);
	rnl__figure_write(&costs->upper, upper);
}

/* ---- an estimate in 16 bits, for the job ------------------------------------ */

/* Returns the estimate in 16 bits, rounded down by less than a thousandth: 11 bits and a power. */
static inline uint16_t rnl__cost_pack(uint64_t ns)
{
	unsigned power;

	ns = rnl__smaller(ns, RNL__COST_MOST);
	power = ns >> 11 ? 64 - 11 - (unsigned)__builtin_clzll(ns) : 0;
	return (uint16_t)(power << 11 | ns >> power);
}

static inline uint64_t rnl__cost_unpack(uint16_t packed)
{
	return (uint64_t)(packed & 0x7ff) << (packed >> 11);
}

#endif
