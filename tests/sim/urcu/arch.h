/* SPDX-License-Identifier: MIT */
/* liburcu's barriers for the simulator, which does not see x86's instructions. */
#include_next <urcu/arch.h>
#include <stdatomic.h>

#undef cmm_smp_mb
#undef cmm_smp_rmb
#undef cmm_smp_wmb
#undef cmm_barrier
#define cmm_smp_mb() atomic_thread_fence(memory_order_seq_cst)
#define cmm_smp_rmb() atomic_thread_fence(memory_order_acquire)
#define cmm_smp_wmb() atomic_thread_fence(memory_order_release)
#define cmm_barrier() cmm_smp_mb()	/* rnl__mb_after_rmw() must be a fence here, as on ARM */

/* lane.h must use the fence instead of ThreadSanitizer's annotations. */
#undef __has_feature
#define __has_feature(x) 0

#ifdef RNL__SIMULATION
#include "sys/simulation.h"
#undef caa_cpu_relax
#define caa_cpu_relax() rnl__sim_pause()
#endif
