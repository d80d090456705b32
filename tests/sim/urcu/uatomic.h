/* SPDX-License-Identifier: MIT */
/* liburcu's atomics, visible to the simulator. */
#ifndef RNL_WEAK_UATOMIC_H
#define RNL_WEAK_UATOMIC_H
#include <urcu/arch.h>
#include <urcu/system.h>

/* Both are full barriers. */
#define uatomic_xchg(addr, v) ({ \
	cmm_smp_mb(); \
	__typeof__(*(addr)) was_ = __atomic_exchange_n(addr, v, __ATOMIC_RELAXED); \
	cmm_smp_mb(); \
	was_; })
#define uatomic_cmpxchg(addr, old, v) ({ \
	__typeof__(*(addr)) was_ = (old); \
	cmm_smp_mb(); \
	(void)__atomic_compare_exchange_n(addr, &was_, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
	cmm_smp_mb(); \
	was_; })
#endif
