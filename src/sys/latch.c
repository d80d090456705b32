/* SPDX-License-Identifier: MIT */
/* Waits for a latch; latch.h has the protocol. */
#include "config.h"

#include "sys/latch.h"
#include "sys/spin.h"
#include "sys/tsan.h"

static bool is_open(void *latch)
{
	return rnl__latch_open(latch);
}

int rnl__latch_wait(_Atomic uint32_t *latch, uint64_t spin_ns, uint64_t deadline)
{
	uint32_t word;

	if (rnl__spin(is_open, latch, spin_ns, deadline))
		return 0;
	if (deadline <= rnl__now())
		return rnl__latch_open(latch) ? 0 : -ETIMEDOUT;
	for (;;) {
		if (!rnl__latch_watch(latch))
			break;
		/* relaxed: the kernel compares the word again */
		word = atomic_load_explicit(latch, memory_order_relaxed);
		if (word < RNL__LATCH_ONE || !(word & RNL__LATCH_SLEEPER))
			continue;
		if (rnl__futex_wait(latch, word, deadline) == -ETIMEDOUT) {
			if (rnl__latch_open(latch))
				break;
			return -ETIMEDOUT;
		}
	}
	rnl__tsan_acquire(latch);
	rnl__latch_unwatch(latch);
	return 0;
}
