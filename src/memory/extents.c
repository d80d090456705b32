/* SPDX-License-Identifier: MIT */
/* Pieces of page-locked memory; extents.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "memory/extents.h"
#include "sys/sizes.h"

#define REGION_MIN (UINT64_C(2) << 20)	/* bytes; region sizes are multiples, if `max` allows */
#define PRELOAD_FROM (UINT64_C(64) << 20) /* bytes; from here on, RNL__PRELOAD may be faster */
#define REGION_SHARE 8			/* a region has at least an eighth of the locked bytes */

struct rnl__region {
	struct rnl__region *prev, *next;
	void *mem;
	uint64_t bytes;
	enum rnl__memory kind;
	struct rnl__bounds *bounds;
	struct rnl__extent *first;
};

void rnl__extents_init(struct rnl__extents *e, struct rnl__device *device, uint64_t max)
{
	e->device = device;
	e->max = max;
}

/* ---- the table of bounds -------------------------------------------------- */

bool rnl__extents_holds(const struct rnl__extents *e, uintptr_t address, size_t bytes)
{
	/* relaxed: a thread gets a region's memory only after the region is in the table */
	uint32_t nr = atomic_load_explicit(&e->nr_bounds, memory_order_relaxed);

	/* The youngest regions are the largest. */
	while (nr--) {
		const struct rnl__bounds *b = &e->bounds[nr];
		/* [extents.H1] acquire: bounds no older than the round; pairs with [extents.B3] */
		uint64_t round = atomic_load_explicit(&b->round, memory_order_acquire);
		/*
		 * [extents.H2] acquire: if a change wrote it, the second read of the round differs;
		 * pairs with [extents.B1]
		 */
		uintptr_t begin = atomic_load_explicit(&b->begin, memory_order_acquire);
		/* [extents.H3] acquire: like [extents.H2]; pairs with [extents.B2] */
		uintptr_t size = atomic_load_explicit(&b->bytes, memory_order_acquire);

		if (bytes <= size && address - begin <= size - bytes && !(round & 1) &&
		    /* relaxed: the acquire loads H2 and H3 order it */
		    atomic_load_explicit(&b->round, memory_order_relaxed) == round)
			return true;
	}
	return false;
}

static void set_bounds(struct rnl__bounds *b, uintptr_t begin, uint64_t bytes)
{
	uint64_t round = rnl__own_read(&b->round);

	/* relaxed: the release stores after it publish it */
	atomic_store_explicit(&b->round, round + 1, memory_order_relaxed);
	/*
	 * [extents.B1] release: a reader of this value sees that the old round is over;
	 * pairs with [extents.H2]
	 */
	atomic_store_explicit(&b->begin, begin, memory_order_release);
	/* [extents.B2] release: like [extents.B1]; pairs with [extents.H3] */
	atomic_store_explicit(&b->bytes, bytes, memory_order_release);
	/* [extents.B3] release: a reader of the round sees its bounds; pairs with [extents.H1] */
	atomic_store_explicit(&b->round, round + 2, memory_order_release);
}

static bool is_empty(struct rnl__bounds *b)
{
	return !rnl__own_read(&b->bytes);
}

static uint32_t nr_bounds(struct rnl__extents *e)
{
	return rnl__own_read(&e->nr_bounds);
}

static void set_nr_bounds(struct rnl__extents *e, uint32_t nr)
{
	/* relaxed: see rnl__extents_holds() */
	atomic_store_explicit(&e->nr_bounds, nr, memory_order_relaxed);
}

/* Returns an entry without a region, or NULL. */
static struct rnl__bounds *empty_bounds(struct rnl__extents *e)
{
	for (uint32_t i = 0; i < RNL__NR_REGIONS; i++) {
		if (is_empty(&e->bounds[i]))
			return &e->bounds[i];
	}
	return NULL;
}

static void extents_publish(struct rnl__extents *e, struct rnl__region *region)
{
	uint32_t index = (uint32_t)(region->bounds - e->bounds);

	set_bounds(region->bounds, (uintptr_t)region->mem, region->bytes);
	if (index >= nr_bounds(e))
		set_nr_bounds(e, index + 1);
}

static void withdraw(struct rnl__extents *e, struct rnl__region *region)
{
	uint32_t nr = nr_bounds(e);

	set_bounds(region->bounds, 0, 0);
	while (nr && is_empty(&e->bounds[nr - 1]))
		nr--;
	set_nr_bounds(e, nr);
}

/* ---- regions -------------------------------------------------------------- */

/* Makes the region's whole pages one free extent. */
static void extents_clear(struct rnl__region *region, struct rnl__extent *extent)
{
	uintptr_t mem = (uintptr_t)region->mem;
	uintptr_t begin = (mem + RNL__PAGE - 1) & ~(uintptr_t)(RNL__PAGE - 1);
	uintptr_t end = (mem + region->bytes) & ~(uintptr_t)(RNL__PAGE - 1);

	*extent = (struct rnl__extent){
		.region = region, .begin = (char *)region->mem + (begin - mem),
		.bytes = end > begin ? end - begin : 0,
	};
	region->first = extent;
}

static int lock_memory(struct rnl__extents *e, struct rnl__region *region)
{
	return rnl__device_alloc(e->device, region->kind, region->bytes, &region->mem);
}

static int lock_region(struct rnl__extents *e, uint64_t bytes, enum rnl__memory kind)
{
	struct rnl__region *region = calloc(1, sizeof(*region));
	struct rnl__extent *extent = calloc(1, sizeof(*extent));
	struct rnl__bounds *bounds = empty_bounds(e);
	int ret = -ENOMEM;

	if (region && extent && bounds) {
		region->bytes = bytes;
		region->kind = kind;
		ret = lock_memory(e, region);
		if (ret && ret != -EIO && kind != RNL__PINNED) {
			region->kind = RNL__PINNED;
			ret = lock_memory(e, region);
		}
	}
	if (ret) {
		free(region);
		free(extent);
		return ret;
	}
	region->bounds = bounds;
	extents_clear(region, extent);
	region->prev = e->youngest;
	*(e->youngest ? &e->youngest->next : &e->oldest) = region;
	e->youngest = region;
	e->locked += bytes;
	extents_publish(e, region);
	return 0;
}

static void unlock_region(struct rnl__extents *e, struct rnl__region *region)
{
	struct rnl__extent *next;

	withdraw(e, region);
	*(region->prev ? &region->prev->next : &e->oldest) = region->next;
	*(region->next ? &region->next->prev : &e->youngest) = region->prev;
	rnl__device_free(e->device, region->kind, region->mem);
	e->locked -= region->bytes;
	for (struct rnl__extent *extent = region->first; extent; extent = next) {
		next = extent->next;
		free(extent);
	}
	free(region);
}

void rnl__extents_fini(struct rnl__extents *e)
{
	while (e->youngest)
		unlock_region(e, e->youngest);
}

static int lock(struct rnl__extents *e, size_t need, size_t want, enum rnl__memory kind)
{
	uint64_t space = (e->max - e->locked) & ~(uint64_t)63, bytes = need + RNL__EXTENTS_SLOP;

	if (bytes > space)
		return -ENOMEM;
	if (want) {
		bytes = rnl__larger(bytes, want + RNL__EXTENTS_SLOP);
		bytes = rnl__larger(bytes, e->locked / REGION_SHARE);
		bytes = bytes > space - space % REGION_MIN ? space : rnl__round_up(bytes, REGION_MIN);
	}
	return lock_region(e, bytes, kind);
}

int rnl__extents_lock(struct rnl__extents *e, size_t need, size_t want)
{
	return lock(e, need, want, RNL__PINNED);
}

int rnl__extents_preload(struct rnl__extents *e, uint64_t bytes)
{
	uint64_t all = bytes & ~(uint64_t)63;

	if (bytes > e->max)
		return -ENOMEM;
	/* The region has @bytes; its only extent may be smaller. */
	all = all > RNL__EXTENTS_SLOP ? all - RNL__EXTENTS_SLOP : 1;
	return lock(e, all, all, bytes < PRELOAD_FROM ? RNL__PINNED : RNL__PRELOAD);
}

static bool is_free(const struct rnl__region *region)
{
	return !region->first->taken && !region->first->next;
}

bool rnl__extents_unlock(struct rnl__extents *e, size_t need)
{
	uint64_t space = e->max - e->locked, bytes = need + RNL__EXTENTS_SLOP, spare = 0;
	bool all = bytes <= space;
	struct rnl__region *region, *prev;

	for (region = e->oldest; region; region = region->next)
		spare += is_free(region) ? region->bytes : 0;
	if (bytes > space + spare)
		return false;
	for (region = e->youngest; region; region = prev) {
		prev = region->prev;
		if (is_free(region) && (all || bytes > e->max - e->locked))
			unlock_region(e, region);
	}
	return true;
}

/* ---- extents -------------------------------------------------------------- */

size_t rnl__extents_largest(const struct rnl__extents *e)
{
	size_t largest = 0;

	for (struct rnl__region *region = e->oldest; region; region = region->next) {
		for (struct rnl__extent *extent = region->first; extent; extent = extent->next) {
			if (!extent->taken && extent->bytes > largest)
				largest = extent->bytes;
		}
	}
	return largest;
}

/* Cuts an extent in two, the first @bytes long.  Returns false if there is no memory. */
static bool extents_cut(struct rnl__extent *extent, size_t bytes)
{
	struct rnl__extent *rest = malloc(sizeof(*rest));

	if (!rest)
		return false;
	*rest = *extent;
	rest->begin += bytes;
	rest->bytes -= bytes;
	rest->prev = extent;
	if (rest->next)
		rest->next->prev = rest;
	extent->bytes = bytes;
	extent->next = rest;
	return true;
}

/* Merges an extent with its successor, which must be free. */
static void swallow(struct rnl__extent *extent)
{
	struct rnl__extent *next = extent->next;

	extent->bytes += next->bytes;
	extent->next = next->next;
	if (next->next)
		next->next->prev = extent;
	free(next);
}

static struct rnl__extent *first_fit(struct rnl__extents *e, size_t bytes)
{
	for (struct rnl__region *region = e->oldest; region; region = region->next) {
		for (struct rnl__extent *extent = region->first; extent; extent = extent->next) {
			if (!extent->taken && extent->bytes >= bytes)
				return extent;
		}
	}
	return NULL;
}

struct rnl__extent *rnl__extents_take(struct rnl__extents *e, size_t bytes)
{
	struct rnl__extent *extent = first_fit(e, bytes);

	if (!extent || (extent->bytes > bytes && !extents_cut(extent, bytes)))
		return NULL;
	extent->taken = true;
	return extent;
}

void rnl__extents_give(struct rnl__extent *extent)
{
	extent->taken = false;
	if (extent->next && !extent->next->taken)
		swallow(extent);
	if (extent->prev && !extent->prev->taken)
		swallow(extent->prev);
}
