/* SPDX-License-Identifier: MIT */
/* The kernel of the tests of jobs that gather, for the GPU; gather.c has the tests. */
#include "change.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>

static __global__ void change_cuda(struct change c)
{
	const uint32_t step = gridDim.x * blockDim.x;

	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < c.bytes; i += step)
		c.mem[i] = changed(c.mem[i], c.add);
}
RNL_KERNEL(change, NULL, change_cuda, struct change);

static __global__ void flip_cuda(struct change c)
{
	const uint32_t step = gridDim.x * blockDim.x;

	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < c.bytes; i += step)
		c.mem[i] = flipped(c.mem[i], c.add, gridDim.x);
}
RNL_KERNEL(flip, NULL, flip_cuda, struct change);
