/* SPDX-License-Identifier: MIT */
/* Workers that sleep, and their wakes; park.h has the protocol. */
#include "config.h"

#include "sys/futex.h"
#include "pool/park.h"

void rnl__park_init(struct rnl__park *park, struct rnl__lot *lot, unsigned index)
{
	atomic_init(&park->word, RNL__AWAKE);
	park->lot = lot;
	park->index = index;
	lot->park[index] = park;
}

/* True: the bit was set. */
static bool clear_bit(struct rnl__park *park)
{
	uint64_t bit = UINT64_C(1) << park->index;

	/*
	 * [park.B3] acquire: a waker's exchange of the word comes after this, and sees
	 * the ASLEEP that came before the bit; pairs with [park.B1].
	 */
	return atomic_fetch_and_explicit(&park->lot->idle, ~bit, memory_order_acquire) & bit;
}

void rnl__park_prepare(struct rnl__park *park, bool idle)
{
	/* relaxed: [park.S1] and [park.B1] order it */
	atomic_store_explicit(&park->word, RNL__ASLEEP, memory_order_relaxed);
	if (idle)
		/*
		 * [park.B1] release: a thread that sees the bit sees ASLEEP;
		 * pairs with [park.B2], [park.B3]
		 */
		atomic_fetch_or_explicit(&park->lot->idle, UINT64_C(1) << park->index,
					 memory_order_release);
	/*
	 * [park.S1] full barrier: ASLEEP and the bit are written before the worker looks
	 * for work again; pairs with [queue.E1].  Without the barrier the look could come
	 * first: the worker would see an empty queue, the waker a worker that is awake,
	 * and the job would wait for the next one.
	 */
	rnl__full_barrier();
}

bool rnl__park_leave(struct rnl__park *park)
{
	/*
	 * [park.S3] acq_rel: on one word with the wakers' exchange, so the worker knows of
	 * each wake that met it, and sees what the wake was for; pairs with [park.W1].
	 */
	uint32_t word = atomic_exchange_explicit(&park->word, RNL__AWAKE, memory_order_acq_rel);

	(void)clear_bit(park);
	return word == RNL__AWAKE;
}

bool rnl__park_sleep(struct rnl__park *park, uint64_t deadline)
{
	/* [park.S2] acquire: what the waker published; pairs with [park.W1] */
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
	 * The bit is cleared before the wake: after the wake, the bit could be that of
	 * the worker's next sleep, which no submit would find then.
	 */
	(void)clear_bit(park);
	/*
	 * [park.W1] release: the worker sees what we published; pairs with [park.S2].
	 * Of several wakers one wins, and makes the system call.
	 */
	if (!atomic_compare_exchange_strong_explicit(&park->word, &word, RNL__AWAKE,
						     memory_order_release, memory_order_relaxed))
		return false;
	rnl__futex_wake(&park->word, 1);
	return true;
}

static uint64_t idle(struct rnl__lot *lot)
{
	/* [park.B2] acquire: where a bit is set, ASLEEP is visible; pairs with [park.B1] */
	return atomic_load_explicit(&lot->idle, memory_order_acquire);
}

bool rnl__lot_wake_idle(struct rnl__lot *lot, uint64_t among)
{
	for (uint64_t bits = idle(lot) & among; bits; bits &= bits - 1) {
		if (rnl__park_wake(lot->park[__builtin_ctzll(bits)]))
			return true;
	}
	return false;
}

int rnl__lot_claim(struct rnl__lot *lot, unsigned first, uint64_t among)
{
	uint64_t bits = idle(lot) & among;

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

int rnl__lot_claim_spinning(struct rnl__lot *lot, uint64_t among)
{
	/* relaxed: a hint */
	uint64_t bits = atomic_load_explicit(&lot->spinning, memory_order_relaxed) & among;

	for (; bits; bits &= bits - 1) {
		uint64_t bit = bits & -bits;

		/* relaxed: a hint; one claim clears the bit */
		if (atomic_fetch_and_explicit(&lot->spinning, ~bit, memory_order_relaxed) & bit)
			return __builtin_ctzll(bit);
	}
	return -1;
}
