/* SPDX-License-Identifier: MIT */
/*
 * Pinned buffers: page-locked host memory, which any thread gets and puts at any time.
 *
 * DESIGN
 *	Buffers have the sizes of classes, four classes per power of two.  Each class has sixteen
 *	stacks (Treiber's) of free buffers.  A thread puts on its own stack; it gets from its own
 *	stack, or from the others if its own is empty.
 *	A stack has nodes, not buffers.  A delayed pop may read a node that is gone from the stack,
 *	so nodes live as long as the pool.  The header right before a buffer has its node's id and a
 *	check, so a put finds the node directly and detects an overrun buffer.  The node records
 *	whether its buffer is in use, so a second put is detected, too.
 *	If the stacks are empty, a get takes the lock and grows the class: by an extent of free
 *	memory, by one of a new region, or by memory that other classes have and no thread uses.
 *	For that it takes another class's stacks whole, frees the extents whose buffers are all on
 *	these stacks, and puts the other buffers back.  A concurrent get that finds the stacks empty
 *	waits for the lock, then looks at them again.
 *
 *		get	put	holds	figures	destroy
 *	get	-	-	-	-	X
 *	put	-	-	-	-	X	X: needs outside synchronisation
 *	holds	-	-	-	-	X
 *	figures	-	-	-	-	X
 */
#ifndef RNL_PINNED_H
#define RNL_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rnl__device;
struct rnl__pinned;

/* Locks @preload bytes now, and at most @max in all.  Returns 0, -ENOMEM or -EIO. */
int rnl__pinned_create(struct rnl__pinned **pinnedp, struct rnl__device *device, uint64_t max,
		       uint64_t preload);

/* Frees everything, including buffers in use. */
void rnl__pinned_destroy(struct rnl__pinned *p);

/*
 * Gets a buffer of @bytes, more than 0, aligned to 64 bytes; from 64 KiB on, to a page.  Returns 0,
 * -ENOMEM (by `max` or by the device) or -EIO.
 */
int rnl__pinned_get(struct rnl__pinned *p, size_t bytes, void **bufp);

/* Like _get, but waits for puts.  Returns -ENOMEM only if no put can help, or -ETIMEDOUT. */
int rnl__pinned_get_wait(struct rnl__pinned *p, size_t bytes, void **bufp, uint64_t deadline);

/* Returns 0; -EINVAL, without effect: there is no such buffer, it is not in use, or was overrun. */
int rnl__pinned_put(struct rnl__pinned *p, void *buf);

/* Returns true if these bytes are in one region; takes no lock, and some nanoseconds. */
bool rnl__pinned_holds(const struct rnl__pinned *p, const void *mem, size_t bytes);

struct rnl__pinned_figures {
	uint64_t locked;	/* bytes that the device has locked */
	uint64_t used;		/* bytes of buffers in use, by their classes' sizes */
	uint64_t max;
};

void rnl__pinned_figures(struct rnl__pinned *p, struct rnl__pinned_figures *f);

#endif
