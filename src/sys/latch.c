/* SPDX-License-Identifier: MIT */
/* Waiting for a latch; latch.h has the protocol. */
#include "config.h"

#include <sched.h>

#include "sys/latch.h"

#define YIELD_FROM_NS 10000u	/* a spin of that length, or more, yields the CPU */

/*
 * Spins, and yields: the kernel may have put the awaited thread on this CPU, and that thread
 * should run now, not after the spin.  A short spin is over before that matters.
 */
static bool spin(_Atomic uint32_t *latch, uint64_t until, bool yields)
{
	do {
		for (int i = 0; i < 16; i++) {
			if (rnl__latch_open(latch))
				return true;
			rnl__pause();
		}
		if (yields)
			sched_yield();
	} while (rnl__now() < until);
	return false;
}

int rnl__latch_wait(_Atomic uint32_t *latch, uint64_t spin_ns, uint64_t deadline)
{
	uint64_t now;
	uint32_t word;

	if (rnl__latch_open(latch))
		return 0;
	now = rnl__now();
	if (deadline <= now)
		return -ETIMEDOUT;
	if (spin_ns && spin(latch, deadline - now < spin_ns ? deadline : now + spin_ns,
			    spin_ns >= YIELD_FROM_NS))
		return 0;
	for (;;) {
		if (!rnl__latch_watch(latch))
			break;
		/* relaxed: the kernel compares it again */
		word = atomic_load_explicit(latch, memory_order_relaxed);
		if (word < RNL__LATCH_ONE || !(word & RNL__LATCH_SLEEPER))
			continue;
		if (rnl__futex_wait(latch, word, deadline) == -ETIMEDOUT) {
			if (rnl__latch_open(latch))
				break;
			return -ETIMEDOUT;
		}
	}
	rnl__latch_unwatch(latch);
	return 0;
}
