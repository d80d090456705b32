/* SPDX-License-Identifier: MIT */
/*
 * Latch: a count on which threads sleep until it is 0.
 *
 * DESIGN
 *	One word, count << 1 | SLEEPER.  Every operation is one read-modify-write of this word.  So
 *	the drop that brings the count to 0 learns whether a thread sleeps, and does not access the
 *	word again; a futex wake uses only its address.  A waiter may therefore free the latch as
 *	soon as it has seen 0.
 *	SLEEPER may outlive its sleeper, which costs one futex call.
 *	Model: tests/model/cancel.pml.
 *
 *		add	drop	wait	- no outside synchronisation needed;
 *	add	-	-	-	an add concurrent with a wait
 *	drop	-	-	-	may or may not be waited for
 *	wait	-	-	-
 */
#ifndef RNL_LATCH_H
#define RNL_LATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/atomic.h"
#include "sys/futex.h"
#include "sys/tsan.h"

#define RNL__LATCH_SLEEPER 1u
#define RNL__LATCH_ONE 2u

static inline void rnl__latch_add(_Atomic uint32_t *latch, uint32_t nr)
{
	/* relaxed: the count is published by the queue of the counted job */
	atomic_fetch_add_explicit(latch, nr * RNL__LATCH_ONE, memory_order_relaxed);
}

/* Returns true if the count is 0 now; the latch may be freed already. */
static inline bool rnl__latch_drop(_Atomic uint32_t *latch, uint32_t nr)
{
	uint32_t old;

	rnl__tsan_release(latch);
	/*
	 * [latch.D1] release: the dropping thread's earlier writes, to the waiter; acquire: the
	 * last drop sees the other drops' writes; pairs with [latch.W1], and with [latch.D1].
	 */
	old = atomic_fetch_sub_explicit(latch, nr * RNL__LATCH_ONE, memory_order_acq_rel);
	if (old / RNL__LATCH_ONE != nr)
		return false;
	if (old & RNL__LATCH_SLEEPER)
		rnl__futex_wake(latch, INT_MAX);
	return true;
}

/* Sets SLEEPER.  Returns the count before. */
static inline uint32_t rnl__latch_watch(_Atomic uint32_t *latch)
{
	/*
	 * [latch.W2] acq_rel: modifies the drop's word, so the last drop sees our earlier writes,
	 * or we see a count of 0; pairs with [latch.D1].
	 */
	return atomic_fetch_or_explicit(latch, RNL__LATCH_SLEEPER, memory_order_acq_rel) /
	       RNL__LATCH_ONE;
}

/* Clears SLEEPER if the count is 0: no thread sleeps then. */
static inline void rnl__latch_unwatch(_Atomic uint32_t *latch)
{
	uint32_t word = RNL__LATCH_SLEEPER;

	/* relaxed: a SLEEPER that stays costs one futex call */
	atomic_compare_exchange_strong_explicit(latch, &word, 0, memory_order_relaxed,
						memory_order_relaxed);
}

static inline bool rnl__latch_open(_Atomic uint32_t *latch)
{
	/* [latch.W1] acquire: the writes before each drop; pairs with [latch.D1] */
	if (atomic_load_explicit(latch, memory_order_acquire) >= RNL__LATCH_ONE)
		return false;
	rnl__tsan_acquire(latch);
	return true;
}

/* Waits for 0: spins for @spin_ns, then sleeps.  Returns 0 or -ETIMEDOUT. */
int rnl__latch_wait(_Atomic uint32_t *latch, uint64_t spin_ns, uint64_t deadline);

#endif
