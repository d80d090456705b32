/* SPDX-License-Identifier: MIT */
/*
 * The CUDA device's guard: a job's function under stream capture, and what that
 * says of it.
 *
 * DESIGN
 *	The worker's stream is captured in thread-local mode; if that is a
 *	non-blocking one, on which a legacy call has no effect, the thread's
 *	default stream is, too.  What was captured is instantiated and launched, once,
 *	where it was issued: so it keeps its place in the stream.
 *	A thread's mode is relaxed otherwise, in which CUDA would let cudaMalloc()
 *	pass; our own allocations go back to that for themselves.
 *	CUDA has one code for waits and for memory; if the driver keeps a log of
 *	refused calls (12.9), that has the call's name, else candidates are named.
 *	A copy of pageable memory is captured like any other: its node has the
 *	addresses.
 */
#ifndef RNL_DEVICE_CUDA_GUARD_H
#define RNL_DEVICE_CUDA_GUARD_H

#include <cuda_runtime_api.h>

#include "device.h"

/* Once, before the first guard. */
void rnl__cuda_guard_init(void);

cudaError_t rnl__cuda_guard_begin(struct rnl__guarded *guarded, cudaStream_t stream);

/* Fills in what was found; cudaSuccess, or why it could not be launched. */
cudaError_t rnl__cuda_guard_end(struct rnl__guarded *guarded, cudaStream_t stream);

/* Has the thread's calls, if it is under guard, pass in that mode; the one before. */
enum cudaStreamCaptureMode rnl__cuda_guard_relax(enum cudaStreamCaptureMode mode);

#endif
