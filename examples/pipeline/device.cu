/* SPDX-License-Identifier: MIT */
/* pipeline's kernels; steps.h has the functions that they call. */
#include <runnel/cuda.h>

#include "../common/clock.h"
#include "steps.h"

#define DEFINE_STEP(step, blocks) \
	static __global__ void __launch_bounds__(THREADS) step##_on_cuda(const struct view view) \
	{ \
		__shared__ struct block block; \
		const struct at at = { &block, blockIdx.x, threadIdx.x, THREADS }; \
		\
		step(&view, &at); \
	} \
	RNL_KERNEL(step##_kernel, step##_on_host, step##_on_cuda, struct view);
STEPS(DEFINE_STEP)

CLOCK_KERNEL;
