/* SPDX-License-Identifier: MIT */
/*
 * Many copies at once, on CUDA.
 *
 * DESIGN
 *	Each call of the driver takes microseconds, and a lock of all threads.  Two calls take many
 *	copies.  A kernel, the mover, has a block copy a small area between memory that it reaches
 *	by itself, page-locked memory among it.  An address that is wrong would be the end of
 *	the process: so it copies between memory of the library's alone (rnl__copy.ours).
 *	cudaMemcpyBatchAsync() takes the others, and the larger ones, which copy engines move
 *	faster; it refuses wrong addresses.
 *	The mover is PTX: the driver compiles it for the GPU that is there, and the library needs
 *	no CUDA compiler.
 *	A mover waits for a free place on the GPU, where a copy engine does not.
 */
#ifndef RNL_CUDA_COPIES_H
#define RNL_CUDA_COPIES_H

#include <cuda_runtime_api.h>

#include "device/device.h"

/* Whether the mover takes the copy. */
bool rnl__cuda_moves(const struct rnl__copy *copy);

/* As the device's copy_all, on that stream. */
bool rnl__cuda_copy_all(const struct rnl__copy *const *copies, unsigned nr, cudaStream_t stream);

#endif
