/* SPDX-License-Identifier: MIT */
/* Jobs that wait for their time; delayed.h has the design. */
#include "config.h"

#include <stddef.h>
#include <string.h>

#include "job/delayed.h"
#include "job/job.h"
#include "pool/choose.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/fence.h"

/* ---- the heap: `link` is the next of a job's siblings, and it has a first child --------- */

_Static_assert(offsetof(struct rnl_job, producer) == offsetof(struct rnl_job, staff) + 4 &&
	       sizeof(void *) <= 8, "a delayed job has its first child where these two are");

static struct rnl_job *child_of(const struct rnl_job *job)
{
	struct rnl_job *child;

	memcpy(&child, (const char *)job + offsetof(struct rnl_job, staff), sizeof(child));
	return child;
}

static void set_child(struct rnl_job *job, struct rnl_job *child)
{
	memcpy((char *)job + offsetof(struct rnl_job, staff), &child, sizeof(child));
}

/* Makes one heap of two; either may be empty. */
static struct rnl_job *meld(struct rnl_job *a, struct rnl_job *b)
{
	struct rnl_job *first = a, *under = b;

	if (!a || !b)
		return a ? a : b;
	if (b->submit_ns < a->submit_ns) {
		first = b;
		under = a;
	}
	under->link = child_of(first);
	set_child(first, under);
	return first;
}

/* Makes one heap of a list of them: by pairs, then of the pairs. */
static struct rnl_job *meld_all(struct rnl_job *list, struct rnl__keeper_break *brk)
{
	struct rnl_job *pairs = NULL, *heap = NULL;

	while (list) {
		struct rnl_job *a = list, *b = a->link;

		rnl__keeper_step(brk);
		list = b ? b->link : NULL;
		a->link = NULL;
		if (b)
			b->link = NULL;
		a = meld(a, b);
		a->link = pairs;
		pairs = a;
	}
	while (pairs) {
		struct rnl_job *next = pairs->link;

		rnl__keeper_step(brk);
		pairs->link = NULL;
		heap = meld(heap, pairs);
		pairs = next;
	}
	return heap;
}

/* ---- in and out ---------------------------------------------------------- */

void rnl__delayed_push(struct rnl_job *job)
{
	struct rnl_pool *pool = job->pool;
	struct rnl_job *head = rnl__peek(&pool->keeper.came);

	do {
		job->link = head;
		/* [delayed.N1] release: the job that is pushed; pairs with [delayed.N2] */
	} while (!atomic_compare_exchange_weak_explicit(&pool->keeper.came, &head, job,
							memory_order_release,
							memory_order_relaxed));
	/* [delayed.W1] full barrier: pushed before the look; pairs with [bell.L2] */
	rnl__full_barrier();
	rnl__bell_ring(&pool->keeper.bell);
}

bool rnl__delayed_came(struct rnl_pool *pool)
{
	/* relaxed: the caller's full barrier orders it */
	return atomic_load_explicit(&pool->keeper.came, memory_order_relaxed) != NULL;
}

/* Queues a job that is in no heap any more. */
static void queue(struct rnl_pool *pool, struct rnl_job *job)
{
	bool cancelled;

	set_child(job, NULL);
	job->producer = rnl__thread_tid();
	rnl__job_enqueued(job);
	cancelled = rnl__job_cancelled(job);
	rnl__choose_start(job);
	rnl__tally_leave(&pool->delayed);
	/* [delayed.W2] full barrier: left before the look for drains; pairs with [bell.L2] */
	rnl__mb_after_rmw();
	rnl__pool_ring_drained(pool);
	/* It is to be found in its queue. */
	if (cancelled)
		rnl__keeper_cancelled(pool, false);
}

static void take_in(struct rnl_pool *pool, struct rnl__keeper_break *brk)
{
	struct rnl_job *next, *job;

	/* [delayed.N2] acquire: the jobs themselves; pairs with [delayed.N1] */
	job = atomic_exchange_explicit(&pool->keeper.came, NULL, memory_order_acquire);
	for (; job; job = next) {
		rnl__keeper_step(brk);
		next = job->link;
		job->link = NULL;
		set_child(job, NULL);
		/* A cancel beside its submit: the count was seen before the job came. */
		if (rnl__job_cancelled(job))
			queue(pool, job);
		else
			pool->keeper.delayed = meld(pool->keeper.delayed, job);
	}
}

/* Queues those that were cancelled, and makes the heap anew of the others. */
static void sweep(struct rnl_pool *pool, struct rnl__keeper_break *brk)
{
	struct rnl_job *list = pool->keeper.delayed, *job, *child, *next;
	bool closed = rnl__tally_closed(&pool->delayed);

	pool->keeper.delayed = NULL;
	while ((job = list) != NULL) {
		list = job->link;
		for (child = child_of(job); child; child = next) {
			rnl__keeper_step(brk);
			next = child->link;
			child->link = list;
			list = child;
		}
		job->link = NULL;
		set_child(job, NULL);
		if (closed)
			(void)rnl__job_cancel(job);
		if (rnl__job_cancelled(job))
			queue(pool, job);
		else
			pool->keeper.delayed = meld(pool->keeper.delayed, job);
	}
}

void rnl__delayed_look(struct rnl_pool *pool, uint64_t now, bool all,
		       struct rnl__keeper_break *brk)
{
	struct rnl_job *job;

	take_in(pool, brk);
	if (all || rnl__tally_closed(&pool->delayed))
		sweep(pool, brk);
	while ((job = pool->keeper.delayed) != NULL && job->submit_ns <= now) {
		rnl__keeper_step(brk);
		pool->keeper.delayed = meld_all(child_of(job), brk);
		queue(pool, job);
	}
}

uint64_t rnl__delayed_time(struct rnl_pool *pool)
{
	return pool->keeper.delayed ? pool->keeper.delayed->submit_ns : RNL__NEVER;
}
