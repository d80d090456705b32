/* SPDX-License-Identifier: MIT */
/* The kernels of gpu, and code that must be compiled with them. */
#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>

#include "gpu/gpu.h"

#define THREADS GPU_WORK_THREADS
#define BLOCKS_MAX 4096

template <uint32_t KERNEL>
static __global__ void work(struct gpu_work_args args)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	args.words[i] = gpu_word(KERNEL, args.words[i], i);
}

RNL_KERNEL(gpu_work_0, NULL, work<0>, struct gpu_work_args);
RNL_KERNEL(gpu_work_1, NULL, work<1>, struct gpu_work_args);
RNL_KERNEL(gpu_work_2, NULL, work<2>, struct gpu_work_args);
RNL_KERNEL(gpu_work_3, NULL, work<3>, struct gpu_work_args);
RNL_KERNEL(gpu_work_4, NULL, work<4>, struct gpu_work_args);

const struct rnl_kernel *const gpu_works[GPU_KERNELS] = {
	&gpu_work_0, &gpu_work_1, &gpu_work_2, &gpu_work_3, &gpu_work_4
};

static void (*const works[GPU_KERNELS])(struct gpu_work_args args) = {
	work<0>, work<1>, work<2>, work<3>, work<4>
};

static __global__ void move(struct gpu_moves moves)
{
	const uint4 *src = reinterpret_cast<const uint4 *>(moves.src[blockIdx.x]);
	uint4 *dst = reinterpret_cast<uint4 *>(moves.dst[blockIdx.x]);

	for (uint32_t i = threadIdx.x; i < moves.nr_words / 4; i += THREADS)
		dst[i] = src[i];
}

RNL_KERNEL(gpu_move, NULL, move, struct gpu_moves);

const struct rnl_kernel *const gpu_mover = &gpu_move;

static __global__ void empty(void)
{
}

static __device__ uint64_t device_ns(void)
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

static __global__ void spin(uint64_t ns, volatile uint64_t *stamps)
{
	const uint64_t start = device_ns();
	uint64_t now;

	do {
		now = device_ns();
	} while (now - start < ns);
	if (!stamps || blockIdx.x || threadIdx.x)
		return;
	stamps[0] = start;
	stamps[1] = now;
}

static __global__ void until(const volatile uint32_t *over, uint64_t ns, volatile uint64_t *stamps)
{
	const uint64_t start = device_ns();
	uint64_t now = start;

	/* A thread of each block reads the host's memory, each 20 us; the others wait for it. */
	while (!threadIdx.x && now - start < ns && !*over) {
		const uint64_t last = now;

		do {
			now = device_ns();
		} while (now - last < 20000);
	}
	__syncthreads();
	if (!stamps || blockIdx.x || threadIdx.x)
		return;
	stamps[0] = start;
	stamps[1] = now;
}

static __global__ void rounds_of(const uint32_t *in, uint32_t *out, uint64_t nr, uint32_t rounds)
{
	const uint64_t step = (uint64_t)gridDim.x * THREADS;

	for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < nr; i += step) {
		uint32_t x = in[i];

		for (uint32_t round = 0; round < rounds; round++)
			x = x * GPU_A + GPU_C;
		out[i] = x;
	}
}

cudaError_t gpu_issue_launch(const struct gpu_slot *slot, cudaStream_t stream)
{
	const struct gpu_work_args args = { slot->dev };

	works[slot->kernel]<<<slot->nr_words / THREADS, THREADS, 0, stream>>>(args);
	return cudaGetLastError();
}

cudaError_t gpu_issue_j(const struct gpu_slot *slot, cudaStream_t stream)
{
	const size_t bytes = slot->nr_words * sizeof(uint32_t);
	cudaError_t code = cudaMemcpyAsync(slot->dev, slot->in, bytes, cudaMemcpyHostToDevice,
					   stream);

	if (code != cudaSuccess)
		return code;
	code = gpu_issue_launch(slot, stream);
	if (code != cudaSuccess)
		return code;
	return cudaMemcpyAsync(slot->out, slot->dev, bytes, cudaMemcpyDeviceToHost, stream);
}

cudaError_t gpu_issue_empty(const struct gpu_slot *slot, cudaStream_t stream)
{
	(void)slot;
	empty<<<1, 1, 0, stream>>>();
	return cudaGetLastError();
}

cudaError_t gpu_issue_spin(unsigned blocks, unsigned threads, uint64_t ns, uint64_t *stamps,
			   cudaStream_t stream)
{
	spin<<<blocks, threads, 0, stream>>>(ns, stamps);
	return cudaGetLastError();
}

cudaError_t gpu_issue_until(unsigned blocks, unsigned threads, const uint32_t *over, uint64_t ns,
			    uint64_t *stamps, cudaStream_t stream)
{
	until<<<blocks, threads, 0, stream>>>(over, ns, stamps);
	return cudaGetLastError();
}

cudaError_t gpu_issue_rounds(const uint32_t *in, uint32_t *out, uint64_t nr, uint32_t rounds,
			     cudaStream_t stream)
{
	const uint64_t blocks = (nr + THREADS - 1) / THREADS;

	rounds_of<<<(unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX), THREADS, 0, stream>>>(
		in, out, nr, rounds);
	return cudaGetLastError();
}

cudaError_t gpu_device_get(void **memp, size_t bytes)
{
	return cudaMalloc(memp, bytes);
}

cudaError_t gpu_reach(int ordinal, int peer, bool on)
{
	int peers = 0;
	cudaError_t code = cudaDeviceCanAccessPeer(&peers, ordinal, peer);

	if (code == cudaSuccess && peers)
		code = cudaSetDevice(ordinal);
	if (code != cudaSuccess || !peers)
		return code;
	return on ? cudaDeviceEnablePeerAccess(peer, 0) : cudaDeviceDisablePeerAccess(peer);
}

cudaError_t gpu_event_sync(cudaEvent_t event)
{
	return cudaEventSynchronize(event);
}

const char *gpu_error_text(cudaError_t code)
{
	return cudaGetErrorString(code);
}

int gpu_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job))
{
	return rnl_job_init(job, fn);
}
