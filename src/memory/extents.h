/* SPDX-License-Identifier: MIT */
/*
 * Extents: pieces of page-locked memory, cut from a few large regions, since a device takes
 * long to lock a region and to give it back.
 *
 * DESIGN
 *	A region's extents, taken or free, are a list in the order of their addresses; free
 *	neighbours become one.  A take cuts the first extent that is large enough, of the
 *	oldest region that has one: so younger regions become wholly free again, and only
 *	such regions are given back to the device.
 *	The owner's lock protects everything but one question: whether an address lies in a region.
 *	For that the regions' bounds stand in a table.  An entry is used again, so it has a round,
 *	which is odd while the entry changes.  A reader beside a change takes the entry for empty,
 *	and does not wait: a region that comes or goes has no buffer of that reader.
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

#include "device/device.h"

#define RNL__PAGE 4096u			/* extents are whole pages */
#define RNL__EXTENTS_SLOP 4032u		/* the most that this costs of a region, 64-byte aligned */
#define RNL__NR_REGIONS 1024u

struct rnl__region;

struct rnl__extent {
	struct rnl__region *region;
	struct rnl__extent *prev, *next; /* in the region */
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
	_Atomic uint32_t nr_bounds;	/* in use, up to the last one */
	struct rnl__bounds bounds[RNL__NR_REGIONS];
};

/* @e is all 0; its regions have @max bytes together at most. */
void rnl__extents_init(struct rnl__extents *e, struct rnl__device *device, uint64_t max);

/* Gives all regions back, even if extents are taken. */
void rnl__extents_fini(struct rnl__extents *e);

/*
 * Has the device lock a region with space for an extent of @need bytes, whole pages.  As far as
 * @max allows, the region is larger: for @want bytes, and for what may be needed soon; @want 0:
 * it is not.  0, -ENOMEM by @max or by the device, -EIO.
 */
int rnl__extents_lock(struct rnl__extents *e, size_t need, size_t want);

/* Has the device lock a region of that size, in advance. */
int rnl__extents_preload(struct rnl__extents *e, uint64_t bytes);

/*
 * Gives free regions back until one for @need bytes can be locked; if @max allows that already,
 * all free regions.  False: even all would not be enough.
 */
bool rnl__extents_unlock(struct rnl__extents *e, size_t need);

/* The size of the largest free extent. */
size_t rnl__extents_largest(const struct rnl__extents *e);

/* Takes an extent of @bytes, whole pages, of a locked region; or NULL. */
struct rnl__extent *rnl__extents_take(struct rnl__extents *e, size_t bytes);
void rnl__extents_give(struct rnl__extent *extent);

/* Whether these bytes, one at least, lie in one region. */
bool rnl__extents_holds(const struct rnl__extents *e, uintptr_t address, size_t bytes);

#endif
