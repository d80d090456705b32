/* SPDX-License-Identifier: MIT */
/* The kernel of the tests of jobs that are replayed, for the GPU; replay.c has the tests. */
#include "apply.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>

static __global__ void apply_cuda(struct apply a)
{
	const struct facts *f = static_cast<const struct facts *>(a.facts);
	const uint32_t step = gridDim.x * blockDim.x;

	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < f->bytes; i += step)
		f->mem[i] = applied(f->mem[i], f->add + static_cast<uint32_t>(a.add));
}
RNL_KERNEL(apply, NULL, apply_cuda, struct apply);

extern "C" int raw_apply(const struct apply *args)
{
	apply_cuda<<<2, 128, 0, static_cast<cudaStream_t>(rnl_stream())>>>(*args);
	return cudaGetLastError() == cudaSuccess ? 0 : -5;
}
