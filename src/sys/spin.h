/* SPDX-License-Identifier: MIT */
/* Spins briefly before a sleep. */
#ifndef RNL_SPIN_H
#define RNL_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/clock.h"

#define RNL__YIELD_FROM_NS 10000u	/* a spin this long or longer yields the CPU */

/*
 * Spins until @is returns true, for @spin_ns at most and not past the deadline.  Returns true if
 * @is did.  A long spin yields: the kernel may have put the awaited thread on this CPU, and that
 * thread should run now.  A short spin ends before that matters.
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
