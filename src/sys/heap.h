/* SPDX-License-Identifier: MIT */
/*
 * A heap of things that wait for a time, which any of them can leave.
 *
 * DESIGN
 *	A pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986) by links within its nodes: so no
 *	memory is allocated, and there is no bound.  A node has its first child, the next of its
 *	siblings, and `before`: the sibling before it, or its parent.  Where a kind of node has these
 *	is in the heap, as offsets: some have other things there while they are in no heap.
 *	Adding takes one step, leaving O(log n) on average; one that leaves may take many steps, if
 *	many were added: `between` is called between two.
 *	All functions: the heap's owner alone.
 */
#ifndef RNL_HEAP_H
#define RNL_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct rnl__heap {
	void *top;			/* the first to come; NULL: the heap is empty */
	size_t time, next, before, child; /* offsets in a node: uint64_t, and three pointers */
};

typedef void rnl__heap_between_fn(void *arg);

/* Adds a node, which has its time.  `before` is not NULL while a node is in a heap. */
void rnl__heap_add(struct rnl__heap *heap, void *node);

/* Takes a node out, from any place.  `before` stays, and is not NULL. */
void rnl__heap_cut(struct rnl__heap *heap, void *node, rnl__heap_between_fn *between, void *arg);

/* Takes any node out of a heap that is being emptied, in a few steps; NULL: it is empty. */
void *rnl__heap_take_any(struct rnl__heap *heap);

/* The time of the first; UINT64_MAX: the heap is empty. */
uint64_t rnl__heap_time(const struct rnl__heap *heap);

#endif
