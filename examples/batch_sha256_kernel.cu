/* SPDX-License-Identifier: MIT */
/*
 * The hashing kernel for CUDA, and beside it, in the same object, its host function.
 *
 * DESIGN
 * The blocks of a message depend on one another, so a message is hashed by one
 * thread, and there is something to do for a GPU if there are many of them.  Blocks
 * of one warp spread a small batch over all multiprocessors.  A warp takes as long as
 * the longest part in it.
 */
#include <runnel/cuda.h>

#include "batch_sha256_hash.h"

static __global__ void __launch_bounds__(SHA256_THREADS) hash_parts(const struct sha256_args args)
{
	const uint32_t i = blockIdx.x * SHA256_THREADS + threadIdx.x;

	if (i < args.nr)
		sha256_one(&args, i);
}

RNL_KERNEL(sha256_kernel, sha256_grid, hash_parts, struct sha256_args);
