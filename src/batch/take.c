/* SPDX-License-Identifier: MIT */
/*
 * Takes committed requests into a batch; batcher.h has the design.
 *
 * DESIGN
 *	A slot's states in a round.  The first exchange of its state decides.
 *
 *	            commit                 the taker reaches it
 *	  reserved ----------> COMMITTED ------------------------------> in a batch
 *	   |     |  cancel                 the taker reaches it
 *	   |     +-----------> CANCELLED ------------------------------> released
 *	   | the taker is first
 *	   |                   commit: onto the list of late requests
 *	   +-----------------> SKIPPED --------------------------------> in a later batch
 *	                          |        cancel
 *	                          +------------------------------------> released
 */
#include "config.h"

#include <runnel/batch.h>

#include "batch/batcher.h"
#include "sys/clock.h"
#include "sys/tsan.h"

/*
 * Polls that a taker spends, in all, on slots that are not committed yet.  They take about a
 * microsecond, in which most producers end their copy.
 */
#define LOOKS 24u

_Static_assert(offsetof(struct rnl_request, job) == 0, "a list of requests is one of jobs");

static bool take_has_space(const struct rnl__batch *batch)
{
	return batch->nr < batch->batcher->max_batch;
}

static void take_add(struct rnl__batch *batch, struct rnl__slab *slab, uint32_t slot)
{
	rnl__tsan_acquire(&slab->slots[slot]);
	batch->slab = slab;
	batch->requests[batch->nr] = slab->slots[slot].request;
	batch->slots[batch->nr++] = (uint16_t)slot;
}

/* ---- late requests --------------------------------------------------------- */

/* Appends the list of late requests to `late_first`, in the order of their commits. */
static void collect_late(struct rnl_batcher *b)
{
	struct rnl_request **end = &b->late_first;

	/* A later commit asks again. */
	if (!rnl__inbox_holds(&b->late))
		return;
	while (*end)
		end = (struct rnl_request **)&(*end)->job.link;
	*end = (struct rnl_request *)rnl__job_in_order(rnl__inbox_take_all(&b->late));
}

/* Takes the late requests of one slab: the batch's slab, or else the first late request's slab. */
static void take_late(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;
	struct rnl_request **at = &b->late_first;

	collect_late(b);
	while (*at && take_has_space(batch)) {
		struct rnl_request *request = *at;
		struct rnl__slab *slab = &b->slabs[request->slab];

		if (batch->slab && batch->slab != slab) {
			at = (struct rnl_request **)&request->job.link;
			continue;
		}
		*at = request->job.link;
		take_add(batch, slab, request->slot);
	}
}

/* ---- in order -------------------------------------------------------------- */

static bool of_round(uint64_t state, uint64_t round)
{
	return (state ^ rnl__slot_state(round, 0)) >> 2 == 0;
}

/* Returns the state of a slot.  Marks the slot as skipped if it is not committed or cancelled. */
static uint64_t take_look_at(struct rnl__slot *slot, uint64_t round, unsigned *looks)
{
	uint64_t state;

	for (;;) {
		/* [batch.C2] acquire: the request, and its slot's content; pairs with [batch.C1] */
		state = atomic_load_explicit(&slot->state, memory_order_acquire);
		if (of_round(state, round))
			return state;
		if (!*looks)
			break;
		--*looks;
		rnl__pause();
	}
	/*
	 * [batch.C3] release: our accesses to the slab, to a cancel, which then releases the slot;
	 * acquire: like [batch.C2]; pairs with [batch.C1].
	 */
	if (atomic_compare_exchange_strong_explicit(&slot->state, &state,
						    rnl__slot_state(round, RNL__SLOT_SKIPPED),
						    memory_order_acq_rel, memory_order_acquire))
		return rnl__slot_state(round, RNL__SLOT_SKIPPED);
	return state;
}

/* Takes or skips a slot.  Then the slab may be reused, unless the batch has slots of it. */
static void take_or_pass(struct rnl__batch *batch, struct rnl__slab *slab, uint32_t index,
		      uint64_t round, unsigned *looks)
{
	const uint64_t state = take_look_at(&slab->slots[index], round, looks);

	if (state == rnl__slot_state(round, RNL__SLOT_COMMITTED)) {
		take_add(batch, slab, index);
	} else if (state == rnl__slot_state(round, RNL__SLOT_CANCELLED)) {
		rnl__tsan_acquire(&slab->slots[index]);
		rnl__slab_release(batch->batcher, slab, 1);
	}
}

/* Continues where the last taker stopped.  Returns true if there are more requests. */
static bool take_new(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;
	unsigned looks = LOOKS;

	for (;;) {
		/* [batch.O3] acquire: slabs of earlier rounds are closed; pairs with [batch.O1] */
		const uint64_t open = atomic_load_explicit(&b->open, memory_order_acquire);
		const uint64_t round = b->at;
		struct rnl__slab *slab = rnl__slab_of(b, round);
		/* relaxed: [batch.A2] or [batch.O3] has made the word visible */
		const uint64_t word = atomic_load_explicit(&slab->word, memory_order_relaxed);
		uint32_t nr = 0;

		/* In other states the round was skipped, or all its requests are done. */
		if (rnl__slab_is(word, RNL__SLAB_OPEN, round) ||
		    rnl__slab_is(word, RNL__SLAB_CLOSED, round))
			nr = rnl__slab_slots(word);
		if (b->seen < nr && batch->slab && batch->slab != slab)
			return true;
		for (; b->seen < nr && take_has_space(batch); b->seen++)
			take_or_pass(batch, slab, b->seen, round, &looks);
		if (b->seen < nr)
			return true;
		if (round == open)
			return false;
		b->at = round + 1;
		b->seen = 0;
	}
}

bool rnl__batch_take(struct rnl__batch *batch)
{
	bool more = true;

	take_late(batch);
	if (take_has_space(batch))
		more = take_new(batch);
	return more || batch->batcher->late_first;
}
