/* SPDX-License-Identifier: MIT */
/* What other threads tell the keeper; keeper.h has the design. */
#include "config.h"

#include "pool/pool.h"
#include "pool/walk.h"
#include "sys/fence.h"

void rnl__keeper_ring(struct rnl_pool *pool)
{
	/* [keeper.R1] full barrier: the change is written before the look; pairs with [bell.L2] */
	rnl__full_barrier();
	rnl__bell_ring(&pool->keeper.bell);
}

void rnl__keeper_expect(struct rnl__worker *w, uint64_t at)
{
	if (rnl__queue_expect(&w->queue, at))
		rnl__keeper_ring(w->pool);
}

void rnl__keeper_cancelled(struct rnl_pool *pool, bool outside)
{
	if (outside)
		/* [keeper.O1] release: as [keeper.C1]; pairs with [keeper.O2] */
		atomic_fetch_add_explicit(&pool->keeper.outside, 1, memory_order_release);
	/* [keeper.C1] release: cancelled before it is counted; pairs with [keeper.C2] */
	atomic_fetch_add_explicit(&pool->keeper.cancels, 1, memory_order_release);
	rnl__keeper_ring(pool);
	rnl__bell_ring(&pool->keeper.cancelled);
}

uint32_t rnl__keeper_cancels(struct rnl_pool *pool)
{
	/* [keeper.C2] acquire: the jobs are cancelled; pairs with [keeper.C1] */
	return atomic_load_explicit(&pool->keeper.cancels, memory_order_acquire);
}

uint32_t rnl__keeper_outside(struct rnl_pool *pool)
{
	/* [keeper.O2] acquire: the jobs are cancelled; pairs with [keeper.O1] */
	return atomic_load_explicit(&pool->keeper.outside, memory_order_acquire);
}
