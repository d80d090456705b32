/* SPDX-License-Identifier: MIT */
/*
 * small_jobs's kernels.
 *
 * DESIGN
 * A kernel reads each word once and writes each word once, and neighbouring threads have
 * neighbouring words.  So it may access page-locked memory directly: the bus transfers each byte
 * once, as a copy would.
 */
#define RNL_NAMES_STREAM 1	/* this unit calls no CUDA function on stream 0 */
#include <runnel/cuda.h>

#include "small_jobs.h"

static __device__ __forceinline__ void mix_words(const struct small_work &work)
{
	const uint64_t step = (uint64_t)gridDim.x * SMALL_THREADS;

	for (uint64_t i = (uint64_t)blockIdx.x * SMALL_THREADS + threadIdx.x; i < work.nr_words;
	     i += step)
		work.out[i] = small_mix(work.in[i]);
}

static __global__ void __launch_bounds__(SMALL_THREADS) mix(const struct small_work work)
{
	mix_words(work);
}

static __global__ void __launch_bounds__(SMALL_THREADS) mix_place(const struct small_place place)
{
	mix_words(*place.work);
}

RNL_KERNEL(small_kernel, small_on_host, mix, struct small_work);
RNL_KERNEL(small_place_kernel, small_place_on_host, mix_place, struct small_place);
