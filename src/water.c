/* SPDX-License-Identifier: MIT */
/* Notices for water marks; water.h has the design. */
#include "config.h"

#include <stdbool.h>

#include "fence.h"
#include "job.h"
#include "place.h"
#include "pool.h"
#include "water.h"

static bool reached(struct rnl_pool *pool, enum rnl_water mark)
{
	uint64_t queued = rnl__pool_queued(pool);

	return mark == RNL_HIGH_WATER ? queued >= pool->high_water : queued <= pool->low_water;
}

static void push(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark)
{
	/* relaxed: the exchange decides */
	struct rnl_job *head = atomic_load_explicit(&pool->notices[mark], memory_order_relaxed);

	do {
		job->link = head;
		/* [water.N1] release: the notice, to who starts it; pairs with [water.N2] */
	} while (!atomic_compare_exchange_weak_explicit(&pool->notices[mark], &head, job,
							memory_order_release,
							memory_order_relaxed));
}

static struct rnl_job *take_all(struct rnl_pool *pool, enum rnl_water mark)
{
	/*
	 * [water.N2] acquire: the notices themselves; pairs with [water.N1].
	 * release: we hold the pool; pairs with [water.N2] of a close, which
	 * finds the list empty, and then drains.
	 */
	return atomic_exchange_explicit(&pool->notices[mark], NULL, memory_order_acq_rel);
}

/* Starts the notices that wait for a mark; @cancel: to complete with -ECANCELED. */
static void start_all(struct rnl_pool *pool, enum rnl_water mark, bool cancel)
{
	struct rnl_job *job, *next;

	rnl__pool_hold(pool);
	for (job = take_all(pool, mark); job; job = next) {
		next = job->link;
		if (cancel)
			(void)rnl__job_cancel(job);
		else
			rnl__job_enqueued(job);
		rnl__place_first(job);
	}
	rnl__pool_unhold(pool);
}

static void look(struct rnl_pool *pool, enum rnl_water mark)
{
	if (rnl__pool_noticed(pool, mark) && reached(pool, mark))
		start_all(pool, mark, false);
}

/* A notice was put on the list, or put back. */
static void look_again(struct rnl_pool *pool, enum rnl_water mark)
{
	/*
	 * [water.W1] full barrier: pushed before we look at the queues, and
	 * whether a close has taken the list; pairs with [water.R1],
	 * [job.P1], [worker.D2], [water.C1].
	 */
	rnl__full_barrier();
	if (rnl__queue_closed(&pool->put_off))
		rnl__water_close(pool);
	else
		look(pool, mark);
}

/* Starts the notices that were cancelled, and puts the others back. */
static void start_cancelled(struct rnl_pool *pool, enum rnl_water mark)
{
	struct rnl_job *job, *next;

	rnl__pool_hold(pool);
	for (job = take_all(pool, mark); job; job = next) {
		next = job->link;
		if (rnl__job_cancelled(job))
			rnl__place_first(job);
		else
			push(pool, job, mark);
	}
	/* What was reached meanwhile found an empty list. */
	look_again(pool, mark);
	rnl__pool_unhold(pool);
}

uint32_t rnl__water_cancels(struct rnl_pool *pool)
{
	/*
	 * [water.X2] acquire: who cancelled a notice that was on no list, since
	 * we had it in hand, has counted that before; pairs with [water.X1].
	 */
	return atomic_load_explicit(&pool->cancels, memory_order_acquire);
}

/* Starts notices that were cancelled until, since @before, there were no more. */
static void settle_cancels(struct rnl_pool *pool, uint32_t before)
{
	uint32_t now;

	while ((now = rnl__water_cancels(pool)) != before) {
		start_cancelled(pool, RNL_LOW_WATER);
		start_cancelled(pool, RNL_HIGH_WATER);
		before = now;
	}
}

void rnl__water_wait(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark,
		     uint32_t cancels)
{
	push(pool, job, mark);
	look_again(pool, mark);
	settle_cancels(pool, cancels);
}

void rnl__water_cancelled(struct rnl_pool *pool)
{
	/* [water.X1] release: the notice is cancelled before it is counted; pairs with [water.X2] */
	uint32_t before = atomic_fetch_add_explicit(&pool->cancels, 1, memory_order_acq_rel);

	/* [water.X3] full barrier: counted before we take the list; pairs with [water.W1] */
	rnl__full_barrier();
	settle_cancels(pool, before);
}

void rnl__water_rose(struct rnl_pool *pool)
{
	/* [water.R1] full barrier: reserved before we look for notices; pairs with [water.W1] */
	rnl__mb_after_rmw();
	look(pool, RNL_HIGH_WATER);
}

void rnl__water_refused(struct rnl_pool *pool)
{
	if (rnl__pool_noticed(pool, RNL_HIGH_WATER))
		start_all(pool, RNL_HIGH_WATER, false);
}

uint64_t rnl__water_fell(struct rnl_pool *pool)
{
	uint64_t queued = rnl__pool_queued(pool), share;

	if (queued > pool->low_water) {
		/* Not before this worker has taken its share of what is above the mark. */
		share = (queued - pool->low_water) / rnl__pool_nr_workers(pool);
		return share ? share - 1 : 0;
	}
	start_all(pool, RNL_LOW_WATER, false);
	return 0;
}

void rnl__water_close(struct rnl_pool *pool)
{
	/* [water.C1] full barrier: closed before we take the list; pairs with [water.W1] */
	rnl__full_barrier();
	for (int mark = RNL_LOW_WATER; mark <= RNL_HIGH_WATER; mark++) {
		if (rnl__pool_noticed(pool, mark))
			start_all(pool, mark, true);
	}
}
