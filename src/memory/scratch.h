/* SPDX-License-Identifier: MIT */
/*
 * A worker's scratch: device memory for the running job.
 *
 * DESIGN
 *	A stream runs one job after the other, so all its jobs can use the same memory.  A worker
 *	has a block, and gives each job pieces from the block's start, without a call of the device.
 *	Memory beyond the block is allocated and freed in stream order; at the job's end, a larger
 *	block replaces the old one, up to `keep` bytes.
 *	Only the worker's own thread uses this.
 */
#ifndef RNL_SCRATCH_H
#define RNL_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

struct rnl__scratch {
	struct rnl__device *device;
	uint64_t keep;			/* most bytes of the block */
	void *block;
	size_t block_bytes;
	size_t used;			/* bytes of the block that the running job uses */
	size_t wanted;			/* bytes that the running job got in all */
	void **extra;			/* the running job's memory outside the block */
	size_t nr_extra, space_extra;
};

void rnl__scratch_init(struct rnl__scratch *s, struct rnl__device *device, uint64_t keep);

/* Frees the block, in stream order. */
void rnl__scratch_fini(struct rnl__scratch *s);

/* Gets @bytes for the running job.  Returns 0, -ENOMEM or -EIO. */
int rnl__scratch_get(struct rnl__scratch *s, size_t bytes, void **memp);

/* Ends the running job, which got scratch and has issued all its work. */
void rnl__scratch_end(struct rnl__scratch *s);

#endif
