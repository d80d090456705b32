/* SPDX-License-Identifier: MIT */
/* liburcu's shared loads and stores, visible to the simulator. */
#include_next <urcu/system.h>

#undef CMM_LOAD_SHARED
#undef CMM_STORE_SHARED
#define CMM_LOAD_SHARED(p) __atomic_load_n(&(p), __ATOMIC_RELAXED)
#define CMM_STORE_SHARED(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
