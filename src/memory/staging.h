/* SPDX-License-Identifier: MIT */
/*
 * Copies from and to pageable memory, for which CUDA would hold the caller.
 *
 * DESIGN
 *	Such a copy goes through page-locked buffers, in pieces.  On the way in, the worker
 *	copies a piece to a buffer and issues the copy from there.  On the way out, it
 *	issues the copy into a buffer, and empties the buffer when the device has passed the
 *	copy, at the latest before the job is done.
 *	A ring has the pieces under way, in stream order, each with its job's sequence
 *	number: when a job is passed, so are its pieces.  If there are too many pieces, or
 *	bytes, the worker waits for the oldest piece: a large piece has an event for that,
 *	for a small one the worker waits for the stream.
 *	A copy that meets memory which a piece has yet to write waits for that piece, since the copy
 *	comes later in stream order.  Other copies of pageable memory are the device's own: CUDA
 *	holds the caller until they are done, and on a device that does not, this code waits.
 *	The worker's own thread alone uses this; others read the figure.
 */
#ifndef RNL_STAGING_H
#define RNL_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "memory/pinned.h"

struct rnl__piece;

struct rnl__staging {
	struct rnl__device *device;
	struct rnl__pinned *pinned;
	uint64_t max, bytes;		/* under way: at most, now */
	struct rnl__piece *pieces;	/* a ring; NULL: not used yet */
	unsigned first, nr, nr_out;
	uint64_t last_out;		/* sequence of the last job with a piece that goes out */
	struct rnl__event **spare;	/* events for pieces */
	unsigned nr_spare;
	_Atomic uint64_t staged;	/* bytes, ever */
};

void rnl__staging_init(struct rnl__staging *s, struct rnl__device *device,
		       struct rnl__pinned *pinned, uint64_t max);
void rnl__staging_fini(struct rnl__staging *s);

/*
 * Issues a copy for the job that will have sequence number @seq, through a buffer if one side
 * needs that.  0, or the device's error.
 */
int rnl__staging_copy(struct rnl__staging *s, uint64_t seq, const struct rnl__copy *copy);

/* Whether one of a copy's sides is pageable memory. */
bool rnl__staging_pageable(struct rnl__staging *s, const struct rnl__copy *copy);

/* Waits for the stream and empties all pieces; 0, -ETIMEDOUT, or the device's error. */
int rnl__staging_empty(struct rnl__staging *s, uint64_t deadline);

/*
 * Whether job @seq, the last one issued, has copies to pageable memory under way: no event on
 * the stream tells other threads when these are over, only the job's end does.
 */
static inline bool rnl__staging_owes(const struct rnl__staging *s, uint64_t seq)
{
	return s->nr_out && s->last_out == seq;
}

/* The device has passed all jobs up to @seq: empties their pieces. */
void rnl__staging_reached(struct rnl__staging *s, uint64_t seq);

/* A copy to a buffer was not issued after all: what is in the buffer is not copied out. */
void rnl__staging_leave_out(struct rnl__staging *s, const struct rnl__copy *copy);

/* The device has failed: puts all buffers, and copies nothing out. */
void rnl__staging_forget(struct rnl__staging *s);

#endif
