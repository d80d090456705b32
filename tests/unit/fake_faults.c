/* SPDX-License-Identifier: MIT */
/* The state after a failing call of the CUDA runtime; unit/countdown fails each call. */
#include <runnel/guard.h>
#include <runnel/memory.h>

#include "fake.h"
#include "heard.h"

enum { WORKERS = 2, NR = 4, BYTES = (1 << 20) + 4096 };

/* ---- failures of one call ------------------------------------------------------ */

static _Atomic int left = -1;	/* CUDA's last error, after a job */

static int filling_fn(struct rnl_job *job)
{
	void *mem = NULL;
	int ret = rnl_scratch(BYTES, &mem);

	(void)job;
	return ret ? ret : rnl_fill(mem, 1, BYTES);
}

static void note_left(struct rnl_job *job)
{
	(void)job;
	left = (int)cudaGetLastError();
}

TEST(a_graph_that_the_guard_cannot_destroy_fails_no_job, .loops = 2)
{
	const char *const ends[] = { "cudaGraphDestroy", "cudaGraphExecDestroy" };
	struct rnl_pool *pool = pool_of(1, .guard = RNL_GUARD_REPORT);
	struct rnl_job job;

	job_of(&job, filling_fn, NULL);
	must(rnl_job_set_on_done(&job, note_left));
	ck_assert_int_eq(fake_fail(ends[_i], 1, cudaErrorMemoryAllocation, false), 0);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(fake_calls(ends[_i]), 1);
	ck_assert_int_eq(left, 0);
	rnl_pool_destroy(pool);
}

/* Gets more page-locked memory, and continues without it. */
static int optional_fn(struct rnl_job *job)
{
	void *mem = NULL;
	int ret = rnl_memory_get(job->pool, RNL_PINNED, BYTES, &mem, 0);

	rnl_memory_put(job->pool, mem);
	return job->user ? ret : 0;
}

TEST(only_a_failed_job_has_cudas_error_code, .loops = 2)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;

	job_of(&job, optional_fn, _i ? pool : NULL);
	ck_assert_int_eq(fake_fail("cudaHostAlloc", 1, cudaErrorNotSupported, false), 0);
	ck_assert_int_eq(submit_and_wait(pool, &job), _i ? -ENOTSUP : 0);
	ck_assert_int_eq(job.device_error, _i ? cudaErrorNotSupported : 0);
	rnl_pool_destroy(pool);
}

struct copying {
	struct rnl_job job;
	void *dst;
	const void *src;
	size_t rows;
};

static int copying_fn(struct rnl_job *job)
{
	const struct copying *c = rnl_container_of(job, struct copying, job);

	return c->rows ? rnl_copy_2d(c->dst, 64, c->src, 64, 32, c->rows) : rnl_copy(c->dst, c->src, 64);
}

/* In the third round CUDA also fails to report whether the copy is between devices. */
TEST(a_copy_that_the_device_refuses_is_logged_with_what_was_to_be_copied, .loops = 3)
{
	static const char *const calls[] = { "cudaMemcpyAsync", "cudaMemcpy2DAsync", "cudaMemcpyAsync" };
	const bool pitched = _i == 1;
	struct copying c = { .rows = pitched ? 2 : 0 };
	static struct heard heard = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct rnl_pool *pool = pool_of(1, .log = hear_line, .log_arg = &heard);
	char line[160];
	void *mem;

	must(rnl_memory_get(pool, 0, 128, &c.dst, 0));
	must(rnl_memory_get(pool, RNL_PINNED, 128, &mem, 0));
	c.src = mem;
	snprintf(line, sizeof(line), "%s: the device refused %d bytes from %p to %p",
		 pitched ? "rnl_copy_2d()" : "rnl_copy()", pitched ? 32 : 64, mem, c.dst);
	job_of(&c.job, copying_fn, NULL);
	ck_assert_int_eq(fake_fail(calls[_i], 1, cudaErrorInvalidValue, false), 0);
	if (_i == 2)
		ck_assert_int_eq(fake_fail("cudaPointerGetAttributes", 1, cudaErrorInvalidValue, false), 0);
	ck_assert_int_eq(submit_and_wait(pool, &c.job), -EINVAL);
	ck_assert_int_eq(c.job.device_error, cudaErrorInvalidValue);
	ck_assert_msg(has_heard(&heard, line), "not \"%s\": %s", line, heard.text);
	ck_assert_int_eq(submit_and_wait(pool, &c.job), 0);
	rnl_memory_put(pool, mem);
	rnl_memory_put(pool, c.dst);
	rnl_pool_destroy(pool);
}

/* ---- permanent failures --------------------------------------------------------- */

TEST(a_device_that_fails_later_does_so_too, .loops = 2)
{
	struct rnl_pool *pool = pool_of(WORKERS);
	struct gate gate = GATE_INIT;
	struct rnl_job jobs[NR];

	for (int i = 0; i < NR; i++) {
		submit_job(pool, &jobs[i], _i ? noop_fn : gated_fn, &gate);
	}
	gate_await(&gate, _i ? 0 : WORKERS);
	fake_fail_sticky(cudaErrorIllegalAddress);
	gate_open(&gate);
	for (int i = 0; i < NR; i++) {
		int ret = result_of(&jobs[i]);

		ck_assert(ret == -EIO || (_i && !ret));
	}
	ck_eventually(rnl_submit(pool, &jobs[0]) == -EIO);
	rnl_pool_destroy(pool);
}

struct busy {
	struct rnl_job job;
	struct gate *in_function, *in_kernel;	/* NULL: no gate */
	int word;
};

static int busy_fn(struct rnl_job *job)
{
	struct busy *b = rnl_container_of(job, struct busy, job);

	if (b->in_function)
		gate_wait(b->in_function);
	return launch_store(b->in_kernel, &b->word, 1);
}

/* tests/cuda/failure.cu tests this on a GPU. */
TEST(eight_busy_workers_and_what_is_queued_end_within_200_ms, .loops = 2)
{
	enum { BUSY = 8, QUEUED = 1000 };
	static struct busy jobs[BUSY + QUEUED];
	/* The double's kernels do not end when the device fails; nothing waits for them. */
	static struct gate gates[] = { GATE_INIT, GATE_INIT };
	struct gate in_functions = GATE_INIT, *kernels = &gates[_i];
	/* 25 of the 100 ms; the rest is slack for busy machines. */
	struct rnl_pool *pool = pool_of(BUSY, .stream = (enum rnl_stream_kind)_i,
					.watchdog_ms = 25);
	struct rnl_job late;
	double start, took;

	for (unsigned i = 0; i < COUNT(jobs); i++) {
		jobs[i].in_function = i < BUSY ? &in_functions : NULL;
		jobs[i].in_kernel = i < BUSY ? kernels : NULL;
		submit_job(pool, &jobs[i].job, busy_fn, NULL);
		if (i != BUSY - 1)
			continue;
		/* Each worker's kernel runs, and all later work is queued after it. */
		gate_await(&in_functions, BUSY);
		gate_open(&in_functions);
		gate_await(kernels, BUSY);
	}
	start = seconds_now();
	fake_fail_sticky(cudaErrorIllegalAddress);
	for (unsigned i = 0; i < COUNT(jobs); i++) {
		ck_assert_int_eq(result_of(&jobs[i].job), -EIO);
		ck_assert_int_eq(jobs[i].word, 0);
	}
	took = seconds_now() - start;
	printf("the last of %zu jobs ended after %.0f ms\n", COUNT(jobs), took * 1e3);
	ck_assert_double_lt(took, seconds_allowed(0.2));
	job_of(&late, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &late), -EIO);
	/* On a GPU the kernels would have ended; the double's kernels are functions. */
	gate_open(kernels);
	rnl_pool_destroy(pool);
}

TEST(a_drain_ends_when_the_mark_of_a_full_stream_meets_the_failure)
{
	struct gate gate = GATE_INIT;
	struct rnl_job jobs[NR];
	struct rnl_pool *pool;
	struct call call;

	/* The first job fills the stream, which has no mark yet. */
	pool = pool_of(1, .max_in_flight = 1);
	for (int i = 0; i < NR; i++) {
		submit_job(pool, &jobs[i], gated_fn, &gate);
	}
	call_start(&call, drain_fn, pool);
	ck_waits(call.tid);
	ck_assert_int_eq(fake_fail("cuStreamWriteValue32", 1, cudaErrorIllegalAddress, true), 0);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), -EIO);
	rnl_pool_destroy(pool);
}

/* Seen on a GPU: a worker's thread never returned from CUDA at its end. */
TEST(a_pool_is_taken_down_whose_threads_cannot_end)
{
	struct rnl_pool *pool = pool_of(WORKERS);
	struct rnl_job jobs[NR];

	ck_assert_int_eq(fake_plan("stay"), 0);
	for (int i = 0; i < NR; i++) {
		submit_job(pool, &jobs[i], filling_fn, NULL);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	fake_fail_sticky(cudaErrorIllegalAddress);
	ck_assert_int_eq(submit_and_wait(pool, &jobs[0]), -EIO);
	rnl_pool_destroy(pool);
}
