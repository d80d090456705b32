/* SPDX-License-Identifier: MIT */
/* What the workers counted, read for statistics. */
#ifndef RNL_STATS_H
#define RNL_STATS_H

#include <runnel.h>

#include "sys/hist.h"

struct rnl__figures {
	struct rnl_pool_stats stats;	/* without the latencies */
	struct rnl__hist_sum queue_wait, host, device;
};

/* Adds one worker's figures. */
void rnl__stats_add(struct rnl__figures *sum, struct rnl_pool *pool, unsigned worker);

/* Adds all workers' figures, and deferred jobs. */
void rnl__stats_add_all(struct rnl__figures *sum, struct rnl_pool *pool);

#endif
