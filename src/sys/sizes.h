/* SPDX-License-Identifier: MIT */
/* Arithmetic on sizes and on ranges of memory. */
#ifndef RNL_SIZES_H
#define RNL_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t rnl__smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t rnl__larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Rounds up to a multiple of @unit; a size close to SIZE_MAX becomes 0. */
static inline size_t rnl__round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* Returns true if two ranges have a byte in common. */
static inline bool rnl__overlaps(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
	return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

#endif
