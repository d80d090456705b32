/* SPDX-License-Identifier: MIT */
/*
 * Large copies that are cut in pieces, so that a copy engine serves other streams in between.
 *
 * DESIGN
 *	A copy engine serves one stream for as long as this stream has a next copy queued, and knows no
 *	priorities: a small copy of another stream starves until then, even if all copies are short,
 *	and even if they wait for each other on the device (measured on an H200).  Only an engine that
 *	runs out of copies takes the next stream's.
 *	So the host issues one piece at a time, and waits for its end.  The large copies of a device
 *	and a direction take turns: one thread has the turn, and no other has a piece under way.
 *	A thread takes the turn when its stream has done everything else, so that no other copy waits
 *	for its kernels.  It keeps the turn for its whole copy, because a hand-over takes longer than a
 *	piece's gap, unless a thread of a smaller rank waits, or it has issued many pieces.
 *	CUDA spins while it waits for a stream.  A thread sleeps for half of what the last piece took,
 *	then waits.
 */
#ifndef RNL_CUT_H
#define RNL_CUT_H

#include <pthread.h>
#include <stdbool.h>

#include "device/device.h"

#define RNL__CUT_BYTES (8u << 20)	/* of a piece of a large copy; a copy of more is large */
#define RNL__CUT_PIECES 16u	/* that a thread issues in its turn while others wait */

struct rnl__cut_waiter;

/* The turn of large copies of one direction, to or from one device. */
struct rnl__cut_turn {
	pthread_mutex_t lock;
	bool taken;			/* if not, no thread waits */
	struct rnl__cut_waiter *first;	/* threads that wait: by rank, then in their order */
	uint64_t piece_ns;		/* what a whole piece takes, by the last one; of the turn's thread */
};

/* Large copies of a device: to it, from it. */
struct rnl__cut {
	struct rnl__cut_turn in, out;
};

void rnl__cut_init(struct rnl__cut *cut);
void rnl__cut_fini(struct rnl__cut *cut);

/* Issues a piece of a copy. */
typedef int rnl__cut_fn(const struct rnl__copy *piece, void *arg);

/* Calls @issue for pieces of at most @max bytes, in their order.  Returns 0 or the first error. */
int rnl__cut_each(const struct rnl__copy *copy, size_t max, rnl__cut_fn *issue, void *arg);

/*
 * Makes a large copy in pieces, and waits for it.  @rank: among those that wait for the turn, the
 * smallest goes first.  Returns 0 or the device's error.
 */
int rnl__cut_copy(struct rnl__cut_turn *turn, unsigned rank, const struct rnl__copy *copy);

#endif
