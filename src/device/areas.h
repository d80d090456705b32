/* SPDX-License-Identifier: MIT */
/*
 * Areas: the memory that the library has from a device, so that it knows an address of its own
 * without a question to the driver.
 *
 * DESIGN
 *	The areas stand in an array, in the order of their addresses, and a reader searches it by
 *	halves.  A writer has the lock.  It counts `round` before and after a change, so an odd
 *	round, or one that has changed, tells a reader that it saw a change: it takes the address
 *	for unknown, and does not wait.  An area that comes or goes is not that reader's.
 *	If there are more areas than the array takes, those are unknown.
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
	_Atomic uint64_t round;		/* odd: a change */
	_Atomic uint32_t nr;
	struct rnl__area list[RNL__AREAS_MAX];
};

void rnl__areas_add(struct rnl__areas *r, const void *mem, size_t bytes);
void rnl__areas_drop(struct rnl__areas *r, const void *mem);

/* Whether one area has all these bytes. */
bool rnl__areas_hold(const struct rnl__areas *r, const void *mem, size_t bytes);

#endif
