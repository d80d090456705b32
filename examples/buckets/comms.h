/* SPDX-License-Identifier: MIT */
/* NCCL's communicators: one for each device of this process. */
#ifndef BUCKETS_COMMS_H
#define BUCKETS_COMMS_H

#include <nccl.h>

#include "buckets.h"

struct comms {
	ncclComm_t of[RNL_DEVICES_MAX];
	unsigned nr;
};

/* Context: all ranks must call it.  Dies on an error. */
void comms_begin(struct comms *comms, const struct buckets *b);
void comms_end(struct comms *comms);

/* Dies unless the CUDA call succeeded. */
void must_cuda(cudaError_t code, const char *what);

/*
 * Issues the all-reduce of a bucket to a stream of the device.  Context: one thread per device.
 * Returns NULL or an error text.
 */
const char *comms_reduce(const struct comms *comms, const struct buckets *b, unsigned device,
			 unsigned bucket, cudaStream_t stream);

int ordinal_of(const struct buckets *b, unsigned device);	/* CUDA's number of a device */

#endif /* BUCKETS_COMMS_H */
