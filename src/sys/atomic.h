/* SPDX-License-Identifier: MIT */
/*
 * Atomic access to the fields of public structs, which are plain integers because the public header
 * is also C++.
 */
#ifndef RNL_ATOMIC_H
#define RNL_ATOMIC_H

#include <stdatomic.h>

#define RNL__CACHE_LINE 64

/* Casts &public_field to the type that <stdatomic.h> takes. */
#define rnl__atomic(ptr) ((_Atomic __typeof__(*(ptr)) *)(ptr))

/*
 * Figures are counters that order nothing.  Only one thread may use figure_add() on a counter;
 * several threads use figure_add_any().
 */
#define rnl__figure_read(ptr) \
	/* relaxed: a figure orders nothing */ \
	atomic_load_explicit(ptr, memory_order_relaxed)
#define rnl__figure_write(ptr, value) \
	/* relaxed: a figure orders nothing */ \
	atomic_store_explicit(ptr, value, memory_order_relaxed)
#define rnl__figure_add(ptr, n) rnl__figure_write(ptr, rnl__figure_read(ptr) + (n))
#define rnl__figure_add_any(ptr, n) \
	/* relaxed: a figure orders nothing */ \
	(void)atomic_fetch_add_explicit(ptr, n, memory_order_relaxed)

/* Reads a word that only this thread writes, or that a lock protects. */
#define rnl__own_read(ptr) \
	/* relaxed: the store was this thread's, or the lock orders it */ \
	atomic_load_explicit(ptr, memory_order_relaxed)

/* Reads the first expected value of a compare-exchange. */
#define rnl__peek(ptr) \
	/* relaxed: the exchange decides, and orders */ \
	atomic_load_explicit(ptr, memory_order_relaxed)

#endif
