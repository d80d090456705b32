/* SPDX-License-Identifier: MIT */
/* The request kernel of the tests of resident kernels, for the GPU; resident.c has the tests. */
#include "answer.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>

static __device__ unsigned nr_executed;

unsigned answering_nr(void)
{
	unsigned nr = ~0u;

	(void)cudaMemcpyFromSymbol(&nr, nr_executed, sizeof(nr));
	return nr;
}

/* Each thread does its bytes, the last ones first, so that all threads are needed. */
static __device__ int answer(const struct rnl_request_view *view)
{
	const unsigned char *in = static_cast<const unsigned char *>(view->in);
	unsigned char *out = static_cast<unsigned char *>(view->out);
	struct answering *a = static_cast<struct answering *>(view->arg);

	for (unsigned i = threadIdx.x; i < view->out_bytes; i += blockDim.x) {
		const unsigned at = view->out_bytes - 1 - i;

		out[at] = at < view->in_bytes ? in[at] : FILLER;
	}
	if (!threadIdx.x)
		atomicAdd(&nr_executed, 1);
	return *static_cast<volatile int *>(&a->result);
}
RNL_REQUEST_KERNEL(answering, NULL, answer);
