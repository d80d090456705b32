/* SPDX-License-Identifier: MIT */
/*
 * overlap's kernel for CUDA, beside its host function, and the work as it is done
 * on the legacy default stream.
 *
 * DESIGN
 * The kernel's threads stride over the chunk, so any grid does.  A unit that
 * includes runnel/cuda.h has per-thread default streams: there, the legacy
 * stream has to be named.  It is one for all threads of the process, and the
 * per-thread streams wait for it, as it does for them.
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

int overlap_legacy_share(const struct overlap_work *work, unsigned thread)
{
	const struct overlap_buffer *buffer = &work->buffers[thread];
	const struct overlap_args args = { buffer->in, buffer->out, work->chunk, work->rounds, 0 };
	const unsigned blocks = overlap_grid(work->chunk).x;
	const size_t bytes = (size_t)work->chunk * sizeof(uint32_t);

	if (!ok(cudaSetDevice(work->ordinal), "cudaSetDevice"))
		return -EIO;
	for (uint64_t i = thread; i < work->nr_chunks; i += work->nr_threads) {
		const uint64_t first = i * work->chunk;

		if (!ok(cudaMemcpyAsync(buffer->in, work->in + first, bytes,
					cudaMemcpyHostToDevice, cudaStreamLegacy), "copy in"))
			return -EIO;
		overlap_words<<<blocks, OVERLAP_THREADS, 0, cudaStreamLegacy>>>(args);
		if (!ok(cudaGetLastError(), "kernel") ||
		    !ok(cudaMemcpyAsync(work->out + first, buffer->out, bytes,
					cudaMemcpyDeviceToHost, cudaStreamLegacy), "copy out"))
			return -EIO;
	}
	return ok(cudaStreamSynchronize(cudaStreamLegacy), "wait") ? 0 : -EIO;
}
