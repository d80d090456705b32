/* SPDX-License-Identifier: MIT */
/* Kernels of different workers run at the same time on the GPU. */
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spin.h"
#include "suite.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>
#include <runnel/device.h>
#include <runnel/memory.h>

#define KERNEL_NS 5000000
#define RUNS 7
#define MEETING_NS 3000000000

static __global__ void spin(uint64_t ns)
{
	spin_ns(ns);
}

/* Counts itself, and waits for the other kernels; @all: the count at the end. */
static __global__ void meet(uint32_t *come, uint32_t nr, uint32_t *all)
{
	const uint64_t start = now_ns();

	atomicAdd_system(come, 1);
	do {
		*all = *(volatile uint32_t *)come;
	} while (*all < nr && now_ns() - start < MEETING_NS);
}

struct item {
	struct rnl_job job;
	uint64_t ns;
};

struct guest {
	struct rnl_job job;
	uint32_t *come, *all;
	unsigned nr;
};

static int run_spin(struct rnl_job *job)
{
	spin<<<1, 1, 0, (cudaStream_t)rnl_stream()>>>(
		rnl_container_of(job, struct item, job)->ns);
	return 0;
}

/* Launches its kernel once each worker has such a job. */
static int run_meet(struct rnl_job *job)
{
	static unsigned nr_in_function;
	const struct guest *guest = rnl_container_of(job, struct guest, job);

	__atomic_add_fetch(&nr_in_function, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&nr_in_function, __ATOMIC_RELAXED) < guest->nr)
		sched_yield();
	meet<<<1, 1, 0, (cudaStream_t)rnl_stream()>>>(guest->come, guest->nr, guest->all);
	return 0;
}

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

/* Returns the milliseconds from submit to barrier of one kernel on each of @nr workers. */
static double all_workers(struct rnl_pool *pool, unsigned nr, uint64_t ns)
{
	struct item items[RNL_WORKERS_MAX];
	struct rnl_job *jobs[RNL_WORKERS_MAX];
	struct rnl_barrier barrier;
	double start = now_ms();

	must(rnl_barrier_init(&barrier, pool));
	for (unsigned i = 0; i < nr; i++) {
		items[i].ns = ns;
		jobs[i] = &items[i].job;
		must(rnl_job_init(jobs[i], run_spin));
		must(rnl_barrier_add(&barrier, jobs[i]));
	}
	ck_assert_int_eq(rnl_submit_many(pool, jobs, nr), (int)nr);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ck_assert_int_eq(barrier.result, 0);
	return now_ms() - start;
}

static void overlap(unsigned nr_workers, enum rnl_stream_kind stream, double bound_ms)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	double best = 1e9;

	attr.nr_workers = nr_workers;
	attr.device = "cuda";
	attr.stream = stream;
	must(rnl_pool_create(&pool, &attr));
	/* CUDA loads a kernel at its first launch, which must not be measured. */
	all_workers(pool, nr_workers, 1000);
	for (int i = 0; i < RUNS; i++) {
		double ms = all_workers(pool, nr_workers, KERNEL_NS);

		best = ms < best ? ms : best;
	}
	printf("%u workers, one 5 ms kernel each: %.2f ms\n", nr_workers, best);
	fflush(stdout);
	ck_assert_double_ge(best, 5.0);
	ck_assert_double_le(best, 1e3 * seconds_allowed(bound_ms * 1e-3));
	rnl_pool_destroy(pool);
}

TEST(kernels_of_4_and_8_workers_overlap, .loops = 2)
{
	overlap(4, (enum rnl_stream_kind)_i, 6);
	overlap(8, (enum rnl_stream_kind)_i, 6);
}

TEST(kernels_of_32_workers_overlap_after_rnl_setup, .loops = 2)
{
	overlap(32, (enum rnl_stream_kind)_i, 12);
}

/* Streams can delay each other if their first work is issued at the same time, see inflight.h. */
static void first_kernels_meet(unsigned nr, unsigned least, enum rnl_stream_kind stream)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct guest guests[RNL_WORKERS_MAX];
	struct rnl_pool *pool;
	uint32_t *words;
	void *mem;

	attr.nr_workers = nr;
	attr.device = "cuda";
	attr.stream = stream;
	must(rnl_pool_create(&pool, &attr));
	must(rnl_memory_get(pool, RNL_PINNED, (nr + 1) * sizeof(*words), &mem, 0));
	words = (uint32_t *)mem;
	memset(words, 0, (nr + 1) * sizeof(*words));
	for (unsigned i = 0; i < nr; i++) {
		guests[i].come = words;
		guests[i].all = words + 1 + i;
		guests[i].nr = nr;
		must(rnl_job_init(&guests[i].job, run_meet));
		must(rnl_submit(pool, &guests[i].job));
	}
	for (unsigned i = 0; i < nr; i++)
		must(rnl_job_wait(&guests[i].job, RNL_FOREVER));
	for (unsigned i = 0; i < nr; i++)
		ck_assert_uint_ge(*guests[i].all, least);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

TEST(the_first_kernels_of_8_workers_run_at_once, .loops = 2)
{
	first_kernels_meet(8, 8, (enum rnl_stream_kind)_i);
}

/* A GPU has at most 32 queues, the pool 33 streams: in one of six runs one kernel waited. */
TEST(the_first_kernels_of_32_workers_run_at_once, .loops = 2)
{
	first_kernels_meet(32, 31, (enum rnl_stream_kind)_i);
}

int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (rnl_setup())
		return 1;
	/* CUDA may not load a kernel while others wait for each other. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	return SUITE_GOES_ON;
}
