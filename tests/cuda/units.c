/* SPDX-License-Identifier: MIT */
/* A C unit makes jobs of functions in a CUDA unit, which has its own copy of the CUDA runtime. */
#include <runnel/memory.h>

#include "pool.h"

/* units.cu */
int bad_launch_fn(struct rnl_job *job);
int late_fn(struct rnl_job *job);

TEST(a_failed_launch_fails_its_job_though_another_unit_made_it, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_job job;

	for (int i = 0; i < 10; i++) {
		job_of(&job, bad_launch_fn, NULL);
		ck_assert_int_eq(submit_and_wait(pool, &job), -EINVAL);
		/* Drivers give cudaErrorInvalidValue or cudaErrorInvalidConfiguration. */
		ck_assert_int_ne(job.device_error, 0);
		/* The error is no other job's. */
		job_of(&job, noop_fn, NULL);
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	}
	rnl_pool_destroy(pool);
}

TEST(a_private_pool_refuses_the_unit_though_another_unit_made_the_job, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1, .stream = RNL_STREAM_PRIVATE);
	struct rnl_job job;

	job_of(&job, late_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	job_of(&job, noop_fn, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	rnl_pool_destroy(pool);
}

TEST(a_pool_on_the_host_device_waits_for_what_such_a_job_left_on_the_gpu, .timeout_s = 60)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *gpu = pool_of(1), *pool;
	struct rnl_job job;
	void *word;

	attr.device = "host";
	must(rnl_pool_create(&pool, &attr));
	must(rnl_memory_get(gpu, RNL_PINNED, sizeof(int), &word, 0));
	for (int i = 0; i < 3; i++) {
		*(int *)word = 0;
		job_of(&job, late_fn, word);
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
		ck_assert_int_eq(*(int *)word, 7);
	}
	job_of(&job, bad_launch_fn, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), -EINVAL);
	rnl_memory_put(gpu, word);
	rnl_pool_destroy(pool);
	rnl_pool_destroy(gpu);
}
