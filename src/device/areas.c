/* SPDX-License-Identifier: MIT */
/* The library's device memory by address; areas.h has the design. */
#include "config.h"

#include "device/areas.h"
#include "sys/atomic.h"

/* Returns how many areas begin at or before @begin. */
static uint32_t nr_up_to(const struct rnl__area *list, uint32_t nr, uintptr_t begin)
{
	uint32_t low = 0;

	while (low < nr) {
		const uint32_t middle = low + (nr - low) / 2;

		/*
		 * [areas.H2] acquire: if a change wrote this, the second read of `round` differs;
		 * pairs with [areas.B1]
		 */
		if (atomic_load_explicit(&list[middle].begin, memory_order_acquire) <= begin)
			low = middle + 1;
		else
			nr = middle;
	}
	return low;
}

bool rnl__areas_hold(const struct rnl__areas *r, const void *mem, size_t bytes)
{
	const uintptr_t address = (uintptr_t)mem;
	/* [areas.H1] acquire: the areas are not older than this round; pairs with [areas.B3] */
	const uint64_t round = atomic_load_explicit(&r->round, memory_order_acquire);
	/* [areas.H4] acquire: like [areas.H2]; pairs with [areas.B4] */
	uint32_t nr = atomic_load_explicit(&r->nr, memory_order_acquire);
	uintptr_t offset, size;

	nr = nr_up_to(r->list, nr, address);
	if (!nr || round & 1)
		return false;
	/* [areas.H5] acquire: like [areas.H2]; pairs with [areas.B1] */
	offset = address - atomic_load_explicit(&r->list[nr - 1].begin, memory_order_acquire);
	/* [areas.H3] acquire: like [areas.H2]; pairs with [areas.B2] */
	size = atomic_load_explicit(&r->list[nr - 1].bytes, memory_order_acquire);
	/* relaxed: the acquire loads H2 to H5 order it */
	return bytes <= size && offset <= size - bytes &&
	       atomic_load_explicit(&r->round, memory_order_relaxed) == round;
}

/* ---- changes: the caller has the lock ------------------------------------ */

static void areas_set(struct rnl__area *area, uintptr_t begin, uintptr_t bytes)
{
	/*
	 * [areas.B1] release: a reader of this value sees that the old round is over;
	 * pairs with [areas.H2]
	 */
	atomic_store_explicit(&area->begin, begin, memory_order_release);
	/* [areas.B2] release: like [areas.B1]; pairs with [areas.H3] */
	atomic_store_explicit(&area->bytes, bytes, memory_order_release);
}

static void areas_move(struct rnl__area *to, const struct rnl__area *from)
{
	areas_set(to, rnl__own_read(&from->begin), rnl__own_read(&from->bytes));
}

static void begin_change(struct rnl__areas *r)
{
	/* relaxed: the release stores after it publish it */
	atomic_store_explicit(&r->round, rnl__own_read(&r->round) + 1, memory_order_relaxed);
}

static void end_change(struct rnl__areas *r, uint32_t nr)
{
	/* [areas.B4] release: like [areas.B1]; pairs with [areas.H4] */
	atomic_store_explicit(&r->nr, nr, memory_order_release);
	/* [areas.B3] release: a reader of the round sees its areas; pairs with [areas.H1] */
	atomic_store_explicit(&r->round, rnl__own_read(&r->round) + 1, memory_order_release);
}

void rnl__areas_add(struct rnl__areas *r, const void *mem, size_t bytes)
{
	uint32_t nr, at;

	pthread_mutex_lock(&r->lock);
	nr = rnl__own_read(&r->nr);
	if (nr < RNL__AREAS_MAX) {
		at = nr_up_to(r->list, nr, (uintptr_t)mem);
		begin_change(r);
		for (uint32_t i = nr; i > at; i--)
			areas_move(&r->list[i], &r->list[i - 1]);
		areas_set(&r->list[at], (uintptr_t)mem, bytes);
		end_change(r, nr + 1);
	}
	pthread_mutex_unlock(&r->lock);
}

void rnl__areas_drop(struct rnl__areas *r, const void *mem)
{
	uint32_t nr, at;

	pthread_mutex_lock(&r->lock);
	nr = rnl__own_read(&r->nr);
	at = nr_up_to(r->list, nr, (uintptr_t)mem);
	if (at && rnl__own_read(&r->list[at - 1].begin) == (uintptr_t)mem) {
		begin_change(r);
		for (uint32_t i = at - 1; i + 1 < nr; i++)
			areas_move(&r->list[i], &r->list[i + 1]);
		end_change(r, nr - 1);
	}
	pthread_mutex_unlock(&r->lock);
}
