/* SPDX-License-Identifier: MIT */
/*
 * The hashing kernel.
 *
 * DESIGN
 * A block of a message depends on the block before it, so one thread hashes one message, and a GPU
 * needs many messages to be busy.  Thread blocks of one warp spread a small batch over all
 * multiprocessors.  A warp takes as long as its longest part.
 */
#include <runnel/cuda.h>

#include "hash.h"

static __global__ void __launch_bounds__(SHA256_THREADS) hash_parts(const struct sha256_args args)
{
	const uint32_t i = blockIdx.x * SHA256_THREADS + threadIdx.x;

	if (i < args.nr)
		sha256_one(&args, i);
}

RNL_KERNEL(sha256_kernel, sha256_grid, hash_parts, struct sha256_args);
