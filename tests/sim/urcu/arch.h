/* SPDX-License-Identifier: MIT */
/* liburcu's barriers, as the simulator sees them: x86's are no instructions of its. */
#include_next <urcu/arch.h>
#include <stdatomic.h>

#undef cmm_smp_mb
#undef cmm_smp_rmb
#undef cmm_smp_wmb
#undef cmm_barrier
#define cmm_smp_mb() atomic_thread_fence(memory_order_seq_cst)
#define cmm_smp_rmb() atomic_thread_fence(memory_order_acquire)
#define cmm_smp_wmb() atomic_thread_fence(memory_order_release)
#define cmm_barrier() cmm_smp_mb()	/* of rnl__mb_after_rmw(): as where it is one */

/* lane.h is to have the fence, not the words to ThreadSanitizer in its place. */
#undef __has_feature
#define __has_feature(x) 0

#ifdef RNL__SIMULATION
#include "sys/simulation.h"
#undef caa_cpu_relax
#define caa_cpu_relax() rnl__sim_pause()
#endif
