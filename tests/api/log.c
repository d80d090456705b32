/* SPDX-License-Identifier: MIT */
/* What a pool logs. It goes to the pool's log function only. */
#include "pool.h"

struct heard {
	_Atomic int messages, errors;
	char line[200];
};

static void hear(void *arg, enum rnl_log_level level, const char *msg)
{
	struct heard *heard = arg;

	if (level == RNL_LOG_ERROR)
		atomic_fetch_add(&heard->errors, 1);
	snprintf(heard->line, sizeof(heard->line), "%s", msg);
	atomic_fetch_add(&heard->messages, 1);
}

static int destroy_fn(struct rnl_job *job)
{
	rnl_pool_destroy(job->user);
	return 5;
}

TEST(destroy_on_a_worker_only_closes_and_logs)
{
	struct heard heard = { 0 };
	struct rnl_pool *pool = pool_of(2, .log = hear, .log_arg = &heard);
	struct rnl_job job, late;

	ck_assert_int_eq(heard.errors, 0);
	job_of(&job, destroy_fn, pool);
	job_of(&late, noop_fn, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), 5);
	ck_assert_int_eq(heard.errors, 1);
	ck_assert_ptr_nonnull(strstr(heard.line, "rnl_pool_destroy"));
	ck_assert_ptr_null(strchr(heard.line, '\n'));

	ck_assert_int_eq(rnl_submit(pool, &late), -ESHUTDOWN);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(heard.errors, 1);
}

TEST(a_pool_says_that_its_workers_share_hardware_queues)
{
	struct heard heard = { 0 };
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.log = hear;
	attr.log_arg = &heard;
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	rnl_pool_destroy(pool_with(&attr, 9));
	ck_assert_int_eq(heard.messages, 0);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
	rnl_pool_destroy(pool_with(&attr, 8));
	ck_assert_int_eq(heard.messages, 0);
	rnl_pool_destroy(pool_with(&attr, 9));
	/* The host device has none. */
	ck_assert_int_eq(heard.messages, !on_host());
	ck_assert_int_eq(heard.errors, 0);
}

TEST(without_a_log_function_nothing_is_said)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;

	submit_job(pool, &job, destroy_fn, pool);
	ck_assert_int_eq(result_of(&job), 5);
	rnl_pool_destroy(pool);
}
