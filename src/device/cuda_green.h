/* SPDX-License-Identifier: MIT */
/*
 * A GPU's multiprocessors (SMs) in two sets, on CUDA: those kept for some streams, and the rest.
 *
 * DESIGN
 *	Each set is a green context of the driver, and a stream is made in one of the two.  A green
 *	context shares the memory, kernels and events of the primary context.  So all calls on the
 *	stream are made while the primary context is current, like those on other streams.
 *	A graph's nodes run in the context that they were made in, not in that of the stream of the
 *	launch.  A node that is made from a CUfunction runs in the primary context, on every SM.  So
 *	these streams have no graphs of the library: rnl__stream.some_sms.
 *	CUDA cannot destroy a stream after its green context.  So a stream that CUDA refused to
 *	destroy, because the device had failed for example, keeps both contexts.
 */
#ifndef RNL_CUDA_GREEN_H
#define RNL_CUDA_GREEN_H

#include <cuda_runtime_api.h>

#include "device/device.h"

/* Returns the number of SMs that sets are multiples of; 0: this GPU's SMs cannot be divided. */
uint32_t rnl__cuda_green_group(int ordinal);

/* The device's operations. */
int rnl__cuda_green_create(struct rnl__device *device, uint32_t nr_kept, char why[RNL__WHY_BYTES],
			   struct rnl__sms **smsp);
void rnl__cuda_green_destroy(struct rnl__sms *sms);

/* Creates a non-blocking stream on the kept SMs, or on the rest. */
cudaError_t rnl__cuda_green_stream(struct rnl__sms *sms, bool kept, int priority,
				   cudaStream_t *streamp);

/* Called after such a stream was destroyed. */
void rnl__cuda_green_stream_gone(struct rnl__sms *sms);

#endif
