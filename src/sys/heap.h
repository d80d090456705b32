/* SPDX-License-Identifier: MIT */
/*
 * A heap ordered by time, from which any node can be removed.
 *
 * DESIGN
 *	A pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986) with links in its nodes: it
 *	allocates nothing and has no size limit.  A node links to its first child, its next sibling,
 *	and by `before` to its previous sibling, or to its parent if it is the first child.  The
 *	heap has the offsets of the links: some nodes reuse those fields while in no heap.
 *	An insert takes one step, a removal O(log n) on average.  A removal after many inserts may
 *	take many steps; it calls `between` between two steps.
 *	Only the heap's owner calls these functions.
 */
#ifndef RNL_HEAP_H
#define RNL_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct rnl__heap {
	void *top;			/* the earliest node; NULL: the heap is empty */
	size_t time, next, before, child; /* offsets in a node: a uint64_t, and three pointers */
};

typedef void rnl__heap_between_fn(void *arg);

/* Adds a node whose time is set.  `before` is not NULL while a node is in a heap. */
void rnl__heap_add(struct rnl__heap *heap, void *node);

/* Removes a node, from any place.  `before` stays, and is not NULL. */
void rnl__heap_cut(struct rnl__heap *heap, void *node, rnl__heap_between_fn *between, void *arg);

/* Removes any node, in a few steps, to empty the heap.  Returns NULL if it is empty. */
void *rnl__heap_take_any(struct rnl__heap *heap);

/* Returns the time of the earliest node, or UINT64_MAX if the heap is empty. */
uint64_t rnl__heap_time(const struct rnl__heap *heap);

#endif
