/* SPDX-License-Identifier: MIT */
/*
 * The row preload: the time until much page-locked memory can be used.
 *
 * DESIGN
 *	By hand, memory that is mapped first, and then registered: its pages come from the mapping,
 *	or from threads that touch huge pages. Pages must be zeroed at least, so the ceiling is the
 *	touch alone. By runnel a pool of one worker, which locks this much memory in advance. The
 *	goal is a part of the time of the usual way, one call of cudaHostAlloc(). The time to free
 *	the memory is not measured. After it is, a kernel accesses the memory's end.
 */
#include <sys/mman.h>
#include <unistd.h>

#include <runnel/memory.h>

#include "gpu/work.h"

#define BYTES ((size_t)4 << 30)
#define QUICK_BYTES ((size_t)64 << 20)
#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define THREADS_MAX 16

enum { ALLOCATED, POPULATED, TOUCHED, TOUCHED_ALONE };

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	const struct bench_options *opt;
	enum rnl_stream_kind kind;
	size_t bytes;
	cudaStream_t stream;
	unsigned nr_threads;
};

static double ms_since(uint64_t start)
{
	return (double)(bench_now() - start) * 1e-6;
}

/* Checks that a kernel can read and write page-locked memory. */
static void check(const struct bench *b, void *mem, size_t bytes)
{
	const struct gpu_shape shape = { 1, 1, { GPU_WORDS } };
	struct gpu_slot slot;

	gpu_slots_in(&slot, 1, sizeof(slot), &shape,
		     (uint32_t *)mem + bytes / sizeof(uint32_t) - 2 * GPU_WORDS, NULL);
	slot.kernel = GPU_ROUND;
	gpu_prepare(&slot);
	gpu_ok(gpu_issue_reach(&slot, b->stream), "a kernel");
	gpu_ok(cudaStreamSynchronize(b->stream), "cudaStreamSynchronize");
	gpu_check(&slot);
	gpu_check_all(&slot);
}

/* ---- by hand ------------------------------------------------------------- */

static double by_call(const struct bench *b)
{
	const uint64_t start = bench_now();
	double ms;
	void *mem;

	gpu_ok(cudaHostAlloc(&mem, b->bytes, cudaHostAllocPortable), "cudaHostAlloc");
	ms = ms_since(start);
	check(b, mem, b->bytes);
	gpu_ok(cudaFreeHost(mem), "cudaFreeHost");
	return ms;
}

struct part {
	char *mem;
	size_t bytes;
};

static void *touch(void *arg)
{
	const struct part *part = arg;

	for (size_t at = 0; at < part->bytes; at += PAGE)
		*(volatile char *)(part->mem + at) = 0;
	return NULL;
}

static void touch_all(const struct bench *b, char *mem)
{
	const size_t each = b->bytes / b->nr_threads;
	struct part parts[THREADS_MAX];
	pthread_t threads[THREADS_MAX];

	for (unsigned i = 0; i < b->nr_threads; i++) {
		parts[i] = (struct part){ mem + i * each, each };
		if (i == b->nr_threads - 1)
			parts[i].bytes = b->bytes - i * each;
		bench_must(!pthread_create(&threads[i], NULL, touch, &parts[i]), "pthread_create");
	}
	for (unsigned i = 0; i < b->nr_threads; i++)
		pthread_join(threads[i], NULL);
}

static double by_mapping(const struct bench *b, unsigned way)
{
	const size_t whole = b->bytes + HUGE_PAGE;
	const uint64_t start = bench_now();
	char *begin = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
			   (way == POPULATED ? MAP_POPULATE : 0), -1, 0);
	char *mem = begin + HUGE_PAGE - (uintptr_t)begin % HUGE_PAGE;
	double ms;

	bench_must(begin != MAP_FAILED, "mmap");
	if (way != POPULATED) {
		(void)madvise(begin, whole, MADV_HUGEPAGE);
		touch_all(b, mem);
	}
	if (way != TOUCHED_ALONE)
		gpu_ok(cudaHostRegister(mem, b->bytes, cudaHostRegisterPortable |
					cudaHostRegisterMapped), "cudaHostRegister");
	ms = ms_since(start);
	if (way != TOUCHED_ALONE) {
		check(b, mem, b->bytes);
		gpu_ok(cudaHostUnregister(mem), "cudaHostUnregister");
	}
	bench_must(!munmap(begin, whole), "munmap");
	return ms;
}

/* ---- runnel -------------------------------------------------------------- */

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
	ms = ms_since(start);
	bench_rnl(rnl_memory_get(pool, RNL_PINNED, b->bytes / 2, &mem, 0), "rnl_memory_get");
	check(b, mem, b->bytes / 2);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
	return ms;
}

static void measure(void *arg, unsigned way, double *values)
{
	if (way == ALLOCATED)
		values[0] = by_call(arg);
	else if (way <= TOUCHED_ALONE)
		values[0] = by_mapping(arg, way);
	else
		values[0] = by_pool(arg);
}

static void *begin_row(struct bench_run *run)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct bench *b = bench_alloc(sizeof(*b));

	b->opt = run->opt;
	b->kind = run->kind;
	b->bytes = b->opt->quick ? QUICK_BYTES : BYTES;
	b->stream = gpu_stream(RNL_STREAM_PRIVATE, false);
	b->nr_threads = cpus < 1 ? 1 : cpus > THREADS_MAX ? THREADS_MAX : (unsigned)cpus;
	b->pool = gpu_pool(b->opt->device, b->kind, 1, NULL);
	return b;
}

static void end_row(void *arg, struct bench_line **lines)
{
	lines[0]->goal_value *= gpu_other(lines[0], "cudaHostAlloc()");
	gpu_row_end(arg, lines);
}

const struct bench_work bench_preload = { begin_row, measure, end_row, NULL };
