/* SPDX-License-Identifier: MIT */
/* Names of pools, which stay valid after the pool's end; directory.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "pool/directory.h"
#include "sys/atomic.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/latch.h"

#define ROW 32u			/* entries of a row */

struct directory_entry {
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t pinned; /* a latch */
	_Atomic uint32_t epoch;		/* odd: it has a pool */
	_Atomic bool taken;
	struct rnl_pool *pool;
};

/* All rows of the process; never freed. */
struct directory_row {
	struct directory_entry entries[ROW];
	_Atomic(struct directory_row *) next;
};
static struct directory_row first_row;

static struct directory_row *row_after(struct directory_row *row)
{
	/* [directory.R2] acquire: the entries, as they were made; pairs with [directory.R1] */
	return atomic_load_explicit(&row->next, memory_order_acquire);
}

static struct directory_entry *directory_at(uint32_t nr)
{
	struct directory_row *row = &first_row;

	for (; row && nr >= ROW; nr -= ROW)
		row = row_after(row);
	return row ? &row->entries[nr] : NULL;
}

/* Adds a row, or finds the one that another thread added.  Returns NULL if there is no memory. */
static struct directory_row *make_row(struct directory_row *last)
{
	struct directory_row *made = aligned_alloc(RNL__CACHE_LINE, sizeof(*made)), *next = NULL;

	if (!made)
		return NULL;
	memset(made, 0, sizeof(*made));
	/* [directory.R1] release: the entries, as they were made; pairs with [directory.R2] */
	if (atomic_compare_exchange_strong_explicit(&last->next, &next, made, memory_order_release,
						    memory_order_acquire))
		return made;
	free(made);
	return next;
}

static bool take_entry(struct directory_entry *entry)
{
	/* [directory.T2] acquire: the last pool has left the entry; pairs with [directory.T1] */
	return !rnl__peek(&entry->taken) &&
	       !atomic_exchange_explicit(&entry->taken, true, memory_order_acquire);
}

int rnl__directory_enter(struct rnl_pool *pool, struct rnl__name *name)
{
	struct directory_row *row, *next;
	uint32_t nr = 0;

	for (row = &first_row; row; row = next) {
		for (uint32_t i = 0; i < ROW; i++, nr++) {
			struct directory_entry *entry = &row->entries[i];

			if (!take_entry(entry))
				continue;
			/*
			 * A late release pins the entry for a moment.  If the process forks in that
			 * moment, the child never unpins the entry: a pool's end would then hang.
			 */
			if (rnl__peek(&entry->pinned) >= RNL__LATCH_ONE) {
				/* relaxed: the entry was not written */
				atomic_store_explicit(&entry->taken, false, memory_order_relaxed);
				continue;
			}
			entry->pool = pool;
			*name = (struct rnl__name){ nr, rnl__peek(&entry->epoch) + 1 };
			/* [directory.E1] release: the pool; pairs with [directory.E2] */
			atomic_store_explicit(&entry->epoch, name->epoch, memory_order_release);
			return 0;
		}
		next = row_after(row);
		if (!next)
			next = make_row(row);
	}
	return -ENOMEM;
}

void rnl__directory_leave(struct rnl__name name)
{
	struct directory_entry *entry = directory_at(name.entry);

	/* relaxed: the barrier below orders it */
	atomic_store_explicit(&entry->epoch, name.epoch + 1, memory_order_relaxed);
	/*
	 * [directory.F1] full barrier: the epoch is changed before the look for pins;
	 * pairs with [directory.F2]
	 */
	rnl__full_barrier();
	/* Sleeps: a thread that pins the entry may have a lower priority, and need this CPU. */
	(void)rnl__latch_wait(&entry->pinned, 0, RNL__NEVER);
	/* [directory.T1] release: this pool has left the entry; pairs with [directory.T2] */
	atomic_store_explicit(&entry->taken, false, memory_order_release);
}

int rnl__directory_pin(struct rnl__name name, struct rnl_pool **pool)
{
	struct directory_entry *entry = name.epoch & 1 ? directory_at(name.entry) : NULL;
	uint32_t epoch;

	if (!entry)
		return -EINVAL;
	epoch = rnl__peek(&entry->epoch);
	/* Checked without a pin, which would delay the end of the pool that now has the entry. */
	if (epoch != name.epoch)
		return epoch > name.epoch ? -ESTALE : -EINVAL;
	rnl__latch_add(&entry->pinned, 1);
	/* [directory.F2] full barrier: pin, then read the epoch; pairs with [directory.F1] */
	rnl__mb_after_rmw();
	/* [directory.E2] acquire: the pool; pairs with [directory.E1] */
	if (atomic_load_explicit(&entry->epoch, memory_order_acquire) == name.epoch) {
		*pool = entry->pool;
		return 0;
	}
	(void)rnl__latch_drop(&entry->pinned, 1);
	return -ESTALE;
}

void rnl__directory_unpin(struct rnl__name name)
{
	(void)rnl__latch_drop(&directory_at(name.entry)->pinned, 1);
}
