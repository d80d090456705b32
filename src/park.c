/* SPDX-License-Identifier: MIT */
/* Workers that sleep and who wakes them; park.h has the protocol. */
#include "config.h"

#include "futex.h"
#include "park.h"

void rnl__park_init(struct rnl__park *park, struct rnl__lot *lot, unsigned index)
{
	atomic_init(&park->word, RNL__AWAKE);
	park->lot = lot;
	park->index = index;
	lot->park[index] = park;
}

/* True if it was set. */
static bool clear_bit(struct rnl__park *park)
{
	uint64_t bit = UINT64_C(1) << park->index;

	/*
	 * [park.B3] acquire: a waker's exchange of the word comes after, and
	 * sees the ASLEEP of the bit that was cleared; pairs with [park.B1].
	 */
	return atomic_fetch_and_explicit(&park->lot->idle, ~bit, memory_order_acquire) & bit;
}

void rnl__park_prepare(struct rnl__park *park, bool idle)
{
	/* relaxed: [park.S1] and [park.B1] order it */
	atomic_store_explicit(&park->word, RNL__ASLEEP, memory_order_relaxed);
	if (idle)
		/* [park.B1] release: who sees our bit sees ASLEEP; pairs with [park.B2], [park.B3] */
		atomic_fetch_or_explicit(&park->lot->idle, UINT64_C(1) << park->index,
					 memory_order_release);
	/*
	 * [park.S1] full barrier: ASLEEP and the bit are written before we look
	 * for work again; pairs with [queue.E1].  Without it the look could
	 * come first: we would see an empty queue, the waker a worker that is
	 * awake, and the job would wait for the next one.
	 */
	rnl__full_barrier();
}

bool rnl__park_leave(struct rnl__park *park)
{
	/*
	 * [park.S3] acq_rel: on one word with the wakers' exchange, so that we know of each
	 * wake that met us, and see what it was for; pairs with [park.W1].
	 */
	uint32_t word = atomic_exchange_explicit(&park->word, RNL__AWAKE, memory_order_acq_rel);

	(void)clear_bit(park);
	return word == RNL__AWAKE;
}

bool rnl__park_sleep(struct rnl__park *park, uint64_t deadline)
{
	/* [park.S2] acquire: we see what the waker published; pairs with [park.W1] */
	while (atomic_load_explicit(&park->word, memory_order_acquire) == RNL__ASLEEP) {
		if (rnl__futex_wait(&park->word, RNL__ASLEEP, deadline) == -ETIMEDOUT)
			break;
	}
	return rnl__park_leave(park);
}

bool rnl__park_wake_asleep(struct rnl__park *park)
{
	uint32_t word = RNL__ASLEEP;

	/*
	 * The bit goes before the wake: after it, it could be that of the
	 * worker's next sleep, which nobody would find then.
	 */
	(void)clear_bit(park);
	/*
	 * [park.W1] release: who wakes sees what we published; pairs with
	 * [park.S2].  Of several wakers one wins and makes the system call.
	 */
	if (!atomic_compare_exchange_strong_explicit(&park->word, &word, RNL__AWAKE,
						     memory_order_release, memory_order_relaxed))
		return false;
	rnl__futex_wake(&park->word, 1);
	return true;
}

static uint64_t idle(struct rnl__lot *lot)
{
	/* [park.B2] acquire: a bit is set, so its ASLEEP is visible; pairs with [park.B1] */
	return atomic_load_explicit(&lot->idle, memory_order_acquire);
}

bool rnl__lot_wake_idle(struct rnl__lot *lot)
{
	for (uint64_t bits = idle(lot); bits; bits &= bits - 1) {
		if (rnl__park_wake(lot->park[__builtin_ctzll(bits)]))
			return true;
	}
	return false;
}

int rnl__lot_claim(struct rnl__lot *lot, unsigned first)
{
	uint64_t bits = idle(lot);

	if (bits >> first & 1 && clear_bit(lot->park[first]))
		return (int)first;
	for (; bits; bits &= bits - 1) {
		int index = __builtin_ctzll(bits);

		if (clear_bit(lot->park[index]))
			return index;
	}
	return -1;
}

void rnl__park_spins(struct rnl__park *park, bool spins)
{
	uint64_t bit = UINT64_C(1) << park->index;

	if (spins)
		/* relaxed: a hint */
		atomic_fetch_or_explicit(&park->lot->spinning, bit, memory_order_relaxed);
	else
		/* relaxed: a hint */
		atomic_fetch_and_explicit(&park->lot->spinning, ~bit, memory_order_relaxed);
}

int rnl__lot_claim_spinning(struct rnl__lot *lot)
{
	/* relaxed: a hint; each is given to one */
	uint64_t bits = atomic_load_explicit(&lot->spinning, memory_order_relaxed);

	for (; bits; bits &= bits - 1) {
		uint64_t bit = bits & -bits;

		/* relaxed: as said */
		if (atomic_fetch_and_explicit(&lot->spinning, ~bit, memory_order_relaxed) & bit)
			return __builtin_ctzll(bit);
	}
	return -1;
}
