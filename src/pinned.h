/* SPDX-License-Identifier: MIT */
/*
 * Pinned buffers: page-locked memory of the host, got and put at any moment.
 *
 * DESIGN
 *	Buffers have sizes of classes, four for each power of two.  The free ones
 *	of a class are on sixteen stacks (Treiber's): a thread puts on its own,
 *	and gets from that, or from the others if it is empty.  A stack's head
 *	carries a tag that changes with each get and put, so who was held up in
 *	between does not take a head that came back for the one he saw.
 *	What is on a stack is a node, not the buffer: whoever was held up may
 *	look at one that is gone, so nodes stay as long as the pool.  A buffer's
 *	node is named in the header right before it, with a check of it: so a put
 *	finds the node at once, and a buffer that was overrun is noticed.  A node
 *	knows whether its buffer is out, so a second put is noticed, too.
 *	Where the stacks are empty a lock is taken, and the class grows: by an
 *	extent of free memory; of a new region that the device locks; of what
 *	other classes have and nobody uses.  For that one their stacks are taken
 *	whole; the extents of which all buffers were there are given back, the
 *	other buffers put back.  Who finds the stacks empty meanwhile comes to
 *	the lock, and looks again behind it.
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

/* Frees all, also what was not put back. */
void rnl__pinned_destroy(struct rnl__pinned *p);

/*
 * A buffer of that many bytes, more than 0, aligned to 64; from 64 KiB on to a page.
 * 0, -ENOMEM the bound's or the device's, -EIO.
 */
int rnl__pinned_get(struct rnl__pinned *p, size_t bytes, void **bufp);

/* Waits for others to put; -ENOMEM: that would never do; -ETIMEDOUT. */
int rnl__pinned_get_wait(struct rnl__pinned *p, size_t bytes, void **bufp, uint64_t deadline);

/* 0; -EINVAL: none of these buffers, or not out, or overrun: nothing was done. */
int rnl__pinned_put(struct rnl__pinned *p, void *buf);

/* Whether any address lies in its memory; without a lock, in some nanoseconds. */
bool rnl__pinned_holds(const struct rnl__pinned *p, const void *mem);

struct rnl__pinned_figures {
	uint64_t locked;	/* bytes, of the device */
	uint64_t used;		/* in buffers that are out: their classes' sizes */
	uint64_t max;
};

void rnl__pinned_figures(struct rnl__pinned *p, struct rnl__pinned_figures *f);

#endif
