/* SPDX-License-Identifier: MIT */
/*
 * overlap's kernel, and its work on the legacy default stream.
 *
 * DESIGN
 * The kernel's threads stride over the chunk, so a grid of any size works.  In a unit that includes
 * runnel/cuda.h, calls without a stream use per-thread default streams, so this file names the
 * legacy stream.  All threads of the process share that stream; it and the per-thread streams wait
 * for each other.
 */
#include <runnel/cuda.h>

#include "overlap.h"

#include <errno.h>
#include <stdio.h>

static __global__ void __launch_bounds__(OVERLAP_THREADS)
overlap_words(const struct overlap_args args)
{
	const uint64_t step = (uint64_t)gridDim.x * OVERLAP_THREADS;

	for (uint64_t i = (uint64_t)blockIdx.x * OVERLAP_THREADS + threadIdx.x; i < args.nr;
	     i += step)
		args.out[i] = overlap_word(args.in[i], args.rounds);
}

RNL_KERNEL(overlap_kernel, overlap_on_host, overlap_words, struct overlap_args);

static bool ok(cudaError_t err, const char *what)
{
	if (err)
		fprintf(stderr, "overlap: the legacy stream, %s: %s\n", what,
			cudaGetErrorString(err));
	return !err;
}

static int legacy_share(const struct overlap *o, unsigned thread)
{
	const struct overlap_buffer *buffer = &o->buffers[thread];
	const struct overlap_args args = { buffer->in, buffer->out, o->chunk, o->rounds, 0 };
	const unsigned blocks = overlap_grid(o->chunk).x;
	const size_t bytes = (size_t)o->chunk * sizeof(uint32_t);

	if (!ok(cudaSetDevice(o->info.ordinal), "cudaSetDevice"))
		return -EIO;
	for (uint64_t i = thread; i < o->nr_chunks; i += o->workers) {
		const uint64_t first = i * o->chunk;

		if (!ok(cudaMemcpyAsync(buffer->in, o->in + first, bytes,
					cudaMemcpyHostToDevice, cudaStreamLegacy), "copy in"))
			return -EIO;
		overlap_words<<<blocks, OVERLAP_THREADS, 0, cudaStreamLegacy>>>(args);
		if (!ok(cudaGetLastError(), "kernel") ||
		    !ok(cudaMemcpyAsync(o->out + first, buffer->out, bytes,
					cudaMemcpyDeviceToHost, cudaStreamLegacy), "copy out"))
			return -EIO;
	}
	return ok(cudaStreamSynchronize(cudaStreamLegacy), "wait") ? 0 : -EIO;
}

extern int (*const overlap_legacy_share)(const struct overlap *o, unsigned thread) = legacy_share;
