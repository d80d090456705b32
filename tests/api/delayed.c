/* SPDX-License-Identifier: MIT */
/* Delayed jobs: they start at their time, not before, and a cancel or a close ends them early. */
#define _GNU_SOURCE		/* for cpu_set_t */
#include <sched.h>

#include <runnel/more.h>

#include "classed.h"
#include "cq.h"
#include "timer.h"
#include "record.h"
#include "seed.h"

#define LONG (3600000 * MS)

TEST(the_clock_is_the_monotonic_one)
{
	struct timespec ts;
	int64_t before = rnl_clock(), now;

	must(clock_gettime(CLOCK_MONOTONIC, &ts));
	now = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
	ck_assert_int_le(before, now);
	ck_assert_int_le(now, rnl_clock());
}

static int clock_fn(struct rnl_job *job)
{
	*(_Atomic int64_t *)job->user = rnl_clock();
	return 0;
}

TEST(a_job_does_not_start_before_its_time)
{
	static const int64_t delays[] = { INT64_MIN / 2, -1, 0, 1, MS / 2, 5 * MS, 50 * MS };
	struct rnl_pool *pool = pool_of(2);

	for (unsigned i = 0; i < 2 * COUNT(delays); i++) {
		_Atomic int64_t ran = 0;
		struct rnl_job job;
		int64_t at = rnl_clock() + delays[i / 2];

		job_of(&job, clock_fn, &ran);
		must(i % 2 ? submit_by_key_at(pool, &job, i, at) :
			     submit_at(pool, &job, at));
		ck_assert_int_eq(result_of(&job), 0);
		ck_assert_int_ge(ran, at);
	}
	rnl_pool_destroy(pool);
}

TEST(a_delayed_job_is_the_pools)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_job job;

	job_of(&job, noop_fn, NULL);
	for (int keyed = 0; keyed < 2; keyed++) {
		int64_t at = rnl_clock() + LONG;

		must(keyed ? submit_by_key_at(pool, &job, 1, at) : submit_at(pool, &job, at));
		ck_assert_int_eq(rnl_submit(pool, &job), -EBUSY);
		ck_assert_int_eq(submit_at(pool, &job, rnl_clock()), -EBUSY);
		must(rnl_job_cancel(&job));
		ck_assert_int_eq(result_of(&job), -ECANCELED);
	}
	rnl_pool_destroy(pool);
}

/* Checks the order of jobs with times from @start on. Returns false if submits took too long. */
static bool check_order(struct rnl_pool *pool, int64_t start)
{
	enum { NR = 1000 };
	struct noted *noted = calloc(NR, sizeof(*noted));
	struct record record = { 0 };
	bool early;

	for (int i = 0; i < NR; i++) {
		int id = i * 617 % NR;

		noted_of(&noted[i], &record, id);
		must(submit_by_key_at(pool, &noted[i].job, 7, start + id * 1000));
	}
	early = rnl_clock() < start;
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&noted[i].job), 0);
	for (int i = 0; early && i < NR; i++)
		ck_assert_int_eq(record.ids[i], i);
	free(noted);
	return early;
}

TEST(jobs_start_in_the_order_of_their_times, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	int64_t lead = 50 * MS;

	while (!check_order(pool, rnl_clock() + lead))
		lead *= 2;
	rnl_pool_destroy(pool);
}

struct period {
	struct rnl_job job;
	struct rnl_pool *pool;
	int64_t at;
	_Atomic int nr, ret, early;
};

static int period_fn(struct rnl_job *job)
{
	struct period *p = rnl_container_of(job, struct period, job);

	p->early += rnl_clock() < p->at;
	return 0;
}

static void next_period(struct rnl_job *job)
{
	struct period *p = rnl_container_of(job, struct period, job);

	p->at += 2 * MS;
	if (++p->nr < 20)
		p->ret |= submit_at(p->pool, job, p->at);
}

TEST(a_callback_makes_a_job_periodic)
{
	struct rnl_pool *pool = pool_of(1);
	struct period period = { .pool = pool, .at = rnl_clock() };

	job_of(&period.job, period_fn, NULL);
	must(rnl_job_set_on_done(&period.job, next_period));
	must(submit_at(pool, &period.job, period.at));
	ck_eventually(period.nr == 20);
	ck_assert_int_eq(period.ret, 0);
	ck_assert_int_eq(period.early, 0);
	rnl_pool_destroy(pool);
}

TEST(a_delayed_job_is_counted_only_by_its_barrier)
{
	struct rnl_pool *pool = pool_of(1, .max_queued = 1);
	struct rnl_barrier barrier;
	struct rnl_job jobs[3];

	must(rnl_barrier_init(&barrier, pool));
	for (int i = 0; i < 3; i++) {
		job_in(&barrier, &jobs[i], noop_fn, NULL);
		must(submit_at(pool, &jobs[i], rnl_clock() + LONG));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).accepted, 0);
	ck_assert_uint_eq(figures_of(pool).queued, 0);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, MS), -ETIMEDOUT);
	for (int i = 0; i < 3; i++)
		must(rnl_job_cancel(&jobs[i]));
	ck_assert_int_eq(result_of_barrier(&barrier), -ECANCELED);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).accepted, 3);
	ck_assert_uint_eq(figures_of(pool).cancelled, 3);
	rnl_pool_destroy(pool);
}

TEST(delayed_jobs_are_cancelled_while_the_workers_are_busy, .timeout_s = 60)
{
	enum { NR = 10000 };
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held, *jobs = calloc(NR, sizeof(*jobs));

	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < NR; i++) {
		int64_t at = rnl_clock() + LONG - i % 100 * MS;

		job_of(&jobs[i], noop_fn, NULL);
		must(i % 2 ? submit_at(pool, &jobs[i], at) :
			     submit_by_key_at(pool, &jobs[i], (uint64_t)i, at));
	}
	for (int i = 0; i < NR; i += 3)
		must(rnl_job_cancel(&jobs[i]));
	for (int i = 0; i < NR; i += 3)
		ck_assert_int_eq(result_of(&jobs[i]), -ECANCELED);
	for (int i = 1; i < NR; i += 3)
		ck_assert_int_ne(rnl_job_wait(&jobs[i], 0), 0);
	must(rnl_pool_close(pool));
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), -ECANCELED);
	ck_assert_int_eq(submit_at(pool, &jobs[0], 1), -ESHUTDOWN);
	gate_open(&gate);
	rnl_pool_destroy(pool);
	free(jobs);
}

/* A pool's delayed jobs, some of which are cancelled. */
struct delayed {
	struct rnl_pool *pool;
	struct rnl_job *jobs;
	unsigned nr, nr_cancelled;
};

/* Cancels some jobs with various times, one after the other. */
static void cancel_some(void *arg)
{
	struct delayed *d = arg;

	for (int i = 0; i < 20; i++) {
		struct rnl_job *job = &d->jobs[d->nr_cancelled++ * 7919 % d->nr];

		must(rnl_job_cancel(job));
		ck_assert_int_eq(result_of(job), -ECANCELED);
	}
}

/* Returns the timer thread's CPU seconds for some cancels among @nr delayed jobs. */
static double seconds_of_cancels(unsigned nr)
{
	struct rnl_pool *pool = pool_of(1);
	struct delayed d = { pool, calloc(nr, sizeof(*d.jobs)), nr, 0 };
	double seconds;

	find_timer(pool);
	for (unsigned i = 0; i < nr; i++) {
		job_of(&d.jobs[i], noop_fn, NULL);
		must(submit_at(pool, &d.jobs[i],
				   rnl_clock() + LONG + (int64_t)(i * 7727 % nr) * MS));
	}
	cancel_some(&d);	/* afterwards the timer thread has all jobs */
	seconds = least_timer_seconds(cancel_some, &d);
	rnl_pool_destroy(pool);
	free(d.jobs);
	return seconds;
}

TEST(a_cancel_takes_no_longer_among_many_delayed_jobs, .timeout_s = 60)
{
	double few = seconds_of_cancels(1000), many = seconds_of_cancels(256000);

	/* The heap of 256 times as many jobs is twice as high, and misses the caches. */
	ck_assert_msg(many < 32 * few, "%g s of 1,000, %g s of 256,000 delayed jobs", few, many);
}

/* ---- cancels concurrent with the start, the submit and the close ---------- */

enum { EACH = 16 };		/* jobs of a round */

struct cancelling {
	struct owned {
		struct cancelling *b;
		struct rnl_job *job;
		bool freed;
	} jobs[EACH];
	bool by_name;			/* only cancel_each() cancels jobs */
	_Atomic unsigned nr_submitted, nr_ended, nr_cancelled;
	unsigned nr_said;
};

/* A callback may free a cancelled job, even if the call that cancels it has not returned. */
static void count_and_free(struct rnl_job *job)
{
	struct owned *owned = job->user;
	struct cancelling *b = owned->b;

	if (job->result == -ECANCELED) {
		b->nr_cancelled++;
		owned->freed = b->by_name;
		if (owned->freed)
			free(job);
	}
	b->nr_ended++;
}

static int cancel_each(void *arg)
{
	struct cancelling *b = arg;

	for (unsigned i = 0; i < EACH; i++) {
		while (b->nr_submitted <= i)
			sched_yield();
		b->nr_said += rnl_job_cancel(b->jobs[i].job) == 0;
	}
	return 0;
}

/* @_i: 1: with a key; 2: the pool is closed meanwhile; 3: all jobs are cancelled meanwhile. */
TEST(a_job_that_is_cancelled_at_its_time_ends_once, .timeout_s = 60, .loops = 4)
{
	uint64_t random = draws_of(test_seed(), (uint64_t)_i);
	struct rnl_pool *pool = pool_of(2);

	for (unsigned nr = rounds_of(_i == 2 ? 1000 : 4000); nr; nr--) {
		struct cancelling b = { .by_name = _i < 2 };
		struct call call;

		call_start(&call, cancel_each, &b);
		for (unsigned i = 0; i < EACH; i++) {
			const int64_t at = rnl_clock() + draw(&random, 3) * draw(&random, 20000);
			struct rnl_job *job = malloc(sizeof(*job));

			b.jobs[i] = (struct owned){ .b = &b, .job = job };
			job_of(job, noop_fn, &b.jobs[i]);
			must(rnl_job_set_on_done(job, count_and_free));
			must(_i == 1 ? submit_by_key_at(pool, job, i % 3, at) :
				       submit_at(pool, job, at));
			b.nr_submitted++;
		}
		if (_i == 2)
			must(rnl_pool_close(pool));
		if (_i == 3)
			ck_assert_int_ge(rnl_pool_cancel(pool), 0);
		must(call_end(&call));
		ck_eventually(b.nr_ended == EACH);
		if (_i < 2)
			ck_assert_uint_eq(b.nr_cancelled, b.nr_said);
		else
			ck_assert_uint_ge(b.nr_cancelled, b.nr_said);
		if (_i == 2) {
			rnl_pool_destroy(pool);
			pool = pool_of(2);
		}
		for (unsigned i = 0; i < EACH; i++)
			if (!b.jobs[i].freed)
				free(b.jobs[i].job);
	}
	rnl_pool_destroy(pool);
}

struct canceller {
	struct rnl_job *job;
	_Atomic bool over;
};

static int cancel_again_and_again(void *arg)
{
	struct canceller *c = arg;

	while (!c->over) {
		(void)rnl_job_cancel(c->job);
		sched_yield();
	}
	return 0;
}

/* Cancel and submit are unordered: the cancel is for the last run, or for this one in its pool. */
TEST(a_cancel_during_a_submit_to_another_pool_names_the_job_there, .timeout_s = 60)
{
	struct rnl_pool *pools[2] = { pool_of(1), pool_of(1) };
	struct rnl_job job;
	struct canceller c = { .job = &job };
	struct call call;
	uint64_t random = draws_of(test_seed(), 9);

	submit_job(pools[1], &job, noop_fn, NULL);
	ck_assert_int_eq(result_of(&job), 0);
	call_start(&call, cancel_again_and_again, &c);
	for (unsigned i = 0, nr = rounds_of(40000); i < nr; i++) {
		int ret;

		must(submit_by_key_at(pools[i % 2], &job, i, rnl_clock() + draw(&random, 20000)));
		ret = rnl_job_wait(&job, patience_ns());
		ck_assert_msg(!ret || ret == -ECANCELED, "round %u: %d", i, ret);
	}
	c.over = true;
	must(call_end(&call));
	rnl_pool_destroy(pools[0]);
	rnl_pool_destroy(pools[1]);
}

TEST(a_deadline_counts_from_the_jobs_time)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	struct notified late, in_time;

	notified_of(&late);
	notified_of(&in_time);
	must(rnl_job_set_deadline(&in_time.job, LONG));
	must(rnl_job_set_deadline(&late.job, MS));
	must(submit_at(pool, &in_time.job, rnl_clock() + 5 * MS));
	ck_assert_int_eq(result_of(&in_time.job), 0);
	hold_workers(pool, &gate, &held, 1);
	must(submit_at(pool, &late.job, rnl_clock() + 5 * MS));
	ck_assert_int_eq(result_of(&late.job), -ETIMEDOUT);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(a_time_in_the_past_is_now_for_a_deadline_too)
{
	const int64_t past[] = { INT64_MIN, -1, 0, 1, rnl_clock() - 2 * LONG, rnl_clock() };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;

	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_deadline(&job, LONG));
	for (unsigned i = 0; i < COUNT(past); i++) {
		must(submit_at(pool, &job, past[i]));
		ck_assert_int_eq(result_of(&job), 0);
	}
	rnl_pool_destroy(pool);
}

struct refused {
	struct rnl_pool *pool;
	_Atomic bool over;
};

/* Returns the number of wrong results. */
static int submit_refused(void *arg)
{
	struct refused *r = arg;
	struct rnl_job job;
	int nr_wrong = 0;

	job_of(&job, noop_fn, NULL);
	while (!r->over)
		nr_wrong += submit_at(r->pool, &job, 1) != -ESHUTDOWN;
	return nr_wrong;
}

/* A refused submit is never counted, so the drain does not wait for it. */
TEST(a_drain_returns_during_submits_that_are_refused, .timeout_s = 60)
{
	const double until = seconds_now() + (sim_begin ? 0.0003 : 1);
	struct refused refused = { .pool = pool_of(1) };
	struct call call;
	int failed = 0;

	must(rnl_pool_close(refused.pool));
	call_start(&call, submit_refused, &refused);
	while (seconds_now() < until)
		failed += rnl_pool_drain(refused.pool, RNL_FOREVER) != 0;
	refused.over = true;
	must(call_end(&call));
	ck_assert_int_eq(failed, 0);
	rnl_pool_destroy(refused.pool);
}

TEST(a_delayed_job_is_given_back_if_the_next_job_of_its_chain_is_under_way)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job first, next;

	job_of(&first, noop_fn, NULL);
	job_of(&next, noop_fn, NULL);
	must(rnl_job_set_then(&first, &next));
	must(submit_at(pool, &next, rnl_clock() + 3600 * 1000 * MS));
	ck_assert_int_eq(submit_at(pool, &first, rnl_clock() + MS), -EBUSY);
	must(rnl_job_cancel(&next));
	ck_assert_int_eq(result_of(&next), -ECANCELED);
	/* A job of a chain, except the first one, has no time. */
	must(rnl_job_set_more(&next, NULL));
	must(submit_at(pool, &first, rnl_clock() + MS));
	ck_assert_int_eq(result_of(&first), 0);
	ck_assert_int_eq(result_of(&next), 0);
	rnl_pool_destroy(pool);
}

/* Returns the result of the first submit that is refused. */
static int submit_chains(void *pool)
{
	struct rnl_job first, second;
	int ret;

	job_of(&first, noop_fn, NULL);
	job_of(&second, noop_fn, NULL);
	must(rnl_job_set_then(&first, &second));
	while (!(ret = submit_at(pool, &first, 1)))
		(void)rnl_job_wait(&second, RNL_FOREVER);
	return ret;
}

/* A close may refuse the second job after the first one was counted. */
TEST(a_drain_returns_during_a_chain_that_a_close_refuses, .timeout_s = 60)
{
	for (int i = 0; i < (sim_begin ? 3 : 300); i++) {
		struct rnl_pool *pool = pool_of(1);
		struct call call;

		call_start(&call, submit_chains, pool);
		must(rnl_pool_close(pool));
		must(rnl_pool_drain(pool, 10000 * MS));
		ck_assert_int_eq(call_end(&call), -ESHUTDOWN);
		rnl_pool_destroy(pool);
	}
}

struct closing {
	struct rnl_pool *pool;
	_Atomic int closes;
};

static int drain_at_the_close(void *arg)
{
	struct closing *c = arg;

	while (!c->closes)
		sched_yield();
	return rnl_pool_drain(c->pool, 10000 * MS);
}

/*
 * On one CPU, the worker that the timer thread wakes may run first, and complete the job while the
 * timer thread still counts it as delayed. Then the timer thread must wake the drain.
 */
TEST(a_drain_wakes_for_the_last_delayed_job_at_a_close, .timeout_s = 60)
{
	cpu_set_t all, one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET(cpu < 0 ? 0 : cpu, &one);
	must(sched_getaffinity(0, sizeof(all), &all));
	must(sched_setaffinity(0, sizeof(one), &one));
	for (int i = 0; i < 500; i++) {
		struct closing c = { .pool = pool_of(1, .spin_us = -1) };
		struct rnl_job job;
		struct call call;

		job_of(&job, noop_fn, NULL);
		must(submit_at(c.pool, &job, rnl_clock() + LONG));
		call_start(&call, drain_at_the_close, &c);
		ck_eventually(call.tid);
		c.closes = 1;
		must(rnl_pool_close(c.pool));
		must(call_end(&call));
		ck_assert_int_eq(result_of(&job), -ECANCELED);
		rnl_pool_destroy(c.pool);
	}
	must(sched_setaffinity(0, sizeof(all), &all));
}

TEST(a_pool_is_destroyed_with_delayed_jobs)
{
	for (int round = 0; round < (int)(200 / test_scale()); round++) {
		struct rnl_pool *pool = pool_of(1);
		struct rnl_job jobs[4];

		for (int i = 0; i < 4; i++) {
			job_of(&jobs[i], noop_fn, NULL);
			must(submit_at(pool, &jobs[i], rnl_clock() + i * MS / 4));
		}
		rnl_pool_destroy(pool);
		for (int i = 0; i < 4; i++)
			ck_assert_int_eq(rnl_job_wait(&jobs[i], 0), 0);
	}
}

TEST(a_time_can_be_removed)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *ended = class_of(pool);
	struct rnl_job job;

	rnl_class_destroy(ended);
	classed_of(&job, ended, noop_fn, NULL);
	ck_assert_int_eq(submit_by_key_at(pool, &job, 0, 1), -EINVAL);
	must(rnl_job_set_class(&job, NULL));
	submit_anew(&job);
	must(set_time(&job, rnl_clock() + LONG));
	must(set_time(&job, 0));
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	must(set_time(&job, rnl_clock() + LONG));
	must(rnl_job_set_key(&job, 1));
	must(rnl_submit(pool, &job));
	must(rnl_job_cancel(&job));
	ck_assert_int_eq(result_of(&job), -ECANCELED);
	must(rnl_job_set_more(&job, NULL));
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	rnl_pool_destroy(pool);
}
