/* SPDX-License-Identifier: MIT */
/* Spinning for a moment before a sleep. */
#ifndef RNL_SPIN_H
#define RNL_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/clock.h"

#define RNL__YIELD_FROM_NS 10000u	/* a spin of that length, or more, yields the CPU */

/*
 * Spins for @spin_ns, but not beyond the deadline, until @is says true; whether it did.  Yields:
 * the kernel may have put the awaited thread on this CPU, and that thread should run now, not
 * after the spin.  A short spin is over before that matters.
 */
static inline bool rnl__spin(bool (*is)(void *arg), void *arg, uint64_t spin_ns, uint64_t deadline)
{
	uint64_t now, until;

	if (is(arg))
		return true;
	now = rnl__now();
	if (!spin_ns || deadline <= now)
		return false;
	until = deadline - now < spin_ns ? deadline : now + spin_ns;
	do {
		for (int i = 0; i < 16; i++) {
			if (is(arg))
				return true;
			rnl__pause();
		}
		if (spin_ns >= RNL__YIELD_FROM_NS)
			sched_yield();
	} while (rnl__now() < until);
	return false;
}

#endif
