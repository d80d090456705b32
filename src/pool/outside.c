/* SPDX-License-Identifier: MIT */
/* Jobs in no queue: the limits of their tallies, and entries that are taken back. */
#include "config.h"

#include "pool/outside.h"

void rnl__outside_init(struct rnl_pool *pool)
{
	for (unsigned why = 0; why < RNL__OUTSIDE_NR; why++)
		rnl__tally_init(&pool->outside[why], UINT64_MAX);
	pool->outside[RNL__DEFERRED].limit = pool->outside[RNL__CHAINED].limit = pool->max_queued;
}

void rnl__outside_take_back(struct rnl_pool *pool, enum rnl__outside why, unsigned nr)
{
	rnl__tally_retract(&pool->outside[why], nr);
	rnl__pool_wake_counts(pool);
	rnl__waitq_wake(pool);
}
