/* SPDX-License-Identifier: MIT */
/*
 * Times under a faked clock. A library loaded before the C library, such as libfaketime, may show
 * the process another clock than the kernel's. Times must still hold.
 */
#define _GNU_SOURCE 1		/* for RTLD_NEXT */
#include <dlfcn.h>
#include <time.h>

#include <runnel/thread.h>

#include "cq.h"
#include "pool.h"
#include "sanitizers.h"

SUITE_FORKS

/* Seconds by which the program's clocks, except CLOCK_REALTIME, are ahead; negative: behind. */
static _Atomic long ahead_s;

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ts)
{
	static int (*_Atomic next)(clockid_t clock, struct timespec *ts);
	int ret;

	if (!next)
		next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	ret = next(clock, ts);
	if (clock != CLOCK_REALTIME)
		ts->tv_sec += ahead_s;
	return ret;
}

static const long offsets[] = { 0, 15 * 86400, -15 * 86400 };

/* Uses timeouts, a deadline and a start time while a gate holds the only worker. */
static void use_times(void)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job held, late, delayed, *reaped;
	struct gate gate = GATE_INIT;
	struct rnl_cq *cq = cq_of();

	submit_job(pool, &held, gated_fn, &gate);
	gate_await(&gate, 1);
	ck_assert_int_eq(rnl_job_wait(&held, 10 * MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_pool_drain(pool, 10 * MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, 10 * MS), 0);
	/* The timer thread completes @late, and later queues @delayed. */
	job_of(&late, noop_fn, NULL);
	must(rnl_job_set_deadline(&late, 10 * MS));
	must(rnl_submit(pool, &late));
	ck_assert_int_eq(rnl_job_wait(&late, patience_ns()), 0);
	ck_assert_int_eq(late.result, -ETIMEDOUT);
	job_of(&delayed, noop_fn, NULL);
	must(submit_at(pool, &delayed, rnl_clock() + 10 * MS));
	ck_assert_int_eq(rnl_job_wait(&delayed, 1 * MS), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_eq(rnl_job_wait(&delayed, patience_ns()), 0);
	ck_assert_int_eq(result_of(&held), 0);
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}

TEST(times_hold_on_a_clock_that_is_ahead_or_behind, .loops = COUNT(offsets))
{
	ahead_s = offsets[_i];
	use_times();
	ahead_s = 0;	/* Check times the test by this clock */
}

/* A wait for a thread's own stream and a submit that waits use other ways to sleep. */
TEST(waits_of_threads_end_on_such_a_clock, .loops = COUNT(offsets))
{
	struct rnl_pool *pool;
	struct rnl_job held, queued, more;
	struct gate gate = GATE_INIT;

	ahead_s = offsets[_i];
	pool = pool_of(1, .max_queued = 1);
	must(rnl_thread_attach(pool));
	must(rnl_stream_wait(10 * MS));
	submit_job(pool, &held, gated_fn, &gate);
	gate_await(&gate, 1);
	submit_job(pool, &queued, noop_fn, NULL);
	job_of(&more, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit_wait(pool, &more, 10 * MS), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&queued), 0);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
	ahead_s = 0;
}

/* With the defaults of libfaketime: threads see the faked clock, the kernel does not. */
TEST(times_hold_under_libfaketime, .loops = 2)
{
	char self[4096] = "";
	int status = 0;
	pid_t pid;

	ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
	if (SANITIZED)
		test_skip("a sanitizer's runtime does not let libfaketime come first");
	fflush(NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		unsetenv("CK_TAP_LOG_FILE_NAME");
		setenv("CK_FORK", "no", 1);
		setenv("CK_RUN_CASE", "times_hold_on_a_clock_that_is_ahead_or_behind", 1);
		execlp("faketime", "faketime", "-f", _i ? "+15d" : "-15d", self, (char *)NULL);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		test_skip("there is no faketime");
	ck_assert_int_eq(status, 0);
}
