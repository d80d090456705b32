/* SPDX-License-Identifier: MIT */
/*
 * The row preload: the time until much page-locked memory can be used.
 *
 * DESIGN
 *	By hand one call of cudaHostAlloc(). By runnel a pool of one worker, which locks this much
 *	memory in advance. The time to free the memory is not measured.
 */
#include <runnel/memory.h>

#include "gpu/work.h"

#define BYTES ((size_t)4 << 30)
#define QUICK_BYTES ((size_t)64 << 20)

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	const struct bench_options *opt;
	enum rnl_stream_kind kind;
	size_t bytes;
};

static double by_hand(const struct bench *b)
{
	const uint64_t start = bench_now();
	double ms;
	void *mem;

	gpu_ok(cudaHostAlloc(&mem, b->bytes, cudaHostAllocPortable), "cudaHostAlloc");
	ms = (double)(bench_now() - start) * 1e-6;
	gpu_ok(cudaFreeHost(mem), "cudaFreeHost");
	return ms;
}

static double by_pool(const struct bench *b)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	const uint64_t start = bench_now();
	struct rnl_pool *pool;
	double ms;
	void *mem;

	attr.device = b->opt->device;
	attr.nr_workers = 1;
	attr.stream = b->kind;
	attr.pinned_max = attr.pinned_preload = b->bytes;
	bench_rnl(rnl_pool_create(&pool, &attr), "rnl_pool_create");
	ms = (double)(bench_now() - start) * 1e-6;
	bench_rnl(rnl_memory_get(pool, RNL_PINNED, b->bytes / 2, &mem, 0), "rnl_memory_get");
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
	return ms;
}

static void measure(void *arg, unsigned way, double *values)
{
	values[0] = way ? by_pool(arg) : by_hand(arg);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	b->opt = run->opt;
	b->kind = run->kind;
	b->bytes = b->opt->quick ? QUICK_BYTES : BYTES;
	b->pool = gpu_pool(b->opt->device, b->kind, 1, NULL);
	return b;
}

const struct bench_work bench_preload = { begin_row, measure, gpu_row_end, NULL };
