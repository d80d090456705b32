/* SPDX-License-Identifier: MIT */
/* rnl_pool_cancel(): all jobs that have not started are cancelled, and no later ones. */
#include <runnel/batch.h>
#include <runnel/map.h>
#include <runnel/more.h>

#include "map.h"
#include "record.h"

#define HOUR_NS (INT64_C(3600) * 1000000000)

enum { OPEN, KEYED, DELAYED, DEFERRED, NOTICE, NR };

/* Submits one job of each kind. */
static void submit_all(struct rnl_pool *pool, struct notified *notified, struct rnl_barrier *after,
		       int64_t start_ns)
{
	for (int i = 0; i < NR; i++)
		notified_of(&notified[i]);
	must(rnl_submit(pool, &notified[OPEN].job));
	must(submit_by_key(pool, &notified[KEYED].job, 1));
	must(submit_at(pool, &notified[DELAYED].job, start_ns));
	must(rnl_job_set_after(&notified[DEFERRED].job, after));
	must(rnl_submit(pool, &notified[DEFERRED].job));
	must(submit_when(pool, &notified[NOTICE].job, RNL_SPACE));
}

TEST(all_jobs_that_have_not_started_are_cancelled_and_later_ones_run, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct notified notified[2][NR];
	struct rnl_job held;

	ck_assert_int_eq(rnl_pool_cancel(NULL), -EINVAL);
	ck_assert_int_eq(rnl_pool_cancel(pool), 0);
	hold_barrier(pool, &barrier, &gate, &held);
	submit_all(pool, notified[0], &barrier, rnl_clock() + HOUR_NS);
	ck_assert_int_eq(rnl_pool_cancel(pool), 5);
	/* The only worker is held, so the timer thread completes these jobs. */
	for (int i = 0; i < NR; i++)
		if (i != DEFERRED)
			ck_assert_int_eq(result_of(&notified[0][i].job), -ECANCELED);
	submit_all(pool, notified[1], &barrier, rnl_clock());
	for (int i = 0; i < NR; i++)
		ck_assert_int_ne(rnl_job_wait(&notified[1][i].job, 0), 0);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&notified[0][DEFERRED].job), -ECANCELED);
	for (int i = 0; i < NR; i++) {
		ck_assert_int_eq(result_of(&notified[1][i].job), 0);
		ck_assert_int_eq(notified[0][i].runs, 0);
		ck_assert_int_eq(notified[1][i].runs, 1);
	}
	ck_assert_int_eq(result_of(&held), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).cancelled, NR);
	rnl_pool_destroy(pool);
}

/* rnl_job_cancel(), a wait and a new submit treat the job like one that was cancelled singly. */
TEST(a_job_that_was_cancelled_with_all_can_be_cancelled_and_submitted_again, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	struct notified notified;
	int ret;

	hold_workers(pool, &gate, &held, 1);
	notified_of(&notified);
	must(rnl_submit(pool, &notified.job));
	ck_assert_int_eq(rnl_pool_cancel(pool), 1);
	ret = rnl_job_cancel(&notified.job);
	ck_assert(ret == 0 || ret == -EALREADY || ret == -EBUSY);
	ck_assert_int_eq(result_of(&notified.job), -ECANCELED);
	ck_assert_int_eq(notified.job.device_error, 0);
	/* The running job goes on, and rnl_job_is_cancelled() does not report the cancel. */
	ck_assert_int_eq(rnl_job_is_cancelled(&held), 0);
	must(rnl_submit(pool, &notified.job));
	gate_open(&gate);
	ck_assert_int_eq(result_of(&notified.job), 0);
	ck_assert_int_eq(notified.runs, 1);
	rnl_pool_destroy(pool);
}

/* ---- concurrent submits -------------------------------------------------- */

enum { ROUNDS = 300, BURST = 40 };

static int cancel_often(void *pool)
{
	for (int i = 0; i < ROUNDS; i++) {
		ck_assert_int_ge(rnl_pool_cancel(pool), 0);
		sched_yield();
	}
	return 0;
}

TEST(during_submits_each_job_runs_or_is_cancelled, .timeout_s = 120)
{
	struct rnl_pool *pool = pool_of(2);
	static struct notified notified[BURST];
	struct call call;

	call_start(&call, cancel_often, pool);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BURST; i++) {
			notified_of(&notified[i]);
			if (i % 3 == 0)
				must(submit_at(pool, &notified[i].job, rnl_clock()));
			else
				ck_assert_int_eq(i % 3 == 1 ? rnl_submit(pool, &notified[i].job) :
						 submit_by_key(pool, &notified[i].job, i), 0);
		}
		for (int i = 0; i < BURST; i++) {
			int ret = result_of(&notified[i].job);

			ck_assert(ret == 0 || ret == -ECANCELED);
			ck_assert_int_eq(notified[i].runs, ret == 0);
		}
	}
	must(call_end(&call));
	rnl_pool_destroy(pool);
}

/* The request is committed while the only worker is held. */
TEST(maps_and_requests_go_on)
{
	struct task t = { .in = CALLED, .out = CALLED, .nr = 50 * 7, .chunk = 7,
			  .in_bytes = 4, .out_bytes = 4 };
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_request request;
	struct rnl_batcher *batcher;
	struct rnl_barrier barrier;
	struct notified queued;

	attr.fn = noop_batch;
	attr.in_bytes = 8;
	must(rnl_batcher_create(&batcher, pool, &attr));
	must(rnl_job_init(&request.job, NULL));
	must(rnl_batcher_reserve(batcher, &request, 8, 0));
	t.at_fn = (struct event){ .wanted = true, .element = 0, .gate = &gate };
	task_prepare(&t, pool);
	must(rnl_barrier_init(&barrier, pool));
	must(rnl_map_start(pool, &t.map, &barrier));
	gate_await(&gate, 1);
	must(rnl_request_commit(&request));
	notified_of(&queued);
	must(rnl_submit(pool, &queued.job));
	ck_assert_int_ge(rnl_pool_cancel(pool), 1);
	gate_open(&gate);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ck_assert_int_eq(barrier.result, 0);
	ck_assert_uint_eq(t.nr_fn, 50);
	ck_assert_int_eq(result_of(&request.job), 0);
	ck_assert_int_eq(result_of(&queued.job), -ECANCELED);
	must(rnl_request_release(&request));
	rnl_batcher_destroy(batcher);
	task_end(&t);
	rnl_pool_destroy(pool);
}
