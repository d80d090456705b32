/* SPDX-License-Identifier: MIT */
/*
 * Eventcount: threads wait on it for a condition that other threads make true now and then.  While no
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
#ifndef RNL_EVENTCOUNT_H
#define RNL_EVENTCOUNT_H

#include <stdint.h>

#include "sys/atomic.h"
#include "sys/counter.h"
#include "sys/fence.h"
#include "sys/futex.h"

#define RNL__WAITING 1u
#define RNL__ROUND 2u

struct rnl__eventcount {
	_Atomic uint32_t word;
};

static inline void rnl__eventcount_init(struct rnl__eventcount *eventcount)
{
	atomic_init(&eventcount->word, (uint32_t)(RNL__START(31, 2) * RNL__ROUND));
}

/* Listens: from here on, a ring ends the wait.  The word to wait with; look before the wait. */
static inline uint32_t rnl__eventcount_prepare(struct rnl__eventcount *eventcount)
{
	/* [eventcount.L1] acquire: what the last ringer did; pairs with [eventcount.R1] */
	uint32_t word =
		atomic_fetch_or_explicit(&eventcount->word, RNL__WAITING, memory_order_acquire);

	/* [eventcount.L2] full barrier: we listen, then look; pairs with [eventcount.R2] */
	rnl__full_barrier();
	return word | RNL__WAITING;
}

/* Sleeps until a ring, or for no reason; 0 or -ETIMEDOUT. */
static inline int rnl__eventcount_wait(struct rnl__eventcount *eventcount, uint32_t listened,
				       uint64_t deadline)
{
	return rnl__futex_wait(&eventcount->word, listened, deadline);
}

/*
 * Wakes all listeners.
 * [eventcount.R2] The caller has a full barrier between the condition and this call; pairs with
 * [eventcount.L2].
 */
static inline void rnl__eventcount_wake(struct rnl__eventcount *eventcount)
{
	/* relaxed: the caller's full barrier orders it, [eventcount.R2] */
	uint32_t word = atomic_load_explicit(&eventcount->word, memory_order_relaxed);

	while (word & RNL__WAITING) {
		/*
		 * [eventcount.R1] release: a thread that listens again sees the condition;
		 * pairs with [eventcount.L1]
		 */
		if (atomic_compare_exchange_weak_explicit(&eventcount->word, &word,
							  (word & ~RNL__WAITING) + RNL__ROUND,
							  memory_order_release,
							  memory_order_relaxed)) {
			rnl__futex_wake(&eventcount->word, INT_MAX);
			return;
		}
	}
}

/* As rnl__eventcount_wake(), but wakes one sleeper; the others go on listening. */
static inline void rnl__eventcount_wake_one(struct rnl__eventcount *eventcount)
{
	/* relaxed: the caller's full barrier orders it, [eventcount.R2] */
	uint32_t word = atomic_load_explicit(&eventcount->word, memory_order_relaxed);

	while (word & RNL__WAITING) {
		/* [eventcount.R3] release: as [eventcount.R1]; pairs with [eventcount.L1] */
		if (!atomic_compare_exchange_weak_explicit(&eventcount->word, &word,
							   word + RNL__ROUND, memory_order_release,
							   memory_order_relaxed))
			continue;
		word += RNL__ROUND;
		if (rnl__futex_wake(&eventcount->word, 1))
			return;
		/* No thread slept: clears LISTENING, and wakes threads that fell asleep before. */
		/* relaxed: a thread that listens now finds the word changed, and listens again */
		if (atomic_compare_exchange_strong_explicit(&eventcount->word, &word,
							    word & ~RNL__WAITING,
							    memory_order_relaxed,
							    memory_order_relaxed))
			(void)rnl__futex_wake(&eventcount->word, INT_MAX);
		return;
	}
}

/* Whether a thread listens: a hint. */
static inline int rnl__eventcount_has_waiters(struct rnl__eventcount *eventcount)
{
	/* relaxed: the caller's full barrier orders it, as before a ring */
	return atomic_load_explicit(&eventcount->word, memory_order_relaxed) & RNL__WAITING;
}

#endif
