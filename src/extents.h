/* SPDX-License-Identifier: MIT */
/*
 * Extents: pieces of page-locked memory, cut from few and large regions, since
 * the device takes long to lock one and to give it back.
 *
 * DESIGN
 *	A region's extents, taken or free, are a list in the order of their
 *	addresses; free neighbours are made one.  The first that is large enough
 *	is cut, of the oldest region that has one: so the younger ones become
 *	wholly free again, and only such are given back to the device.
 *	All this is done under the owner's lock, but for one question: whether an
 *	address lies in a region.  For it the regions' bounds stand in a table.
 *	An entry is used again, so it has a turn, which is odd while it changes.
 *	Who reads it beside a change takes it for empty, and does not wait: a
 *	region that comes or goes has no buffer of his.
 *
 *			the others	holds
 *	the others	X		-	X: the owner's lock
 *	holds		-		-
 */
#ifndef RNL_EXTENTS_H
#define RNL_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"

#define RNL__PAGE 4096u			/* extents are whole ones */
#define RNL__EXTENTS_SLOP 4032u		/* of a region's memory, 64-byte aligned, lost to that */
#define RNL__NR_REGIONS 1024u

struct rnl__region;

struct rnl__extent {
	struct rnl__region *region;
	struct rnl__extent *prev, *next; /* in it */
	char *begin;
	size_t bytes;
	bool taken;
};

struct rnl__bounds {
	_Atomic uint64_t turn;
	_Atomic uintptr_t begin, bytes;	/* 0, 0: nothing */
};

struct rnl__extents {
	struct rnl__device *device;
	struct rnl__region *oldest, *youngest;
	uint64_t max, locked;		/* bytes */
	_Atomic uint32_t nr_bounds;	/* up to the last one in use */
	struct rnl__bounds bounds[RNL__NR_REGIONS];
};

/* Of all 0: no region yet, @max bytes in all of them at most. */
void rnl__extents_init(struct rnl__extents *e, struct rnl__device *device, uint64_t max);

/* Gives all regions back, whatever is taken. */
void rnl__extents_fini(struct rnl__extents *e);

/*
 * Has the device lock a region with room for @need bytes, whole pages; and for
 * @want, and what may be needed soon, as far as the bound allows it; @want 0: for
 * no byte more.  0, -ENOMEM the bound's or the device's, -EIO.
 */
int rnl__extents_lock(struct rnl__extents *e, size_t need, size_t want);

/* Locks a region of that size, in advance. */
int rnl__extents_preload(struct rnl__extents *e, uint64_t bytes);

/*
 * Gives back free regions so that one with room for @need bytes can be locked; if
 * the bound is not what forbids it, all.  False: that would not be enough.
 */
bool rnl__extents_unlock(struct rnl__extents *e, size_t need);

/* The size of the largest free one. */
size_t rnl__extents_largest(const struct rnl__extents *e);

/* Takes one, whole pages, of a region that is there; or NULL. */
struct rnl__extent *rnl__extents_take(struct rnl__extents *e, size_t bytes);
void rnl__extents_give(struct rnl__extent *extent);

/* Whether an address lies in a region. */
bool rnl__extents_holds(const struct rnl__extents *e, uintptr_t address);

#endif
