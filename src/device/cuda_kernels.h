/* SPDX-License-Identifier: MIT */
/*
 * The library's own kernels on CUDA.
 *
 * DESIGN
 *	The mover copies small areas, one per block, between memory that kernels reach, page-locked
 *	memory included.  A wrong address would end the process.
 *	The arguments kernel writes a few bytes that come with its launch, so no memory must keep
 *	them until the kernel runs.
 *	The kernels are PTX: the driver compiles it for the GPU, and the library needs no CUDA
 *	compiler.
 */
#ifndef RNL_CUDA_KERNELS_H
#define RNL_CUDA_KERNELS_H

#include <cuda_runtime_api.h>

#include <runnel/kernel.h>

#include "device/device.h"

#if CUDART_VERSION >= 13000

#define RNL__MOVES_MAX 32u		/* areas of one launch of the mover */
#define RNL__MOVER_THREADS 512u		/* per block; the PTX has this number, too */

struct rnl__move {
	uint64_t dst, src, bytes;
};

/* The mover's argument: one area per block. */
struct rnl__moves {
	struct rnl__move list[RNL__MOVES_MAX];
};

/* Returns NULL if there is no mover. */
cudaKernel_t rnl__cuda_mover(void);

/* Moves @nr areas; needs a mover. */
cudaError_t rnl__cuda_move(const struct rnl__moves *moves, unsigned nr, cudaStream_t stream);

/* Finds the CUfunction of the arguments kernel.  Returns a cudaError_t. */
int rnl__cuda_args_function(void **functionp);

#endif

/*
 * Loads the kernels; the stream's device must be current.  Each kernel runs once without work, so
 * that the driver loads it now.  Later, the load might have to wait for other work.  If this fails,
 * the library works without the kernels, and the next call, for another device, tries again.
 */
void rnl__cuda_kernels_init(cudaStream_t stream);

/* The device's args operation. */
const struct rnl_kernel *rnl__cuda_args(void);

#endif
