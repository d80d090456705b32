/* SPDX-License-Identifier: MIT */
/* The size of the heap, which includes the host device's memory. */
#ifndef HEAP_H
#define HEAP_H

#include <malloc.h>
#include <stddef.h>

#include "sanitizers.h"

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/*
 * Returns the bytes in use; 0: unknown.  ThreadSanitizer's count may miss a large free() if another
 * thread ends at the same time: both add to one counter, under different locks.
 */
static inline size_t live_bytes(void)
{
	struct mallinfo2 info;

	if (__sanitizer_get_current_allocated_bytes && !THREAD_SANITIZED)
		return __sanitizer_get_current_allocated_bytes();
	if (SANITIZED)
		return 0;
	info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

#endif /* HEAP_H */
