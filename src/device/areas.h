/* SPDX-License-Identifier: MIT */
/*
 * Areas: the library's device memory by address.  The library recognises an address of its own
 * without asking the driver.
 *
 * DESIGN
 *	The areas are in an array, sorted by address.  A reader does a binary search.  A writer
 *	holds the lock, and increments `round` before and after a change.  A reader that sees an odd
 *	round, or a changed one, reports the address as unknown instead of waiting.  A reader asks
 *	about memory in use, which is never the area that a writer adds or removes.
 *	Areas that do not fit into the array are unknown.
 */
#ifndef RNL_AREAS_H
#define RNL_AREAS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define RNL__AREAS_MAX 4096u

struct rnl__area {
	_Atomic uintptr_t begin, bytes;
};

struct rnl__areas {
	pthread_mutex_t lock;
	_Atomic uint64_t round;		/* odd: a change is under way */
	_Atomic uint32_t nr;
	struct rnl__area list[RNL__AREAS_MAX];
};

void rnl__areas_add(struct rnl__areas *r, const void *mem, size_t bytes);
void rnl__areas_drop(struct rnl__areas *r, const void *mem);

/* Returns true if one area contains all these bytes. */
bool rnl__areas_hold(const struct rnl__areas *r, const void *mem, size_t bytes);

#endif
