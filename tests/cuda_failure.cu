/* SPDX-License-Identifier: MIT */
/* An error that the GPU does not survive: every job ends, the process answers. */
#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "suite.h"

#include <runnel/cuda.h>

#define NR 4000
#define NR_WORKERS 8

static __global__ void spin(uint64_t ns)
{
	uint64_t start, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
	do {
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	} while (now - start < ns);
}

static __global__ void write_to(uint32_t *where)
{
	*where = 1;
}

static int run_spin(struct rnl_job *job)
{
	(void)job;
	spin<<<1, 1, 0, (cudaStream_t)rnl_stream()>>>(50000);
	return 0;
}

static int run_bad(struct rnl_job *job)
{
	(void)job;
	write_to<<<1, 1, 0, (cudaStream_t)rnl_stream()>>>((uint32_t *)16);
	return 0;
}

static struct rnl_job jobs[NR], bad, late;

START_TEST(every_job_ends_when_the_device_fails)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct timespec start, now;
	unsigned done = 0, failed = 0;
	void *mem;

	attr.nr_workers = NR_WORKERS;
	attr.device = "cuda";
	attr.stream = _i;
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), 0);
	for (unsigned i = 0; i < NR; i++) {
		ck_assert_int_eq(rnl_job_init(&jobs[i], run_spin), 0);
		ck_assert_int_eq(rnl_submit(pool, &jobs[i]), 0);
		if (i != NR / 2)
			continue;
		ck_assert_int_eq(rnl_job_init(&bad, run_bad), 0);
		ck_assert_int_eq(rnl_submit(pool, &bad), 0);
	}
	ck_assert_int_eq(rnl_job_wait(&bad, RNL_FOREVER), 0);
	ck_assert_int_eq(rnl_job_result(&bad), -EIO);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (unsigned i = 0; i < NR; i++) {
		ck_assert_int_eq(rnl_job_wait(&jobs[i], 10000000000), 0);
		if (rnl_job_result(&jobs[i]) == 0)
			done++;
		else if (rnl_job_result(&jobs[i]) == -EIO)
			failed++;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%u jobs done, %u failed, the last %.0f ms after the bad one\n", done, failed,
	       (double)(now.tv_sec - start.tv_sec) * 1e3 +
	       (double)(now.tv_nsec - start.tv_nsec) * 1e-6);
	fflush(stdout);
	ck_assert_uint_eq(done + failed, NR);
	ck_assert_uint_gt(failed, 0);

	ck_assert_int_eq(rnl_job_init(&late, run_spin), 0);
	ck_assert_int_eq(rnl_submit(pool, &late), -EIO);
	ck_assert_int_eq(rnl_device_alloc(pool, 64, &mem), -EIO);
	ck_assert_int_eq(rnl_pool_drain(pool, RNL_FOREVER), 0);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), -EIO);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("cuda_failure");
	TCase *tc = tcase_create("sticky errors");

	tcase_add_loop_test(tc, every_job_ends_when_the_device_fails, 0, 2);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
