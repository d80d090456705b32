/* SPDX-License-Identifier: MIT */
/*
 * Slabs of a batcher: reserves slots, closes and opens slabs; batcher.h has the design.
 *
 * DESIGN
 *	Slab s serves rounds s, s + max_slabs, ...  The batcher's `open` is the open round.  A free
 *	slab's word has the round that was open when the slab became free.  The slab opens only for
 *	later rounds, so a delayed thread cannot open an old round again.
 *
 *	       make              open, for a round r > f            full: close
 *	  NONE -----> FREE, f --------------------------> OPEN, r --------------> CLOSED, r
 *	                ^  ^                                 |                        |
 *	                |  +--- another slab was opened -----+                        |
 *	                +---- recycle: the last request is done ----------------------+
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/batch.h>

#include "batch/batcher.h"
#include "sys/sizes.h"
#include "sys/tsan.h"
#include "pool/pool.h"

static uint64_t open_round(struct rnl_batcher *b)
{
	/* [batch.O2] acquire: the slab is open, earlier ones are closed; pairs with [batch.O1] */
	return atomic_load_explicit(&b->open, memory_order_acquire);
}

/* Returns the word of a slab that becomes free now. */
static uint64_t free_word(struct rnl_batcher *b)
{
	return rnl__slab_word(RNL__SLAB_FREE, open_round(b));
}

/* ---- memory --------------------------------------------------------------- */

/* Marks all cells of a slab as free. */
static void slab_fill_cells(const struct rnl_batcher *b, struct rnl__slab *slab)
{
	for (uint32_t i = 0; i < b->nr_slots; i += 64) {
		const uint32_t nr = (uint32_t)rnl__smaller(b->nr_slots - i, 64);

		atomic_init(&slab->cells[i / 64], ~UINT64_C(0) >> (64 - nr));
	}
}

int rnl__slab_make(struct rnl_batcher *b)
{
	const size_t in = rnl__round_up(b->slab_bytes, RNL__BATCH_ALIGNMENT);
	const size_t out = rnl__round_up(b->out_bytes * b->nr_slots, RNL__BATCH_ALIGNMENT);
	const size_t slots = rnl__round_up(b->nr_slots * sizeof(struct rnl__slot), RNL__CACHE_LINE);
	const size_t cells = rnl__round_up(b->nr_slots, 64) / 8;
	const size_t spans = b->variable ? b->nr_slots * sizeof(struct rnl_span) : 0;
	/* relaxed: only the taker, or the batcher's creator, makes slabs */
	const uint32_t nr = atomic_load_explicit(&b->nr_slabs, memory_order_relaxed);
	struct rnl__slab *slab = &b->slabs[nr];
	void *buf;
	int ret;

	if (nr == b->max_slabs)
		return -EAGAIN;
	slab->slots = aligned_alloc(RNL__CACHE_LINE, rnl__round_up(slots + cells, RNL__CACHE_LINE));
	if (!slab->slots)
		return -ENOMEM;
	memset(slab->slots, 0, slots);
	/* Large enough to begin on a page, so the arrays of small batches are aligned. */
	ret = rnl__pinned_get(b->pool->pinned, rnl__larger(in + out + spans, RNL__BATCH_SMALL),
			      &buf);
	if (ret) {
		free(slab->slots);
		slab->slots = NULL;
		return ret;
	}
	slab->cells = (_Atomic uint64_t *)(void *)((unsigned char *)slab->slots + slots);
	slab_fill_cells(b, slab);
	slab->in = buf;
	slab->out = slab->in + in;
	slab->spans = spans ? (struct rnl_span *)(void *)(slab->out + out) : NULL;
	/* [batch.N1] release: its cells, to a thread that counts them; pairs with [batch.N2] */
	atomic_store_explicit(&b->nr_slabs, nr + 1, memory_order_release);
	rnl__tsan_release(&slab->word);
	/* [batch.S1] release: its memory, to the thread that opens it; pairs with [batch.S2] */
	atomic_store_explicit(&slab->word, free_word(b), memory_order_release);
	rnl__pool_wake_batches(b->pool);
	return 0;
}

void rnl__slabs_free(struct rnl_batcher *b)
{
	/* relaxed: no other thread uses the batcher any more */
	const uint32_t nr = atomic_load_explicit(&b->nr_slabs, memory_order_relaxed);

	for (uint32_t i = 0; i < nr; i++) {
		free(b->slabs[i].slots);
		(void)rnl__pinned_put(b->pool->pinned, b->slabs[i].in);
	}
}

/* ---- closing and opening --------------------------------------------------- */

/* Frees the slab for another round: all its requests are done. */
static void recycle(struct rnl_batcher *b, struct rnl__slab *slab)
{
	slab->spans_used = 0;
	rnl__tsan_acquire(&slab->held);
	rnl__tsan_release(&slab->word);
	/* [batch.S3] release: the accesses of this round, to the next; pairs with [batch.S2] */
	atomic_store_explicit(&slab->word, free_word(b), memory_order_release);
	rnl__pool_wake_batches(b->pool);
}

void rnl__slab_release(struct rnl_batcher *b, struct rnl__slab *slab, uint32_t nr)
{
	if (slab == &b->slabs[RNL__BOX_SLAB])
		return;
	rnl__tsan_release(&slab->held);
	/*
	 * [batch.H1] release: our accesses to the slots; acquire: the last release sees those of
	 * the other releases; pairs with [batch.H1], [batch.H2].
	 */
	if (atomic_fetch_sub_explicit(&slab->held, nr, memory_order_acq_rel) == nr)
		recycle(b, slab);
}

/* Closes a slab, and settles its unused promises.  Returns false if the word changed first. */
static bool close_slab(struct rnl_batcher *b, struct rnl__slab *slab, uint64_t word, uint64_t round)
{
	const uint32_t nr = rnl__slab_slots(word);
	const uint64_t closed = word ^ rnl__slab_word(RNL__SLAB_OPEN, round) ^
				rnl__slab_word(RNL__SLAB_CLOSED, round);
	uint64_t limit;

	/* relaxed: the open of the next slab publishes it, [batch.O1] */
	if (!atomic_compare_exchange_strong_explicit(&slab->word, &word, closed,
						     memory_order_relaxed, memory_order_relaxed))
		return false;
	/* relaxed: a count; a thread that raises the limit meanwhile finds it changed */
	limit = atomic_exchange_explicit(&slab->limit, 0, memory_order_relaxed);
	if (limit != rnl__slab_limit(round, nr))
		rnl__cells_settle(b, (uint32_t)(limit - rnl__slab_limit(round, nr)));
	/* [batch.H2] acq_rel: like [batch.H1], if no slot is held now; pairs with [batch.H1] */
	if (atomic_fetch_add_explicit(&slab->held, nr, memory_order_acq_rel) + nr == 0)
		recycle(b, slab);
	return true;
}

/* Opens a slab for a round.  Returns false if the slab is not free. */
static bool open_slab(struct rnl__slab *slab, uint64_t round)
{
	uint64_t word = rnl__peek(&slab->word);

	if (rnl__slab_state(word) != RNL__SLAB_FREE || !rnl__slab_before(word, round))
		return false;
	/*
	 * [batch.S2] acquire: the slab's memory as its last user left it; release: to its
	 * reservations; pairs with [batch.S1], [batch.S3], [batch.R1].
	 */
	if (!atomic_compare_exchange_strong_explicit(&slab->word, &word,
						     rnl__slab_word(RNL__SLAB_OPEN, round),
						     memory_order_acq_rel, memory_order_relaxed))
		return false;
	/* relaxed: no thread reads it before the round is open, [batch.O1] */
	atomic_store_explicit(&slab->limit, rnl__slab_limit(round, 0), memory_order_relaxed);
	return true;
}

/*
 * Opens the next free slab after a closed round.  Returns 0: try again; -EAGAIN: no slab is free.
 */
static int open_next(struct rnl_batcher *b, uint64_t round)
{
	for (uint64_t next = round + 1; next <= round + b->max_slabs; next++) {
		struct rnl__slab *slab = rnl__slab_of(b, next);
		uint64_t open = round;

		if (!open_slab(slab, next))
			continue;
		/* [batch.O1] release: it is open, earlier ones are closed; pairs with [batch.O2] */
		if (!atomic_compare_exchange_strong_explicit(&b->open, &open, next,
							     memory_order_release,
							     memory_order_relaxed))
			/* [batch.S4] release: the slab as we found it; pairs with [batch.S2] */
			atomic_store_explicit(&slab->word, free_word(b), memory_order_release);
		/* Another thread may have found no free slab meanwhile, and may wait. */
		rnl__pool_wake_batches(b->pool);
		return 0;
	}
	return open_round(b) == round ? -EAGAIN : 0;
}

/* ---- reserving ------------------------------------------------------------- */

static bool slab_fits(const struct rnl_batcher *b, uint64_t word, uint32_t units)
{
	return rnl__slab_slots(word) < b->nr_slots &&
	       units <= b->nr_units - rnl__slab_units(word);
}

/* Gives the request the next slot of the word. */
static void hand_out(struct rnl_batcher *b, struct rnl__slab *slab, uint64_t round, uint64_t word,
		     struct rnl_request *request, size_t bytes)
{
	const uint32_t index = rnl__slab_slots(word);
	struct rnl__slot *slot = &slab->slots[index];

	slot->request = request;
	slot->bytes = (uint32_t)bytes;
	slot->offset = b->variable ? rnl__slab_units(word) * RNL__SLAB_UNIT : 0;
	request->in = slab->in + (b->variable ? slot->offset : index * b->in_bytes);
	request->in_bytes = bytes;
	request->slab = (uint32_t)(slab - b->slabs);
	request->slot = index;
	request->round = round;
}

/* Promises cells for the remaining slots.  Returns 0: try again; -EAGAIN: no cell is free. */
static int raise_limit(struct rnl_batcher *b, struct rnl__slab *slab, uint64_t round, uint64_t word)
{
	const uint32_t given = rnl__slab_slots(word);
	const uint64_t limit = rnl__slab_limit(round, given);
	uint64_t seen = rnl__peek(&slab->limit);
	uint32_t nr;

	if (seen != limit)
		return 0;
	nr = rnl__cells_promise(b, b->nr_slots - given);
	/* Another thread may have taken all cells meanwhile to raise the limit. */
	if (!nr)
		return rnl__peek(&slab->limit) == limit ? -EAGAIN : 0;
	/* [batch.P1] release: the cells' bits as we counted them; pairs with [batch.P2] */
	if (!atomic_compare_exchange_strong_explicit(&slab->limit, &seen, limit + nr,
						     memory_order_release, memory_order_relaxed)) {
		rnl__cells_settle(b, nr);
		return 0;
	}
	/* A thread that found no cell may wait. */
	rnl__mb_after_rmw();
	rnl__cells_wake(b);
	return 0;
}

/* Opens a slab in which a request may fit.  Returns 0: try again; -EAGAIN: no slab or no cell. */
static int make_room(struct rnl_batcher *b, struct rnl__slab *slab, uint64_t round, uint64_t word,
		     uint32_t units)
{
	if (!rnl__slab_is(word, RNL__SLAB_OPEN, round))
		return open_next(b, round);
	if (slab_fits(b, word, units))
		return raise_limit(b, slab, round, word);
	return close_slab(b, slab, word, round) ? open_next(b, round) : 0;
}

int rnl__slab_reserve(struct rnl_batcher *b, struct rnl_request *request, size_t bytes)
{
	const uint32_t units = b->variable ?
			       (uint32_t)((bytes + RNL__SLAB_UNIT - 1) / RNL__SLAB_UNIT) : 0;
	int ret;

	do {
		const uint64_t round = open_round(b);
		struct rnl__slab *slab = rnl__slab_of(b, round);
		/* [batch.P2] acquire: the bits of promised cells, for the taker; pairs with [batch.P1] */
		const uint64_t limit = atomic_load_explicit(&slab->limit, memory_order_acquire);
		uint64_t word = rnl__peek(&slab->word);

		while (rnl__slab_is(word, RNL__SLAB_OPEN, round) && slab_fits(b, word, units) &&
		       rnl__slab_limit(round, rnl__slab_slots(word)) < limit) {
			/* [batch.R1] acquire: the slab as it became free; pairs with [batch.S2] */
			if (atomic_compare_exchange_weak_explicit(&slab->word, &word,
								  word + RNL__SLAB_ONE + units,
								  memory_order_acquire,
								  memory_order_relaxed)) {
				rnl__tsan_acquire(&slab->word);
				hand_out(b, slab, round, word, request, bytes);
				return 0;
			}
		}
		ret = make_room(b, slab, round, word, units);
	} while (!ret);
	return ret;
}
