/* SPDX-License-Identifier: MIT */
/*
 * Inbox: a list on which any thread puts things, and of which one thread takes all.
 *
 * DESIGN
 *	The links are in the things, so nothing is allocated.  A put links the thing to the first one
 *	and exchanges the head; a take exchanges the head for NULL.  Since a take has all, no thread
 *	sees a link of a thing that has left (no ABA).  The order is newest first.
 *	A taker that found nothing may arm the inbox: the next put, and no other, returns true.  Its
 *	thread wakes the taker, or takes.  A thread that disarms the inbox takes, too.
 *	A put is a read-modify-write: rnl__mb_after_rmw() makes it a full barrier, for threads that
 *	then look for a sleeper.
 *	Model: tests/model/cq.pml; of disarming: order.pml.
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
	_Atomic(void *) first;		/* NULL, or ARMED: it is empty */
};

#define RNL__INBOX_ARMED ((void *)1)

/* @link: where @thing has its link for this inbox.  Return: whether the inbox was armed. */
static inline bool rnl__inbox_put(struct rnl__inbox *inbox, void *thing, void **link)
{
	void *first = rnl__peek(&inbox->first);

	do {
		*link = first == RNL__INBOX_ARMED ? NULL : first;
		/*
		 * [inbox.P1] acq_rel: the thing, to its taker; and what was done before the inbox was
		 * armed, to this thread; pairs with [inbox.T1], [inbox.A1]
		 */
	} while (!atomic_compare_exchange_weak_explicit(&inbox->first, &first, thing,
							memory_order_acq_rel,
							memory_order_relaxed));
	return first == RNL__INBOX_ARMED;
}

/* Whether there is a thing; a look. */
static inline bool rnl__inbox_holds(struct rnl__inbox *inbox)
{
	return (uintptr_t)rnl__peek(&inbox->first) > (uintptr_t)RNL__INBOX_ARMED;
}

/* Return: the newest thing, which leads to the others; NULL: the inbox is empty, and may be armed. */
static inline void *rnl__inbox_take_all(struct rnl__inbox *inbox)
{
	if (!rnl__inbox_holds(inbox))
		return NULL;
	/* [inbox.T1] acquire: the things; pairs with [inbox.P1] */
	return atomic_exchange_explicit(&inbox->first, NULL, memory_order_acquire);
}

/* Arms an empty inbox, or disarms it.  False: nothing has changed; there are things, or it is so. */
static inline bool rnl__inbox_arm(struct rnl__inbox *inbox, bool arm)
{
	void *was = arm ? NULL : RNL__INBOX_ARMED;

	if (rnl__peek(&inbox->first) != was)
		return false;
	/*
	 * [inbox.A1] acq_rel: what was done before it was armed, to the thread that disarms it, by this or
	 * by a put; pairs with [inbox.A1], [inbox.P1]
	 */
	return atomic_compare_exchange_strong_explicit(&inbox->first, &was,
						       arm ? RNL__INBOX_ARMED : NULL,
						       memory_order_acq_rel, memory_order_relaxed);
}

#endif
