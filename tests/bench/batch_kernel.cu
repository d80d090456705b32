/* SPDX-License-Identifier: MIT */
/* The kernel of tests/bench/batch for CUDA, and beside it its host function. */
#include <runnel/cuda.h>

#include "batch.h"

static __global__ void __launch_bounds__(BATCH_THREADS) batch_add(const struct batch_args args)
{
	const size_t at = (size_t)blockIdx.x * BATCH_WORDS / 4 + threadIdx.x;
	uint4 words = ((const uint4 *)args.in)[at];

	words.x++;
	words.y++;
	words.z++;
	words.w++;
	((uint4 *)args.out)[at] = words;
}

static_assert(BATCH_THREADS * 4 == BATCH_WORDS, "a thread has four words");

RNL_KERNEL(batch_kernel, batch_add_host, batch_add, struct batch_args);
