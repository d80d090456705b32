/* SPDX-License-Identifier: MIT */
/*
 * The CUDA device's guard: runs a job's function under stream capture, and reports findings.
 *
 * DESIGN
 *	The worker's stream is captured in thread-local mode.  A private stream is non-blocking, so
 *	legacy calls do not affect it; in that case, the thread's default stream is captured, too.
 *	The graph is instantiated and launched once, where the function issued its work, so the work
 *	keeps its place in the stream.  Work on a default stream that is not the worker's stream is
 *	a finding.
 *	Outside the guard, an attached thread has the relaxed mode, in which CUDA allows
 *	cudaMalloc().  Under guard, the library's own allocations set that mode while they run.
 *	CUDA refuses waits and allocations with one error code.  If the driver gives reasons for
 *	failed calls (cuda_log.h), they have the call's name; otherwise, the report names candidates.
 *	A copy of pageable memory is captured like any other copy: its node has the addresses.
 */
#ifndef RNL_DEVICE_CUDA_GUARD_H
#define RNL_DEVICE_CUDA_GUARD_H

#include <cuda_runtime_api.h>

#include "device/device.h"

cudaError_t rnl__cuda_guard_begin(struct rnl__guarded *guarded, cudaStream_t stream);

/* Fills in the findings.  Returns cudaSuccess, or why the captured work was not launched. */
cudaError_t rnl__cuda_guard_end(struct rnl__guarded *guarded, cudaStream_t stream);

/* Sets the thread's capture mode if a function is under guard.  Returns the previous mode. */
enum cudaStreamCaptureMode rnl__cuda_guard_relax(enum cudaStreamCaptureMode mode);

#endif
