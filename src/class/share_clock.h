/* SPDX-License-Identifier: MIT */
/*
 * A device's time as its busy workers share it: while n workers are busy, each uses 1/n of it.
 *
 * DESIGN
 *	The clock advances by 1/n ns each ns; while no worker is busy, it stands.  So what a worker
 *	uses between two readings is the integral of 1/n.  The readings of all workers together add
 *	up to the time in which the device was busy.
 *	One word has n, and an offset c: the clock shows now / n + c.  A change of n changes c, so
 *	that the clock does not jump.  Differences are taken modulo 2^53, 104 days.
 *	A GPU does not say when a job's kernels ran, only when its stream came to the job's end.
 *	If jobs run concurrently, a job has used this clock's time since the end before on its
 *	stream.  If they run one at a time, because each fills the device, it has used the time
 *	since the last end on any stream.  Both measures add up to the same, and the wrong one gives
 *	each function about the mean.  So that is taken by which the means of functions differ more:
 *	cost.h.  Concurrent jobs that end together look serial, but then their times are farther
 *	from their function's mean than that is from other functions'.
 */
#ifndef RNL_CLASS_SHARE_CLOCK_H
#define RNL_CLASS_SHARE_CLOCK_H

#include <stdint.h>

#include <runnel.h>

#include "sys/atomic.h"

#define RNL__SHARE_BITS 11u	/* n is RNL_WORKERS_MAX at most */
#define RNL__SHARE_MASK (UINT64_MAX >> RNL__SHARE_BITS)

_Static_assert(RNL_WORKERS_MAX < 1 << RNL__SHARE_BITS, "the number of busy workers fits");

struct rnl__share_clock {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t word; /* n << 53 | c */
	_Atomic uint64_t ended;		/* the time of the last end, or when the device became busy */
	/* Of the last jobs: the mean, and how far the functions' means of each measure are from it. */
	_Atomic float mean, serial_differ, concurrent_differ;
	_Atomic float serial_vary;	/* how far jobs are from their function's serial mean */
};

static inline uint64_t rnl__share_clock_at(uint64_t word, uint64_t now)
{
	const uint64_t n = word >> (64 - RNL__SHARE_BITS);

	return ((n ? now / n : 0) + word) & RNL__SHARE_MASK;
}

/* Returns the clock's time at @now. */
static inline uint64_t rnl__share_clock_read(struct rnl__share_clock *clock, uint64_t now)
{
	/* relaxed: figures of time order nothing */
	return rnl__share_clock_at(atomic_load_explicit(&clock->word, memory_order_relaxed), now);
}

/* Returns how many workers are busy. */
static inline unsigned rnl__share_clock_busy(struct rnl__share_clock *clock)
{
	return (unsigned)(rnl__figure_read(&clock->word) >> (64 - RNL__SHARE_BITS));
}

/* Returns the time from one reading to a later one. */
static inline uint64_t rnl__share_clock_since(uint64_t later, uint64_t earlier)
{
	const uint64_t ns = (later - earlier) & RNL__SHARE_MASK;

	/* Threads read the time and the word at different moments: a reading may be behind. */
	return ns > RNL__SHARE_MASK / 2 ? 0 : ns;
}

/* A job's end is seen at @now: returns the time since the end before on the device. */
static inline uint64_t rnl__share_clock_end(struct rnl__share_clock *clock, uint64_t now)
{
	uint64_t old = rnl__peek(&clock->ended);

	while (old < now) {
		/* relaxed: see rnl__share_clock_read() */
		if (atomic_compare_exchange_weak_explicit(&clock->ended, &old, now, memory_order_relaxed,
							  memory_order_relaxed))
			return now - old;
	}
	return 0;
}

/* Counts a worker that becomes busy, or (@change -1) idle.  Returns the clock's time. */
static inline uint64_t rnl__share_clock_change(struct rnl__share_clock *clock, int change,
					       uint64_t now)
{
	uint64_t old = rnl__peek(&clock->word), at, n;

	do {
		at = rnl__share_clock_at(old, now);
		n = (old >> (64 - RNL__SHARE_BITS)) + (uint64_t)(int64_t)change;
		/* relaxed: see rnl__share_clock_read() */
	} while (!atomic_compare_exchange_weak_explicit(
		&clock->word, &old,
		n << (64 - RNL__SHARE_BITS) | ((at - (n ? now / n : 0)) & RNL__SHARE_MASK),
		memory_order_relaxed, memory_order_relaxed));
	if (!(old >> (64 - RNL__SHARE_BITS)))
		(void)rnl__share_clock_end(clock, now);
	return at;
}

#endif
