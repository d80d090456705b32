/* SPDX-License-Identifier: MIT */
/* Taking: a batch gets what is committed; batcher.h has the design. */
#include "config.h"

#include "batcher.h"
#include "clock.h"

/*
 * How often a taker looks again at slots that are not committed, all together: for about
 * a microsecond, in which most producers are through with their copy.
 */
#define LOOKS 24u

static bool room(const struct rnl__batch *batch)
{
	return batch->nr < batch->batcher->max_batch;
}

static void add(struct rnl__batch *batch, struct rnl__slab *slab, uint32_t slot)
{
	batch->slab = slab;
	batch->slots[batch->nr++] = (uint16_t)slot;
}

/* ---- late ones ------------------------------------------------------------- */

/* Behind those that were taken off the list before, in the order of their commits. */
static void collect_late(struct rnl_batcher *b)
{
	struct rnl_request *request, *next, *first = NULL, **end = &b->late_first;

	/* relaxed: a look; whoever committed late has had us asked */
	if (!atomic_load_explicit(&b->late, memory_order_relaxed))
		return;
	/* [batch.L2] acquire: the requests; pairs with [batch.L1] */
	request = atomic_exchange_explicit(&b->late, NULL, memory_order_acquire);
	for (; request; request = next) {
		next = request->job.link;
		request->job.link = first;
		first = request;
	}
	while (*end)
		end = (struct rnl_request **)&(*end)->job.link;
	*end = first;
}

/* Those of one slab, that of the first. */
static void take_late(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;
	struct rnl_request **at = &b->late_first;

	collect_late(b);
	while (*at && room(batch)) {
		struct rnl_request *request = *at;
		struct rnl__slab *slab = &b->slabs[request->slab];

		if (batch->slab && batch->slab != slab) {
			at = (struct rnl_request **)&request->job.link;
			continue;
		}
		*at = request->job.link;
		add(batch, slab, request->slot);
	}
}

/* ---- in order -------------------------------------------------------------- */

static bool of_turn(uint32_t state, uint64_t turn)
{
	return (state ^ rnl__slot_state(turn, 0)) >> 2 == 0;
}

/* What became of a slot; if nothing did yet, it is passed over. */
static uint32_t look_at(struct rnl__slot *slot, uint64_t turn, unsigned *looks)
{
	uint32_t state;

	for (;;) {
		/* [batch.C2] acquire: the request, what is in its slot; pairs with [batch.C1] */
		state = atomic_load_explicit(&slot->state, memory_order_acquire);
		if (of_turn(state, turn))
			return state;
		if (!*looks)
			break;
		--*looks;
		rnl__pause();
	}
	/*
	 * [batch.C3] release: what we did with the slab, to a cancel, which gives the slot
	 * back then; acquire: as [batch.C2]; pairs with [batch.C1].
	 */
	if (atomic_compare_exchange_strong_explicit(&slot->state, &state,
						    rnl__slot_state(turn, RNL__SLOT_PASSED),
						    memory_order_acq_rel, memory_order_acquire))
		return rnl__slot_state(turn, RNL__SLOT_PASSED);
	return state;
}

/* The slab may be gone to its next turn on return, unless the batch has some of it. */
static void take_slot(struct rnl__batch *batch, struct rnl__slab *slab, uint32_t index,
		      uint64_t turn, unsigned *looks)
{
	const uint32_t state = look_at(&slab->slots[index], turn, looks);

	if (state == rnl__slot_state(turn, RNL__SLOT_COMMITTED))
		add(batch, slab, index);
	else if (state == rnl__slot_state(turn, RNL__SLOT_CANCELLED))
		rnl__slab_release(batch->batcher, slab, 1);
}

/* From where the last taker stopped; true if there is more. */
static bool take_in_order(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;
	unsigned looks = LOOKS;

	for (;;) {
		/* [batch.O3] acquire: slabs of turns before it are closed; pairs with [batch.O1] */
		const uint64_t open = atomic_load_explicit(&b->open, memory_order_acquire);
		const uint64_t turn = b->at;
		struct rnl__slab *slab = rnl__slab_of(b, turn);
		/* relaxed: [batch.A2], or [batch.O3], has made visible what we need */
		const uint64_t word = atomic_load_explicit(&slab->word, memory_order_relaxed);
		uint32_t nr = 0;

		/* Else it had no such turn, or all of it was released. */
		if (rnl__slab_is(word, RNL__SLAB_OPEN, turn) ||
		    rnl__slab_is(word, RNL__SLAB_CLOSED, turn))
			nr = rnl__slab_slots(word);
		if (b->seen < nr && batch->slab && batch->slab != slab)
			return true;
		for (; b->seen < nr && room(batch); b->seen++)
			take_slot(batch, slab, b->seen, turn, &looks);
		if (b->seen < nr)
			return true;
		if (turn == open)
			return false;
		b->at = turn + 1;
		b->seen = 0;
	}
}

bool rnl__batch_take(struct rnl__batch *batch)
{
	bool more = true;

	take_late(batch);
	if (room(batch))
		more = take_in_order(batch);
	return more || batch->batcher->late_first;
}
