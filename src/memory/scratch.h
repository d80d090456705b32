/* SPDX-License-Identifier: MIT */
/*
 * A worker's scratch: device memory for the job that runs.
 *
 * DESIGN
 *	A stream runs one job after the other, so all its jobs can use one memory: a worker
 *	has a block, and gives each job pieces from the block's start, without a call of
 *	the device.  What a job needs beyond the block is allocated and freed in stream
 *	order; then a larger block takes the old one's place, up to `keep`.
 *	The worker's own thread alone uses this.
 */
#ifndef RNL_SCRATCH_H
#define RNL_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

struct rnl__scratch {
	struct rnl__device *device;
	uint64_t keep;			/* bytes that the block may have */
	void *block;
	size_t block_bytes;
	size_t used;			/* of the block, by the job that runs */
	size_t wanted;			/* by that job in all */
	void **extra;			/* what that job has beside the block */
	size_t nr_extra, space_extra;
};

void rnl__scratch_init(struct rnl__scratch *s, struct rnl__device *device, uint64_t keep);

/* Gives the block back, in stream order. */
void rnl__scratch_fini(struct rnl__scratch *s);

/* @bytes for the job that runs; 0, -ENOMEM, -EIO. */
int rnl__scratch_get(struct rnl__scratch *s, size_t bytes, void **memp);

/* The job that runs, which got scratch, has issued all its work. */
void rnl__scratch_end(struct rnl__scratch *s);

#endif
