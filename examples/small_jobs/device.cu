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

/* All threads of a block handle one request. */
static __device__ int mix_each(const struct rnl_request_view *view)
{
	const uint32_t *in = static_cast<const uint32_t *>(view->in);
	uint32_t *out = static_cast<uint32_t *>(view->out);

	for (uint32_t i = threadIdx.x; i < view->in_bytes / sizeof(*in); i += blockDim.x)
		out[i] = small_mix(in[i]);
	return 0;
}

RNL_KERNEL(small_kernel, small_on_host, mix, struct small_work);
RNL_KERNEL(small_place_kernel, small_place_on_host, mix_place, struct small_place);
RNL_REQUEST_KERNEL(small_each, small_each_on_host, mix_each);
