/* SPDX-License-Identifier: MIT */
/*
 * specialised's kernels: plain; warp-specialised, with a ring of tiles that a producer warp fills
 * by bulk copies; and the specialised kernel in clusters of two blocks.
 *
 * DESIGN
 * Plain: a block of threads loads a tile and the window after it, waits, computes and stores.  It
 * overlaps only with other blocks: well if many fit on a multiprocessor, badly if few fit.
 *
 * Ring: a block processes many tiles.  One thread of the producer warp copies tiles into a ring of
 * stages, as far ahead as the ring allows; eight consumer warps compute and store meanwhile.
 *
 *	full[s]	 the producer arrives and expects the bytes; the copies deliver them
 *	empty[s] each consumer warp arrives when it has read the stage
 *
 * A stage is used once per round, so the parity of its phase is that of the round's number.
 *
 * Cluster: two blocks work on two neighbouring tiles, in stages with the same number.  The window
 * after the first block's tile is the start of the second block's tile.  So the second block copies
 * that part into the first block's stage, and the first block need not load it.  The second block's
 * stage is free when both blocks have read it: its empty[s] counts the warps of both blocks.  By
 * then the first block has also read its window of the previous round, so the next window may be
 * copied without another wait.
 *
 *	producer 2:  wait empty, expect, copy in --> full 2
 *	consumers 2: wait full 2, copy across --> full 1;  compute;  arrive at empty 2
 *	consumers 1: wait full 1 (tile and window);  compute;  arrive at empty 1 and at empty 2
 *
 * The consumers only read shared memory, so they need no fence between proxies: a barrier orders
 * their reads before the copy that overwrites the data.  Each block of a pair waits for the other
 * at its end, because the other block accesses its memory.
 */
#include <runnel/cuda.h>
#include <runnel/device.h>

#include "specialised.h"
#include "bulk.cuh"

#define TILE SPECIALISED_TILE
#define THREADS SPECIALISED_THREADS
#define WARPS (THREADS / 32)
#define STAGES 4

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define PAIRED __cluster_dims__(SPECIALISED_CLUSTER, 1, 1)
#else
#define PAIRED		/* nvcc refuses the attribute for a GPU without clusters */
#endif

static __device__ __forceinline__ unsigned long long now(void)
{
	unsigned long long ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns) :: "memory");
	return ns;
}

static __device__ __forceinline__ void note_begin(const struct specialised_args &args)
{
	if (args.begin && threadIdx.x == 0)
		atomicMin((unsigned long long *)args.begin, now());
}

/* Called by each warp that computes. */
static __device__ __forceinline__ void note_end(const struct specialised_args &args)
{
	if (args.end && threadIdx.x % 32 == 0)
		atomicMax((unsigned long long *)args.end, now());
}

/* ---- computing ----------------------------------------------------------- */

/* Returns the fingerprints of the four windows at the words of @at, by Horner's rule. */
static __device__ __forceinline__ uint4 fingerprints(const uint4 *at, uint32_t window)
{
	const uint32_t b = SPECIALISED_BASE;
	uint4 f = { 0, 0, 0, 0 }, x = *at;

	do {
		const uint4 y = *++at;

		f.x = (((f.x * b + x.x) * b + x.y) * b + x.z) * b + x.w;
		f.y = (((f.y * b + x.y) * b + x.z) * b + x.w) * b + y.x;
		f.z = (((f.z * b + x.z) * b + x.w) * b + y.x) * b + y.y;
		f.w = (((f.w * b + x.w) * b + y.x) * b + y.y) * b + y.z;
		x = y;
	} while (window -= 4);
	return f;
}

/* Computes a tile in shared memory, with the window after it.  Called by THREADS threads. */
static __device__ __forceinline__ void compute(const uint4 *tile, uint32_t *out, uint32_t window)
{
	uint4 *to = (uint4 *)out;

	for (uint32_t i = threadIdx.x; i < TILE / 4; i += THREADS)
		to[i] = fingerprints(&tile[i], window);
}

/* ---- plain --------------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS)
plain_kernel(const struct specialised_args args)
{
	__shared__ uint4 words[(TILE + SPECIALISED_WINDOW_MAX) / 4];

	note_begin(args);
	for (uint32_t i = blockIdx.x; i < args.nr_tiles; i += gridDim.x) {
		const uint64_t first = (uint64_t)(i & args.mask) * TILE;
		const uint4 *in = (const uint4 *)(args.in + first);

		for (uint32_t k = threadIdx.x; k < (TILE + args.window) / 4; k += THREADS)
			words[k] = in[k];
		__syncthreads();
		compute(words, args.out + first, args.window);
		__syncthreads();	/* before the next tile overwrites `words` */
	}
	note_end(args);
}

/* ---- with bulk copies ---------------------------------------------------- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

struct stage {
	uint4 words[(TILE + SPECIALISED_WINDOW_MAX) / 4];
};

struct ring {
	alignas(128) struct stage stages[STAGES];
	uint64_t full[STAGES], empty[STAGES];
};

template <bool cluster>
static __device__ __forceinline__ void produce(struct ring *ring,
					       const struct specialised_args &args)
{
	const uint32_t bytes = (TILE + args.window) * sizeof(uint32_t);
	const bool window_comes_across = cluster && block_in_cluster() == 0;
	const uint32_t own_bytes = window_comes_across ? TILE * sizeof(uint32_t) : bytes;
	uint32_t n = 0;

	for (uint32_t i = blockIdx.x; i < args.nr_tiles; i += gridDim.x, n++) {
		const uint32_t s = n % STAGES, round = n / STAGES;

		if (round)
			mbarrier_wait(&ring->empty[s], (round - 1) & 1);
		mbarrier_expect(&ring->full[s], bytes);
		bulk_copy_in(ring->stages[s].words, args.in + (uint64_t)(i & args.mask) * TILE,
			     own_bytes, &ring->full[s]);
	}
}

template <bool cluster>
static __device__ __forceinline__ void consume(struct ring *ring,
					       const struct specialised_args &args)
{
	const uint32_t block = cluster ? block_in_cluster() : 0;
	uint32_t n = 0;

	for (uint32_t i = blockIdx.x; i < args.nr_tiles; i += gridDim.x, n++) {
		const uint32_t s = n % STAGES, round = n / STAGES;
		const uint4 *words = ring->stages[s].words;

		if (cluster && block == 0)
			mbarrier_wait_cluster(&ring->full[s], round & 1);
		else
			mbarrier_wait(&ring->full[s], round & 1);
		if (cluster && block == 1 && threadIdx.x == 0)
			bulk_copy_across(address_in_block(&words[TILE / 4], 0), words,
					 args.window * sizeof(uint32_t),
					 address_in_block(&ring->full[s], 0));
		compute(words, args.out + (uint64_t)(i & args.mask) * TILE, args.window);
		__syncwarp();
		if (threadIdx.x % 32 == 0) {
			mbarrier_arrive(&ring->empty[s]);
			if (cluster && block == 0)
				mbarrier_arrive_in_block(address_in_block(&ring->empty[s], 1));
		}
	}
	note_end(args);
}

/* The last warp is the producer; one of its threads does all the work. */
template <bool cluster>
static __device__ __forceinline__ void run(const struct specialised_args &args)
{
	__shared__ struct ring ring;

	note_begin(args);
	if (threadIdx.x == 0) {
		const bool both = cluster && block_in_cluster() == 1;

		for (uint32_t s = 0; s < STAGES; s++) {
			mbarrier_init(&ring.full[s], 1);
			mbarrier_init(&ring.empty[s], both ? 2 * WARPS : WARPS);
		}
		mbarrier_init_fence();
	}
	if (cluster)
		cluster_meet();
	else
		__syncthreads();
	if (threadIdx.x < THREADS)
		consume<cluster>(&ring, args);
	else if (threadIdx.x == THREADS)
		produce<cluster>(&ring, args);
	if (cluster) {
		__syncwarp();
		cluster_meet();
	}
}
#endif

static __global__ void __launch_bounds__(THREADS + 32)
ring_kernel(const struct specialised_args args)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	run<false>(args);
#endif
}

static __global__ void PAIRED __launch_bounds__(THREADS + 32)
cluster_kernel(const struct specialised_args args)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	run<true>(args);
#endif
}

RNL_KERNEL(specialised_plain, specialised_on_host, plain_kernel, struct specialised_args);
RNL_KERNEL(specialised_ring, NULL, ring_kernel, struct specialised_args);
RNL_KERNEL(specialised_cluster, NULL, cluster_kernel, struct specialised_args);

extern const bool specialised_has_cuda = true;

/*
 * Asks for the version that the device's code was compiled for: a program that contains only code
 * for older GPUs uses the plain kernel, even on a new GPU.
 */
bool specialised_bulk(const struct rnl_device_info *info)
{
	struct cudaFuncAttributes attr;

	return info->cuda && !cudaSetDevice(info->ordinal) &&
	       !cudaFuncGetAttributes(&attr, (const void *)ring_kernel) && attr.ptxVersion >= 90;
}
