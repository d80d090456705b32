/* SPDX-License-Identifier: MIT */
/*
 * Structs that grow: how the struct of an older or newer program is read and written.  Its first
 * field, a uint32_t, is the size that the caller compiled.
 */
#ifndef RNL_ABI_H
#define RNL_ABI_H

#include <stddef.h>

/* The sizes of the first release; a struct only grows, at its end. */
enum {
	RNL__FIRST_BATCHER_ATTR	= 80,
	RNL__FIRST_BATCHER_STATS = 72,
	RNL__FIRST_DEVICE_INFO	= 104,
	RNL__FIRST_HEALTH	= 80,
	RNL__FIRST_MAP		= 128,
	RNL__FIRST_MAP_REPORT	= 88,
	RNL__FIRST_POOL_ATTR	= 160,
	RNL__FIRST_POOL_STATS	= 384,
	RNL__FIRST_TRACE_ATTR	= 24,
};

/* No struct comes near this: a larger size was never set. */
#define RNL__STRUCT_MAX 4096

/*
 * Reads a caller's struct of any size, @min (the first release's) or more, as the kernel's
 * copy_struct_from_user() does: fields that the caller does not know are 0.  NULL reads as all 0.
 * 0; -EINVAL too short, or far too long; -E2BIG fields are set that this library does not know.
 */
int rnl__copy_in(void *dst, size_t size, const void *src, size_t min);

/*
 * Whether a caller's struct can be filled in: 0; -EINVAL NULL, shorter than
 * @min (the first release's size), or far too long.
 */
int rnl__check_out(const void *dst, size_t min);

/* Fills in the caller's struct, as far as that goes; its size field stays. */
void rnl__copy_out(void *dst, const void *src, size_t size);

#endif
