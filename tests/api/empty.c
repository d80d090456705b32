/* SPDX-License-Identifier: MIT */
/* RNL_EMPTY notices: the pool is closed, and all other jobs are done. */
#include <runnel/more.h>

#include "asks.h"
#include "cq.h"
#include "record.h"

TEST(a_notice_starts_once_the_pool_is_closed_and_all_other_jobs_are_done, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2];
	struct notified queued, notices[2];

	hold_workers(pool, &gate, held, 2);
	notified_of(&queued);
	must(rnl_submit(pool, &queued.job));
	for (int i = 0; i < 2; i++) {
		notified_of(&notices[i]);
		must(submit_when(pool, &notices[i].job, RNL_EMPTY));
		if (i == 0)
			must(rnl_pool_close(pool));
	}
	ck_assert_int_eq(rnl_pool_drain(pool, 10 * MS), -ETIMEDOUT);
	ck_assert_int_eq(notices[0].runs + notices[1].runs, 0);
	gate_open(&gate);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(result_of(&notices[i].job), 0);
	ck_assert_int_eq(queued.runs, 1);
	ck_assert(is_done(&held[0]) && is_done(&held[1]));
	must(rnl_pool_drain(pool, RNL_FOREVER));
	/* In a closed and empty pool, a notice completes immediately. */
	must(submit_when(pool, &notices[0].job, RNL_EMPTY));
	ck_assert_int_eq(result_of(&notices[0].job), 0);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(notices[0].runs, 2);
}

/* A queue, a callback or a wait reports the notice, like a job of rnl_barrier_notify(). */
TEST(a_notice_needs_no_function)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job space, end, *reaped[1];
	struct rnl_cq *cq = cq_of();

	job_of(&space, NULL, NULL);
	job_of(&end, NULL, NULL);
	must(rnl_job_set_cq(&end, cq));
	must(submit_when(pool, &space, RNL_SPACE));
	ck_assert_int_eq(result_of(&space), 0);
	must(submit_when(pool, &end, RNL_EMPTY));
	must(rnl_pool_close(pool));
	reap_all(cq, reaped, 1);
	ck_assert_ptr_eq(reaped[0], &end);
	ck_assert_int_eq(end.result, 0);
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}

/* A notice in a barrier and a job after the barrier could wait for each other. */
TEST(a_notice_is_in_no_barrier)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_barrier barrier;
	struct rnl_job notice;

	must(rnl_barrier_init(&barrier, pool));
	job_in(&barrier, &notice, noop_fn, NULL);
	ck_assert_int_eq(submit_when(pool, &notice, RNL_EMPTY), -EINVAL);
	must(rnl_barrier_wait(&barrier, 0));
	ck_assert_int_eq(submit_when(pool, &notice, RNL_SPACE), -EINVAL);
	must(rnl_barrier_wait(&barrier, 0));
	rnl_pool_destroy(pool);
}

TEST(an_open_pool_that_is_empty_does_not_notify, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct notified notice;
	struct rnl_job job;

	notified_of(&notice);
	must(submit_when(pool, &notice.job, RNL_EMPTY));
	submit_job(pool, &job, noop_fn, NULL);
	ck_assert_int_eq(result_of(&job), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_ne(rnl_job_wait(&notice.job, 0), 0);
	/* rnl_pool_cancel() does not cancel the notice, but rnl_job_cancel() does. */
	ck_assert_int_eq(rnl_pool_cancel(pool), 0);
	submit_job(pool, &job, noop_fn, NULL);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_int_ne(rnl_job_wait(&notice.job, 0), 0);
	must(rnl_job_cancel(&notice.job));
	ck_assert_int_eq(result_of(&notice.job), -ECANCELED);
	/* A destroy waits for the notice. */
	must(submit_when(pool, &notice.job, RNL_EMPTY));
	rnl_pool_destroy(pool);
	ck_assert_int_eq(notice.job.result, 0);
	ck_assert_int_eq(notice.runs, 1);
}

TEST(after_a_stop_an_event_loop_learns_of_the_end_by_its_queue, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_cq *cq;
	struct rnl_job held, *reaped;
	struct notified notice;

	must(rnl_cq_create(&cq));
	hold_workers(pool, &gate, &held, 1);
	notified_of(&notice);
	must(rnl_job_set_cq(&notice.job, cq));
	must(submit_when(pool, &notice.job, RNL_EMPTY));
	ck_assert_int_eq(rnl_pool_stop(pool, 0), -ETIMEDOUT);
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, 0), 0);
	gate_open(&gate);
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, RNL_FOREVER), 1);
	ck_assert_ptr_eq(reaped, &notice.job);
	ck_assert_int_eq(reaped->result, 0);
	ck_assert_int_eq(rnl_job_wait(&held, 0), 0);
	must(rnl_pool_stop(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}

/* Whether the last job or the close comes first, the notice always completes, and last. */
TEST(no_notice_is_lost_or_early, .timeout_s = 120)
{
	enum { NR = 20 };
	struct notified jobs[NR], notice;

	for (int round = 0; round < 200; round++) {
		struct rnl_pool *pool = pool_of(2);

		notified_of(&notice);
		if (round % 2)
			must(submit_when(pool, &notice.job, RNL_EMPTY));
		for (int i = 0; i < NR; i++) {
			notified_of(&jobs[i]);
			must(i % 4 ? rnl_submit(pool, &jobs[i].job) :
				     submit_at(pool, &jobs[i].job, rnl_clock()));
		}
		must(rnl_pool_close(pool));
		if (round % 2 == 0)
			must(submit_when(pool, &notice.job, RNL_EMPTY));
		ck_assert_int_eq(result_of(&notice.job), 0);
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(rnl_job_wait(&jobs[i].job, 0), 0);
		rnl_pool_destroy(pool);
	}
}

/* The timer thread may check during the close, and must count the delayed job as not done. */
TEST(a_notice_waits_for_a_delayed_job_that_the_close_cancels, .timeout_s = 60)
{
	enum { NR = 6 };
	struct notified jobs[NR], delayed, notice;

	for (unsigned nr = rounds_of(2500); nr; nr--) {
		struct rnl_pool *pool = pool_of(1);

		notified_of(&delayed);
		notified_of(&notice);
		must(submit_when(pool, &notice.job, RNL_EMPTY));
		must(submit_at(pool, &delayed.job, rnl_clock() + 3600000 * MS));
		for (int i = 0; i < NR; i++) {
			notified_of(&jobs[i]);
			must(submit_at(pool, &jobs[i].job, rnl_clock() + i * 100));
		}
		must(rnl_pool_close(pool));
		ck_assert_int_eq(result_of(&notice.job), 0);
		ck_assert_int_eq(rnl_job_wait(&delayed.job, 0), 0);
		ck_assert_int_eq(delayed.job.result, -ECANCELED);
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(rnl_job_wait(&jobs[i].job, 0), 0);
		rnl_pool_destroy(pool);
	}
}

static struct notified last_notice;

static int submit_the_notice(struct rnl_job *job)
{
	return submit_when(job->user, &last_notice.job, RNL_EMPTY);
}

/* The drain may check between the job's end and the notice's end. */
TEST(a_drain_waits_for_a_notice_that_the_last_job_submits, .timeout_s = 60)
{
	struct rnl_job job;

	for (unsigned nr = rounds_of(2500); nr; nr--) {
		struct rnl_pool *pool = pool_of(1);

		notified_of(&last_notice);
		submit_job(pool, &job, submit_the_notice, pool);
		must(rnl_pool_close(pool));
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_int_eq(job.result, 0);
		ck_assert_int_eq(rnl_job_wait(&last_notice.job, 0), 0);
		ck_assert_int_eq(last_notice.runs, 1);
		rnl_pool_destroy(pool);
	}
}
