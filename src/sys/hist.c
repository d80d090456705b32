/* SPDX-License-Identifier: MIT */
/* Histograms of times; hist.h has the design. */
#include "config.h"

#include <runnel/stats.h>

#include "sys/hist.h"

static unsigned bucket_of(uint64_t ns)
{
	unsigned bits;

	if (ns < 16)
		return (unsigned)ns;
	bits = 63 - (unsigned)__builtin_clzll(ns);
	if (bits >= RNL__HIST_BITS)
		return RNL__HIST_BUCKETS - 1;
	return 16 * (bits - 3) + (unsigned)(ns >> (bits - 4) & 15);
}

uint64_t rnl__hist_end_of(unsigned bucket)
{
	unsigned bits = bucket / 16 + 3;

	if (bucket < 16)
		return bucket + 1;
	return (UINT64_C(16) + bucket % 16 + 1) << (bits - 4);
}

void rnl__hist_count(struct rnl__hist *hist, uint64_t ns)
{
	rnl__figure_add(&hist->nr[bucket_of(ns)], 1);
	rnl__figure_add(&hist->sum_ns, ns);
	if (ns > rnl__figure_read(&hist->max_ns))
		rnl__figure_write(&hist->max_ns, ns);
}

void rnl__hist_count_any(struct rnl__hist *hist, uint64_t ns)
{
	uint64_t max = rnl__peek(&hist->max_ns);

	rnl__figure_add_any(&hist->nr[bucket_of(ns)], 1);
	rnl__figure_add_any(&hist->sum_ns, ns);
	while (ns > max &&
	       /* relaxed: a figure orders nothing */
	       !atomic_compare_exchange_weak_explicit(&hist->max_ns, &max, ns, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

void rnl__hist_clear(struct rnl__hist *hist)
{
	rnl__figure_write(&hist->sum_ns, 0);
	rnl__figure_write(&hist->max_ns, 0);
	for (unsigned i = 0; i < RNL__HIST_BUCKETS; i++)
		rnl__figure_write(&hist->nr[i], 0);
}

void rnl__hist_add(struct rnl__hist_sum *sum, struct rnl__hist *hist)
{
	uint64_t max = rnl__figure_read(&hist->max_ns);

	sum->sum_ns += rnl__figure_read(&hist->sum_ns);
	sum->max_ns = max > sum->max_ns ? max : sum->max_ns;
	for (unsigned i = 0; i < RNL__HIST_BUCKETS; i++) {
		uint64_t nr = rnl__figure_read(&hist->nr[i]);

		sum->nr[i] += nr;
		sum->total += nr;
	}
}

uint64_t rnl__hist_below(const struct rnl__hist_sum *sum, unsigned bits)
{
	uint64_t below = 0;

	for (unsigned i = 0; i < RNL__HIST_BUCKETS && rnl__hist_end_of(i) <= UINT64_C(1) << bits; i++)
		below += sum->nr[i];
	return below;
}

/* Returns the time that @part thousandths of the times do not exceed. */
static uint64_t quantile(const struct rnl__hist_sum *sum, unsigned part)
{
	uint64_t rank = (sum->total * part + 999) / 1000, seen = 0;

	for (unsigned i = 0; i < RNL__HIST_BUCKETS; i++) {
		seen += sum->nr[i];
		if (seen >= rank && i < RNL__HIST_BUCKETS - 1) {
			uint64_t last = rnl__hist_end_of(i) - 1;

			return last < sum->max_ns ? last : sum->max_ns;
		}
	}
	return sum->max_ns;
}

void rnl__hist_latency(const struct rnl__hist_sum *sum, struct rnl_latency *latency)
{
	*latency = (struct rnl_latency){ .nr = sum->total };
	if (!sum->total)
		return;
	latency->sum_ns = sum->sum_ns;
	latency->p50_ns = quantile(sum, 500);
	latency->p99_ns = quantile(sum, 990);
	latency->p999_ns = quantile(sum, 999);
	latency->max_ns = sum->max_ns;
}
