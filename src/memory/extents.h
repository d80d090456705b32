/* SPDX-License-Identifier: MIT */
/*
 * Extents: pieces of page-locked memory, cut from a few large regions because a device is slow to
 * lock a region and to return it.
 *
 * DESIGN
 *	A region's extents, taken or free, are a list in the order of their addresses; free
 *	neighbours are merged.  A take cuts the first extent that is large enough, from the oldest
 *	region that has one.  Younger regions thus become wholly free again; only wholly free ones
 *	are returned to the device.
 *	The owner's lock protects everything except one query: whether an address is in a region.
 *	For this query, a table has the regions' bounds.  An entry is reused, so it has a round,
 *	which is odd while the entry changes.  A reader that meets a change treats the entry as
 *	empty instead of waiting: a changing region has no buffer of that reader.
 *
 *			other calls	holds
 *	other calls	X		-	X: the owner's lock
 *	holds		-		-
 */
#ifndef RNL_EXTENTS_H
#define RNL_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

#define RNL__PAGE 4096u			/* extents are whole pages */
#define RNL__EXTENTS_SLOP 4032u		/* most bytes lost to page alignment, if 64-byte aligned */
#define RNL__NR_REGIONS 1024u

struct rnl__region;

struct rnl__extent {
	struct rnl__region *region;
	struct rnl__extent *prev, *next; /* neighbours in the region */
	char *begin;
	size_t bytes;
	bool taken;
};

struct rnl__bounds {
	_Atomic uint64_t round;		/* odd: the bounds change */
	_Atomic uintptr_t begin, bytes;	/* 0, 0: no region */
};

struct rnl__extents {
	struct rnl__device *device;
	struct rnl__region *oldest, *youngest;
	uint64_t max, locked;		/* bytes */
	_Atomic uint32_t nr_bounds;	/* entries up to the last one in use */
	struct rnl__bounds bounds[RNL__NR_REGIONS];
};

/* Initialises @e, which is all 0; its regions have at most @max bytes together. */
void rnl__extents_init(struct rnl__extents *e, struct rnl__device *device, uint64_t max);

/* Returns all regions to the device, even if extents are taken. */
void rnl__extents_fini(struct rnl__extents *e);

/*
 * Locks a region with space for an extent of @need bytes, whole pages.  If @want is not 0 and @max
 * allows it, the region is larger: for @want bytes, and for future needs.  Returns 0, -ENOMEM (by
 * @max or by the device) or -EIO.
 */
int rnl__extents_lock(struct rnl__extents *e, size_t need, size_t want);

/* Locks a region of that size in advance.  Returns like rnl__extents_lock(). */
int rnl__extents_preload(struct rnl__extents *e, uint64_t bytes);

/*
 * Returns free regions to the device until @max allows a region for @need bytes; returns all free
 * regions if @max allows it already.  The result is false if even all would not be enough.
 */
bool rnl__extents_unlock(struct rnl__extents *e, size_t need);

/* Returns the size of the largest free extent. */
size_t rnl__extents_largest(const struct rnl__extents *e);

/* Takes an extent of @bytes, whole pages, from a locked region.  Returns NULL on failure. */
struct rnl__extent *rnl__extents_take(struct rnl__extents *e, size_t bytes);
void rnl__extents_give(struct rnl__extent *extent);

/* Returns true if these bytes, at least one, are in one region. */
bool rnl__extents_holds(const struct rnl__extents *e, uintptr_t address, size_t bytes);

#endif
