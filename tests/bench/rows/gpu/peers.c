/* SPDX-License-Identifier: MIT */
/*
 * The row devices, copies: large copies from one GPU to another, each way separately.
 *
 * DESIGN
 *	By hand: cudaMemcpyPeerAsync() between cudaMalloc() memory, with peer access, on one stream
 *	of the source's GPU. By runnel: jobs of one rnl_copy() each, placed on that GPU, where the
 *	pool has one worker, between rnl_memory_get() memory. All copies of one way write the same
 *	memory, so several streams would not be faster. Peer access is only enabled while copies by
 *	hand are measured: runnel must not need it. Each way's source has different words. The
 *	target is overwritten before each run, and checked in every page after it.
 */
#include "gpu/work.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/memory.h>

#define COPY_BYTES ((size_t)64 << 20)
#define QUICK_COPY_BYTES ((size_t)1 << 20)
#define COPIES 64
#define QUICK_COPIES 8
#define PAGE_WORDS 1024

struct copy {
	struct rnl_job job;
	void *dst;
	const void *src;
	size_t bytes;
};

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	int ordinals[2];
	size_t bytes;
	unsigned nr;			/* copies */
	uint32_t *host;			/* page-locked, as large as a copy */
	uint32_t *mem[2][2];		/* [0] by hand, [1] of the pool; one per GPU */
	cudaStream_t streams[2];	/* one per GPU */
	struct copy *copies;
};

/* ---- the copied words ------------------------------------------------------- */

static void move(const struct bench *b, void *dst, const void *src, unsigned gpu)
{
	gpu_enter(b->ordinals[gpu]);
	gpu_ok(cudaMemcpyAsync(dst, src, b->bytes, cudaMemcpyDefault, b->streams[gpu]),
	       "cudaMemcpyAsync");
	gpu_ok(cudaStreamSynchronize(b->streams[gpu]), "cudaStreamSynchronize");
}

static uint32_t word_of(size_t i, unsigned from)
{
	return (uint32_t)i * 2654435761u + from;
}

static void prepare(const struct bench *b, uint32_t *const *mem, unsigned from)
{
	for (size_t i = 0; i < b->bytes / sizeof(uint32_t); i++)
		b->host[i] = word_of(i, from);
	move(b, mem[from], b->host, from);
	for (size_t i = 0; i < b->bytes / sizeof(uint32_t); i++)
		b->host[i] = ~word_of(i, from);
	move(b, mem[!from], b->host, !from);
}

static void look(const struct bench *b, uint32_t *const *mem, unsigned from)
{
	move(b, b->host, mem[!from], !from);
	for (size_t page = 0; page < b->bytes / sizeof(uint32_t); page += PAGE_WORDS) {
		const size_t i = page + page / PAGE_WORDS % PAGE_WORDS;

		bench_must(b->host[i] == word_of(i, from), "a copy between GPUs: the right words");
	}
}

/* ---- the ways ------------------------------------------------------------- */

static void by_hand(struct bench *b, uint32_t *const *mem, unsigned from)
{
	gpu_enter(b->ordinals[from]);
	for (unsigned i = 0; i < b->nr; i++)
		gpu_ok(cudaMemcpyPeerAsync(mem[!from], b->ordinals[!from], mem[from],
					   b->ordinals[from], b->bytes, b->streams[from]),
		       "cudaMemcpyPeerAsync");
	gpu_ok(cudaStreamSynchronize(b->streams[from]), "cudaStreamSynchronize");
}

static int run_copy(struct rnl_job *job)
{
	const struct copy *copy = rnl_container_of(job, struct copy, job);

	return rnl_copy(copy->dst, copy->src, copy->bytes);
}

static void by_pool(struct bench *b, uint32_t *const *mem, unsigned from)
{
	struct rnl_barrier all;

	bench_rnl(rnl_barrier_init(&all, b->pool), "rnl_barrier_init");
	for (unsigned i = 0; i < b->nr; i++) {
		struct copy *copy = &b->copies[i];

		copy->dst = mem[!from];
		copy->src = mem[from];
		copy->bytes = b->bytes;
		bench_rnl(gpu_job_init(&copy->job, run_copy), "rnl_job_init");
		bench_rnl(rnl_job_set_device(&copy->job, (int)from), "rnl_job_set_device");
		bench_rnl(rnl_barrier_add(&all, &copy->job), "rnl_barrier_add");
		bench_rnl(rnl_submit(b->pool, &copy->job), "rnl_submit");
	}
	bench_rnl(rnl_barrier_wait(&all, RNL_FOREVER), "rnl_barrier_wait");
	bench_rnl(all.result, "rnl_copy");
}

/* Returns GB per second. */
static double rate(struct bench *b, bool pool, unsigned from)
{
	uint32_t *const *mem = b->mem[pool];
	uint64_t start;

	prepare(b, mem, from);
	start = bench_now();
	(pool ? by_pool : by_hand)(b, mem, from);
	start = bench_now() - start;
	look(b, mem, from);
	return (double)b->bytes * b->nr / (double)start;
}

static void reach(const struct bench *b, bool on)
{
	for (unsigned i = 0; i < 2; i++)
		gpu_ok(gpu_reach(b->ordinals[i], b->ordinals[!i], on), "peer access");
}

/* ---- the row -------------------------------------------------------------- */

static void measure(void *arg, unsigned pool, double *values)
{
	struct bench *b = arg;

	if (!pool)
		reach(b, true);
	for (unsigned from = 0; from < 2; from++)
		values[from] = rate(b, pool, from);
	if (!pool)
		reach(b, false);
	gpu_enter(b->ordinals[0]);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	double unused[BENCH_VALUES];

	memcpy(b->ordinals, run->opt->gpus, sizeof(b->ordinals));
	b->bytes = run->opt->quick ? QUICK_COPY_BYTES : COPY_BYTES;
	b->nr = run->opt->quick ? QUICK_COPIES : COPIES;
	b->copies = bench_alloc(b->nr * sizeof(*b->copies));
	b->host = gpu_pinned(b->bytes);
	b->pool = gpu_pool(gpu_names(run->opt, 0, 2), run->kind, 2, NULL);
	for (unsigned i = 0; i < 2; i++) {
		void *mem;

		gpu_enter(b->ordinals[i]);
		b->mem[0][i] = gpu_memory(b->bytes);
		b->streams[i] = gpu_stream(RNL_STREAM_PRIVATE, false);
		bench_rnl(rnl_memory_get(b->pool, i, b->bytes, &mem, 0), "rnl_memory_get");
		b->mem[1][i] = mem;
	}
	for (unsigned pool = 0; pool < 2; pool++)
		measure(b, pool, unused);
	return b;
}

static void end_row(void *arg, struct bench_line **lines)
{
	const struct bench *b = arg;

	for (unsigned i = 0; i < 2; i++)
		rnl_memory_put(b->pool, b->mem[1][i]);
	gpu_row_end(arg, lines);
}

const struct bench_work bench_peers = { begin_row, measure, end_row, NULL };
