/* SPDX-License-Identifier: MIT */
/*
 * Copies from and to pageable memory, for which CUDA would block the caller.
 *
 * DESIGN
 *	Such a copy goes through page-locked buffers, in pieces.  On the way in, the worker copies a
 *	piece to a buffer and issues the copy from there.  On the way out, it issues the copy into a
 *	buffer, and empties the buffer when the device has completed the copy, at the latest before
 *	the job is done.
 *	A ring holds the pieces under way, in stream order, each with its job's sequence number:
 *	when the device has completed a job, it has completed the job's pieces.  If there are too
 *	many pieces or bytes, the worker waits for the oldest piece.  A large piece has an event for
 *	that; for a small piece, the worker waits for a later event, or for the stream.
 *	If a piece has not written to its memory yet, a copy that touches this memory waits for the
 *	piece.  All other copies of pageable memory are left to the device.  CUDA blocks the caller
 *	until they are done; on a device that does not block, this code waits.
 *	Only the worker's own thread uses this; other threads read the figure.
 */
#ifndef RNL_STAGING_H
#define RNL_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "memory/cut.h"
#include "memory/pinned.h"

struct rnl__piece;

struct rnl__staging {
	struct rnl__device *device;
	struct rnl__pinned *pinned;
	uint64_t max, bytes;		/* bytes under way: limit, current */
	struct rnl__piece *pieces;	/* a ring; NULL: not used yet */
	unsigned first, nr, nr_out;
	uint64_t last_out;		/* sequence of the last job with a piece that goes out */
	struct rnl__event **spare;	/* unused events for pieces */
	unsigned nr_spare;
	_Atomic uint64_t staged;	/* figure: bytes since the start */
};

void rnl__staging_init(struct rnl__staging *s, struct rnl__device *device,
		       struct rnl__pinned *pinned, uint64_t max);
void rnl__staging_fini(struct rnl__staging *s);

/*
 * Issues a copy for the job that will have sequence number @seq, through buffers if one side needs
 * them.  @cut: it is large, and is cut if the device makes it, with @rank; NULL: it is not.  Sets
 * @copy->ours.  Returns 0 or the device's error.
 */
int rnl__staging_copy(struct rnl__staging *s, uint64_t seq, struct rnl__copy *copy,
		      struct rnl__cut *cut, unsigned rank);

/* Returns true if one side of the copy is pageable memory. */
bool rnl__staging_pageable(struct rnl__staging *s, const struct rnl__copy *copy);

/* Waits for the stream and empties all pieces.  Returns 0, -ETIMEDOUT or the device's error. */
int rnl__staging_empty(struct rnl__staging *s, uint64_t deadline);

/*
 * Returns true if job @seq, the last one issued, has copies to pageable memory under way.  No event
 * on the stream shows other threads when these are complete; only the job's end does.
 */
static inline bool rnl__staging_owes(const struct rnl__staging *s, uint64_t seq)
{
	return s->nr_out && s->last_out == seq;
}

/* Empties the pieces of all jobs up to @seq, which the device has completed. */
void rnl__staging_reached(struct rnl__staging *s, uint64_t seq);

/* Cancels the copy out of a buffer, because the copy into the buffer was not issued. */
void rnl__staging_leave_out(struct rnl__staging *s, const struct rnl__copy *copy);

/* Puts all buffers back and copies nothing out, because the device has failed. */
void rnl__staging_forget(struct rnl__staging *s);

#endif
