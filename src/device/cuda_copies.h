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

#if CUDART_VERSION >= 13000

#define RNL__MOVES_MAX 32u		/* areas that one mover moves */
#define RNL__MOVER_THREADS 512u		/* of a block: the PTX has it, too */

struct rnl__move {
	uint64_t dst, src, bytes;
};

/* The mover's argument: a block moves an area. */
struct rnl__moves {
	struct rnl__move list[RNL__MOVES_MAX];
};

/* NULL: there is none. */
cudaKernel_t rnl__cuda_mover(void);

/* Whether the mover takes the copy. */
bool rnl__cuda_moves(const struct rnl__copy *copy);

#endif

/*
 * Makes the mover ready; the stream's device is current.  It moves nothing once, so that the driver
 * loads it now, and not in the middle of work: it may wait for that.  If it cannot be made, the
 * driver's own call takes all copies, and the next call here tries again.
 */
void rnl__cuda_copies_init(cudaStream_t stream);

/* As the device's copy_all, on that stream. */
bool rnl__cuda_copy_all(const struct rnl__copy *const *copies, unsigned nr, cudaStream_t stream);

#endif
