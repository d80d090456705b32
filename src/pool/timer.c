/* SPDX-License-Identifier: MIT */
/* Notifications to the timer thread from other threads; timer.h has the design. */
#include "config.h"

#include "pool/pool.h"
#include "pool/scan.h"
#include "sys/fence.h"

void rnl__timer_wake(struct rnl_pool *pool)
{
	/* [timer.R1] full barrier: the change precedes the look; pairs with [eventcount.L2] */
	rnl__full_barrier();
	rnl__eventcount_wake(&pool->timer.eventcount);
}

void rnl__timer_expect(struct rnl__worker *w, uint64_t at)
{
	if (rnl__queue_expect(&w->queue, at))
		rnl__timer_wake(w->pool);
}

void rnl__timer_cancelled(struct rnl_pool *pool, bool outside)
{
	if (outside)
		/* [timer.O1] release: like [timer.C1]; pairs with [timer.O2] */
		atomic_fetch_add_explicit(&pool->timer.outside, 1, memory_order_release);
	/* [timer.C1] release: cancelled before it is counted; pairs with [timer.C2] */
	atomic_fetch_add_explicit(&pool->timer.cancels, 1, memory_order_release);
	rnl__timer_wake(pool);
	rnl__eventcount_wake(&pool->timer.cancelled);
}

uint32_t rnl__timer_cancels(struct rnl_pool *pool)
{
	/* [timer.C2] acquire: the jobs are cancelled; pairs with [timer.C1] */
	return atomic_load_explicit(&pool->timer.cancels, memory_order_acquire);
}

uint32_t rnl__timer_outside(struct rnl_pool *pool)
{
	/* [timer.O2] acquire: the jobs are cancelled; pairs with [timer.O1] */
	return atomic_load_explicit(&pool->timer.outside, memory_order_acquire);
}
