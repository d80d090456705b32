/* SPDX-License-Identifier: MIT */
/* The driver's reason for a failed CUDA call is in the library's line about the failure. */
#include <runnel/memory.h>
#include <runnel/thread.h>

#include "guard.h"
#include "heard.h"

SUITE_FORKS

static struct heard heard;

typedef void listen_fn(void *data, int level, char *message, size_t length);
typedef int register_fn(listen_fn *fn, void *data, void **handle);

/* A pool that logs to `heard`; the double's driver gives reasons if @reasons is set. */
static struct rnl_pool *pool_with_reasons_for(unsigned nr_workers, bool reasons)
{
	int (*plan)(const char *text) = CUDA(int (*)(const char *), "fake_plan");
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	if (reasons && test_fake())
		must(plan("logs"));
	add_cuda_unit();
	hear(&heard, &attr);
	return pool_with(&attr, nr_workers);
}

static struct rnl_pool *pool_with_reasons(bool reasons)
{
	return pool_with_reasons_for(1, reasons);
}

/* The log has one line, with both texts. */
static void one_line_has(const char *text, const char *reason)
{
	ck_assert_msg(strstr(heard.text, text) && strstr(heard.text, reason), "not \"%s\", \"%s\": %s",
		      text, reason, heard.text);
	ck_assert_ptr_eq(strchr(heard.text, '\n') + 1, heard.text + heard.bytes);
}

/* Skips the test where no driver gives reasons. */
#define needs_reasons() \
	do { \
		if (on_host()) \
			test_skip("the host device has no driver"); \
		if (!CUDA(register_fn *, "cudaLogsRegisterCallback")) \
			test_skip("this CUDA gives no reasons"); \
	} while (0)

#define REASON "; the driver: "

static int fills_the_stack(struct rnl_job *job)
{
	char mem[64];

	(void)job;
	return rnl_fill(mem, 1, sizeof(mem));
}

/* A CUDA call that fails, without a call of the library. */
static int fails_by_itself(struct rnl_job *job)
{
	char mem[4];

	(void)job;
	(void)CUDA(memset_fn *, "cudaMemsetAsync")(mem, 0, sizeof(mem), rnl_stream());
	return 0;
}

static int fails_and_goes_on(struct rnl_job *job)
{
	(void)fails_by_itself(job);
	(void)CUDA(no_args_fn *, "cudaGetLastError")();
	return 0;
}

TEST(a_refused_call_has_the_drivers_reason_in_its_line)
{
	struct rnl_pool *pool;
	struct rnl_job job;

	needs_reasons();
	pool = pool_with_reasons(true);
	job_of(&job, fills_the_stack, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), -EINVAL);
	one_line_has("rnl_fill(): the device refused 64 bytes", REASON);
	rnl_pool_destroy(pool);
}

TEST(an_attached_threads_refused_call_has_it_too)
{
	struct rnl_pool *pool;

	needs_reasons();
	pool = pool_with_reasons(true);
	must(rnl_thread_attach(pool));
	rnl_set_log(hear_line, &heard);
	ck_assert_int_eq(fills_the_stack(NULL), -EINVAL);
	one_line_has("the device refused 64 bytes", REASON);
	rnl_set_log(NULL, NULL);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_fails_by_its_own_cuda_call_is_named_with_the_reason)
{
	struct rnl_pool *pool;
	struct rnl_job job;

	needs_reasons();
	pool = pool_with_reasons(true);
	job_of(&job, fails_by_itself, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), -EINVAL);
	one_line_has("fails_by_itself(): a CUDA call in it failed with CUDA error 1 (", REASON);
	one_line_has("; the driver: ", test_fake() ?
		     "the double does not like this call. Returning 1 (CUDA_ERROR_1) from cudaMemsetAsync\n" :
		     "invalid memset range");
	rnl_pool_destroy(pool);
}

TEST(jobs_that_fail_at_the_same_time_each_have_a_line)
{
	enum { NR = 12 };
	struct rnl_job jobs[NR];
	struct rnl_pool *pool;
	unsigned nr = 0;

	needs_reasons();
	pool = pool_with_reasons_for(4, true);
	for (int i = 0; i < NR; i++)
		submit_job(pool, &jobs[i], fails_by_itself, NULL);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), -EINVAL);
	rnl_pool_destroy(pool);
	for (const char *at = heard.text; (at = strstr(at, "fails_by_itself(): ")) != NULL; at++)
		nr++;
	ck_assert_uint_eq(nr, NR);
	ck_assert_ptr_nonnull(strstr(heard.text, REASON));
}

TEST(a_pool_whose_workers_get_no_stream_has_it)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	if (!test_fake())
		test_skip("a call fails by the double's plan");
	must(CUDA(int (*)(const char *), "fake_plan")("logs,fail=cudaStreamQuery:1:46"));
	hear(&heard, &attr);
	attr.device = test_device();
	attr.nr_workers = 1;
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), -EIO);
	one_line_has("a worker's stream: CUDA makes no stream on cuda:0 (", REASON);
	ck_assert_uint_eq(CUDA(unsigned (*)(void), "fake_listeners")(), 0);
}

TEST(a_job_that_handles_its_error_leaves_no_line_and_no_reason)
{
	int (*fake_fail)(const char *, unsigned, int, bool) =
		CUDA(int (*)(const char *, unsigned, int, bool), "fake_fail");
	struct rnl_pool *pool;
	struct rnl_job job;

	needs_reasons();
	pool = pool_with_reasons(true);
	job_of(&job, fails_and_goes_on, NULL);
	must(submit_and_wait(pool, &job));
	ck_assert_str_eq(heard.text, "");
	if (!test_fake())
		goto end;
	/* The next failure has another code and no reason: the old one is not taken for its own. */
	must(CUDA(int (*)(const char *), "fake_plan")("nologs"));
	must(fake_fail("cudaMemsetAsync", 1, 98, false));
	job_of(&job, fails_by_itself, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), -EINVAL);
	one_line_has("CUDA error 98 (", ", so its job fails\n");
end:
	rnl_pool_destroy(pool);
}

TEST(without_reasons_the_lines_are_as_they_were)
{
	struct rnl_pool *pool;
	struct rnl_job job;

	if (!test_fake())
		test_skip("this is about the double's driver");
	pool = pool_with_reasons(false);
	job_of(&job, fails_by_itself, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), -EINVAL);
	one_line_has("fails_by_itself(): a CUDA call in it failed", ", so its job fails\n");
	rnl_pool_destroy(pool);
}

/* ---- the program's own callback, and its log ------------------------------------------ */

static _Atomic unsigned nr_messages;

static void listen(void *data, int level, char *message, size_t length)
{
	(void)data;
	(void)level;
	(void)message;
	(void)length;
	nr_messages++;
}

TEST(the_programs_own_callback_is_called_as_before)
{
	unsigned (*listeners)(void) = CUDA(unsigned (*)(void), "fake_listeners");
	struct rnl_pool *pool, *other;
	struct rnl_job job;
	void *handle;

	needs_reasons();
	must(CUDA(register_fn *, "cudaLogsRegisterCallback")(listen, NULL, &handle));
	pool = pool_with_reasons(true);
	other = pool_of(1);
	job_of(&job, fails_by_itself, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), -EINVAL);
	one_line_has("fails_by_itself()", REASON);
	ck_assert_uint_ge(nr_messages, 2);
	if (test_fake())
		ck_assert_uint_eq(listeners(), 2);
	rnl_pool_destroy(other);
	if (test_fake())
		ck_assert_uint_eq(listeners(), 2);
	rnl_pool_destroy(pool);
	if (test_fake())
		ck_assert_uint_eq(listeners(), 1);
	nr_messages = 0;
	ck_assert_int_ne(CUDA(memset_fn *, "cudaMemsetAsync")(&job, 0, 4, NULL), 0);
	ck_assert_uint_ge(nr_messages, 1);
	must(CUDA(int (*)(void *), "cudaLogsUnregisterCallback")(handle));
}

/* A call like this one from the driver's callback would wait for ever. */
static void log_with_a_call(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)CUDA(memset_fn *, "cudaMemsetAsync")(arg, 0, 4, NULL);
	(void)CUDA(no_args_fn *, "cudaGetLastError")();
	hear_line(&heard, level, msg);
}

TEST(a_log_may_call_cuda, .timeout_s = 20)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_job job;
	char mem[4];

	needs_reasons();
	pool = pool_with_reasons(true);
	rnl_pool_destroy(pool);
	attr.log = log_with_a_call;
	attr.log_arg = mem;
	pool = pool_with(&attr, 1);
	job_of(&job, fails_by_itself, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), -EINVAL);
	one_line_has("fails_by_itself()", REASON);
	rnl_pool_destroy(pool);
}
