/* SPDX-License-Identifier: MIT */
/*
 * Full barriers, for two threads that each write one word, then read the other thread's word: one
 * of the threads must see the other's write (Dekker).
 */
#ifndef RNL_FENCE_H
#define RNL_FENCE_H

#include <urcu/arch.h>

/* Orders all accesses before it against all accesses after it. */
static inline void rnl__full_barrier(void)
{
	/* a comment at each call names the partner */
	cmm_smp_mb();
}

/*
 * A full barrier after an atomic read-modify-write.  On x86 the read-modify-write is a full barrier
 * already; on other machines a later load may overtake its write.
 */
static inline void rnl__mb_after_rmw(void)
{
#if defined(__x86_64__) || defined(__i386__)
	cmm_barrier();
#else
	/* makes the exchange before it a full barrier, as on x86 */
	cmm_smp_mb();
#endif
}

#endif
