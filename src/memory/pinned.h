/* SPDX-License-Identifier: MIT */
/*
 * Pinned buffers: page-locked memory of the host, got and put at any moment.
 *
 * DESIGN
 *	Buffers have the sizes of classes, four for each power of two.  The free buffers of
 *	a class are on sixteen stacks (Treiber's): a thread puts on its own stack, and gets
 *	from that one, or from the others if it is empty.
 *	A stack has nodes, not buffers.  A pop that was held up may look at a node that is gone, so
 *	nodes stay as long as the pool.  The header right before a buffer names its node, with a
 *	check: so a put finds the node at once, and notices a buffer that was overrun.  The node
 *	knows whether its buffer is out, so a second put is noticed, too.
 *	If the stacks are empty, a get takes the lock and grows the class: by an extent of
 *	free memory; by one of a new region; or by memory that other classes have and no
 *	thread uses.  For the last the other class's stacks are taken whole: the extents
 *	whose buffers are all there are given back, the other buffers put again.  A get
 *	that finds the stacks empty meanwhile comes to the lock, and looks again behind it.
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

/* Locks @max bytes at most, and @preload now.  0, -ENOMEM, -EIO. */
int rnl__pinned_create(struct rnl__pinned **pinnedp, struct rnl__device *device, uint64_t max,
		       uint64_t preload);

/* Frees everything, also buffers that are out. */
void rnl__pinned_destroy(struct rnl__pinned *p);

/*
 * A buffer of @bytes, more than 0, aligned to 64; from 64 KiB on to a page.
 * 0, -ENOMEM by `max` or by the device, -EIO.
 */
int rnl__pinned_get(struct rnl__pinned *p, size_t bytes, void **bufp);

/* Waits until other threads put; -ENOMEM: that cannot help; -ETIMEDOUT. */
int rnl__pinned_get_wait(struct rnl__pinned *p, size_t bytes, void **bufp, uint64_t deadline);

/* 0; -EINVAL no such buffer, or it is not out, or was overrun: then nothing is done. */
int rnl__pinned_put(struct rnl__pinned *p, void *buf);

/* Whether these bytes lie in one region of this; without a lock, in some nanoseconds. */
bool rnl__pinned_holds(const struct rnl__pinned *p, const void *mem, size_t bytes);

struct rnl__pinned_figures {
	uint64_t locked;	/* bytes, of the device */
	uint64_t used;		/* by the classes' sizes of buffers that are out */
	uint64_t max;
};

void rnl__pinned_figures(struct rnl__pinned *p, struct rnl__pinned_figures *f);

#endif
