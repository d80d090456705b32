/* SPDX-License-Identifier: MIT */
/* Stopping a pool: its work ends within a time, and running jobs learn that they should end. */
#include <runnel/batch.h>
#include <runnel/map.h>
#include <runnel/more.h>

#include "map.h"
#include "record.h"

#define HOUR_NS (INT64_C(3600) * 1000000000)

/* Passes the gate `user`, which is open, and runs until it learns that it was cancelled. */
static int until_cancelled_fn(struct rnl_job *job)
{
	gate_wait(job->user);
	while (!rnl_job_is_cancelled(job))
		sched_yield();
	return -EINTR;
}

TEST(a_stop_cancels_what_waits_and_tells_what_runs, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct rnl_job running[2];
	struct notified queued, delayed, notice;

	ck_assert_int_eq(rnl_pool_stop(NULL, 0), -EINVAL);
	gate_open(&gate);
	for (int i = 0; i < 2; i++)
		submit_job(pool, &running[i], until_cancelled_fn, &gate);
	gate_await(&gate, 2);
	notified_of(&queued);
	notified_of(&delayed);
	notified_of(&notice);
	must(rnl_submit(pool, &queued.job));
	must(submit_at(pool, &delayed.job, rnl_clock() + HOUR_NS));
	must(submit_when(pool, &notice.job, RNL_SPACE));
	must(rnl_pool_stop(pool, RNL_FOREVER));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(result_of(&running[i]), -EINTR);
	ck_assert_int_eq(queued.job.result, -ECANCELED);
	ck_assert_int_eq(delayed.job.result, -ECANCELED);
	ck_assert_int_eq(notice.job.result, -ECANCELED);
	ck_assert_int_eq(queued.runs + delayed.runs + notice.runs, 0);
	ck_assert_int_eq(rnl_submit(pool, &queued.job), -ESHUTDOWN);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(rnl_job_is_cancelled(&running[0]), 0);
}

TEST(a_stop_that_ran_out_of_time_leaves_a_pool_that_can_be_stopped_again, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	struct notified notified;
	double start;

	hold_workers(pool, &gate, &held, 1);
	notified_of(&notified);
	must(rnl_submit(pool, &notified.job));
	ck_assert_int_eq(rnl_pool_stop(pool, 0), -ETIMEDOUT);
	/* The only worker is held, so the timer thread completes this job. */
	ck_assert_int_eq(result_of(&notified.job), -ECANCELED);
	ck_assert_int_eq(rnl_job_is_cancelled(&held), 1);
	start = seconds_now();
	ck_assert_int_eq(rnl_pool_stop(pool, 20 * MS), -ETIMEDOUT);
	ck_assert_double_ge(seconds_now() - start, 0.020);
	ck_assert_uint_eq(figures_of(pool).done, 1);
	gate_open(&gate);
	must(rnl_pool_stop(pool, RNL_FOREVER));
	must(rnl_pool_stop(pool, 0));
	ck_assert_int_eq(held.result, 0);
	rnl_pool_destroy(pool);
}

static int stop_fn(struct rnl_job *job)
{
	return rnl_pool_stop(job->user, RNL_FOREVER);
}

TEST(on_a_worker_a_stop_does_not_wait, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job, late;

	submit_job(pool, &job, stop_fn, pool);
	ck_assert_int_eq(result_of(&job), -EBUSY);
	job_of(&late, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &late), -ESHUTDOWN);
	must(rnl_pool_stop(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_request_that_was_committed_goes_on)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_request request;
	struct rnl_batcher *batcher;
	struct rnl_job held;

	attr.fn = noop_batch;
	attr.in_bytes = 8;
	must(rnl_batcher_create(&batcher, pool, &attr));
	must(rnl_job_init(&request.job, NULL));
	must(rnl_batcher_reserve(batcher, &request, 8, 0));
	hold_workers(pool, &gate, &held, 1);
	must(rnl_request_commit(&request));
	ck_assert_int_eq(rnl_pool_stop(pool, 0), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&request.job), 0);
	must(rnl_request_release(&request));
	must(rnl_pool_stop(pool, RNL_FOREVER));
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(a_map_issues_no_more_chunks, .timeout_s = 60)
{
	enum { CHUNKS = 50 };
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct task t = { .in = CALLED, .out = CALLED, .nr = CHUNKS * 7, .chunk = 7,
			  .in_bytes = 4, .out_bytes = 4 };
	struct rnl_barrier barrier;

	t.at_fn = (struct event){ .wanted = true, .element = 0, .gate = &gate };
	task_prepare(&t, pool);
	must(rnl_barrier_init(&barrier, pool));
	must(rnl_map_start(pool, &t.map, &barrier));
	gate_await(&gate, 1);
	ck_assert_int_eq(rnl_pool_stop(pool, 0), -ETIMEDOUT);
	gate_open(&gate);
	must(rnl_pool_stop(pool, RNL_FOREVER));
	ck_assert_int_eq(barrier.result, -ECANCELED);
	ck_assert_uint_lt(t.nr_fn, CHUNKS);
	task_end(&t);
	rnl_pool_destroy(pool);
}

/* ---- during submits ------------------------------------------------------ */

/* Submits itself again until it is refused or cancelled. */
static void again(struct rnl_job *job)
{
	int ret = job->result ? 0 : rnl_submit(job->user, job);

	ck_assert(ret == 0 || ret == -ESHUTDOWN);
}

TEST(jobs_that_submit_themselves_end_with_a_stop, .timeout_s = 120)
{
	enum { NR = 8 };
	struct rnl_job jobs[NR];

	for (int round = 0; round < 50; round++) {
		struct rnl_pool *pool = pool_of(2);

		for (int i = 0; i < NR; i++) {
			job_of(&jobs[i], noop_fn, pool);
			must(rnl_job_set_on_done(&jobs[i], again));
			must(rnl_submit(pool, &jobs[i]));
		}
		must(rnl_pool_stop(pool, RNL_FOREVER));
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(rnl_job_wait(&jobs[i], 0), 0);
		rnl_pool_destroy(pool);
	}
}
