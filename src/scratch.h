/* SPDX-License-Identifier: MIT */
/*
 * A worker's scratch: device memory for the job that runs.
 *
 * DESIGN
 *	A stream does its jobs one after the other, so they can all use the
 *	same memory: a worker has one block, each job is given pieces of it from
 *	its start, and that costs no call to the device.  What a job needs
 *	beyond the block is allocated and freed in stream order; afterwards the
 *	block is replaced by a larger one, up to what the pool lets it keep.
 *	The worker's own thread alone uses this.
 */
#ifndef RNL_SCRATCH_H
#define RNL_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"

struct rnl__scratch {
	struct rnl__device *device;
	uint64_t keep;			/* bytes the block may have */
	void *block;
	size_t block_bytes;
	size_t used;			/* of the block, by the job that runs */
	size_t wanted;			/* by it in all */
	void **extra;			/* what it has beside the block */
	unsigned nr_extra, room_extra;
};

void rnl__scratch_init(struct rnl__scratch *s, struct rnl__device *device, uint64_t keep);

/* Gives the block back, in stream order. */
void rnl__scratch_fini(struct rnl__scratch *s);

/* @bytes for the job that runs; 0, -ENOMEM, -EIO. */
int rnl__scratch_get(struct rnl__scratch *s, size_t bytes, void **memp);

/* The job, which wanted some, has issued all it will. */
void rnl__scratch_end(struct rnl__scratch *s);

#endif
