/* SPDX-License-Identifier: MIT */
/*
 * Bell: threads wait on it for something that others make true now and then,
 * and those pay a load while nobody waits.
 *
 * DESIGN
 *	One word, turn << 1 | LISTENING.  Who waits listens, looks whether the
 *	thing is true already, and sleeps if not, as long as the word stays.
 *	Who made it true rings: only if somebody listens, the turn moves on and
 *	all wake, look again, and listen again.  Between making it true and
 *	ringing, and between listening and looking, stands a full barrier: so
 *	the ringer sees the listener, or the listener what is true (Dekker).
 *	Where there is enough for one alone, ringing once wakes one sleeper.
 *	A listener that went away costs one futex call for nothing.
 *
 *		listen	wait	rings	- no outside synchronisation needed
 *	listen	-	-	-
 *	wait	-	-	-
 *	rings	-	-	-
 */
#ifndef RNL_BELL_H
#define RNL_BELL_H

#include <stdint.h>

#include "atomic.h"
#include "fence.h"
#include "futex.h"

#define RNL__LISTENING 1u
#define RNL__TURN 2u

struct rnl__bell {
	_Atomic uint32_t word;
};

/* From here on a ring is heard; what to wait with.  Then look, then wait. */
static inline uint32_t rnl__bell_listen(struct rnl__bell *bell)
{
	/* [bell.L1] acquire: what the last ringer did before; pairs with [bell.R1] */
	uint32_t word = atomic_fetch_or_explicit(&bell->word, RNL__LISTENING, memory_order_acquire);

	/* [bell.L2] full barrier: we listen before we look; pairs with [bell.R2] */
	rnl__full_barrier();
	return word | RNL__LISTENING;
}

/* Sleeps until rung, perhaps for nothing; 0 or -ETIMEDOUT. */
static inline int rnl__bell_wait(struct rnl__bell *bell, uint32_t listened, uint64_t deadline)
{
	return rnl__futex_wait(&bell->word, listened, deadline);
}

/*
 * Wakes all who listen.
 * [bell.R2] A full barrier of the caller's stands between what it made true and
 * this; pairs with [bell.L2].
 */
static inline void rnl__bell_ring(struct rnl__bell *bell)
{
	/* relaxed: the barrier stands before it */
	uint32_t word = atomic_load_explicit(&bell->word, memory_order_relaxed);

	while (word & RNL__LISTENING) {
		/* [bell.R1] release: what we made true, to who listens again; pairs with [bell.L1] */
		if (atomic_compare_exchange_weak_explicit(&bell->word, &word,
							  (word & ~RNL__LISTENING) + RNL__TURN,
							  memory_order_release,
							  memory_order_relaxed)) {
			rnl__futex_wake(&bell->word, INT_MAX);
			return;
		}
	}
}

/* The same, but of those who sleep it wakes one; the others go on listening. */
static inline void rnl__bell_ring_once(struct rnl__bell *bell)
{
	/* relaxed: the barrier stands before it */
	uint32_t word = atomic_load_explicit(&bell->word, memory_order_relaxed);

	while (word & RNL__LISTENING) {
		/* [bell.R3] release: as [bell.R1]; pairs with [bell.L1] */
		if (!atomic_compare_exchange_weak_explicit(&bell->word, &word, word + RNL__TURN,
							   memory_order_release,
							   memory_order_relaxed))
			continue;
		word += RNL__TURN;
		if (rnl__futex_wake(&bell->word, 1))
			return;
		/* Nobody slept: takes the mark off.  Who fell asleep since has lost it: so wake him. */
		/* relaxed: who listens now finds the word changed, and listens again */
		if (atomic_compare_exchange_strong_explicit(&bell->word, &word,
							    word & ~RNL__LISTENING,
							    memory_order_relaxed,
							    memory_order_relaxed))
			(void)rnl__futex_wake(&bell->word, INT_MAX);
		return;
	}
}

/* Whether somebody listens: a hint, for what is only worth doing then. */
static inline int rnl__bell_heard(struct rnl__bell *bell)
{
	/* relaxed: the caller's barrier stands before it, as before a ring */
	return atomic_load_explicit(&bell->word, memory_order_relaxed) & RNL__LISTENING;
}

#endif
