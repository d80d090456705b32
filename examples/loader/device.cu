/* SPDX-License-Identifier: MIT */
/* loader's kernels: one thread block per record; its threads stride over the record's words. */
#include <runnel/cuda.h>

#include "../common/clock.h"
#include "loader.h"

static __global__ void __launch_bounds__(COMPUTE_THREADS)
compute_on_cuda(const struct compute_args args)
{
	__shared__ uint32_t sum;
	const struct record *record = record_of(&args, blockIdx.x);

	if (!threadIdx.x)
		sum = 0;
	__syncthreads();
	atomicAdd(&sum, sum_words(record->words, words_in(args.bytes), args.rounds, threadIdx.x,
				  COMPUTE_THREADS));
	__syncthreads();
	if (!threadIdx.x)
		args.differences[blockIdx.x] = difference(&args, blockIdx.x, sum);
}

RNL_KERNEL(compute_kernel, compute_on_host, compute_on_cuda, struct compute_args);
CLOCK_KERNEL;
