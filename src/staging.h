/* SPDX-License-Identifier: MIT */
/*
 * Copies from and to pageable memory, which CUDA would hold the caller for.
 *
 * DESIGN
 *	Such a copy goes through page-locked buffers, in pieces: on the way in,
 *	the worker copies a piece to a buffer and issues the copy from there;
 *	on the way out it issues the copy into a buffer, and empties that when
 *	the device has passed it, at the latest before the job is done.
 *	Pieces under way are in a ring, in the order of the stream, each with
 *	the number of its job: when a job is passed, so are its pieces.  If they
 *	are too many, or their buffers, the worker waits for the oldest:
 *	large ones have an event for that, small ones wait for the stream.
 *	A copy that meets memory which such a piece has yet to write waits for
 *	the piece: in the stream's order it comes after.  Other copies of
 *	pageable memory are the device's own: it holds us until they are done,
 *	and so does this where it does not.
 *	The worker's own thread alone uses this, but for the figure.
 */
#ifndef RNL_STAGING_H
#define RNL_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"
#include "device.h"
#include "pinned.h"

struct rnl__piece;

struct rnl__staging {
	struct rnl__device *device;
	struct rnl__pinned *pinned;
	uint64_t max;			/* bytes under way */
	uint64_t bytes;			/* that are */
	struct rnl__piece *pieces;	/* a ring; NULL: not used yet */
	unsigned first, nr, nr_out;
	uint64_t last_out;		/* the job of the last piece that goes out */
	struct rnl__event **spare;	/* events for pieces */
	unsigned nr_spare;
	_Atomic uint64_t staged;	/* bytes, ever */
};

void rnl__staging_init(struct rnl__staging *s, struct rnl__device *device,
		       struct rnl__pinned *pinned, uint64_t max);
void rnl__staging_fini(struct rnl__staging *s);

/*
 * Issues a copy for the job that will have number @seq on the stream, through a
 * buffer if one of its sides needs that.  0, or the device's error.
 */
int rnl__staging_copy(struct rnl__staging *s, uint64_t seq, const struct rnl__copy *copy);

/* Whether one of a copy's sides is pageable memory. */
bool rnl__staging_pageable(struct rnl__staging *s, const struct rnl__copy *copy);

/* Completes all pieces, which waits for the stream; 0, -ETIMEDOUT, or the device's error. */
int rnl__staging_settle(struct rnl__staging *s, uint64_t deadline);

/*
 * Whether job @seq, the last one issued, has copies to pageable memory under way: no
 * event tells others of these, that it is done does.
 */
static inline bool rnl__staging_owes(const struct rnl__staging *s, uint64_t seq)
{
	return s->nr_out && s->last_out == seq;
}

/* The device has passed all jobs up to @seq: their copies are completed. */
void rnl__staging_passed(struct rnl__staging *s, uint64_t seq);

/* The device has failed: gives all buffers back, with nothing copied out. */
void rnl__staging_forget(struct rnl__staging *s);

#endif
