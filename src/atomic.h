/* SPDX-License-Identifier: MIT */
/*
 * Atomics on the fields of public structs, which are plain integers because
 * the public header is also C++.
 */
#ifndef RNL_ATOMIC_H
#define RNL_ATOMIC_H

#include <stdatomic.h>

#define RNL__CACHE_LINE 64

/* &public_field, as what <stdatomic.h> takes. */
#define rnl__atomic(ptr) ((_Atomic __typeof__(*(ptr)) *)(ptr))

/* Adds to a counter that only this thread writes, and others may read. */
#define rnl__count(ptr, n) \
	/* relaxed: a figure, it orders nothing */ \
	atomic_store_explicit(ptr, atomic_load_explicit(ptr, memory_order_relaxed) + (n), \
			      memory_order_relaxed)

#endif
