/* SPDX-License-Identifier: MIT */
/*
 * Inbox: a list to which any thread adds things, and from which one thread takes all of them.
 *
 * DESIGN
 *	The links are in the things.  A put links the thing to the first one and exchanges the head;
 *	a take exchanges the head for NULL.  A take removes all things, so no thread reads the link
 *	of a thing that has left (no ABA).  The order is newest first.
 *	A taker that found nothing may arm the inbox.  Only the next put then returns true, and its
 *	thread wakes the taker or takes the things.  A thread that disarms the inbox must take, too.
 *	With rnl__mb_after_rmw() a put is a full barrier, for a thread that then looks for a
 *	sleeper.
 *	Models: tests/model/cq.pml; for disarming, order.pml.
 *
 *			put	take	arm
 *	put		-	-	-
 *	take		-	X	X	X: needs outside synchronisation
 *	arm		-	X	-
 */
#ifndef RNL_INBOX_H
#define RNL_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/atomic.h"

struct rnl__inbox {
	_Atomic(void *) first;		/* NULL or ARMED: empty */
};

#define RNL__INBOX_ARMED ((void *)1)

/* @link: where @thing has its link for this inbox.  Returns true if the inbox was armed. */
static inline bool rnl__inbox_put(struct rnl__inbox *inbox, void *thing, void **link)
{
	void *first = rnl__peek(&inbox->first);

	do {
		*link = first == RNL__INBOX_ARMED ? NULL : first;
		/*
		 * [inbox.P1] acq_rel: passes the thing to its taker, and the arming thread's
		 * earlier writes to this thread; pairs with [inbox.T1], [inbox.A1]
		 */
	} while (!atomic_compare_exchange_weak_explicit(&inbox->first, &first, thing,
							memory_order_acq_rel,
							memory_order_relaxed));
	return first == RNL__INBOX_ARMED;
}

/* Returns true if the inbox has a thing: a hint. */
static inline bool rnl__inbox_holds(struct rnl__inbox *inbox)
{
	return (uintptr_t)rnl__peek(&inbox->first) > (uintptr_t)RNL__INBOX_ARMED;
}

/* Returns true if the next put finds the inbox armed. */
static inline bool rnl__inbox_is_armed(struct rnl__inbox *inbox)
{
	return rnl__peek(&inbox->first) == RNL__INBOX_ARMED;
}

/* Returns the newest thing, which links to older ones; NULL: empty, and perhaps armed. */
static inline void *rnl__inbox_take_all(struct rnl__inbox *inbox)
{
	if (!rnl__inbox_holds(inbox))
		return NULL;
	/* [inbox.T1] acquire: the things; pairs with [inbox.P1] */
	return atomic_exchange_explicit(&inbox->first, NULL, memory_order_acquire);
}

/* Arms an empty inbox, or disarms it.  Returns false if it has things, or no change is needed. */
static inline bool rnl__inbox_arm(struct rnl__inbox *inbox, bool arm)
{
	void *was = arm ? NULL : RNL__INBOX_ARMED;

	if (rnl__peek(&inbox->first) != was)
		return false;
	/*
	 * [inbox.A1] acq_rel: passes the arming thread's earlier writes (an order's `first`, a
	 * completion queue's `writing`) to the thread that disarms, by this call or by a put;
	 * pairs with [inbox.A1], [inbox.P1]
	 */
	return atomic_compare_exchange_strong_explicit(&inbox->first, &was,
						       arm ? RNL__INBOX_ARMED : NULL,
						       memory_order_acq_rel, memory_order_relaxed);
}

#endif
