/* SPDX-License-Identifier: MIT */
/* Threads that wait for space outside of the queues; waitq.h has the design. */
#include "config.h"

#include "pool/waitq.h"
#include "pool/pool.h"
#include "sys/fence.h"
#include "sys/futex.h"

void rnl__waitq_init(struct rnl__waitq *q)
{
	pthread_mutex_init(&q->lock, NULL);
	q->first = NULL;
	q->last = &q->first;
}

/* Returns the kinds of places that the waiters before @w need. */
static unsigned lacks_before(struct rnl__waitq *q, const struct rnl__waiter *w)
{
	unsigned lacks = 0;

	for (const struct rnl__waiter *it = q->first; it != w; it = it->next) {
		lacks |= it->lacks & RNL__LACKS_IN_ORDER;
		if (lacks == rnl__waitq_lacks(q))
			break;
	}
	return lacks;
}

static void set_lacks(struct rnl__waitq *q, struct rnl__waiter *w, unsigned lacks)
{
	unsigned *nr = q->nr_lacking;

	nr[w->lacks]--;
	nr[lacks]++;
	w->lacks = lacks;
	/* relaxed: see rnl__waitq_lacks() */
	atomic_store_explicit(&q->lacks, (nr[RNL__LACKS_PLACE] ? RNL__LACKS_PLACE : 0) |
			      (nr[RNL__LACKS_CHAIN] ? RNL__LACKS_CHAIN : 0), memory_order_relaxed);
}

void rnl__waitq_enter(struct rnl__waitq *q, struct rnl__waiter *w)
{
	pthread_mutex_lock(&q->lock);
	*q->last = w;
	q->last = &w->next;
	rnl__figure_add(&q->nr, 1u);
	set_lacks(q, w, w->found);
	pthread_mutex_unlock(&q->lock);
}

void rnl__waitq_look(struct rnl__waitq *q, struct rnl__waiter *w)
{
	pthread_mutex_lock(&q->lock);
	w->before = lacks_before(q, w);
	/* relaxed: under the lock, like line_wake() */
	atomic_store_explicit(&w->woken, 0, memory_order_relaxed);
	pthread_mutex_unlock(&q->lock);
	/*
	 * [waitq.W1] full barrier: enqueued before the try; pairs with [job.P1], [outside.L1],
	 * [pool.R1], [pool.R3], [rounds.S3]
	 */
	rnl__full_barrier();
}

static void line_wake(struct rnl__waiter *w)
{
	if (rnl__own_read(&w->woken))
		return;
	/* relaxed: under the lock, which the waiter takes before it tries again */
	atomic_store_explicit(&w->woken, 1, memory_order_relaxed);
	(void)rnl__futex_wake(&w->woken, 1);
}

/* Returns true if a try may succeed. */
static bool line_may_have(struct rnl_pool *pool, const struct rnl__waiter *w)
{
	return w->lacks != RNL__LACKS_CHAIN || rnl__pool_closed(pool) ||
	       rnl__tally_inside(&pool->outside[RNL__CHAINED]) + w->nr_behind <= pool->max_queued;
}

static void wake_some(struct rnl_pool *pool)
{
	struct rnl__waitq *q = &pool->waitq;
	unsigned lacks = 0, nr_other = q->nr_lacking[RNL__LACKS_OTHER];

	for (struct rnl__waiter *w = q->first; w; w = w->next) {
		if (lacks == rnl__waitq_lacks(q) && !nr_other)
			break;
		nr_other -= w->lacks == RNL__LACKS_OTHER;
		if (!(w->lacks & lacks) && line_may_have(pool, w))
			line_wake(w);
		lacks |= w->lacks & RNL__LACKS_IN_ORDER;
	}
}

void rnl__waitq_stay(struct rnl_pool *pool, struct rnl__waiter *w)
{
	struct rnl__waitq *q = &pool->waitq;
	const unsigned lacked = w->lacks;

	pthread_mutex_lock(&q->lock);
	set_lacks(q, w, w->found);
	/* Another waiter may now be the first with the need that this waiter had. */
	if (lacked != RNL__LACKS_OTHER && lacked != w->found)
		wake_some(pool);
	pthread_mutex_unlock(&q->lock);
}

int rnl__waitq_wait(struct rnl__waiter *w, uint64_t deadline)
{
	return rnl__futex_wait(&w->woken, 0, deadline);
}

void rnl__waitq_leave(struct rnl_pool *pool, struct rnl__waiter *w)
{
	struct rnl__waitq *q = &pool->waitq;
	struct rnl__waiter **at = &q->first;

	pthread_mutex_lock(&q->lock);
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	if (q->last == &w->next)
		q->last = at;
	rnl__figure_add(&q->nr, -1u);
	set_lacks(q, w, 0);
	wake_some(pool);
	pthread_mutex_unlock(&q->lock);
}

void rnl__waitq_wake_some(struct rnl_pool *pool)
{
	pthread_mutex_lock(&pool->waitq.lock);
	wake_some(pool);
	pthread_mutex_unlock(&pool->waitq.lock);
}
