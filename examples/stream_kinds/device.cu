/* SPDX-License-Identifier: MIT */
/*
 * stream_kinds's kernel, and CUDA's streams.
 *
 * DESIGN
 * All times are the device's: globaltimer, in ns, the same for all multiprocessors.  A kernel is a
 * single thread, so the device has room for any number of kernels.  In a unit that includes
 * runnel/cuda.h, calls without a stream use per-thread default streams, so this file names the
 * legacy stream.
 */
#include <runnel/cuda.h>

#include "../common/clock.h"
#include "stream_kinds.h"

#include <errno.h>
#include <stdio.h>

static __global__ void stay(const struct kinds_args args)
{
	const uint64_t begin = clock_now();
	uint64_t end;

	do {
		end = clock_now();
	} while (end - begin < args.ns);
	args.span->begin = begin;
	args.span->end = end;
}

RNL_KERNEL(kinds_kernel, kinds_on_host, stay, struct kinds_args);

static int result(cudaError_t code, const char *what)
{
	if (code == cudaSuccess)
		return 0;
	fprintf(stderr, "stream_kinds: %s: %s\n", what, cudaGetErrorString(code));
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
	if (!ret)	/* creates the per-thread stream on its first use */
		ret = result(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	streams->handles[kind] = ret ? NULL : stream;
	return ret;
}

static int launch_on(const struct kinds_streams *streams, enum kinds_stream kind,
		     const struct kinds_args *args)
{
	stay<<<1, 1, 0, (cudaStream_t)streams->handles[kind]>>>(*args);
	return result(cudaGetLastError(), "a kernel");
}

static int wait_for(const struct kinds_streams *streams, enum kinds_stream kind)
{
	return result(cudaStreamSynchronize((cudaStream_t)streams->handles[kind]),
		      "cudaStreamSynchronize");
}

static void close_streams(struct kinds_streams *streams)
{
	for (int kind = KINDS_BLOCKING; kind <= KINDS_NON_BLOCKING; kind++)
		if (streams->handles[kind])
			(void)cudaStreamDestroy((cudaStream_t)streams->handles[kind]);
}

static const struct kinds_cuda functions = { open_stream, launch_on, wait_for, close_streams };
extern const struct kinds_cuda *const kinds_cuda = &functions;
