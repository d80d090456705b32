/* SPDX-License-Identifier: MIT */
/*
 * A histogram of times: one thread counts, or several, and other threads read at any moment.
 *
 * DESIGN
 *	A bucket's width is a sixteenth of its power of two: one bucket for each nanosecond below 16
 *	ns, then sixteen for each power of two, up to 2^41 ns (36 min).  The last bucket also counts
 *	longer times.
 */
#ifndef RNL_HIST_H
#define RNL_HIST_H

#include <stdint.h>

#include <runnel.h>
#include <runnel/stats.h>

#include "sys/atomic.h"

#define RNL__HIST_BITS 41
#define RNL__HIST_BUCKETS (16 * (RNL__HIST_BITS - 3))

struct rnl__hist {
	_Atomic uint64_t sum_ns, max_ns;
	_Atomic uint64_t nr[RNL__HIST_BUCKETS];
};

/* The sum of one or several histograms. */
struct rnl__hist_sum {
	uint64_t sum_ns, max_ns, total;
	uint64_t nr[RNL__HIST_BUCKETS];
};

void rnl__hist_count(struct rnl__hist *hist, uint64_t ns);

/* The same, if several threads count. */
void rnl__hist_count_any(struct rnl__hist *hist, uint64_t ns);

/* Forgets all times, while other threads may read. */
void rnl__hist_clear(struct rnl__hist *hist);

void rnl__hist_add(struct rnl__hist_sum *sum, struct rnl__hist *hist);

/* Returns the number of times below 2^bits ns, to the accuracy of a bucket. */
uint64_t rnl__hist_below(const struct rnl__hist_sum *sum, unsigned bits);

/* Returns the shortest time above a bucket; the last bucket has none. */
uint64_t rnl__hist_end_of(unsigned bucket);

void rnl__hist_latency(const struct rnl__hist_sum *sum, struct rnl_latency *latency);

#endif
