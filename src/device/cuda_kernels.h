/* SPDX-License-Identifier: MIT */
/*
 * The library's own kernels on CUDA.
 *
 * DESIGN
 *	The mover has a block copy a small area between memory that a kernel reaches by itself,
 *	page-locked memory among it.  An address that is wrong would be the end of the process.
 *	The kernel of arguments writes a few bytes that came with its launch: they need no memory
 *	that has to live until then.
 *	They are PTX: the driver compiles it for the GPU that is there, and the library needs no
 *	CUDA compiler.
 */
#ifndef RNL_CUDA_KERNELS_H
#define RNL_CUDA_KERNELS_H

#include <cuda_runtime_api.h>

#include <runnel/kernel.h>

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

/* Moves so many areas: there is a mover. */
cudaError_t rnl__cuda_move(const struct rnl__moves *moves, unsigned nr, cudaStream_t stream);

/* The CUfunction of the kernel of arguments; a cudaError_t. */
int rnl__cuda_args_function(void **functionp);

#endif

/*
 * Makes the kernels ready; the stream's device is current.  Each runs once with nothing to do, so
 * that the driver loads it now, and not in the middle of work: it may wait for that.  If they cannot
 * be made, the library goes without, and the next call here, of another device, tries again.
 */
void rnl__cuda_kernels_init(cudaStream_t stream);

/* The device's args(). */
const struct rnl_kernel *rnl__cuda_args(void);

#endif
