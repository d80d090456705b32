/* SPDX-License-Identifier: MIT */
/*
 * Tally: how many came in, and how many left; what is inside may be bounded, and the way in closed.
 *
 * DESIGN
 *	Two words that only grow, so a drain can compare sums of several tallies and queues: a job
 *	that moves from a tally to a queue is counted there before it leaves here.  `entered`
 *	carries the CLOSED bit, so an entry beside the close is either counted or refused.
 *
 *			enter	leave	close	read	- no outside synchronisation needed
 *	enter		-	-	-	-
 *	leave		-	-	-	-
 *	close		-	-	-	-
 */
#ifndef RNL_TALLY_H
#define RNL_TALLY_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/atomic.h"

#define RNL__TALLY_CLOSED (UINT64_C(1) << 63)

struct rnl__tally {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t entered; /* ever, | CLOSED */
	_Atomic uint64_t left_seen;	/* as one that entered last saw it */
	uint64_t limit;			/* inside at once; constant once in use */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t left; /* ever */
};

static inline void rnl__tally_init(struct rnl__tally *t, uint64_t limit)
{
	atomic_init(&t->entered, 0);
	atomic_init(&t->left_seen, 0);
	atomic_init(&t->left, 0);
	t->limit = limit;
}

/* Takes @nr entries back. */
static inline void rnl__tally_retract(struct rnl__tally *t, uint64_t nr)
{
	/* relaxed: nothing was done for these entries */
	atomic_fetch_sub_explicit(&t->entered, nr, memory_order_relaxed);
}

/* How many ever left. */
static inline uint64_t rnl__tally_left(struct rnl__tally *t)
{
	/* [tally.L2] acquire: those that left are counted elsewhere; pairs with [tally.L1] */
	return atomic_load_explicit(&t->left, memory_order_acquire);
}

/* How many ever entered; read after rnl__tally_left(), if both are compared. */
static inline uint64_t rnl__tally_entered(struct rnl__tally *t)
{
	/* relaxed: the caller's barrier orders it, see rnl_pool_drain() */
	return atomic_load_explicit(&t->entered, memory_order_relaxed) & ~RNL__TALLY_CLOSED;
}

/* How many are inside, about. */
static inline uint64_t rnl__tally_inside(struct rnl__tally *t)
{
	uint64_t left = rnl__tally_left(t), entered = rnl__tally_entered(t);

	return entered > left ? entered - left : 0;
}

/*
 * Enters @nr at once, or none: 0, -EAGAIN full, -ESHUTDOWN closed.  Other threads never count an entry
 * that is refused.
 */
static inline int rnl__tally_enter(struct rnl__tally *t, uint64_t nr)
{
	/* relaxed: an old value makes the tally look fuller, and `left` is read then */
	uint64_t left = atomic_load_explicit(&t->left_seen, memory_order_relaxed);
	uint64_t old = rnl__peek(&t->entered);

	do {
		if (old & RNL__TALLY_CLOSED)
			return -ESHUTDOWN;
		if (old - left + nr > t->limit) {
			left = rnl__tally_left(t);
			/* relaxed: another thread's older value does no harm */
			atomic_store_explicit(&t->left_seen, left, memory_order_relaxed);
			/* If more have left than `old` counts, it is out of date, and not exchanged. */
			if ((left <= old ? old - left : 0) + nr > t->limit)
				return -EAGAIN;
		}
		/* [tally.E1] acq_rel: on one word with the close; pairs with [tally.C1] */
	} while (!atomic_compare_exchange_weak_explicit(&t->entered, &old, old + nr,
							memory_order_acq_rel,
							memory_order_relaxed));
	return 0;
}

static inline void rnl__tally_leave(struct rnl__tally *t)
{
	/*
	 * [tally.L1] release: what leaves was counted elsewhere before, so that a drain
	 * counts it there or here; pairs with [tally.L2].
	 */
	atomic_fetch_add_explicit(&t->left, 1, memory_order_release);
}

static inline bool rnl__tally_has_space(struct rnl__tally *t)
{
	return rnl__tally_inside(t) < t->limit;
}

/* From now on rnl__tally_enter() refuses. */
static inline void rnl__tally_close(struct rnl__tally *t)
{
	/* [tally.C1] acq_rel: on one word with the entries; pairs with [tally.E1], [tally.C2] */
	atomic_fetch_or_explicit(&t->entered, RNL__TALLY_CLOSED, memory_order_acq_rel);
}

static inline bool rnl__tally_closed(struct rnl__tally *t)
{
	/* [tally.C2] acquire: what was closed and counted before; pairs with [tally.C1] */
	return atomic_load_explicit(&t->entered, memory_order_acquire) & RNL__TALLY_CLOSED;
}

#endif
