/* SPDX-License-Identifier: MIT */
/* Orders of jobs that come after barriers; order.h has the design. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "job/barrier.h"
#include "job/job.h"
#include "job/order.h"
#include "job/rounds.h"
#include "pool/choose.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/thread_state.h"

#define BUSY UINT64_C(1)

/* In the `key` of an order's job, beside the pointer to the order, until the submit is over: */
#define UNREADY UINT64_C(1)	/* no thread may go on with the job */
#define AT_GATE UINT64_C(2)	/* ... and the gate is its submit's */

#define NAP_NS 50000u		/* between looks of rnl_order_fini() */

_Static_assert(_Alignof(struct rnl_job) > BUSY, "a pointer to a job has a bit to spare");
_Static_assert(_Alignof(struct rnl_order) > (UNREADY | AT_GATE), "one to an order has two");

static _Atomic uint64_t *waiting_of(struct rnl_order *order)
{
	return rnl__atomic(&order->waiting);
}

static struct rnl_job *list_of(uint64_t waiting)
{
	return (struct rnl_job *)(uintptr_t)(waiting & ~BUSY);
}

static bool exchange(struct rnl_order *order, uint64_t *waiting, uint64_t now)
{
	/*
	 * [order.W1] acq_rel: the jobs on the list, and `first`, to the thread that has the gate next;
	 * pairs with [order.W1], [order.W2]
	 */
	return atomic_compare_exchange_weak_explicit(waiting_of(order), waiting, now,
						     memory_order_acq_rel, memory_order_relaxed);
}

static _Atomic uint64_t *key_of(struct rnl_job *job)
{
	return rnl__atomic(&job->key);
}

/* Joins those that wait; true: none does, and the gate is this job's. */
static bool enter(struct rnl_order *order, struct rnl_job *job)
{
	uint64_t waiting = rnl__peek(waiting_of(order));

	do {
		job->link = list_of(waiting);
	} while (!exchange(order, &waiting, waiting & BUSY ? (uintptr_t)job | BUSY : BUSY));
	return !(waiting & BUSY);
}

/* Whether the submit is over; if not, the gate is the submit's from now on. */
static bool is_ready(struct rnl_order *order, struct rnl_job *job)
{
	uint64_t key = (uintptr_t)order | UNREADY;

	/*
	 * [order.K1] acq_rel: of this and the end of the submit one is first; the job as it was
	 * accepted, or `first`, to the second; pairs with [order.K2]
	 */
	return !atomic_compare_exchange_strong_explicit(key_of(job), &key, key | AT_GATE,
							memory_order_acq_rel,
							memory_order_acquire);
}

/* The next job at the gate; NULL: the gate is another's or free, and the order may be gone. */
static struct rnl_job *next_job(struct rnl_order *order)
{
	uint64_t waiting;
	struct rnl_job *job;

	if (!order->first) {
		waiting = rnl__peek(waiting_of(order));
		while (!exchange(order, &waiting, list_of(waiting) ? BUSY : 0))
			;
		if (!list_of(waiting))
			return NULL;
		order->first = rnl__job_in_order(list_of(waiting));
	}
	job = order->first;
	order->first = job->link;
	return is_ready(order, job) ? job : NULL;
}

/* Queues jobs, from this one on, until one has to wait for its barrier. */
static void go_on(struct rnl_order *order, struct rnl_job *job, bool issued)
{
	for (; job; job = next_job(order), issued = false) {
		if (!issued && rnl__job_after_round(job) != RNL__NO_ROUND &&
		    rnl__rounds_defer(job->after, rnl__job_after_round(job), job))
			return;
		job->flags &= ~RNL__JOB_ORDERED;
		job->key = order->key;
		rnl__choose_start_deferred(job);
	}
}

/* The job at the gate, whose round is issued. */
static void gate_issued(struct rnl_job *job)
{
	go_on((struct rnl_order *)(uintptr_t)job->key, job, true);
}

void rnl__order_enter(struct rnl_order *order, struct rnl_job *job)
{
	job->flags |= RNL__JOB_ORDERED;
	/* relaxed, both: [order.W1] publishes it, or else no other thread looks at it */
	atomic_store_explicit(key_of(job), (uintptr_t)order | UNREADY, memory_order_relaxed);
	if (enter(order, job))
		/* relaxed */
		atomic_store_explicit(key_of(job), (uintptr_t)order | UNREADY | AT_GATE,
				      memory_order_relaxed);
}

void rnl__order_ready(struct rnl_order *order, struct rnl_job *job)
{
	/* [order.K2] acq_rel: as [order.K1]; pairs with [order.K1] */
	if (atomic_exchange_explicit(key_of(job), (uintptr_t)order, memory_order_acq_rel) & AT_GATE)
		go_on(order, job, false);
}

int rnl__order_check(const struct rnl_order *order)
{
	const int ret = order && order->pool ? rnl__generation_check(order->generation) : -EINVAL;

	if (ret == -EINVAL)
		return rnl__invalid(NULL, "rnl_job_order(): the order was not initialised");
	return ret;
}

int rnl_order_init(struct rnl_order *order, struct rnl_pool *pool, uint64_t key)
{
	int ret = rnl__pool_given(pool, "rnl_order_init()");

	if (ret)
		return ret;
	if (!order)
		return rnl__invalid(&pool->log, "rnl_order_init(): the order is NULL");
	memset(order, 0, sizeof(*order));
	order->pool = pool;
	order->key = key;
	order->go_on = gate_issued;
	order->generation = pool->generation;
	return 0;
}

void rnl_order_fini(struct rnl_order *order)
{
	if (!order || !order->pool || rnl__generation_check(order->generation))
		return;
	/* [order.W2] acquire: no thread touches the order any more; pairs with [order.W1] */
	while (atomic_load_explicit(waiting_of(order), memory_order_acquire))
		rnl__nap(NAP_NS);
	order->pool = NULL;
}
