/* SPDX-License-Identifier: MIT */
/*
 * Many copies in a few calls, on CUDA.
 *
 * DESIGN
 *	Each call of the driver costs microseconds, and takes a lock that all threads share.  Two
 *	calls can do many copies.
 *	A kernel, the mover, copies small areas, one per block, between memory that kernels reach,
 *	page-locked memory included.  A wrong address would end the process, so the mover copies
 *	only within the library's memory (rnl__copy.ours).
 *	cudaMemcpyBatchAsync() copies other memory, and larger areas, for which copy engines are
 *	faster.  It refuses wrong addresses.
 *	A mover waits for a free place on the GPU; a copy engine does not.
 */
#ifndef RNL_CUDA_COPIES_H
#define RNL_CUDA_COPIES_H

#include <cuda_runtime_api.h>

#include "device/device.h"

/* Returns true if the mover can do the copy. */
bool rnl__cuda_moves(const struct rnl__copy *copy);

/* Like the device's copy_all, on @stream. */
bool rnl__cuda_copy_all(const struct rnl__copy *const *copies, unsigned nr, cudaStream_t stream);

#endif
