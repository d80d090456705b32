/* SPDX-License-Identifier: MIT */
/* Resizes: the number of workers that serve, jobs and barriers meanwhile, and refusals. */
#include <runnel/memory.h>
#include <runnel/thread.h>

#include "classed.h"
#include "host_kernel.h"

enum { MOST = 70 };	/* api/crowd has the largest possible number */

/* Checks that exactly @nr workers serve: @nr jobs are held, and one more job waits. */
static void check_workers(struct rnl_pool *pool, unsigned nr)
{
	struct gate gate = GATE_INIT;
	struct rnl_job held[MOST], queued;

	ck_assert_uint_eq(figures_of(pool).nr_workers, nr);
	hold_workers(pool, &gate, held, nr);
	submit_job(pool, &queued, index_fn, NULL);
	ck_assert_int_eq(rnl_job_wait(&queued, 2 * MS), -ETIMEDOUT);
	ck_assert_uint_eq(figures_of(pool).queued, 1);
	gate_open(&gate);
	ck_assert_int_ge(result_of(&queued), 0);
	ck_assert_int_lt(queued.result, (int)nr);
	for (unsigned i = 0; i < nr; i++)
		ck_assert_int_eq(result_of(&held[i]), 0);
}

/* ---- the number of workers ----------------------------------------------- */

TEST(a_pool_has_the_workers_that_it_was_resized_to, .timeout_s = 60)
{
	static const unsigned sizes[] = { 1, 4, 2, 2, 3, 1, 8, MOST, 5 };
	struct rnl_pool *pool = pool_of(2);

	for (unsigned i = 0; i < COUNT(sizes); i++) {
		must(rnl_pool_resize(pool, sizes[i]));
		check_workers(pool, sizes[i]);
	}
	rnl_pool_destroy(pool);
}

TEST(workers_of_classes_are_not_counted_and_stay, .timeout_s = 60)
{
	enum { OWN = 2 };
	struct rnl_pool *pool = pool_of(3, .nr_class_workers = OWN);
	struct rnl_class *cls = own_class(pool, OWN);

	for (unsigned nr = 1; nr <= 4; nr++) {
		struct gate gate = GATE_INIT;
		struct rnl_job held[4], own;

		must(rnl_pool_resize(pool, nr));
		ck_assert_uint_eq(figures_of(pool).nr_workers, OWN + nr);
		hold_workers(pool, &gate, held, nr);
		submit_classed(pool, &own, cls, index_fn, NULL);
		ck_assert_int_lt(result_of(&own), OWN);
		gate_open(&gate);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	ck_assert_int_eq(rnl_pool_resize(pool, RNL_WORKERS_MAX - OWN + 1), -EINVAL);
	rnl_pool_destroy(pool);
}

TEST(the_bound_on_queued_jobs_is_shared_out_anew, .timeout_s = 60)
{
	enum { MAX = 12 };
	static const unsigned sizes[] = { 2, 1, 4, 3 };
	struct rnl_pool *pool = pool_of(2, .max_queued = MAX);


	for (unsigned i = 0; i < COUNT(sizes); i++) {
		struct gate gate = GATE_INIT;
		struct rnl_job held[4], jobs[MAX + 1];

		must(rnl_pool_resize(pool, sizes[i]));
		hold_workers(pool, &gate, held, sizes[i]);
		for (int k = 0; k <= MAX; k++) {
			job_of(&jobs[k], noop_fn, NULL);
			ck_assert_int_eq(rnl_submit(pool, &jobs[k]), k < MAX ? 0 : -EAGAIN);
		}
		gate_open(&gate);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

/* ---- jobs under way ------------------------------------------------------ */

TEST(workers_that_go_finish_what_they_hold_and_others_run_the_rest, .timeout_s = 60)
{
	enum { WORKERS = 4, NR = 800 };
	struct rnl_pool *pool = pool_of(WORKERS);
	struct resize resize = { pool, 1 };
	struct gate gate = GATE_INIT;
	struct rnl_job held[WORKERS], *jobs = calloc(NR, sizeof(*jobs)), late;
	struct call call;
	_Atomic int ran = 0;

	hold_workers(pool, &gate, held, WORKERS);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], count_fn, &ran);
		ck_assert_int_eq(i % 2 ? rnl_submit(pool, &jobs[i]) :
					 submit_by_key(pool, &jobs[i], (uint64_t)i), 0);
	}
	call_start(&call, resize_fn, &resize);
	ck_waits(call.tid);
	/* The resize waits for the three held workers; a submit does not wait. */
	submit_job(pool, &late, count_fn, &ran);
	ck_assert(!call.returned);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(ran, NR + 1);
	check_workers(pool, 1);
	rnl_pool_destroy(pool);
	free(jobs);
}

TEST(a_worker_goes_when_the_device_has_passed_its_jobs, .timeout_s = 60)
{
	struct rnl_pool *pool;
	struct resize resize = { .nr = 1 };
	struct gate kernel = GATE_INIT;
	struct rnl_job on_device;
	struct call call;

	skip_unless_host();
	resize.pool = pool = pool_of(2);
	job_of(&on_device, gated_kernel_fn, &kernel);
	must(submit_by_key(pool, &on_device, key_on(pool, 1)));
	gate_await(&kernel, 1);
	call_start(&call, resize_fn, &resize);
	ck_waits(call.tid);
	ck_assert(!call.returned);
	gate_open(&kernel);
	ck_assert_int_eq(call_end(&call), 0);
	ck_assert_int_eq(result_of(&on_device), 0);
	check_workers(pool, 1);
	rnl_pool_destroy(pool);
}

TEST(unkeyed_jobs_of_workers_that_stay_keep_no_resize_waiting, .timeout_s = 60)
{
	static const unsigned sizes[] = { 1, 3, 2, 4 };
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held;

	/* Worker 0 always stays. */
	hold_workers(pool, &gate, &held, 1);
	for (unsigned i = 0; i < COUNT(sizes); i++) {
		struct resize resize = { pool, sizes[i] };
		struct call call;

		call_start(&call, resize_fn, &resize);
		ck_eventually(call.returned);
		ck_assert_int_eq(call_end(&call), 0);
		ck_assert_int_ne(rnl_job_wait(&held, 0), 0);
	}
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(a_resize_waits_for_keyed_jobs_and_delays_no_other_calls, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct resize resize = { pool, 3 };
	struct gate gate = GATE_INIT;
	uint64_t key = key_on(pool, 0);
	struct rnl_job held, keyed, other;
	_Atomic int ran = 0;
	struct call call;

	job_of(&held, gated_fn, &gate);
	must(submit_by_key(pool, &held, key));
	gate_await(&gate, 1);
	call_start(&call, resize_fn, &resize);
	ck_waits(call.tid);
	/* Jobs with a key accepted from now on wait. Other jobs run, on the new workers as well. */
	job_of(&keyed, count_fn, &ran);
	must(submit_by_key(pool, &keyed, key));
	for (unsigned i = 0; i < 50; i++) {
		submit_job(pool, &other, noop_fn, NULL);
		ck_assert_int_eq(result_of(&other), 0);
	}
	ck_assert_int_eq(ran, 0);
	ck_assert(!call.returned);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	ck_assert_int_eq(result_of(&keyed), 0);
	ck_assert_int_eq(ran, 1);
	rnl_pool_destroy(pool);
}

/* ---- barriers ------------------------------------------------------------ */

TEST(a_barrier_joins_jobs_of_workers_that_have_gone, .timeout_s = 60)
{
	enum { WORKERS = 4, BYTES = WORKERS * 64 };
	struct rnl_pool *pool = pool_of(1);
	void *mem, *copy;

	must(rnl_memory_get(pool, 0, BYTES, &mem, 0));
	must(rnl_memory_get(pool, RNL_PINNED, BYTES, &copy, 0));
	must(rnl_thread_attach(pool));
	for (unsigned round = 0; round < 10; round++) {
		struct rnl_barrier barrier;
		struct rnl_job fills[WORKERS], after;

		must(rnl_pool_resize(pool, WORKERS));
		must(rnl_fill(mem, 0, BYTES));
		must(rnl_stream_wait(RNL_FOREVER));
		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < WORKERS; i++) {
			job_in(&barrier, &fills[i], fill_own_fn, mem);
			must(submit_by_key(pool, &fills[i], RNL_KEY_WORKER(i)));
		}
		job_of(&after, index_fn, NULL);
		must(rnl_job_set_after(&after, &barrier));
		must(rnl_submit(pool, &after));
		must(rnl_pool_resize(pool, 1 + round % 2));
		must(rnl_barrier_join(&barrier));
		must(rnl_copy(copy, mem, BYTES));
		must(rnl_stream_wait(RNL_FOREVER));
		ck_assert_bytes(copy, BYTES, 1);
		ck_assert_int_ge(result_of(&after), 0);
		ck_assert_int_eq(result_of_barrier(&barrier), 0);
	}
	rnl_thread_attach(NULL);
	rnl_memory_put(pool, copy);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

/* ---- misuse -------------------------------------------------------------- */

static int resize_in_job_fn(struct rnl_job *job)
{
	return rnl_pool_resize(job->user, 2);
}

TEST(wrong_numbers_resizes_in_jobs_and_of_closed_pools_are_refused, .timeout_s = 60)
{
	static const unsigned bad[] = { 0, RNL_WORKERS_MAX + 1, UINT32_MAX };
	struct rnl_pool *pool = pool_of(1), *other = pool_of(1);
	struct rnl_job job;

	for (unsigned i = 0; i < COUNT(bad); i++)
		ck_assert_int_eq(rnl_pool_resize(pool, bad[i]), -EINVAL);
	submit_job(pool, &job, resize_in_job_fn, pool);
	ck_assert_int_eq(result_of(&job), -EBUSY);
	check_workers(pool, 1);
	/* A job of another pool may resize this one. */
	ck_assert_int_eq(submit_and_wait(other, &job), 0);
	check_workers(pool, 2);
	must(rnl_pool_close(pool));
	ck_assert_int_eq(rnl_pool_resize(pool, 3), -ESHUTDOWN);
	ck_assert_int_eq(rnl_pool_resize(pool, 1), -ESHUTDOWN);
	ck_assert_uint_eq(figures_of(pool).nr_workers, 2);
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
}
