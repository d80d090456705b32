/* SPDX-License-Identifier: MIT */
/* Threads that wait for space outside of the queues; line.h has the design. */
#include "config.h"

#include "pool/line.h"
#include "pool/pool.h"
#include "sys/fence.h"
#include "sys/futex.h"

void rnl__line_init(struct rnl__line *line)
{
	pthread_mutex_init(&line->lock, NULL);
	line->first = NULL;
	line->last = &line->first;
}

/* What the waiters before @w lack, in order. */
static unsigned lacks_before(struct rnl__line *line, const struct rnl__waiter *w)
{
	unsigned lacks = 0;

	for (const struct rnl__waiter *it = line->first; it != w; it = it->next) {
		lacks |= it->lacks & RNL__LACKS_IN_ORDER;
		if (lacks == rnl__line_lacks(line))
			break;
	}
	return lacks;
}

static void set_lacks(struct rnl__line *line, struct rnl__waiter *w, unsigned lacks)
{
	unsigned *nr = line->nr_lacking;

	nr[w->lacks]--;
	nr[lacks]++;
	w->lacks = lacks;
	/* relaxed: see rnl__line_lacks() */
	atomic_store_explicit(&line->lacks, (nr[RNL__LACKS_PLACE] ? RNL__LACKS_PLACE : 0) |
			      (nr[RNL__LACKS_CHAIN] ? RNL__LACKS_CHAIN : 0), memory_order_relaxed);
}

void rnl__line_enter(struct rnl__line *line, struct rnl__waiter *w)
{
	pthread_mutex_lock(&line->lock);
	*line->last = w;
	line->last = &w->next;
	rnl__figure_add(&line->nr, 1u);
	set_lacks(line, w, w->found);
	pthread_mutex_unlock(&line->lock);
}

void rnl__line_look(struct rnl__line *line, struct rnl__waiter *w)
{
	pthread_mutex_lock(&line->lock);
	w->before = lacks_before(line, w);
	/* relaxed: under the lock, as in line_wake() */
	atomic_store_explicit(&w->rung, 0, memory_order_relaxed);
	pthread_mutex_unlock(&line->lock);
	/*
	 * [line.W1] full barrier: in line before the try; pairs with [job.P1], [outside.L1],
	 * [pool.R1], [pool.R3], [rounds.S3]
	 */
	rnl__full_barrier();
}

static void line_wake(struct rnl__waiter *w)
{
	if (rnl__own_read(&w->rung))
		return;
	/* relaxed: under the lock, which the waiter takes before it tries again */
	atomic_store_explicit(&w->rung, 1, memory_order_relaxed);
	(void)rnl__futex_wake(&w->rung, 1);
}

/* Whether a try is worth it. */
static bool line_may_have(struct rnl_pool *pool, const struct rnl__waiter *w)
{
	return w->lacks != RNL__LACKS_CHAIN || rnl__pool_closed(pool) ||
	       rnl__tally_inside(&pool->outside[RNL__CHAINED]) + w->nr_behind <= pool->max_queued;
}

static void wake_some(struct rnl_pool *pool)
{
	struct rnl__line *line = &pool->line;
	unsigned lacks = 0, nr_other = line->nr_lacking[RNL__LACKS_OTHER];

	for (struct rnl__waiter *w = line->first; w; w = w->next) {
		if (lacks == rnl__line_lacks(line) && !nr_other)
			break;
		nr_other -= w->lacks == RNL__LACKS_OTHER;
		if (!(w->lacks & lacks) && line_may_have(pool, w))
			line_wake(w);
		lacks |= w->lacks & RNL__LACKS_IN_ORDER;
	}
}

void rnl__line_stay(struct rnl_pool *pool, struct rnl__waiter *w)
{
	struct rnl__line *line = &pool->line;
	const unsigned lacked = w->lacks;

	pthread_mutex_lock(&line->lock);
	set_lacks(line, w, w->found);
	/* Another one may be the first now that lacks what this one lacked. */
	if (lacked != RNL__LACKS_OTHER && lacked != w->found)
		wake_some(pool);
	pthread_mutex_unlock(&line->lock);
}

int rnl__line_wait(struct rnl__waiter *w, uint64_t deadline)
{
	return rnl__futex_wait(&w->rung, 0, deadline);
}

void rnl__line_leave(struct rnl_pool *pool, struct rnl__waiter *w)
{
	struct rnl__line *line = &pool->line;
	struct rnl__waiter **at = &line->first;

	pthread_mutex_lock(&line->lock);
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	if (line->last == &w->next)
		line->last = at;
	rnl__figure_add(&line->nr, -1u);
	set_lacks(line, w, 0);
	wake_some(pool);
	pthread_mutex_unlock(&line->lock);
}

void rnl__line_wake_some(struct rnl_pool *pool)
{
	pthread_mutex_lock(&pool->line.lock);
	wake_some(pool);
	pthread_mutex_unlock(&pool->line.lock);
}
