/* SPDX-License-Identifier: MIT */
/* The work that jobs issue, when a job is done, and the memory that jobs use. */
#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "host_kernel.h"
#include "pool.h"
#include "sanitizers.h"

SANITIZER_OPTIONS("allocator_may_return_null=1");

/* ---- when a job is done -------------------------------------------------- */

struct working {
	struct rnl_job job;
	unsigned char *to, *from;	/* from NULL: fills with 6 */
	size_t bytes;
	_Atomic int index;
};

static int working_fn(struct rnl_job *job)
{
	struct working *w = rnl_container_of(job, struct working, job);

	w->index = rnl_worker().index;
	return w->from ? rnl_copy(w->to, w->from, w->bytes) : rnl_fill(w->to, 6, w->bytes);
}

TEST(a_job_is_done_when_its_data_is_there)
{
	enum { NR = 8, BYTES = 2 << 20 };
	struct rnl_pool *pool = pool_of(2);
	struct working fill[NR], copy[NR];
	void *mem;

	for (int i = 0; i < NR; i++) {
		must(rnl_memory_get(pool, 0, BYTES, &mem, 0));
		fill[i] = (struct working){ .to = mem, .bytes = BYTES };
		job_of(&fill[i].job, working_fn, NULL);
		copy[i] = (struct working){ .from = mem, .bytes = BYTES };
		must(rnl_memory_get(pool, RNL_PINNED, BYTES, &mem, 0));
		memset(mem, 0, BYTES);
		copy[i].to = mem;
		job_of(&copy[i].job, working_fn, NULL);
	}
	/* Fill and copy have one key, so they share a stream and keep their order. */
	for (int i = 0; i < NR; i++) {
		must(submit_by_key(pool, &fill[i].job, (uint64_t)i));
		must(submit_by_key(pool, &copy[i].job, (uint64_t)i));
	}
	for (int i = NR - 1; i >= 0; i--) {
		ck_assert_int_eq(result_of(&copy[i].job), 0);
		ck_assert_bytes(copy[i].to, BYTES, 6);
		ck_assert_int_eq(fill[i].index, copy[i].index);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++) {
		rnl_memory_put(pool, fill[i].to);
		rnl_memory_put(pool, copy[i].to);
	}
	rnl_pool_destroy(pool);
}

struct storing {
	struct rnl_job job;
	struct gate *kernel;
	int *word;
	int ret;
};

static int storing_fn(struct rnl_job *job)
{
	struct storing *s = rnl_container_of(job, struct storing, job);
	int ret = launch_store(s->kernel, s->word, 23);

	return ret ? ret : s->ret;
}

TEST(a_job_is_not_done_before_its_kernels)
{
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	int word = 0;
	/* A job waits for its kernel, whatever its function returns. */
	static const int results[] = { 0, 4, -EPROTO };
	struct storing jobs[COUNT(results)];

	skip_unless_host();
	pool = pool_of(1);
	for (unsigned i = 0; i < COUNT(jobs); i++) {
		jobs[i] = (struct storing){ .kernel = &kernel, .word = &word, .ret = results[i] };
		submit_job(pool, &jobs[i].job, storing_fn, NULL);
	}
	gate_await(&kernel, 1);
	for (unsigned i = 0; i < COUNT(jobs); i++)
		ck_assert_int_eq(rnl_job_wait(&jobs[i].job, 10 * MS), -ETIMEDOUT);
	ck_assert_int_eq(word, 0);
	gate_open(&kernel);
	for (unsigned i = 0; i < COUNT(jobs); i++)
		ck_assert_int_eq(result_of(&jobs[i].job), results[i]);
	ck_assert_int_eq(word, 23);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_issues_nothing_is_done_when_it_returns)
{
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct storing slow = { .kernel = &kernel };
	struct rnl_job idle;

	skip_unless_done_on_return();
	pool = pool_of(1);
	submit_job(pool, &slow.job, storing_fn, NULL);
	/* The job is done while the stream, which it does not use, is held. */
	submit_job(pool, &idle, noop_fn, NULL);
	ck_assert_int_eq(result_of(&idle), 0);
	ck_assert_int_ne(rnl_job_wait(&slow.job, 0), 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&slow.job), 0);
	rnl_pool_destroy(pool);
}

static int refused_fn(struct rnl_job *job)
{
	return rnl_copy(NULL, job, 1);
}

/* Ignores two errors, and returns `user`. */
static int careless_fn(struct rnl_job *job)
{
	static const struct rnl_kernel nowhere = { "nowhere", 0, NULL, NULL, NULL };
	const struct rnl_dim one = { 1, 1, 1 };
	char byte = 0;

	(void)rnl_fill(&byte, 0, 0);
	(void)rnl_copy(NULL, job, 1);
	(void)rnl_launch(&nowhere, one, one, NULL);
	return (int)(intptr_t)job->user;
}

TEST(the_first_error_of_an_operation_fails_the_job_whatever_it_returns)
{
	static const int returned[] = { 0, 5, -EPROTO };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;

	for (unsigned i = 0; i < COUNT(returned); i++) {
		submit_job(pool, &job, careless_fn, (void *)(intptr_t)returned[i]);
		ck_assert_int_eq(result_of(&job), returned[i] < 0 ? returned[i] : -EINVAL);
		/* The next job has no error. */
		submit_job(pool, &job, noop_fn, NULL);
		ck_assert_int_eq(result_of(&job), 0);
	}
	ck_assert_uint_eq(figures_of(pool).failed, COUNT(returned));
	rnl_pool_destroy(pool);
}

static int wait_fn(struct rnl_job *job)
{
	(void)job;
	return rnl_stream_wait(RNL_FOREVER);
}

static int attach_fn(struct rnl_job *job)
{
	int ret = rnl_thread_attach(job->user);

	rnl_thread_attach(NULL);	/* does nothing on a worker */
	return ret ? ret : rnl_worker().index;
}

TEST(a_job_may_return_the_result_of_an_operation)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;

	submit_job(pool, &job, refused_fn, NULL);
	ck_assert_int_eq(result_of(&job), -EINVAL);
	submit_job(pool, &job, wait_fn, NULL);
	ck_assert_int_eq(result_of(&job), -EBUSY);
	for (int i = 0; i < 2; i++) {
		submit_job(pool, &job, attach_fn, pool);
		ck_assert_int_eq(result_of(&job), 0);
	}
	rnl_pool_destroy(pool);
}

/* ---- memory -------------------------------------------------------------- */

static int get(struct rnl_pool *pool, bool pinned, size_t bytes, void **memp)
{
	return rnl_memory_get(pool, pinned ? RNL_PINNED : 0, bytes, memp, 0);
}

TEST(memory_is_aligned_and_the_callers)
{
	static const size_t sizes[] = { 1, 7, 63, 64, 65, 4096, 100001, 8 << 20 };
	struct rnl_pool *pool = pool_of(1);
	void *mem[COUNT(sizes)], *check;

	must(rnl_thread_attach(pool));
	must(rnl_memory_get(pool, RNL_PINNED, 8 << 20, &check, 0));
	for (int pinned = 0; pinned < 2; pinned++) {
		for (unsigned i = 0; i < COUNT(sizes); i++) {
			ck_assert_int_eq(get(pool, pinned, sizes[i], &mem[i]), 0);
			ck_assert_uint_eq((uintptr_t)mem[i] % 64, 0);
			must(rnl_fill(mem[i], (uint8_t)i, sizes[i]));
			if (pinned) {
				must(rnl_stream_wait(RNL_FOREVER));
				memset(mem[i], (int)i, sizes[i]);
			}
		}
		/* Each piece keeps its content. */
		for (unsigned i = 0; i < COUNT(sizes); i++) {
			must(rnl_copy(check, mem[i], sizes[i]));
			must(rnl_stream_wait(RNL_FOREVER));
			ck_assert_bytes(check, sizes[i], (int)i);
			rnl_memory_put(pool, mem[i]);
		}
	}
	rnl_memory_put(pool, check);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

TEST(memory_that_is_not_to_be_had_is_an_error)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 62, SIZE_MAX - 63,
					SIZE_MAX / 2, SIZE_MAX / 2 + 1, (size_t)1 << 60 };
	struct rnl_pool *pool = pool_of(1);
	void *mem = pool;

	for (int pinned = 0; pinned < 2; pinned++) {
		for (unsigned i = 0; i < COUNT(sizes); i++)
			ck_assert_int_eq(get(pool, pinned, sizes[i], &mem), -ENOMEM);
		ck_assert_int_eq(get(pool, pinned, 0, &mem), -EINVAL);
		ck_assert_int_eq(get(pool, pinned, 1, NULL), -EINVAL);
		ck_assert_int_eq(get(NULL, pinned, 1, &mem), -EINVAL);
		ck_assert_ptr_eq(mem, pool);
		rnl_memory_put(pool, NULL);
		rnl_memory_put(NULL, NULL);
		/* The next job gets memory again. */
		ck_assert_int_eq(get(pool, pinned, 1, &mem), 0);
		rnl_memory_put(pool, mem);
		mem = pool;
	}
	rnl_pool_destroy(pool);
}
