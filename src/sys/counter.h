/* SPDX-License-Identifier: MIT */
/*
 * Where counters of few bits start: at 0, or in a build for tests so near their end that an
 * ordinary test goes over it.  docs/counters.md has them all.
 */
#ifndef RNL_COUNTER_H
#define RNL_COUNTER_H

#include <stdint.h>

/* The start of a counter of @bits bits, in a test build @left steps before it wraps to 0. */
#ifdef RNL__NEAR_WRAP
#define RNL__START(bits, left) ((UINT64_C(1) << (bits)) - (left))
#else
#define RNL__START(bits, left) UINT64_C(0)
#endif

#endif
