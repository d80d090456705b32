/* SPDX-License-Identifier: MIT */
/*
 * Structs that grow: reads and writes the struct of an older or newer program.  The first field of
 * such a struct, a uint32_t, is the size that the caller compiled.
 */
#ifndef RNL_ABI_H
#define RNL_ABI_H

#include <stddef.h>

/* The sizes of the first release; a struct only grows, at its end. */
enum {
	RNL__FIRST_BATCHER_ATTR	= 88,
	RNL__FIRST_BATCHER_STATS = 72,
	RNL__FIRST_CLASS_ATTR	= 64,
	RNL__FIRST_CLASS_STATS	= 112,
	RNL__FIRST_DEVICE_INFO	= 104,
	RNL__FIRST_HEALTH	= 80,
	RNL__FIRST_MAP		= 136,
	RNL__FIRST_MAP_REPORT	= 88,
	RNL__FIRST_POOL_ATTR	= 168,
	RNL__FIRST_POOL_STATS	= 384,
	RNL__FIRST_TRACE_ATTR	= 24,
};

/* No struct is nearly this large: a larger size field was never initialised. */
#define RNL__STRUCT_MAX 4096

/*
 * Reads a caller's struct of @min bytes (the first release's size) or more, like the kernel's
 * copy_struct_from_user(): fields beyond the caller's size become 0.  NULL reads as all 0.
 * Returns 0, -EINVAL: too short or far too long, or -E2BIG: a field unknown to this library is set.
 */
int rnl__copy_in(void *dst, size_t size, const void *src, size_t min);

/*
 * Returns 0 if a caller's struct can be filled in, or -EINVAL if it is NULL, shorter than @min (the
 * first release's size), or far too long.
 */
int rnl__check_out(const void *dst, size_t min);

/* Fills in the caller's struct up to its size.  Leaves its size field. */
void rnl__copy_out(void *dst, const void *src, size_t size);

#endif
