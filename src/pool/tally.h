/* SPDX-License-Identifier: MIT */
/*
 * Tally: counts entries and exits; the difference may be bounded, and the entrance closed.
 *
 * DESIGN
 *	The two words only grow, except if an entry is taken back, so a drain can compare sums of
 *	several tallies and queues: a job that moves to a queue is counted there before it leaves
 *	here.  `entered` has the CLOSED bit, so an entry during a close is counted or refused.
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
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t entered; /* entries so far, | CLOSED */
	_Atomic uint64_t left_seen;	/* `left`, as an entry last saw it */
	uint64_t limit;			/* most inside; constant once in use */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t left; /* exits so far */
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

/* Returns how many left so far. */
static inline uint64_t rnl__tally_left(struct rnl__tally *t)
{
	/* [tally.L2] acquire: jobs that left are counted elsewhere; pairs with [tally.L1] */
	return atomic_load_explicit(&t->left, memory_order_acquire);
}

/* Returns how many entered so far; read it after rnl__tally_left() to compare the two. */
static inline uint64_t rnl__tally_entered(struct rnl__tally *t)
{
	/* relaxed: the caller's barrier orders it, see rnl_pool_drain() */
	return atomic_load_explicit(&t->entered, memory_order_relaxed) & ~RNL__TALLY_CLOSED;
}

/* Returns about how many are inside. */
static inline uint64_t rnl__tally_inside(struct rnl__tally *t)
{
	uint64_t left = rnl__tally_left(t), entered = rnl__tally_entered(t);

	return entered > left ? entered - left : 0;
}

/*
 * Enters all of @nr or none.  Returns 0, -EAGAIN if full, or -ESHUTDOWN if closed.  Other threads
 * never count a refused entry.
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
			/* If `left` is above `old`, `old` is outdated: the exchange will fail. */
			if ((left <= old ? old - left : 0) + nr > t->limit)
				return -EAGAIN;
		}
		/* [tally.E1] acq_rel: on one word with the close; pairs with [tally.C1] */
	} while (!atomic_compare_exchange_weak_explicit(&t->entered, &old, old + nr,
							memory_order_acq_rel,
							memory_order_relaxed));
	return 0;
}

/* Enters one, even if the entrance is closed. */
static inline void rnl__tally_enter_always(struct rnl__tally *t)
{
	/* [tally.E2] acq_rel: counted before it leaves another tally; pairs with [tally.L1] */
	atomic_fetch_add_explicit(&t->entered, 1, memory_order_acq_rel);
}

static inline void rnl__tally_leave(struct rnl__tally *t)
{
	/*
	 * [tally.L1] release: a job that leaves was counted elsewhere before, so a drain counts it
	 * there or here; pairs with [tally.L2].
	 */
	atomic_fetch_add_explicit(&t->left, 1, memory_order_release);
}

static inline bool rnl__tally_has_space(struct rnl__tally *t)
{
	return rnl__tally_inside(t) < t->limit;
}

/* Makes rnl__tally_enter() refuse from now on. */
static inline void rnl__tally_close(struct rnl__tally *t)
{
	/* [tally.C1] acq_rel: on one word with the entries; pairs with [tally.E1], [tally.C2] */
	atomic_fetch_or_explicit(&t->entered, RNL__TALLY_CLOSED, memory_order_acq_rel);
}

static inline bool rnl__tally_closed(struct rnl__tally *t)
{
	/* [tally.C2] acquire: earlier closes and counts; pairs with [tally.C1] */
	return atomic_load_explicit(&t->entered, memory_order_acquire) & RNL__TALLY_CLOSED;
}

#endif
