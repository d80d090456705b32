/* SPDX-License-Identifier: MIT */
/*
 * Full barriers, for the places where each of two threads writes, then reads
 * what the other wrote, and one of them must see the other (Dekker).
 */
#ifndef RNL_FENCE_H
#define RNL_FENCE_H

#include <urcu/arch.h>

/* Orders all before it against all after it; what pairs with it says why. */
static inline void rnl__full_barrier(void)
{
	/* where it stands, a comment names its partner */
	cmm_smp_mb();
}

/*
 * A full barrier after an atomic read-modify-write.  On x86 that was one; on
 * other machines a later load may still overtake the write's half of it.
 */
static inline void rnl__mb_after_rmw(void)
{
#if defined(__x86_64__) || defined(__i386__)
	cmm_barrier();
#else
	/* makes the exchange before it the full barrier that x86's is */
	cmm_smp_mb();
#endif
}

#endif
