/* SPDX-License-Identifier: MIT */
/*
 * Line: threads that wait for space outside of the queues, for jobs after a barrier, in an order, or
 * with others behind them.
 *
 * DESIGN
 *	A thread whose submit was refused joins the queue and records what its job lacks: a place as
 *	a deferred job, places for the jobs behind it, or something that it does not compete for in
 *	order: space in a worker's queue, or a round of its barrier.
 *	Places are first in, first out.  When one is freed, the first thread that lacks it is woken.
 *	Other submits, and threads further back, are refused while an earlier thread lacks what they
 *	need: so short chains cannot starve a long one.  Accepted jobs alone free places: so a
 *	waiting thread does not depend on later submits.
 *	Threads that lack something else are all woken each time, and block nobody: one worker's
 *	queue may be full for long.
 *	A thread enters the line, then tries; who makes space looks at `nr` afterwards.  A full
 *	barrier stands between the two steps on both sides: so one sees the other.
 *	While nobody waits, all of this costs a load.
 *
 *			enter	look	stay	wait	leave	wake
 *	any two		-	-	-	-	-	-	one mutex; a waiter is its thread's
 */
#ifndef RNL_WAITQ_H
#define RNL_WAITQ_H

#include <pthread.h>
#include <stdint.h>

#include "sys/atomic.h"

struct rnl_pool;

/* What a submit may lack. */
#define RNL__LACKS_PLACE 1u	/* as a deferred job */
#define RNL__LACKS_CHAIN 2u	/* for jobs behind it */
#define RNL__LACKS_OTHER 4u	/* space in a queue, or its barrier's */
#define RNL__LACKS_IN_ORDER (RNL__LACKS_PLACE | RNL__LACKS_CHAIN)

struct rnl__waiter {
	struct rnl__waiter *next;
	unsigned nr_behind;	/* places that it needs for these */
	unsigned found;		/* what it lacks, as its last try has found */
	unsigned before;	/* what those before it lacked, as it last looked */
	unsigned lacks;		/* as others see it; under the lock */
	_Atomic uint32_t woken;	/* it is to try again */
};

struct rnl__waitq {
	pthread_mutex_t lock;
	struct rnl__waiter *first, **last;
	unsigned nr_lacking[RNL__LACKS_OTHER + 1]; /* by what they lack */
	_Atomic uint32_t lacks;	/* what any of them lacks, in order */
	_Atomic uint32_t nr;
};

void rnl__waitq_init(struct rnl__waitq *q);

/* What a submit that comes now has to leave to others. */
static inline unsigned rnl__waitq_lacks(struct rnl__waitq *q)
{
	/* relaxed: a submit that is concurrent with an enter or a leave may see either state */
	return atomic_load_explicit(&q->lacks, memory_order_relaxed);
}

/* Puts the calling thread's waiter at the end. */
void rnl__waitq_enter(struct rnl__waitq *q, struct rnl__waiter *w);

/* A try begins: what makes space from here on ends the next wait. */
void rnl__waitq_look(struct rnl__waitq *q, struct rnl__waiter *w);

/* The try has found that it lacks something: others see it from now on. */
void rnl__waitq_stay(struct rnl_pool *pool, struct rnl__waiter *w);

/* 0, perhaps for no reason, or -ETIMEDOUT. */
int rnl__waitq_wait(struct rnl__waiter *w, uint64_t deadline);

/* Takes the waiter out, and wakes those that had to wait for it. */
void rnl__waitq_leave(struct rnl_pool *pool, struct rnl__waiter *w);

/* Space was made, or the pool was closed.  A full barrier stands before the call. */
void rnl__waitq_wake_some(struct rnl_pool *pool);

#endif
