/* SPDX-License-Identifier: MIT */
/* Workers that sleep, and their wakes; park.h has the protocol. */
#include "config.h"

#include "sys/futex.h"
#include "pool/park.h"

void rnl__idle_set_init(struct rnl__idle_set *idle_set, struct rnl__park **park)
{
	*idle_set = (struct rnl__idle_set){ .park = park };
}

void rnl__park_init(struct rnl__park *park, struct rnl__idle_set *idle_set, unsigned index)
{
	atomic_init(&park->word, RNL__AWAKE);
	park->idle_set = idle_set;
	park->index = index;
	idle_set->park[index] = park;
	if (index / 64 >= rnl__idle_set_nr_words(idle_set))
		/* relaxed: the worker's own full barrier [park.S1] comes later */
		atomic_store_explicit(&idle_set->nr_words, index / 64 + 1, memory_order_relaxed);
}

static uint64_t park_bit(const struct rnl__park *park)
{
	return UINT64_C(1) << park->index % 64;
}

/* Clears the worker's bit.  Returns true if it was set. */
static bool clear_bit(struct rnl__park *park)
{
	const uint64_t bit = park_bit(park);

	/*
	 * [park.B3] acquire: a waker's exchange of the word comes after this, and sees the ASLEEP
	 * that was written before the bit; pairs with [park.B1].
	 */
	return atomic_fetch_and_explicit(&park->idle_set->idle[park->index / 64], ~bit,
					 memory_order_acquire) & bit;
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
		atomic_fetch_or_explicit(&park->idle_set->idle[park->index / 64], park_bit(park),
					 memory_order_release);
	/*
	 * [park.S1] full barrier: ASLEEP and the bit are written before the worker looks for work
	 * again; pairs with [queue.E1].  Without the barrier the look could come first: the worker
	 * would see an empty queue, the waker a worker that is awake, and the job would wait for
	 * the next wake.
	 */
	rnl__full_barrier();
}

bool rnl__park_leave(struct rnl__park *park)
{
	/*
	 * [park.S3] acq_rel: on one word with the wakers' exchange, so the worker learns that a
	 * wake came first, and sees the work of that wake; pairs with [park.W1].
	 */
	uint32_t word = atomic_exchange_explicit(&park->word, RNL__AWAKE, memory_order_acq_rel);

	(void)clear_bit(park);
	return word == RNL__AWAKE;
}

bool rnl__park_sleep(struct rnl__park *park, uint64_t deadline)
{
	/* [park.S2] acquire: the work that the waker published; pairs with [park.W1] */
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
	 * The bit is cleared before the wake.  After the wake it could be the bit of the worker's
	 * next sleep, and no submit would find that sleep.
	 */
	(void)clear_bit(park);
	/*
	 * [park.W1] release: the worker sees the published work; pairs with [park.S2].  One of
	 * several wakers wins, and makes the system call.
	 */
	if (!atomic_compare_exchange_strong_explicit(&park->word, &word, RNL__AWAKE,
						     memory_order_release, memory_order_relaxed))
		return false;
	rnl__futex_wake(&park->word, 1);
	return true;
}

static uint64_t idle(struct rnl__idle_set *idle_set, unsigned word)
{
	/* [park.B2] acquire: if a bit is set, ASLEEP is visible; pairs with [park.B1] */
	return atomic_load_explicit(&idle_set->idle[word], memory_order_acquire);
}

bool rnl__idle_set_wake_idle(struct rnl__idle_set *idle_set, const uint64_t *among)
{
	const unsigned nr = rnl__idle_set_nr_words(idle_set);

	for (unsigned word = 0; word < nr; word++) {
		for (uint64_t bits = idle(idle_set, word) & rnl__among(among, word); bits;
		     bits &= bits - 1) {
			if (rnl__park_wake(
				    idle_set->park[word * 64 + (unsigned)__builtin_ctzll(bits)]))
				return true;
		}
	}
	return false;
}

bool rnl__idle_set_others_idle(struct rnl__idle_set *idle_set)
{
	const unsigned nr = rnl__idle_set_nr_words(idle_set);

	for (unsigned word = 1; word < nr; word++) {
		/* relaxed: a hint */
		if (atomic_load_explicit(&idle_set->idle[word], memory_order_relaxed))
			return true;
	}
	return false;
}

int rnl__idle_set_claim(struct rnl__idle_set *idle_set, unsigned first, const uint64_t *among)
{
	const unsigned nr = rnl__idle_set_nr_words(idle_set);

	for (unsigned i = 0; i < nr; i++) {
		const unsigned word = (first / 64 + i) % nr;
		uint64_t bits = idle(idle_set, word) & rnl__among(among, word);

		if (!i && bits >> first % 64 & 1 && clear_bit(idle_set->park[first]))
			return (int)first;
		for (; bits; bits &= bits - 1) {
			const unsigned index = word * 64 + (unsigned)__builtin_ctzll(bits);

			if (clear_bit(idle_set->park[index]))
				return (int)index;
		}
	}
	return -1;
}

void rnl__park_spins(struct rnl__park *park, bool spins)
{
	_Atomic uint64_t *word = &park->idle_set->spinning[park->index / 64];

	if (spins)
		/* [park.C1] release: the worker, as it was made; pairs with [park.C2] */
		atomic_fetch_or_explicit(word, park_bit(park), memory_order_release);
	else
		/* relaxed: a hint */
		atomic_fetch_and_explicit(word, ~park_bit(park), memory_order_relaxed);
}

int rnl__idle_set_claim_spinning(struct rnl__idle_set *idle_set, const uint64_t *among)
{
	unsigned word = 0;

	/* The cache line of `nr_words` is not read if the first word has a spinning worker. */
	do {
		/* relaxed: a hint */
		uint64_t bits =
			atomic_load_explicit(&idle_set->spinning[word], memory_order_relaxed) &
			rnl__among(among, word);

		for (; bits; bits &= bits - 1) {
			const uint64_t bit = bits & -bits;

			/*
			 * [park.C2] acquire: the worker, as it was made; pairs with [park.C1].
			 * Only one claim clears the bit.
			 */
			if (atomic_fetch_and_explicit(&idle_set->spinning[word], ~bit,
						      memory_order_acquire) & bit)
				return (int)(word * 64 + (unsigned)__builtin_ctzll(bit));
		}
	} while (++word < rnl__idle_set_nr_words(idle_set));
	return -1;
}

unsigned rnl__idle_set_nr(struct rnl__idle_set *idle_set)
{
	const unsigned nr_words = rnl__idle_set_nr_words(idle_set);
	unsigned nr = 0;

	for (unsigned word = 0; word < nr_words; word++)
		/* relaxed: a hint */
		nr += (unsigned)__builtin_popcountll(
			atomic_load_explicit(&idle_set->idle[word], memory_order_relaxed));
	return nr;
}

unsigned rnl__idle_set_nr_free(struct rnl__idle_set *idle_set, const uint64_t *among)
{
	const unsigned nr_words = rnl__idle_set_nr_words(idle_set);
	unsigned nr = 0;

	for (unsigned word = 0; word < nr_words; word++) {
		/* relaxed: a hint */
		uint64_t bits =
			atomic_load_explicit(&idle_set->idle[word], memory_order_relaxed) |
			/* relaxed: a hint */
			atomic_load_explicit(&idle_set->spinning[word], memory_order_relaxed);

		nr += (unsigned)__builtin_popcountll(bits & rnl__among(among, word));
	}
	return nr;
}
