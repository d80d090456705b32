/* SPDX-License-Identifier: MIT */
/*
 * Eventcount: threads wait on it for a condition that other threads make true.  While no thread
 * waits, a wake is one load.
 *
 * DESIGN
 *	One word, round << 1 | WAITING.  A waiter sets WAITING, checks the condition again, and
 *	sleeps while the word is unchanged.  A waker makes the condition true, then reads the word.
 *	If WAITING is set, it advances the round, and all sleepers wake and start over.  Both sides
 *	have a full barrier after their write, so the waker sees WAITING or the waiter sees the
 *	condition (Dekker).
 *	If only one waiter can use the condition, rnl__eventcount_wake_one() wakes one waiter.
 *	A waiter that leaves without a sleep costs the next waker one futex call.
 *
 *		prepare	wait	wake	- no outside synchronisation needed
 *	prepare	-	-	-
 *	wait	-	-	-
 *	wake	-	-	-
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

/* Returns the word to wait with: a later wake ends the wait.  Then check the condition again. */
static inline uint32_t rnl__eventcount_prepare(struct rnl__eventcount *eventcount)
{
	/* [eventcount.L1] acquire: the condition of the last wake; pairs with [eventcount.R1] */
	uint32_t word =
		atomic_fetch_or_explicit(&eventcount->word, RNL__WAITING, memory_order_acquire);

	/* [eventcount.L2] full barrier: sets WAITING, then checks; pairs with [eventcount.R2] */
	rnl__full_barrier();
	return word | RNL__WAITING;
}

/* Sleeps until a wake, or returns early for no reason.  Returns 0 or -ETIMEDOUT. */
static inline int rnl__eventcount_wait(struct rnl__eventcount *eventcount, uint32_t listened,
				       uint64_t deadline)
{
	return rnl__futex_wait(&eventcount->word, listened, deadline);
}

/*
 * Wakes all waiters.
 * [eventcount.R2] the caller's full barrier: after the condition is true, before this call;
 * pairs with [eventcount.L2].
 */
static inline void rnl__eventcount_wake(struct rnl__eventcount *eventcount)
{
	/* relaxed: the caller's full barrier orders it, [eventcount.R2] */
	uint32_t word = atomic_load_explicit(&eventcount->word, memory_order_relaxed);

	while (word & RNL__WAITING) {
		/*
		 * [eventcount.R1] release: a waiter that prepares again sees the condition;
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

/* Like rnl__eventcount_wake(), but wakes one sleeper.  The other waiters stay registered. */
static inline void rnl__eventcount_wake_one(struct rnl__eventcount *eventcount)
{
	/* relaxed: the caller's full barrier orders it, [eventcount.R2] */
	uint32_t word = atomic_load_explicit(&eventcount->word, memory_order_relaxed);

	while (word & RNL__WAITING) {
		/* [eventcount.R3] release: like [eventcount.R1]; pairs with [eventcount.L1] */
		if (!atomic_compare_exchange_weak_explicit(&eventcount->word, &word,
							   word + RNL__ROUND, memory_order_release,
							   memory_order_relaxed))
			continue;
		word += RNL__ROUND;
		if (rnl__futex_wake(&eventcount->word, 1))
			return;
		/* No thread slept: clears WAITING, and wakes any thread that slept since. */
		/* relaxed: a thread about to sleep finds the word changed, and prepares again */
		if (atomic_compare_exchange_strong_explicit(&eventcount->word, &word,
							    word & ~RNL__WAITING,
							    memory_order_relaxed,
							    memory_order_relaxed))
			(void)rnl__futex_wake(&eventcount->word, INT_MAX);
		return;
	}
}

/* Returns nonzero if a thread waits: a hint. */
static inline int rnl__eventcount_has_waiters(struct rnl__eventcount *eventcount)
{
	/* relaxed: the caller's full barrier orders it, like before a wake */
	return atomic_load_explicit(&eventcount->word, memory_order_relaxed) & RNL__WAITING;
}

#endif
