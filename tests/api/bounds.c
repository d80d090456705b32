/* SPDX-License-Identifier: MIT */
/*
 * The time bounds of runnel.h. On the simulated machine, they are checked to the nanosecond. A real
 * machine may have other work, so there a test only checks that the event happens.
 */
#include "pool.h"

#define DAY (24 * 3600 * 1000 * MS)

static int64_t bound(int64_t promised)
{
	return sim_begin ? promised : patience_ns();
}

/* A pool whose only worker is busy until the gate opens. */
struct busy {
	struct gate gate;
	struct rnl_job held;
	struct rnl_pool *pool;
};

static void busy_of(struct busy *b)
{
	b->gate = (struct gate)GATE_INIT;
	b->pool = pool_of(1);
	hold_workers(b->pool, &b->gate, &b->held, 1);
}

static void busy_end(struct busy *b)
{
	gate_open(&b->gate);
	rnl_pool_destroy(b->pool);
}

static void note_time(struct rnl_job *job)
{
	*(_Atomic int64_t *)job->user = rnl_clock();
}

/* Returns the time of the job's callback, which may run after a wait for the job has returned. */
static int64_t time_of(_Atomic int64_t *noted)
{
	ck_eventually(*noted);
	return *noted;
}

static int note_start_fn(struct rnl_job *job)
{
	note_time(job);
	return 0;
}

TEST(a_cancelled_job_in_a_queue_is_done_within_10_ms, .loops = 2)
{
	enum { NR = 20 };
	struct busy b;

	busy_of(&b);
	for (int i = 0; i < NR; i++) {
		_Atomic int64_t done = 0;
		struct rnl_job job;
		int64_t cancelled;

		job_of(&job, noop_fn, (void *)&done);
		must(rnl_job_set_on_done(&job, note_time));
		must(_i ? submit_by_key(b.pool, &job, 7) : rnl_submit(b.pool, &job));
		cancelled = rnl_clock();
		must(rnl_job_cancel(&job));
		ck_assert_int_eq(result_of(&job), -ECANCELED);
		ck_assert_int_le(time_of(&done) - cancelled, bound(10 * MS));
	}
	busy_end(&b);
}

TEST(a_job_whose_deadline_passes_in_a_queue_is_done_within_10_ms)
{
	enum { NR = 20 };
	struct busy b;

	busy_of(&b);
	for (int i = 0; i < NR; i++) {
		const int64_t deadline = MS + i * MS / 7;
		_Atomic int64_t done = 0;
		struct rnl_job job;
		int64_t submitted;

		job_of(&job, noop_fn, (void *)&done);
		must(rnl_job_set_on_done(&job, note_time));
		must(rnl_job_set_deadline(&job, deadline));
		submitted = rnl_clock();
		must(rnl_submit(b.pool, &job));
		ck_assert_int_eq(result_of(&job), -ETIMEDOUT);
		ck_assert_int_ge(time_of(&done) - submitted, deadline);
		ck_assert_int_le(done - submitted, deadline + bound(10 * MS));
	}
	busy_end(&b);
}

TEST(a_cancelled_delayed_job_is_done_within_10_ms)
{
	enum { NR = 1000 };
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs));
	_Atomic int64_t done = 0;
	struct busy b;

	ck_assert_ptr_nonnull(jobs);
	busy_of(&b);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], noop_fn, (void *)&done);
		must(rnl_job_set_on_done(&jobs[i], note_time));
		must(submit_at(b.pool, &jobs[i], rnl_clock() + DAY + i));
	}
	for (int i = 0; i < NR; i += NR / 20) {
		const int64_t cancelled = rnl_clock();

		done = 0;
		must(rnl_job_cancel(&jobs[i]));
		ck_assert_int_eq(result_of(&jobs[i]), -ECANCELED);
		ck_assert_int_le(time_of(&done) - cancelled, bound(10 * MS));
	}
	must(rnl_pool_close(b.pool));
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), -ECANCELED);
	busy_end(&b);
	free(jobs);
}

TEST(each_of_many_delayed_jobs_starts_within_a_millisecond_of_its_time, .timeout_s = 60)
{
	const int nr = sim_begin ? 100000 : 1000;
	struct timed { struct rnl_job job; _Atomic int64_t began; int64_t at; } *all;
	/* Workers do not spin: this leaves the CPUs to threads that have work. */
	struct rnl_pool *pool = pool_of(2, .spin_us = -1);
	int last = 0;
	int64_t begin;

	all = calloc((size_t)nr, sizeof(*all));
	ck_assert_ptr_nonnull(all);
	begin = rnl_clock() + 1000 * MS;
	for (int i = 0; i < nr; i++) {
		/* The times are not in order. */
		all[i].at = begin + (int64_t)i * 7919 % nr * MS / 20;
		job_of(&all[i].job, note_start_fn, (void *)&all[i].began);
		must(submit_at(pool, &all[i].job, all[i].at));
		if (all[i].at > all[last].at)
			last = i;
	}
	if (sim_begin)
		ck_assert_int_lt(rnl_clock(), begin);
	/* This thread sleeps until the last job is done. */
	ck_assert_int_eq(result_of(&all[last].job), 0);
	for (int i = 0; i < nr; i++) {
		ck_assert_int_eq(result_of(&all[i].job), 0);
		ck_assert_int_ge(all[i].began, all[i].at);
		ck_assert_int_le(all[i].began - all[i].at, bound(MS));
	}
	rnl_pool_destroy(pool);
	free(all);
}

TEST(a_job_of_next_year_starts_then)
{
	struct rnl_pool *pool = pool_of(1);
	_Atomic int64_t began = 0;
	struct rnl_job job;
	int64_t at = rnl_clock() + 365 * DAY;

	job_of(&job, note_start_fn, (void *)&began);
	must(submit_at(pool, &job, at));
	if (sim_begin) {
		ck_assert_int_eq(result_of(&job), 0);
		ck_assert_int_ge(began, at);
		ck_assert_int_le(began - at, MS);
	} else {
		must(rnl_job_cancel(&job));
		ck_assert_int_eq(result_of(&job), -ECANCELED);
	}
	rnl_pool_destroy(pool);
}

TEST(a_deadline_of_next_year_passes_then)
{
	struct rnl_job job;
	struct busy b;
	int64_t at;

	if (!sim_begin)
		test_skip("a_deadline_of_next_year...: it is awaited on the simulated machine");
	busy_of(&b);
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_deadline(&job, 365 * DAY));
	at = rnl_clock() + 365 * DAY;
	must(rnl_submit(b.pool, &job));
	ck_assert_int_eq(result_of(&job), -ETIMEDOUT);
	ck_assert_int_ge(rnl_clock(), at);
	ck_assert_int_le(rnl_clock() - at, 10 * MS);
	busy_end(&b);
}
