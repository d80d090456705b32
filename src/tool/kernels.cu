/* SPDX-License-Identifier: MIT */
/*
 * The kernels of check and bench for CUDA, registered together with their host functions.
 *
 * DESIGN
 * Times are those of the device's globaltimer: ns, equal on all multiprocessors, but in steps
 * of a microsecond on some GPUs.  A word for the host is written after a system-wide fence.
 * Words that the host sets are read by volatile loads, which bypass the caches.
 */
#include <runnel/cuda.h>

#include "kernels.h"

static __device__ __forceinline__ uint64_t now(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

static __device__ __forceinline__ bool first(void)
{
	return !blockIdx.x && !threadIdx.x;
}

static __device__ __forceinline__ void kernel_set(uint32_t *word, uint32_t value)
{
	__threadfence_system();
	*(volatile uint32_t *)word = value;
	__threadfence_system();
}

static __device__ __forceinline__ uint32_t kernel_get(const uint32_t *word)
{
	return *(const volatile uint32_t *)word;
}

static __global__ void kernel_hold(const struct tool_hold_args args)
{
	const uint64_t start = now();
	uint32_t let_go;

	if (!first())
		return;
	kernel_set(&args.words[TOOL_HOLD_RUNS], 1);
	do {
		let_go = kernel_get(&args.words[TOOL_HOLD_LET_GO]);
	} while (!let_go && now() - start < args.patience_ns);
	kernel_set(&args.words[TOOL_HOLD_ENDED], let_go ? TOOL_WAS_LET_GO : TOOL_RAN_OUT);
}

static __global__ void kernel_meet(const struct tool_meet_args args)
{
	const uint64_t start = now();
	uint64_t met;

	if (!first())
		return;
	atomicAdd(args.come, 1);
	while (kernel_get(args.come) < args.wanted && now() - start < args.patience_ns)
		;
	met = now();
	while (now() - met < TOOL_MEET_STAYS_NS)
		;
	args.stamps[0] = start;
	args.stamps[1] = now();
}

static __global__ void kernel_stamp(const struct tool_stamp_args args)
{
	if (first())
		*args.stamp = now();
}

static __global__ void kernel_turns(const struct tool_turns_args args)
{
	struct tool_turns turns = *args.turns;
	const uint64_t start = now();
	uint64_t at;

	if (!first())
		return;
	do {
		at = now();
		tool_turns_read(&turns, at);
	} while (at - start < args.run_ns);
	*args.turns = turns;
}

static __global__ void kernel_fill(const struct tool_fill_args args)
{
	const uint64_t start = now();

	if (args.runs && first())
		kernel_set(args.runs, 1);
	while (now() - start < args.ns)
		;
}

static __global__ void kernel_words(const struct tool_words_args args)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	args.words[i] = args.words[i] * TOOL_WORDS_A + TOOL_WORDS_C;
}

RNL_KERNEL(tool_hold, tool_hold_host, kernel_hold, struct tool_hold_args);
RNL_KERNEL(tool_meet, tool_meet_host, kernel_meet, struct tool_meet_args);
RNL_KERNEL(tool_stamp, tool_stamp_host, kernel_stamp, struct tool_stamp_args);
RNL_KERNEL(tool_turns, tool_turns_host, kernel_turns, struct tool_turns_args);
RNL_KERNEL(tool_fill, tool_fill_host, kernel_fill, struct tool_fill_args);
RNL_KERNEL(tool_words, tool_words_host, kernel_words, struct tool_words_args);

extern const bool tool_has_cuda_kernels = true;

/* This unit is compiled for per-thread default streams, like a unit with job functions. */
int tool_stream_ids(void *stream, uint64_t *id, uint64_t *id_of_0)
{
	unsigned long long ids[2];
	cudaError_t code = cudaStreamGetId((cudaStream_t)stream, &ids[0]);

	if (code == cudaSuccess)
		code = cudaStreamGetId((cudaStream_t)0, &ids[1]);
	if (code != cudaSuccess)
		return (int)cudaGetLastError();
	*id = ids[0];
	*id_of_0 = ids[1];
	return 0;
}

int tool_page_locked(const void *mem)
{
	struct cudaPointerAttributes attributes;

	if (cudaPointerGetAttributes(&attributes, mem) != cudaSuccess) {
		(void)cudaGetLastError();
		return -1;
	}
	return attributes.type == cudaMemoryTypeHost;
}
