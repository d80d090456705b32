/* SPDX-License-Identifier: MIT */
/*
 * Cells: the outputs of requests, reused one by one; batcher.h has the design.
 *
 * DESIGN
 *	A part has a cell for each slot of its slabs.  A bit for each cell is set if the cell is
 *	free, that is, not in use.
 *
 *	       a slab's limit is raised              the taker picks it           release
 *	  free ------------------------> promised ---------------------> in use ---------> free
 *	    ^                               |
 *	    +---- cancel, slab is closed ---+
 *
 *	A promise names no cell, it is only counted: `promised` and `settled` only grow, and the
 *	open promises are their difference.  Promises are made only up to the number of bits set, so
 *	the taker finds a cell for each request.  To promise, a thread reads `promised`, then
 *	`settled`, then the bits, and compares `promised` again.  Meanwhile releases and settled
 *	promises only add to the free cells: the taker clears bits before it settles.
 *	A release only sets a bit, unless `lacks_cells` shows that a thread may wait.
 *	Without output there are no cells, and no thread waits for one.
 */
#include "config.h"

#include "batch/batcher.h"
#include "sys/fence.h"
#include "sys/sizes.h"
#include "sys/tsan.h"
#include "pool/pool.h"

#define INDEX_OF(cell) ((cell) & ((1u << RNL__CELL_SHIFT) - 1))
#define CELL_OF(slab, index) ((slab) << RNL__CELL_SHIFT | (index))

/* ---- promises --------------------------------------------------------------- */

/* Returns how many cells, up to @most, are free and not promised, if `promised` is @promised. */
static uint32_t count_cells(struct rnl_batcher *b, uint64_t promised, uint32_t most)
{
	/* [batch.P4] acquire: the bits of picked cells are clear; pairs with [batch.P3] */
	const uint64_t settled = atomic_load_explicit(&b->settled, memory_order_acquire);
	const uint64_t held = promised - settled;
	/* [batch.N2] acquire: the slabs' bits; pairs with [batch.N1] */
	const uint32_t nr_slabs = atomic_load_explicit(&b->nr_slabs, memory_order_acquire);
	uint64_t nr = 0;

	for (uint32_t s = 0; s < nr_slabs && nr < held + most; s++)
		for (uint32_t i = 0; i < b->nr_slots && nr < held + most; i += 64)
			/* relaxed: [batch.P1] orders it for the taker */
			nr += (unsigned)__builtin_popcountll(
				atomic_load_explicit(&b->slabs[s].cells[i / 64],
						     memory_order_relaxed));
	return nr > held ? (uint32_t)rnl__smaller(nr - held, most) : 0;
}

uint32_t rnl__cells_promise(struct rnl_batcher *b, uint32_t most)
{
	bool said = false;

	if (!b->out_bytes)
		return most;
	for (;;) {
		uint64_t promised = rnl__peek(&b->promised);
		const uint32_t nr = count_cells(b, promised, most);

		/* relaxed: the cells of this addition were counted before */
		if (nr && atomic_compare_exchange_strong_explicit(&b->promised, &promised,
								  promised + nr,
								  memory_order_relaxed,
								  memory_order_relaxed))
			return nr;
		if (nr)
			continue;
		if (said)
			return 0;
		said = true;
		/* relaxed: the barrier orders it */
		atomic_store_explicit(&b->lacks_cells, true, memory_order_relaxed);
		/*
		 * [batch.B6] full barrier: sets `lacks_cells`, then counts again; pairs with the
		 * barriers after [batch.F1], [batch.P1], [batch.P3], before rnl__cells_wake()
		 */
		rnl__full_barrier();
	}
}

void rnl__cells_wake(struct rnl_batcher *b)
{
	/* relaxed: the caller's full barrier orders it; pairs with [batch.B6] */
	if (!atomic_load_explicit(&b->lacks_cells, memory_order_relaxed))
		return;
	/* relaxed: a thread that sets it again meanwhile has seen the cell, or is woken */
	atomic_store_explicit(&b->lacks_cells, false, memory_order_relaxed);
	rnl__pool_wake_batches(b->pool);
}

void rnl__cells_settle(struct rnl_batcher *b, uint32_t nr)
{
	if (!b->out_bytes)
		return;
	/*
	 * [batch.P3] release: the bits of picked cells are clear, so no cell is counted twice;
	 * pairs with [batch.P4]
	 */
	atomic_fetch_add_explicit(&b->settled, nr, memory_order_release);
	rnl__mb_after_rmw();
	rnl__cells_wake(b);
}

/* ---- picking ---------------------------------------------------------------- */

/* Returns the first cell in [at, end) that is free, or not, as @is_free says; @end if none is. */
static uint32_t find_cell(const struct rnl__slab *slab, uint32_t at, uint32_t end, bool is_free)
{
	while (at < end) {
		/* relaxed: [batch.F2] orders it when the cell is picked */
		uint64_t bits = atomic_load_explicit(&slab->cells[at / 64], memory_order_relaxed);

		bits = (is_free ? bits : ~bits) >> at % 64;
		if (bits)
			return (uint32_t)rnl__smaller(at + (unsigned)__builtin_ctzll(bits), end);
		at = (at / 64 + 1) * 64;
	}
	return end;
}

/* Picks the free cells in [at, end) of a slab. */
static void pick_cells(struct rnl__batch *batch, struct rnl__slab *slab, uint32_t at, uint32_t end,
		 uint32_t nr)
{
	const uint32_t first = CELL_OF((uint32_t)(slab - batch->batcher->slabs), 0);

	while (at < end) {
		const uint32_t stop = (uint32_t)rnl__smaller(end, (at / 64 + 1) * 64);
		const uint64_t bits = ~UINT64_C(0) >> (64 - (stop - at)) << at % 64;

		/* [batch.F2] acquire: the last user's accesses; pairs with [batch.F1] */
		atomic_fetch_and_explicit(&slab->cells[at / 64], ~bits, memory_order_acquire);
		rnl__tsan_acquire(&slab->cells[at / 64]);
		for (; at < stop; at++)
			batch->cells[nr++] = first + at;
	}
}

/*
 * Picks runs of at least @least cells that begin at a multiple of @unit.  Searches from the end of
 * the last batch's cells.  Returns the number of requests that have a cell now.
 */
static uint32_t pick_cell_runs(struct rnl__batch *batch, uint32_t least, uint32_t unit)
{
	struct rnl_batcher *b = batch->batcher;
	const uint32_t nr_slabs = rnl__own_read(&b->nr_slabs);
	const uint32_t slab_of_next = b->next_cell >> RNL__CELL_SHIFT;
	uint32_t at = INDEX_OF(b->next_cell), nr = 0;

	/* The first slab is searched once more at the end, from its first cell on. */
	for (uint32_t i = 0; i <= nr_slabs; i++, at = 0) {
		const uint32_t index = (slab_of_next + i) % nr_slabs;
		struct rnl__slab *slab = &b->slabs[index];

		while (nr < batch->nr) {
			uint32_t end;

			at = find_cell(slab, at, b->nr_slots, true);
			at = (at + unit - 1) / unit * unit;
			if (at >= b->nr_slots)
				break;
			end = (uint32_t)rnl__smaller(at + batch->nr - nr, b->nr_slots);
			end = find_cell(slab, at, end, false);
			if (end - at >= least) {
				pick_cells(batch, slab, at, end, nr);
				nr += end - at;
				b->next_cell = CELL_OF(index, end);
			}
			at = (uint32_t)rnl__larger(end, at + 1);
		}
	}
	return nr;
}

/* Gives requests that were taken back the cells of their mailboxes. */
static void pick_boxes(struct rnl__batch *batch)
{
	for (uint32_t i = 0; i < batch->nr; i++)
		batch->cells[i] = CELL_OF(RNL__BOX_SLAB, batch->slots[i]);
}

/* Picks cells; for a small batch one aligned run if possible: then its results need no copy. */
void rnl__cells_pick(struct rnl__batch *batch)
{
	const struct rnl_batcher *b = batch->batcher;
	const bool is_small = batch->nr * b->out_bytes <= b->small_bytes;

	if (batch->nr && batch->slab == &b->slabs[RNL__BOX_SLAB]) {
		pick_boxes(batch);
		return;
	}
	if (!b->out_bytes || !batch->nr)
		return;
	if (!(is_small && pick_cell_runs(batch, batch->nr, b->cell_unit)) &&
	    !pick_cell_runs(batch, batch->nr, 1))
		(void)pick_cell_runs(batch, 1, 1);
	rnl__cells_settle(batch->batcher, batch->nr);
}

/* ---- giving back ------------------------------------------------------------- */

void rnl__cell_release(struct rnl_batcher *b, uint32_t cell)
{
	_Atomic uint64_t *word;

	if (!b->out_bytes)
		return;
	word = &b->slabs[cell >> RNL__CELL_SHIFT].cells[INDEX_OF(cell) / 64];
	rnl__tsan_release(word);
	/* [batch.F1] release: our accesses to the result; pairs with [batch.F2] */
	atomic_fetch_or_explicit(word, UINT64_C(1) << INDEX_OF(cell) % 64, memory_order_release);
	rnl__mb_after_rmw();
	rnl__cells_wake(b);
}
