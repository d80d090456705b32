/* SPDX-License-Identifier: MIT */
/* The checksum's kernel: each thread adds up every n-th byte, and the sums of all threads are added. */
#define RNL_NAMES_STREAM 1	/* this unit calls no CUDA function on stream 0 */
#include <runnel/cuda.h>

#include "adler.h"

static __global__ void __launch_bounds__(ADLER_THREADS) add_up(const struct adler_args args)
{
	const uint64_t step = (uint64_t)gridDim.x * ADLER_THREADS;
	unsigned long long plain = 0, weighted = 0;

	for (uint64_t i = (uint64_t)blockIdx.x * ADLER_THREADS + threadIdx.x; i < args.bytes; i += step) {
		plain += args.text[i];
		weighted += args.text[i] * (args.bytes - i);
	}
	atomicAdd((unsigned long long *)&args.sums[0], plain);
	atomicAdd((unsigned long long *)&args.sums[1], weighted);
}

RNL_KERNEL(adler_kernel, adler_grid, add_up, struct adler_args);
