/* SPDX-License-Identifier: MIT */
/*
 * examples/stream_kinds_kernel.cu for the double of the CUDA runtime, which knows how the
 * legacy stream and blocking ones wait for each other.
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdio.h>

#include "../examples/stream_kinds.h"
#include "fake_cudart/fake_cudart.h"

static int launch(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	return fake_launch(kinds_on_host, grid, block, args, sizeof(struct kinds_args), stream);
}

const struct rnl_kernel kinds_kernel = {
	"kinds_kernel", sizeof(struct kinds_args), kinds_on_host, launch
};

const bool kinds_has_cuda = true;

static int result(cudaError_t code, const char *what)
{
	if (code == cudaSuccess)
		return 0;
	fprintf(stderr, "stream_kinds: %s: error %d\n", what, (int)code);
	return -EIO;
}

int kinds_stream_open(struct kinds_streams *streams, enum kinds_stream kind, int32_t ordinal)
{
	const unsigned flags = kind == KINDS_BLOCKING ? cudaStreamDefault : cudaStreamNonBlocking;
	cudaStream_t stream = kind == KINDS_LEGACY ? cudaStreamLegacy : cudaStreamPerThread;
	int ret = result(cudaSetDevice(ordinal), "cudaSetDevice");

	if (!ret && (kind == KINDS_BLOCKING || kind == KINDS_NON_BLOCKING))
		ret = result(cudaStreamCreateWithFlags(&stream, flags),
			     "cudaStreamCreateWithFlags");
	streams->handles[kind] = ret ? NULL : stream;
	return ret;
}

int kinds_stream_launch(const struct kinds_streams *streams, enum kinds_stream kind,
			const struct kinds_args *args)
{
	const struct rnl_dim one = { 1, 1, 1 };

	return result((cudaError_t)launch(one, one, args, streams->handles[kind]), "a kernel");
}

int kinds_stream_wait(const struct kinds_streams *streams, enum kinds_stream kind)
{
	return result(cudaStreamSynchronize(streams->handles[kind]), "cudaStreamSynchronize");
}

void kinds_stream_close(struct kinds_streams *streams)
{
	for (int kind = KINDS_BLOCKING; kind <= KINDS_NON_BLOCKING; kind++)
		if (streams->handles[kind])
			(void)cudaStreamDestroy(streams->handles[kind]);
}
