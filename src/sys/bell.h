/* SPDX-License-Identifier: MIT */
/*
 * Bell: threads wait on it for a condition that other threads make true now and then.  While no
 * thread waits, a ring is a load.
 *
 * DESIGN
 *	One word, round << 1 | LISTENING.  A waiter listens, looks whether the condition is
 *	true already, and if not, sleeps as long as the word stays.  A ringer makes the
 *	condition true, then rings: if a thread listens, the round moves on, and all
 *	sleepers wake, look again, and listen again.  A full barrier stands between the
 *	condition and the ring, and between the listening and the look: so the ringer sees
 *	the listener, or the listener sees the condition (Dekker).
 *	If the condition is enough for one waiter, a ring once wakes one sleeper.
 *	A listener that went away costs one futex call.
 *
 *		listen	wait	rings	- no outside synchronisation needed
 *	listen	-	-	-
 *	wait	-	-	-
 *	rings	-	-	-
 */
#ifndef RNL_BELL_H
#define RNL_BELL_H

#include <stdint.h>

#include "sys/atomic.h"
#include "sys/counter.h"
#include "sys/fence.h"
#include "sys/futex.h"

#define RNL__LISTENING 1u
#define RNL__ROUND 2u

struct rnl__bell {
	_Atomic uint32_t word;
};

static inline void rnl__bell_init(struct rnl__bell *bell)
{
	atomic_init(&bell->word, (uint32_t)(RNL__START(31, 2) * RNL__ROUND));
}

/* Listens: from here on, a ring ends the wait.  The word to wait with; look before the wait. */
static inline uint32_t rnl__bell_listen(struct rnl__bell *bell)
{
	/* [bell.L1] acquire: what the last ringer did; pairs with [bell.R1] */
	uint32_t word = atomic_fetch_or_explicit(&bell->word, RNL__LISTENING, memory_order_acquire);

	/* [bell.L2] full barrier: we listen, then look; pairs with [bell.R2] */
	rnl__full_barrier();
	return word | RNL__LISTENING;
}

/* Sleeps until a ring, or for no reason; 0 or -ETIMEDOUT. */
static inline int rnl__bell_wait(struct rnl__bell *bell, uint32_t listened, uint64_t deadline)
{
	return rnl__futex_wait(&bell->word, listened, deadline);
}

/*
 * Wakes all listeners.
 * [bell.R2] The caller has a full barrier between the condition and this call; pairs with
 * [bell.L2].
 */
static inline void rnl__bell_ring(struct rnl__bell *bell)
{
	/* relaxed: the caller's full barrier orders it, [bell.R2] */
	uint32_t word = atomic_load_explicit(&bell->word, memory_order_relaxed);

	while (word & RNL__LISTENING) {
		/*
		 * [bell.R1] release: a thread that listens again sees the condition;
		 * pairs with [bell.L1]
		 */
		if (atomic_compare_exchange_weak_explicit(&bell->word, &word,
							  (word & ~RNL__LISTENING) + RNL__ROUND,
							  memory_order_release,
							  memory_order_relaxed)) {
			rnl__futex_wake(&bell->word, INT_MAX);
			return;
		}
	}
}

/* As rnl__bell_ring(), but wakes one sleeper; the others go on listening. */
static inline void rnl__bell_ring_once(struct rnl__bell *bell)
{
	/* relaxed: the caller's full barrier orders it, [bell.R2] */
	uint32_t word = atomic_load_explicit(&bell->word, memory_order_relaxed);

	while (word & RNL__LISTENING) {
		/* [bell.R3] release: as [bell.R1]; pairs with [bell.L1] */
		if (!atomic_compare_exchange_weak_explicit(&bell->word, &word, word + RNL__ROUND,
							   memory_order_release,
							   memory_order_relaxed))
			continue;
		word += RNL__ROUND;
		if (rnl__futex_wake(&bell->word, 1))
			return;
		/* No thread slept: clears LISTENING, and wakes threads that fell asleep before. */
		/* relaxed: a thread that listens now finds the word changed, and listens again */
		if (atomic_compare_exchange_strong_explicit(&bell->word, &word,
							    word & ~RNL__LISTENING,
							    memory_order_relaxed,
							    memory_order_relaxed))
			(void)rnl__futex_wake(&bell->word, INT_MAX);
		return;
	}
}

/* Whether a thread listens: a hint. */
static inline int rnl__bell_has_listeners(struct rnl__bell *bell)
{
	/* relaxed: the caller's full barrier orders it, as before a ring */
	return atomic_load_explicit(&bell->word, memory_order_relaxed) & RNL__LISTENING;
}

#endif
