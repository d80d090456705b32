/* SPDX-License-Identifier: MIT */
/*
 * Full barriers, for the places where each of two threads writes, then reads
 * what the other wrote, and one of them must see the other (Dekker).
 */
#ifndef RNL_FENCE_H
#define RNL_FENCE_H

#include <urcu/arch.h>

/* Orders all accesses before it against all after it. */
static inline void rnl__full_barrier(void)
{
	/* a comment at each call names the partner */
	cmm_smp_mb();
}

/*
 * A full barrier after an atomic read-modify-write.  On x86 the read-modify-write is one already;
 * on other machines a later load may overtake its write.
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
