/* SPDX-License-Identifier: MIT */
/* buckets' kernel: a thread fills four words, COMPUTE_THREADS words apart. */
#include <runnel/cuda.h>

#include "../common/clock.h"
#include "buckets.h"

static __global__ void __launch_bounds__(COMPUTE_THREADS)
compute_on_cuda(const struct compute_args args)
{
	const uint32_t first = blockIdx.x * COMPUTE_THREADS * COMPUTE_WORDS + threadIdx.x;

#pragma unroll
	for (uint32_t w = 0; w < COMPUTE_WORDS; w++) {
		const uint32_t i = first + w * COMPUTE_THREADS;

		if (i < args.nr_words)
			args.bucket[i] = compute_value(i, &args);
	}
}

RNL_KERNEL(compute_kernel, compute_on_host, compute_on_cuda, struct compute_args);
CLOCK_KERNEL;
