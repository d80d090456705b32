/* SPDX-License-Identifier: MIT */
/* Kernels of different workers run at the same time on the GPU. */
#include <stdint.h>
#include <time.h>

#include "suite.h"

#include <runnel/cuda.h>

#define KERNEL_NS 5000000
#define RUNS 7

static __global__ void spin(uint64_t ns)
{
	uint64_t start, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
	do {
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	} while (now - start < ns);
}

struct item {
	struct rnl_job job;
	uint64_t ns;
};

static int run_spin(struct rnl_job *job)
{
	spin<<<1, 1, 0, (cudaStream_t)rnl_stream()>>>(
		rnl_container_of(job, struct item, job)->ns);
	return 0;
}

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

/* Milliseconds for one kernel on each of @nr workers, from submit to barrier. */
static double all_workers(struct rnl_pool *pool, unsigned nr, uint64_t ns)
{
	struct item items[RNL_WORKERS_MAX];
	struct rnl_job *jobs[RNL_WORKERS_MAX];
	struct rnl_barrier barrier;
	double start = now_ms();

	ck_assert_int_eq(rnl_barrier_init(&barrier, pool), 0);
	for (unsigned i = 0; i < nr; i++) {
		items[i].ns = ns;
		jobs[i] = &items[i].job;
		ck_assert_int_eq(rnl_job_init(jobs[i], run_spin), 0);
		ck_assert_int_eq(rnl_barrier_add(&barrier, jobs[i]), 0);
	}
	ck_assert_int_eq(rnl_submit_many(pool, jobs, nr), (int)nr);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, RNL_FOREVER), 0);
	ck_assert_int_eq(rnl_barrier_result(&barrier), 0);
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
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), 0);
	/* CUDA loads a kernel when it is first launched: not part of this. */
	all_workers(pool, nr_workers, 1000);
	for (int i = 0; i < RUNS; i++) {
		double ms = all_workers(pool, nr_workers, KERNEL_NS);

		best = ms < best ? ms : best;
	}
	printf("%u workers, one 5 ms kernel each: %.2f ms\n", nr_workers, best);
	fflush(stdout);
	ck_assert_double_ge(best, 5.0);
	ck_assert_double_le(best, bound_ms);
	rnl_pool_destroy(pool);
}

START_TEST(kernels_of_4_and_8_workers_overlap)
{
	overlap(4, (enum rnl_stream_kind)_i, 6);
	overlap(8, (enum rnl_stream_kind)_i, 6);
}
END_TEST

START_TEST(kernels_of_32_workers_overlap_after_rnl_setup)
{
	overlap(32, (enum rnl_stream_kind)_i, 12);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("cuda_overlap");
	TCase *tc = tcase_create("kernels");

	tcase_add_loop_test(tc, kernels_of_4_and_8_workers_overlap, 0, 2);
	tcase_add_loop_test(tc, kernels_of_32_workers_overlap_after_rnl_setup, 0, 2);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	if (rnl_setup())
		return 1;
	return suite_main(make_suite);
}
