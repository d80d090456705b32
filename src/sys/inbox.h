/* SPDX-License-Identifier: MIT */
/*
 * Inbox: a list on which any thread puts things, and of which one thread takes all.
 *
 * DESIGN
 *	The links are in the things, so nothing is allocated.  A put links the thing to the first one
 *	and exchanges the head; a take exchanges the head for NULL.  Since a take has all, no thread
 *	sees a link of a thing that has left (no ABA).  The order is newest first.
 *
 *			put	take all
 *	put		-	-
 *	take all	-	-
 */
#ifndef RNL_INBOX_H
#define RNL_INBOX_H

#include <stddef.h>

#include "sys/atomic.h"

struct rnl__inbox {
	_Atomic(void *) first;		/* NULL: it is empty */
};

/* @link: where @thing has its link for this inbox. */
static inline void rnl__inbox_put(struct rnl__inbox *inbox, void *thing, void **link)
{
	void *first = rnl__peek(&inbox->first);

	do {
		*link = first;
		/* [inbox.P1] release: the thing; pairs with [inbox.T1] */
	} while (!atomic_compare_exchange_weak_explicit(&inbox->first, &first, thing,
							memory_order_release,
							memory_order_relaxed));
}

/* Return: the newest thing, which leads to the others; NULL: the inbox is empty. */
static inline void *rnl__inbox_take_all(struct rnl__inbox *inbox)
{
	if (!rnl__peek(&inbox->first))
		return NULL;
	/* [inbox.T1] acquire: the things; pairs with [inbox.P1] */
	return atomic_exchange_explicit(&inbox->first, NULL, memory_order_acquire);
}

#endif
