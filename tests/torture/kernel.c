/* SPDX-License-Identifier: MIT */
/*
 * The kernels: host functions for the host device and the double. A GPU runs those of kernel.cu, if
 * nvcc has built it.
 */
#include <runnel/kernel.h>

#include "torture.h"

#include "request_kernel.h"

enum { NOT_SUPPORTED = 801 };	/* cudaError_t */

static void mix_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct mix_args *a = args;

	(void)grid;
	(void)block;
	if (a->dawdle_us)
		nap_us(a->dawdle_us);
	for (uint32_t i = 0; i < a->nr; i++)
		a->bytes[i] ^= a->salt;
}

static void unpack_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct unpack_args *a = args;

	(void)grid;
	(void)block;
	for (uint32_t i = 0; i < a->batch.nr; i++) {
		const unsigned char *in = a->batch.in;
		unsigned char *out = a->batch.out ?
				     (unsigned char *)a->batch.out + i * a->out_bytes : NULL;
		uint64_t bytes = a->batch.spans ? a->batch.spans[i].bytes : a->in_bytes;

		in += a->batch.spans ? a->batch.spans[i].offset : i * a->in_bytes;
		if (a->batch.status)
			a->batch.status[i] = in[0];
		for (uint64_t k = 0; out && k < a->out_bytes; k++)
			out[k] = k < bytes ? in[k] : FILLER;
	}
}

static int answer_host(const struct rnl_request_view *view)
{
	struct answer_counts *counts = view->arg;
	const unsigned char *in = view->in;
	unsigned char *out = view->out;

	atomic_fetch_add((_Atomic uint32_t *)&counts->nr[in[0] % ANSWERS_MAX], 1);
	for (uint32_t i = 0; i < view->out_bytes; i++)
		out[i] = i < view->in_bytes ? in[i] : FILLER;
	return ANSWER(in[view->in_bytes - 1], view->in_bytes);
}
HOST_REQUEST_KERNEL(answer, answer_host);

static void note_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct note_args *a = args;

	(void)grid;
	(void)block;
	*a->to = a->from ? *a->from : now_ns();
}

static void echo_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct echo_facts facts = *((const struct echo_args *)args)->facts;

	(void)grid;
	(void)block;
	if (facts.mark == ECHO_MARK(&facts))
		*facts.to = facts.value;
}

static int launch_echo(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	if (fake_launch)
		return fake_launch(echo_host, grid, block, args, sizeof(struct echo_args), stream);
	return &echo_gpu ? echo_gpu.cuda(grid, block, args, stream) : NOT_SUPPORTED;
}

static int launch_mix(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	if (fake_launch)
		return fake_launch(mix_host, grid, block, args, sizeof(struct mix_args), stream);
	return &mix_gpu ? mix_gpu.cuda(grid, block, args, stream) : NOT_SUPPORTED;
}

static int launch_unpack(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	if (fake_launch)
		return fake_launch(unpack_host, grid, block, args, sizeof(struct unpack_args),
				   stream);
	return &unpack_gpu ? unpack_gpu.cuda(grid, block, args, stream) : NOT_SUPPORTED;
}

static int launch_note(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	if (fake_launch)
		return fake_launch(note_host, grid, block, args, sizeof(struct note_args), stream);
	return NOT_SUPPORTED;
}

static int echo_function(void **functionp)
{
	static const struct fake_kernel kernel = {
		FAKE_KERNEL_MAGIC, echo_host, sizeof(struct echo_args)
	};

	if (!fake_launch)
		return &echo_gpu ? echo_gpu.cuda_function(functionp) : NOT_SUPPORTED;
	*functionp = (void *)(uintptr_t)&kernel;
	return 0;
}

static int mix_function(void **functionp)
{
	static const struct fake_kernel kernel = {
		FAKE_KERNEL_MAGIC, mix_host, sizeof(struct mix_args)
	};

	if (!fake_launch)
		return &mix_gpu ? mix_gpu.cuda_function(functionp) : NOT_SUPPORTED;
	*functionp = (void *)(uintptr_t)&kernel;
	return 0;
}

static int unpack_function(void **functionp)
{
	static const struct fake_kernel kernel = {
		FAKE_KERNEL_MAGIC, unpack_host, sizeof(struct unpack_args)
	};

	if (!fake_launch)
		return &unpack_gpu ? unpack_gpu.cuda_function(functionp) : NOT_SUPPORTED;
	*functionp = (void *)(uintptr_t)&kernel;
	return 0;
}

const struct rnl_kernel mix = {
	"mix", sizeof(struct mix_args), mix_host, launch_mix, mix_function
};
const struct rnl_kernel unpack = {
	"unpack", sizeof(struct unpack_args), unpack_host, launch_unpack, unpack_function
};
const struct rnl_kernel echo_kernel = {
	"echo", sizeof(struct echo_args), echo_host, launch_echo, echo_function
};
const struct rnl_kernel note_kernel = {
	"note", sizeof(struct note_args), note_host, launch_note, NULL
};
