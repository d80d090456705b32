/* SPDX-License-Identifier: MIT */
/* One job: its result, waits for it, its next run, and when its memory may be freed. */
#include <limits.h>

#include <runnel/memory.h>
#include <runnel/unit.h>

#include "asks.h"
#include "pool.h"

TEST(a_job_has_the_result_that_its_function_returned)
{
	static const int results[] = { 0, 1, 42, INT_MAX, -1, -EPROTO, -ECANCELED, INT_MIN };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_job job;

	for (unsigned i = 0; i < COUNT(results); i++) {
		submit_job(pool, &job, result_fn, (void *)(intptr_t)results[i]);
		ck_assert_int_eq(result_of(&job), results[i]);
		ck_assert_int_eq(job.device_error, 0);
	}
	rnl_pool_destroy(pool);
}

TEST(a_job_is_unknown_then_under_way_then_done)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job job;

	job_of(&job, gated_fn, &gate);
	ck_assert_int_eq(rnl_job_wait(&job, 0), -EINVAL);
	ck_assert_int_eq(rnl_job_wait(&job, RNL_FOREVER), -EINVAL);
	ck_assert_int_eq(job.device_error, 0);

	must(rnl_submit(pool, &job));
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rnl_job_wait(&job, 0), -ETIMEDOUT);
		gate_await(&gate, 1);	/* queued or running before, running now */
	}
	gate_open(&gate);
	for (int i = 0; i < 3; i++) {
		must(rnl_job_wait(&job, RNL_FOREVER));
		must(rnl_job_wait(&job, 0));
		ck_assert_int_eq(job.result, 0);
	}
	rnl_pool_destroy(pool);
}

TEST(a_wait_takes_as_long_as_its_timeout)
{
	static const int64_t timeouts[] = { 0, 1, 1000, 2 * MS, 30 * MS };
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job job;

	submit_job(pool, &job, gated_fn, &gate);
	for (unsigned i = 0; i < COUNT(timeouts); i++) {
		double start = seconds_now();

		ck_assert_int_eq(rnl_job_wait(&job, timeouts[i]), -ETIMEDOUT);
		ck_assert_double_ge(seconds_now() - start, (double)timeouts[i] * 1e-9);
		ck_assert_double_lt(seconds_now() - start, PATIENCE_S);
	}
	gate_open(&gate);
	/* Now + timeout overflows. */
	must(rnl_job_wait(&job, INT64_MAX));
	rnl_pool_destroy(pool);
}

struct held {
	struct rnl_job job;
	struct gate gate;
	pid_t waiter;
};

static int held_fn(struct rnl_job *job)
{
	gate_wait(&rnl_container_of(job, struct held, job)->gate);
	return 7;
}

/* Lets the job end when the waiter sleeps. */
static int let_go(void *arg)
{
	struct held *held = arg;

	while (thread_state(held->waiter) != 'S')
		sched_yield();
	gate_open(&held->gate);
	return 0;
}

TEST(a_wait_with_a_timeout_returns_when_the_job_is_done)
{
	struct rnl_pool *pool = pool_of(1);
	struct held held = { .gate = GATE_INIT, .waiter = own_tid() };
	struct call call;
	double start;

	submit_job(pool, &held.job, held_fn, NULL);
	call_start(&call, let_go, &held);
	start = seconds_now();
	must(rnl_job_wait(&held.job, 3600000 * MS));
	ck_assert_int_eq(held.job.result, 7);
	must(call_end(&call));
	ck_assert_double_lt(seconds_now() - start, PATIENCE_S);
	rnl_pool_destroy(pool);
}

struct waiter {
	struct rnl_job *job;
	int *written;		/* written by the job, without a lock */
	struct gate *start;
	int64_t timeout_ns;
};

/* Returns the written value, or an error. */
static int wait_and_read(void *arg)
{
	struct waiter *w = arg;
	int ret;

	gate_wait(w->start);
	ret = rnl_job_wait(w->job, w->timeout_ns);
	return ret ? ret : *w->written;
}

struct writing {
	struct rnl_job job;
	struct gate *gate;
	int written;
};

static int writing_fn(struct rnl_job *job)
{
	struct writing *w = rnl_container_of(job, struct writing, job);

	gate_wait(w->gate);
	w->written = 11;
	return 0;
}

TEST(several_threads_wait_for_one_job)
{
	enum { NR = 6 };
	struct rnl_pool *pool = pool_of(1);

	for (int round = 0; round < 100; round++) {
		struct gate gate = GATE_INIT, start = GATE_INIT;
		struct writing writing = { .gate = &gate };
		struct waiter waiters[NR];
		struct call calls[NR];

		submit_job(pool, &writing.job, writing_fn, NULL);
		for (int i = 0; i < NR; i++) {
			waiters[i] = (struct waiter){ &writing.job, &writing.written, &start,
						      i % 2 ? RNL_FOREVER : 3600000 * MS };
			call_start(&calls[i], wait_and_read, &waiters[i]);
		}
		gate_await(&start, NR);
		gate_open(&start);
		gate_open(&gate);
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(call_end(&calls[i]), 11);
	}
	rnl_pool_destroy(pool);
}

TEST(a_wait_that_times_out_takes_nothing_from_the_others)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT, start = GATE_INIT;
	struct writing writing = { .gate = &gate };
	struct waiter patient = { &writing.job, &writing.written, &start, RNL_FOREVER };
	struct call call;

	gate_open(&start);
	submit_job(pool, &writing.job, writing_fn, NULL);
	call_start(&call, wait_and_read, &patient);
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(rnl_job_wait(&writing.job, MS), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 11);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_is_done_is_submitted_again_without_a_new_init)
{
	enum { NR = 3000 };
	struct rnl_pool *pools[] = { pool_of(2), pool_of(1) };
	struct rnl_job job;

	job_of(&job, result_fn, NULL);
	for (int i = 0; i < NR; i++) {
		struct rnl_pool *pool = pools[i % 7 == 0];

		job.user = (void *)(intptr_t)(i % 5 ? i : -i);
		ck_assert_int_eq(i % 2 ? rnl_submit(pool, &job) :
					 submit_by_key(pool, &job, (uint64_t)i), 0);
		ck_assert_int_eq(result_of(&job), i % 5 ? i : -i);
	}
	rnl_pool_destroy(pools[0]);
	rnl_pool_destroy(pools[1]);
}

TEST(a_job_under_way_is_not_submitted_again)
{
	struct rnl_pool *pool = pool_of(1), *other = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job job, *list[] = { &job };

	submit_job(pool, &job, gated_fn, &gate);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rnl_submit(pool, &job), -EBUSY);
		ck_assert_int_eq(submit_by_key(pool, &job, 1), -EBUSY);
		ck_assert_int_eq(rnl_submit_many(pool, list, 1), -EBUSY);
		ck_assert_int_eq(rnl_submit(other, &job), -EBUSY);
		gate_await(&gate, 1);
	}
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).accepted, 1);
	ck_assert_uint_eq(figures_of(pool).done, 1);
	rnl_pool_destroy(other);
	rnl_pool_destroy(pool);
}

/* Sanitizers report a later access; without them the pattern may show it. */
static void end_of(void *memory, size_t bytes)
{
	memset(memory, 0xa5, bytes);
	free(memory);
}

TEST(the_memory_of_a_job_is_the_callers_as_soon_as_a_wait_returns)
{
	int nr = (int)(10000 / test_scale());
	struct rnl_pool *pool = pool_of(2);
	void *mem;

	must(rnl_memory_get(pool, 0, 2 * 64, &mem, 0));
	for (int i = 0; i < nr; i++) {
		struct rnl_job *job = malloc(sizeof(*job));

		job_of(job, i % 3 ? noop_fn : fill_own_fn, mem);
		ck_assert_int_eq(i % 2 ? rnl_submit(pool, job) :
					 submit_by_key(pool, job, (uint64_t)i), 0);
		if (i % 5)
			must(rnl_job_wait(job, RNL_FOREVER));
		else
			spin_until(is_done(job));
		end_of(job, sizeof(*job));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

TEST(user_is_the_callers_throughout)
{
	struct rnl_pool *pool = pool_of(1);
	int mine;
	struct rnl_job job;

	submit_job(pool, &job, noop_fn, &mine);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_ptr_eq(job.user, &mine);
	ck_assert_uint_le(sizeof(job), 128);
	rnl_pool_destroy(pool);
}

enum { INVALID_FUNCTION = 98 };	/* cudaErrorInvalidDeviceFunction */

/* Stands for a unit's cudaGetLastError(), which clears the thread's error: see runnel/cuda.h. */
static _Thread_local int last_error;

static int last_error_fn(void)
{
	int error = last_error;

	last_error = 0;
	return error;
}

static int launch_badly_fn(struct rnl_job *job)
{
	last_error = INVALID_FUNCTION;
	return *(int *)job->user;
}

static void launch_badly_at_the_end(struct rnl_job *job)
{
	(void)job;
	last_error = INVALID_FUNCTION;
}

static struct rnl__cuda_unit unit = {
	.size = sizeof(unit), .last_error = last_error_fn, .runtime = &last_error_fn,
};

TEST(a_cuda_call_that_failed_in_its_function_fails_the_job)
{
	struct rnl_pool *pool;
	struct rnl_job job;
	int returns = 5;

	must(rnl__cuda_unit_add(&unit));
	must(rnl__cuda_unit_add(&unit));		/* a second add changes nothing */
	pool = pool_of(1);
	job_of(&job, launch_badly_fn, &returns);
	ck_assert_int_lt(submit_and_wait(pool, &job), 0);
	ck_assert_int_eq(job.device_error, INVALID_FUNCTION);
	/* The function's own error has priority. */
	returns = -EPROTO;
	ck_assert_int_eq(submit_and_wait(pool, &job), -EPROTO);
	ck_assert_int_eq(job.device_error, INVALID_FUNCTION);
	/* An error from before the job is not the job's. */
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_on_done(&job, launch_badly_at_the_end));
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
		ck_assert_int_eq(job.device_error, 0);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl__cuda_unit_remove(&unit);
	/* The pool no longer reads the unit's error. */
	returns = 5;
	job_of(&job, launch_badly_fn, &returns);
	ck_assert_int_eq(submit_and_wait(pool, &job), 5);
	rnl_pool_destroy(pool);
}

TEST(a_unit_without_its_fields_is_refused)
{
	struct rnl__cuda_unit bad = unit;

	bad.size = 0;
	ck_assert_int_eq(rnl__cuda_unit_add(&bad), -EINVAL);
	bad = unit;
	bad.last_error = NULL;
	ck_assert_int_eq(rnl__cuda_unit_add(&bad), -EINVAL);
	rnl__cuda_unit_remove(NULL);
	rnl__cuda_unit_remove(&bad);
}
