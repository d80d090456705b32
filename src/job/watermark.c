/* SPDX-License-Identifier: MIT */
/* Notices for water marks; watermark.h has the design. */
#include "config.h"

#include <stdbool.h>

#include "sys/fence.h"
#include "job/job.h"
#include "pool/choose.h"
#include "pool/pool.h"
#include "job/watermark.h"

static bool reached(struct rnl_pool *pool, enum rnl_water mark)
{
	uint64_t queued = rnl__pool_queued(pool);

	return mark == RNL_HIGH_WATER ? queued >= pool->high_water : queued <= pool->low_water;
}

static void push(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark)
{
	struct rnl_job *head = rnl__peek(&pool->notices[mark]);

	do {
		job->link = head;
		/* [watermark.N1] release: the notice that is pushed; pairs with [watermark.N2] */
	} while (!atomic_compare_exchange_weak_explicit(&pool->notices[mark], &head, job,
							memory_order_release,
							memory_order_relaxed));
}

static struct rnl_job *take_all(struct rnl_pool *pool, enum rnl_water mark)
{
	/*
	 * [watermark.N2] acquire: the notices themselves; pairs with [watermark.N1].
	 * release: the pool is kept from being drained; pairs with [watermark.N2] of a
	 * close, which finds the list empty, and after which a drain comes.
	 */
	return atomic_exchange_explicit(&pool->notices[mark], NULL, memory_order_acq_rel);
}

/* Queues the notices that wait for a mark; @cancel: to complete with -ECANCELED. */
static void queue_all(struct rnl_pool *pool, enum rnl_water mark, bool cancel)
{
	struct rnl_job *job, *next;

	rnl__pool_operation_begin(pool);
	for (job = take_all(pool, mark); job; job = next) {
		next = job->link;
		if (cancel)
			(void)rnl__job_cancel(job);
		else
			rnl__job_enqueued(job);
		rnl__choose_start_first(job);
	}
	rnl__pool_operation_end(pool);
}

static void look(struct rnl_pool *pool, enum rnl_water mark)
{
	if (rnl__pool_has_notice(pool, mark) && reached(pool, mark))
		queue_all(pool, mark, false);
}

/* A notice was put on the list, or put back there. */
static void look_again(struct rnl_pool *pool, enum rnl_water mark)
{
	/*
	 * [watermark.W1] full barrier: the notice is pushed before the look at the queues,
	 * and the look whether a close has taken the list; pairs with [watermark.R1],
	 * [job.P1], [worker.D2], [watermark.C1].
	 */
	rnl__full_barrier();
	if (rnl__pool_closed(pool))
		rnl__watermark_close(pool);
	else
		look(pool, mark);
}

/* Queues the notices that were cancelled, and puts the others back. */
static void queue_cancelled(struct rnl_pool *pool, enum rnl_water mark)
{
	struct rnl_job *job, *next;

	rnl__pool_operation_begin(pool);
	for (job = take_all(pool, mark); job; job = next) {
		next = job->link;
		if (rnl__job_cancelled(job))
			rnl__choose_start_first(job);
		else
			push(pool, job, mark);
	}
	/* A thread that saw a mark reached meanwhile found an empty list. */
	look_again(pool, mark);
	rnl__pool_operation_end(pool);
}

uint32_t rnl__watermark_cancels(struct rnl_pool *pool)
{
	/*
	 * [watermark.X2] acquire: a cancel of a notice that we had taken off the list found
	 * no notice there, and counted itself before that; pairs with [watermark.X1].
	 */
	return atomic_load_explicit(&pool->cancels, memory_order_acquire);
}

/* Queues cancelled notices, until there was no cancel since @before. */
static void queue_until_no_cancel(struct rnl_pool *pool, uint32_t before)
{
	uint32_t now;

	while ((now = rnl__watermark_cancels(pool)) != before) {
		queue_cancelled(pool, RNL_LOW_WATER);
		queue_cancelled(pool, RNL_HIGH_WATER);
		before = now;
	}
}

void rnl__watermark_wait(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark,
		     uint32_t cancels)
{
	push(pool, job, mark);
	look_again(pool, mark);
	queue_until_no_cancel(pool, cancels);
}

void rnl__watermark_cancelled(struct rnl_pool *pool)
{
	/* [watermark.X1] release: cancelled before it is counted; pairs with [watermark.X2] */
	uint32_t before = atomic_fetch_add_explicit(&pool->cancels, 1, memory_order_acq_rel);

	/* [watermark.X3] full barrier: counted before the take; pairs with [watermark.W1] */
	rnl__full_barrier();
	queue_until_no_cancel(pool, before);
}

void rnl__watermark_rose(struct rnl_pool *pool)
{
	/* [watermark.R1] full barrier: reserved before the look; pairs with [watermark.W1] */
	rnl__mb_after_rmw();
	look(pool, RNL_HIGH_WATER);
}

void rnl__watermark_refused(struct rnl_pool *pool)
{
	if (rnl__pool_has_notice(pool, RNL_HIGH_WATER))
		queue_all(pool, RNL_HIGH_WATER, false);
}

uint64_t rnl__watermark_fell(struct rnl_pool *pool)
{
	uint64_t queued = rnl__pool_queued(pool), share;

	if (queued > pool->low_water) {
		/* Looks again after this worker has taken its share of the jobs above the mark. */
		share = (queued - pool->low_water) / rnl__pool_nr_workers(pool);
		return share ? share - 1 : 0;
	}
	queue_all(pool, RNL_LOW_WATER, false);
	return 0;
}

void rnl__watermark_close(struct rnl_pool *pool)
{
	/* [watermark.C1] full barrier: closed before the take; pairs with [watermark.W1] */
	rnl__full_barrier();
	for (int mark = RNL_LOW_WATER; mark <= RNL_HIGH_WATER; mark++) {
		if (rnl__pool_has_notice(pool, mark))
			queue_all(pool, mark, true);
	}
}
