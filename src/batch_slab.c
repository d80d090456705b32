/* SPDX-License-Identifier: MIT */
/* Slabs of a batcher: reserving slots, and turning slabs over; batcher.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "batcher.h"
#include "bell.h"
#include "pool.h"

static uint64_t open_turn(struct rnl_batcher *b)
{
	/* [batch.O2] acquire: the slab was opened, those before it closed; pairs with [batch.O1] */
	return atomic_load_explicit(&b->open, memory_order_acquire);
}

/*
 * What is free says when it became so: turns up to that one it may have had, and who still
 * thinks that one of them is open must not meet it again.
 */
static uint64_t free_word(struct rnl_batcher *b)
{
	return rnl__slab_word(RNL__SLAB_FREE, open_turn(b));
}

/* ---- memory --------------------------------------------------------------- */

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* What a batch of one takes of the output; larger ones take no more for each. */
static size_t out_share(const struct rnl_batcher *b)
{
	size_t bytes = round_up(b->out_bytes, 16) + (b->has_status ? sizeof(int32_t) : 0);

	return round_up(bytes, RNL__CACHE_LINE);
}

int rnl__slab_make(struct rnl_batcher *b)
{
	const size_t in = round_up(b->slab_bytes, RNL__CACHE_LINE);
	const size_t out = out_share(b) * b->nr_slots;
	const size_t spans = b->variable ? b->nr_slots * sizeof(struct rnl_span) : 0;
	/* relaxed: takers alone make them, and who creates the batcher */
	const uint32_t nr = atomic_load_explicit(&b->nr_slabs, memory_order_relaxed);
	struct rnl__slab *slab = &b->slabs[nr];
	void *buf;
	int ret;

	if (nr == b->max_slabs)
		return -EAGAIN;
	slab->slots = aligned_alloc(RNL__CACHE_LINE, round_up(b->nr_slots * sizeof(*slab->slots),
							      RNL__CACHE_LINE));
	if (!slab->slots)
		return -ENOMEM;
	memset(slab->slots, 0, b->nr_slots * sizeof(*slab->slots));
	ret = rnl__pinned_get(b->pool->pinned, in + out + spans, &buf);
	if (ret) {
		free(slab->slots);
		slab->slots = NULL;
		return ret;
	}
	slab->in = buf;
	slab->out = slab->in + in;
	slab->spans = spans ? (struct rnl_span *)(void *)(slab->out + out) : NULL;
	/* relaxed: as said */
	atomic_store_explicit(&b->nr_slabs, nr + 1, memory_order_relaxed);
	/* [batch.S1] release: its memory, to who opens it; pairs with [batch.S2] */
	atomic_store_explicit(&slab->word, free_word(b), memory_order_release);
	/* [batch.B1] full barrier: it is free before we look who waits; pairs with [bell.L2] */
	rnl__full_barrier();
	rnl__bell_ring(&b->pool->room_batch);
	return 0;
}

void rnl__slabs_free(struct rnl_batcher *b)
{
	/* relaxed: nobody else is there */
	const uint32_t nr = atomic_load_explicit(&b->nr_slabs, memory_order_relaxed);

	for (uint32_t i = 0; i < nr; i++) {
		free(b->slabs[i].slots);
		(void)rnl__pinned_put(b->pool->pinned, b->slabs[i].in);
	}
}

/* ---- turning over ---------------------------------------------------------- */

/* All its slots were released: it may have another turn. */
static void recycle(struct rnl_batcher *b, struct rnl__slab *slab)
{
	slab->out_used = 0;
	slab->spans_used = 0;
	/* [batch.S3] release: all that was done with it, to its next turn; pairs with [batch.S2] */
	atomic_store_explicit(&slab->word, free_word(b), memory_order_release);
	/* [batch.B2] full barrier: it is free before we look who waits; pairs with [bell.L2] */
	rnl__full_barrier();
	rnl__bell_ring(&b->pool->room_batch);
}

void rnl__slab_release(struct rnl_batcher *b, struct rnl__slab *slab, uint32_t nr)
{
	/*
	 * [batch.H1] release: the slot is not looked at any more; acquire: the last one
	 * has what all others did; pairs with [batch.H1], [batch.H2].
	 */
	if (atomic_fetch_sub_explicit(&slab->held, nr, memory_order_acq_rel) == nr)
		recycle(b, slab);
}

/* No more slots of it; false: somebody changed its word first. */
static bool close_slab(struct rnl_batcher *b, struct rnl__slab *slab, uint64_t word, uint64_t turn)
{
	const uint32_t nr = rnl__slab_slots(word);
	const uint64_t closed = word ^ rnl__slab_word(RNL__SLAB_OPEN, turn) ^
				rnl__slab_word(RNL__SLAB_CLOSED, turn);

	/* relaxed: it orders nothing; who opens the next one publishes it, [batch.O1] */
	if (!atomic_compare_exchange_strong_explicit(&slab->word, &word, closed,
						     memory_order_relaxed, memory_order_relaxed))
		return false;
	/* [batch.H2] acq_rel: as a release, if all were released before; pairs with [batch.H1] */
	if (atomic_fetch_add_explicit(&slab->held, nr, memory_order_acq_rel) + nr == 0)
		recycle(b, slab);
	return true;
}

/* Opens that slab for a turn; false: it is not free. */
static bool open_slab(struct rnl__slab *slab, uint64_t turn)
{
	/* relaxed: the exchange decides */
	uint64_t word = atomic_load_explicit(&slab->word, memory_order_relaxed);

	if (rnl__slab_state(word) != RNL__SLAB_FREE || !rnl__slab_before(word, turn))
		return false;
	/*
	 * [batch.S2] acquire: its memory, which nobody uses any more; release: the same, to
	 * who reserves there; pairs with [batch.S1], [batch.S3], [batch.R1].
	 */
	return atomic_compare_exchange_strong_explicit(&slab->word, &word,
						       rnl__slab_word(RNL__SLAB_OPEN, turn),
						       memory_order_acq_rel, memory_order_relaxed);
}

/* Opens the slab after that of a turn, which is closed; 0: look again; -EAGAIN none is free. */
static int open_next(struct rnl_batcher *b, uint64_t turn)
{
	for (uint64_t next = turn + 1; next <= turn + b->max_slabs; next++) {
		struct rnl__slab *slab = rnl__slab_of(b, next);
		uint64_t open = turn;

		if (!open_slab(slab, next))
			continue;
		/* [batch.O1] release: it is open, the one before closed; pairs with [batch.O2] */
		if (!atomic_compare_exchange_strong_explicit(&b->open, &open, next,
							     memory_order_release,
							     memory_order_relaxed))
			/* [batch.S4] release: as we found it; pairs with [batch.S2] */
			atomic_store_explicit(&slab->word, free_word(b), memory_order_release);
		/* Who found none free beside us. */
		/* [batch.B3] full barrier: opened before we look who waits; pairs with [bell.L2] */
		rnl__full_barrier();
		rnl__bell_ring(&b->pool->room_batch);
		return 0;
	}
	return open_turn(b) == turn ? -EAGAIN : 0;
}

/* ---- reserving ------------------------------------------------------------- */

static bool fits(const struct rnl_batcher *b, uint64_t word, uint32_t units)
{
	return rnl__slab_slots(word) < b->nr_slots &&
	       units <= b->nr_units - rnl__slab_units(word);
}

/* The slot that the word had next is the request's. */
static void hand_out(struct rnl_batcher *b, struct rnl__slab *slab, uint64_t turn, uint64_t word,
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
	request->turn = turn;
}

int rnl__slab_reserve(struct rnl_batcher *b, struct rnl_request *request, size_t bytes)
{
	const uint32_t units = b->variable ?
			       (uint32_t)((bytes + RNL__SLAB_UNIT - 1) / RNL__SLAB_UNIT) : 0;
	int ret;

	do {
		const uint64_t turn = open_turn(b);
		struct rnl__slab *slab = rnl__slab_of(b, turn);
		/* relaxed: the exchange decides */
		uint64_t word = atomic_load_explicit(&slab->word, memory_order_relaxed);

		while (rnl__slab_is(word, RNL__SLAB_OPEN, turn) && fits(b, word, units)) {
			/* [batch.R1] acquire: as its last turn left it; pairs with [batch.S2] */
			if (atomic_compare_exchange_weak_explicit(&slab->word, &word,
								  word + RNL__SLAB_ONE + units,
								  memory_order_acquire,
								  memory_order_relaxed)) {
				hand_out(b, slab, turn, word, request, bytes);
				return 0;
			}
		}
		ret = 0;
		if (!rnl__slab_is(word, RNL__SLAB_OPEN, turn) || close_slab(b, slab, word, turn))
			ret = open_next(b, turn);
	} while (!ret);
	return ret;
}
