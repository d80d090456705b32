/* SPDX-License-Identifier: MIT */
/* The kernels for a GPU. They do what the host functions in kernel.c do. */
#include <runnel/batch.h>
#include <runnel/cuda.h>

#include "kernel.h"

static __device__ uint64_t now(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

static __global__ void mix_cuda(struct mix_args args)
{
	const uint64_t start = now();

	while (args.dawdle_us && now() - start < args.dawdle_us * UINT64_C(1000))
		;
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < args.nr;
	     i += gridDim.x * blockDim.x)
		args.bytes[i] ^= args.salt;
}

/* A block for each request. */
static __global__ void unpack_cuda(struct unpack_args args)
{
	const struct rnl_batch batch = args.batch;
	const uint32_t i = blockIdx.x;
	const unsigned char *in = (const unsigned char *)batch.in +
		(batch.spans ? batch.spans[i].offset : i * args.in_bytes);
	const uint64_t bytes = batch.spans ? batch.spans[i].bytes : args.in_bytes;

	if (batch.status && !threadIdx.x)
		batch.status[i] = in[0];
	for (uint64_t k = threadIdx.x; batch.out && k < args.out_bytes; k += blockDim.x)
		((unsigned char *)batch.out)[i * args.out_bytes + k] = k < bytes ? in[k] : FILLER;
}

static __device__ int answer_cuda(const struct rnl_request_view *view)
{
	struct answer_counts *counts = (struct answer_counts *)view->arg;
	const unsigned char *in = (const unsigned char *)view->in;
	unsigned char *out = (unsigned char *)view->out;

	if (!threadIdx.x) {
		atomicAdd_system(&counts->nr[in[0] % ANSWERS_MAX], 1);
		/* Else the answer of a lease may arrive before it. */
		__threadfence_system();
	}
	for (uint32_t i = threadIdx.x; i < view->out_bytes; i += blockDim.x)
		out[i] = i < view->in_bytes ? in[i] : FILLER;
	return ANSWER(in[view->in_bytes - 1], view->in_bytes);
}

static __global__ void echo_cuda(struct echo_args args)
{
	if (args.facts->mark == ECHO_MARK(args.facts))
		*args.facts->to = args.facts->value;
}

RNL_REQUEST_KERNEL(answer_gpu, NULL, answer_cuda);
RNL_KERNEL(echo_gpu, NULL, echo_cuda, struct echo_args);
RNL_KERNEL(mix_gpu, NULL, mix_cuda, struct mix_args);
RNL_KERNEL(unpack_gpu, NULL, unpack_cuda, struct unpack_args);
