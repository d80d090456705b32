/* SPDX-License-Identifier: MIT */
/* Sums of the workers' counters, for statistics. */
#ifndef RNL_STATS_H
#define RNL_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include <runnel.h>
#include <runnel/stats.h>

#include "sys/hist.h"

struct rnl__figures {
	struct rnl_pool_stats stats;	/* without the latencies */
	struct rnl__hist_sum queue_wait, host, device;
};

struct rnl__worker;

/* Adds the figures of a worker or of the timer thread. */
void rnl__stats_add(struct rnl__figures *sum, struct rnl__worker *w);

/*
 * Returns the text of rnl_pool_stats_text(), which the caller frees; NULL: no memory.  @fine: each
 * bucket of a histogram that has counts, in place of one for each power of two.
 */
char *rnl__metrics_text(struct rnl_pool *pool, const char *name, bool fine, size_t *length);

/* Adds the figures of all workers, of the timer thread, and of the pool as a whole. */
void rnl__stats_add_all(struct rnl__figures *sum, struct rnl_pool *pool);

#endif
