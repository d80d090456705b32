/* SPDX-License-Identifier: MIT */
/*
 * The guard's messages about a function: what it does, what that costs, and what to write instead.
 * The figures are an NVIDIA H200's; docs/measurements.md describes the measurements.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "pool/guard.h"
#include "pool/pool.h"
#include "sys/symbol.h"

#define NAME_MAX_BYTES 128

/* Writes the function's name, or its place as FILE+0xOFFSET, which addr2line(1) accepts. */
static void guard_name(rnl__function *fn, char *name, size_t bytes)
{
	char symbol[NAME_MAX_BYTES];
	bool named;

	rnl__symbol((const void *)fn, symbol, sizeof(symbol));
	named = !strchr(symbol, '+') && strncmp(symbol, "0x", 2) != 0;
	snprintf(name, bytes, named ? "%s()" : "the function at %s", symbol);
}

static const char *guard_text(const struct rnl_pool *pool, unsigned finding)
{
	switch (finding) {
	case RNL__LEGACY_STREAM:
		if (pool->stream == RNL_STREAM_PRIVATE)
			return "uses the legacy default stream, which has no order with the job's "
			       "own stream: the job may be done first. Pass rnl_stream() to each "
			       "CUDA call";
		return "uses the legacy default stream, which joins the streams of all workers: "
		       "two kernels of 4 ms take 8 ms. Compile its unit with nvcc "
		       "--default-stream per-thread (gcc: "
		       "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1), or pass rnl_stream()";
	case RNL__WAITED:
		return "waits for a stream or the device: its own stream is empty meanwhile (some "
		       "60000 small jobs a second, not 91000), and a wait for the device waits for "
		       "all workers. Return instead, and continue in rnl_job_set_on_done() or in a job "
		       "after a barrier";
	case RNL__MADE_MEMORY:
		return "makes or frees memory: cudaMalloc and cudaFree of 64 MB take 163 us, "
		       "page-locking 1 MB takes 1110 us, and cudaFree waits for the device. Use "
		       "rnl_scratch() or cudaMallocAsync(), or get it before (pinned_preload)";
	case RNL__WAITED_OR_MADE:
		return "waits for a stream or the device, or makes or frees memory (cudaMalloc, "
		       "cudaFree, ...): CUDA does not say which. A wait leaves the stream empty, "
		       "and cudaFree waits for the device. Return instead of waiting, and use "
		       "rnl_scratch() or cudaMallocAsync()";
	case RNL__PAGEABLE_COPY:
		return "copies pageable memory: cudaMemcpyAsync() then holds its caller until all "
		       "work queued before it is done (200 ms behind 200 ms of work), and "
		       "rnl_copy() has a CPU copy it once more. Use pinned memory of "
		       "rnl_memory_get(), or cudaHostRegister()";
	case RNL__STRAY:
		return "uses stream 0 in a pool of private streams, where it is not the job's "
		       "stream: the job may be done before this work is. Pass rnl_stream() to each "
		       "CUDA call and <<<...>>>";
	default:
		return "uses the legacy default stream, or waits, or makes or frees memory, unless "
		       "another thread used the legacy stream just then: CUDA does not say which. "
		       "Initialise its job where runnel/cuda.h is included, and return at the "
		       "first CUDA call that fails";
	}
}

void rnl__guard_tell(struct rnl_pool *pool, rnl__function *fn, const char *what)
{
	char name[NAME_MAX_BYTES];

	guard_name(fn, name, sizeof(name));
	rnl__pool_log(pool, RNL_LOG_WARNING, "replay: %s %s", name, what);
}

void rnl__guard_report(struct rnl_pool *pool, rnl__function *fn, const struct rnl__guarded *guarded)
{
	const bool called = guarded->found & ~(unsigned)RNL__PAGEABLE_COPY && guarded->call[0];
	const char *joined = ". From now on the function's calls are joined with the job's stream: "
			     "right, and slower";
	const enum rnl_log_level level = guarded->strict ? RNL_LOG_ERROR : RNL_LOG_WARNING;
	char name[NAME_MAX_BYTES];

	guard_name(fn, name, sizeof(name));
	if (!guarded->found) {
		rnl__pool_log(pool, RNL_LOG_INFO, "guard: %s cannot be captured (CUDA error %d): "
			      "called again unwatched", name, guarded->code);
		return;
	}
	for (unsigned i = 0; i < RNL__NR_FINDINGS; i++) {
		const bool named = called && 1u << i != RNL__PAGEABLE_COPY;

		if (guarded->found & 1u << i)
			rnl__pool_log(pool, level, "guard: %s %s%s%s%s%s", name,
				      guard_text(pool, 1u << i), named ? " [" : "",
				      named ? guarded->call : "", named ? "]" : "",
				      1u << i == RNL__STRAY && !guarded->strict ? joined : "");
	}
}
