/* SPDX-License-Identifier: MIT */
/*
 * Start values of counters with few bits.  A counter starts at 0, or, in a test build, so near its
 * end that an ordinary test wraps it.  docs/counters.md lists the counters.
 */
#ifndef RNL_COUNTER_H
#define RNL_COUNTER_H

#include <stdint.h>

/* The start of a counter of @bits bits: in a test build, @left steps before it wraps to 0. */
#ifdef RNL__NEAR_WRAP
#define RNL__START(bits, left) ((UINT64_C(1) << (bits)) - (left))
#else
#define RNL__START(bits, left) UINT64_C(0)
#endif

#endif
