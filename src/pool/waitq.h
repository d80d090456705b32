/* SPDX-License-Identifier: MIT */
/*
 * Wait queue: threads that wait for space outside of the queues, for jobs that come after a
 * barrier, are in an order, or have a chain.
 *
 * DESIGN
 *	A thread whose submit was refused joins the wait queue and records what its job needs: a
 *	place as a deferred job, places for chained jobs, or something that threads do not get in
 *	order: space in a worker's queue, or a round of its barrier.
 *	Threads get places in order.  A freed place wakes the first thread that needs it.
 *	Other submits, and later threads, are refused while an earlier thread needs the same kind of
 *	place, so short chains cannot starve a long one.  Only accepted jobs free places, so a
 *	waiting thread does not depend on later submits.
 *	Threads that need something else than places are all woken each time, and block no other
 *	thread, because one worker's queue may be full for long.
 *	A thread enters the wait queue, then tries; a thread that makes space reads `nr` afterwards.
 *	A full barrier is between the two steps on both sides, so one side sees the other.
 *	While no thread waits, all of this costs a load.
 *
 *			enter	look	stay	wait	leave	wake
 *	any two		-	-	-	-	-	-	one mutex; own waiter only
 */
#ifndef RNL_WAITQ_H
#define RNL_WAITQ_H

#include <pthread.h>
#include <stdint.h>

#include "sys/atomic.h"

struct rnl_pool;

/* What a submit may need. */
#define RNL__LACKS_PLACE 1u	/* a place as a deferred job */
#define RNL__LACKS_CHAIN 2u	/* places for chained jobs */
#define RNL__LACKS_OTHER 4u	/* space in a queue, or in its barrier */
#define RNL__LACKS_IN_ORDER (RNL__LACKS_PLACE | RNL__LACKS_CHAIN)

struct rnl__waiter {
	struct rnl__waiter *next;
	unsigned nr_behind;	/* places that it needs for chained jobs */
	unsigned found;		/* its needs, as its last try found them */
	unsigned before;	/* the needs of earlier waiters, when it last looked */
	unsigned lacks;		/* its needs, as others see them; under the lock */
	_Atomic uint32_t woken;	/* it should try again */
};

struct rnl__waitq {
	pthread_mutex_t lock;
	struct rnl__waiter *first, **last;
	unsigned nr_lacking[RNL__LACKS_OTHER + 1]; /* how many waiters, by their needs */
	_Atomic uint32_t lacks;	/* the kinds of places that waiters need */
	_Atomic uint32_t nr;
};

void rnl__waitq_init(struct rnl__waitq *q);

/* Returns the kinds of places that a new submit must leave to the waiters. */
static inline unsigned rnl__waitq_lacks(struct rnl__waitq *q)
{
	/* relaxed: a submit that is concurrent with an enter or a leave may see either state */
	return atomic_load_explicit(&q->lacks, memory_order_relaxed);
}

/* Adds the calling thread's waiter at the end. */
void rnl__waitq_enter(struct rnl__waitq *q, struct rnl__waiter *w);

/* Begins a try: space that is made from here on ends the next wait. */
void rnl__waitq_look(struct rnl__waitq *q, struct rnl__waiter *w);

/* Ends a try that failed: from now on other threads see the submit's needs. */
void rnl__waitq_stay(struct rnl_pool *pool, struct rnl__waiter *w);

/* Returns 0, perhaps spuriously, or -ETIMEDOUT. */
int rnl__waitq_wait(struct rnl__waiter *w, uint64_t deadline);

/* Removes the waiter, and wakes the waiters that it blocked. */
void rnl__waitq_leave(struct rnl_pool *pool, struct rnl__waiter *w);

/* Space was made, or the pool was closed.  A full barrier must precede the call. */
void rnl__waitq_wake_some(struct rnl_pool *pool);

#endif
