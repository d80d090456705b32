/* SPDX-License-Identifier: MIT */
/*
 * examples/stream_kinds/device.cu for the double of the CUDA runtime, in which the legacy stream
 * and blocking streams wait for each other, like in CUDA.
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdio.h>

#include <runnel/kernel.h>

#include "examples/stream_kinds/stream_kinds.h"
#include "fake_cudart/fake_cudart.h"

static int launch(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	return fake_launch(kinds_on_host, grid, block, args, sizeof(struct kinds_args), stream);
}

const struct rnl_kernel kinds_kernel = {
	"kinds_kernel", sizeof(struct kinds_args), kinds_on_host, launch, NULL
};

static int result(cudaError_t code, const char *what)
{
	if (code == cudaSuccess)
		return 0;
	fprintf(stderr, "stream_kinds: %s: error %d\n", what, (int)code);
	return -EIO;
}

static int open_stream(struct kinds_streams *streams, enum kinds_stream kind, int32_t ordinal)
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

static int launch_on(const struct kinds_streams *streams, enum kinds_stream kind,
		     const struct kinds_args *args)
{
	const struct rnl_dim one = { 1, 1, 1 };

	return result((cudaError_t)launch(one, one, args, streams->handles[kind]), "a kernel");
}

static int wait_for(const struct kinds_streams *streams, enum kinds_stream kind)
{
	return result(cudaStreamSynchronize(streams->handles[kind]), "cudaStreamSynchronize");
}

static void close_streams(struct kinds_streams *streams)
{
	for (int kind = KINDS_BLOCKING; kind <= KINDS_NON_BLOCKING; kind++)
		if (streams->handles[kind])
			(void)cudaStreamDestroy(streams->handles[kind]);
}

static const struct kinds_cuda functions = { open_stream, launch_on, wait_for, close_streams };
const struct kinds_cuda *const kinds_cuda = &functions;
