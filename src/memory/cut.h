/* SPDX-License-Identifier: MIT */
/*
 * Copies that are cut in pieces, so that a copy engine has something else to do in between.
 *
 * DESIGN
 *	A copy engine ends the copy that it has begun, and knows no priorities.  So a small copy waits
 *	for a large one, or for one of each stream that has any.  If a large copy is cut, and the
 *	large copies of one direction take turns, it waits for one piece.
 *	A turn is an event, which is recorded after the last piece of a copy.  The stream of the next
 *	copy waits for it, before the first piece.  A stream's own pieces are in order anyway, so
 *	there is one wait and one record for each copy.
 *	The event is recorded in one stream after the other, each time after a wait for the last time.
 *	The lock is held while a copy is issued: so the copies' order is one.
 */
#ifndef RNL_CUT_H
#define RNL_CUT_H

#include <pthread.h>

#include "device/device.h"

#define RNL__CUT_BYTES (2u << 20)	/* of a piece of a large copy; a copy of more is large */

/* Large copies of one direction, to or from one device. */
struct rnl__turns {
	pthread_mutex_t lock;
	struct rnl__event *last;	/* after the last copy; NULL: there was none */
	const struct rnl__stream *stream; /* that copy's; for comparison only */
};

/* Large copies of a device: to it, from it. */
struct rnl__cut {
	struct rnl__turns in, out;
};

void rnl__cut_init(struct rnl__cut *cut);
void rnl__cut_fini(struct rnl__cut *cut, struct rnl__device *device);

/* Issues a piece of a copy. */
typedef int rnl__cut_fn(const struct rnl__copy *piece, void *arg);

/* Calls @issue for pieces of at most @max bytes, in their order.  Returns 0 or the first error. */
int rnl__cut_each(const struct rnl__copy *copy, size_t max, rnl__cut_fn *issue, void *arg);

/* Issues a large copy in its turn, in pieces.  Returns 0, -ENOMEM or the device's error. */
int rnl__cut_copy(struct rnl__turns *turns, const struct rnl__copy *copy);

#endif
