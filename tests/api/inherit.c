/* SPDX-License-Identifier: MIT */
/* Priority inheritance: jobs that a job of a higher class waits for do not wait for a middle one. */
#include <runnel/more.h>

#include "classed.h"
#include "record.h"

enum { AHEAD = 10, MIDDLE = 100, HIGH = AHEAD, OTHERS = AHEAD + 1 };

/*
 * One worker, which the gate holds: jobs of a low class or of none (ids from 0), one of a high class
 * that waits for them (HIGH), and jobs of a middle class (from OTHERS on).
 */
struct setting {
	struct rnl_pool *pool;
	struct rnl_class *low, *middle, *high;	/* low: NULL in half of the runs */
	struct gate gate;
	struct rnl_job held;
	struct record record;
	struct noted ahead[AHEAD], waits, others[MIDDLE];
};

static void set_up(struct setting *s, bool classed)
{
	memset(s, 0, sizeof(*s));
	s->gate = (struct gate)GATE_INIT;
	s->pool = pool_of(1);
	s->middle = class_of(s->pool, .priority = -1, .floor_permille = RNL_CLASS_NO_FLOOR);
	s->high = class_of(s->pool, .priority = -2, .floor_permille = RNL_CLASS_NO_FLOOR);
	if (classed)
		s->low = class_of(s->pool, .priority = 3, .floor_permille = RNL_CLASS_NO_FLOOR);
	for (int i = 0; i < AHEAD; i++) {
		noted_of(&s->ahead[i], &s->record, i);
		must(rnl_job_set_class(&s->ahead[i].job, s->low));
	}
	noted_of(&s->waits, &s->record, HIGH);
	must(rnl_job_set_class(&s->waits.job, s->high));
}

static void submit_others(struct setting *s)
{
	for (int i = 0; i < MIDDLE; i++) {
		noted_of(&s->others[i], &s->record, OTHERS + i);
		must(rnl_job_set_class(&s->others[i].job, s->middle));
		must(rnl_submit(s->pool, &s->others[i].job));
	}
}

/* The jobs ran: those that the high one waits for, then that one, then the others. */
static void check_order(struct setting *s)
{
	gate_open(&s->gate);
	must(rnl_pool_drain(s->pool, RNL_FOREVER));
	ck_assert_uint_eq(s->record.nr, AHEAD + 1 + MIDDLE);
	/* A search of the timer thread may have each job of a class out of its queue for a moment. */
	ck_assert_int_le(place_of(&s->record, HIGH), 2 * AHEAD);
	for (int i = 0; !s->low && i < (int)s->record.nr; i++)
		ck_assert_int_eq(s->record.ids[i], i);
	rnl_pool_destroy(s->pool);
}

TEST(jobs_ahead_in_a_key_run_at_the_priority_of_the_last_one, .loops = 2)
{
	static struct setting s;

	set_up(&s, _i);
	hold_workers(s.pool, &s.gate, &s.held, 1);
	submit_others(&s);
	for (int i = 0; i < AHEAD; i++) {
		must(rnl_job_set_key(&s.ahead[i].job, 7));
		must(rnl_submit(s.pool, &s.ahead[i].job));
	}
	must(rnl_job_set_key(&s.waits.job, 7));
	must(rnl_submit(s.pool, &s.waits.job));
	check_order(&s);
}

TEST(jobs_of_a_barrier_that_workers_have_run_at_the_priority_of_a_job_after_it)
{
	static struct setting s;
	struct rnl_barrier barrier;

	set_up(&s, false);
	must(rnl_barrier_init(&barrier, s.pool));
	hold_workers(s.pool, &s.gate, &s.held, 1);
	submit_others(&s);
	for (int i = 0; i < AHEAD; i++) {
		must(rnl_barrier_add(&barrier, &s.ahead[i].job));
		must(rnl_submit(s.pool, &s.ahead[i].job));
	}
	must(rnl_job_set_after(&s.waits.job, &barrier));
	must(rnl_submit(s.pool, &s.waits.job));
	check_order(&s);
}

/* The round is raised before its jobs are queued, because they come after another barrier. */
TEST(deferred_jobs_of_a_barrier_run_at_the_priority_of_a_job_after_it, .loops = 4)
{
	static struct setting s;
	struct rnl_barrier first, barrier;

	set_up(&s, _i % 2);
	must(rnl_barrier_init(&first, s.pool));
	must(rnl_barrier_init(&barrier, s.pool));
	job_of(&s.held, gated_fn, &s.gate);
	must(rnl_barrier_add(&first, &s.held));
	must(rnl_submit(s.pool, &s.held));
	gate_await(&s.gate, 1);
	submit_others(&s);
	for (int i = 0; i < AHEAD; i++) {
		must(rnl_barrier_add(&barrier, &s.ahead[i].job));
		must(rnl_job_set_after(&s.ahead[i].job, &first));
		if (_i / 2)
			must(rnl_job_set_key(&s.ahead[i].job, 7));
		must(rnl_submit(s.pool, &s.ahead[i].job));
	}
	must(rnl_job_set_after(&s.waits.job, &barrier));
	must(rnl_submit(s.pool, &s.waits.job));
	check_order(&s);
}

static void submit_behind(struct rnl_order *order, struct rnl_job_more *more, struct rnl_job *job)
{
	*more = (struct rnl_job_more)RNL_JOB_MORE_INIT;
	more->order = order;
	must(rnl_job_set_more(job, more));
	must(rnl_submit(order->pool, job));
}

static int nap_fn(struct rnl_job *job)
{
	const struct timespec ts = { .tv_nsec = 20 * MS };

	(void)job;
	nanosleep(&ts, NULL);
	return 0;
}

/* In an order, the last job ahead comes after a barrier of the others, and the high job after it. */
TEST(jobs_that_the_job_at_the_gate_of_an_order_waits_for_run_at_the_priority_of_a_job_behind_it, .loops = 3)
{
	static struct setting s;
	struct rnl_barrier first, barrier;
	struct rnl_job_more more[3];
	struct rnl_order order;

	set_up(&s, false);
	must(rnl_barrier_init(&first, s.pool));
	must(rnl_barrier_init(&barrier, s.pool));
	must(rnl_order_init(&order, s.pool, 7));
	/* The own class uses up its floor, which would put its jobs first. */
	submit_job(s.pool, &s.held, nap_fn, NULL);
	must(rnl_job_wait(&s.held, RNL_FOREVER));
	/* Of the high class: a raise of its round raises no jobs of the worker. */
	classed_of(&s.held, s.high, gated_fn, &s.gate);
	must(rnl_barrier_add(&first, &s.held));
	must(rnl_submit(s.pool, &s.held));
	gate_await(&s.gate, 1);
	submit_others(&s);
	for (int i = 0; i < AHEAD - 1 - !!_i; i++) {
		must(rnl_barrier_add(&barrier, &s.ahead[i].job));
		must(rnl_submit(s.pool, &s.ahead[i].job));
	}
	/* From the second run on, another job is at the gate until `held` has ended. */
	if (_i) {
		must(rnl_job_set_after(&s.ahead[AHEAD - 2].job, &first));
		submit_behind(&order, &more[0], &s.ahead[AHEAD - 2].job);
	}
	must(rnl_job_set_after(&s.ahead[AHEAD - 1].job, &barrier));
	submit_behind(&order, &more[1], &s.ahead[AHEAD - 1].job);
	/* In the third one the high job waits as well. */
	if (_i == 2)
		must(rnl_job_set_after(&s.waits.job, &first));
	submit_behind(&order, &more[2], &s.waits.job);
	gate_open(&s.gate);
	must(rnl_pool_drain(s.pool, RNL_FOREVER));
	ck_assert_int_eq(place_of(&s.record, HIGH), AHEAD);
	rnl_order_fini(&order);
	rnl_pool_destroy(s.pool);
}

TEST(a_job_comes_to_an_order_while_the_job_at_the_gate_is_let_go)
{
	enum { ROUNDS = 100, BEHIND = 3 };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *classes[BEHIND] = { NULL };
	struct rnl_barrier barrier;
	struct rnl_job_more more[1 + BEHIND];
	struct rnl_order order;
	struct record record;
	struct noted first, gate, behind[BEHIND];

	for (int i = 1; i < BEHIND; i++)
		classes[i] = class_of(pool, .priority = -i);
	must(rnl_order_init(&order, pool, 7));
	for (int round = 0; round < ROUNDS; round++) {
		record.nr = 0;
		must(rnl_barrier_init(&barrier, pool));
		noted_of(&first, &record, -1);
		must(rnl_barrier_add(&barrier, &first.job));
		must(rnl_submit(pool, &first.job));
		noted_of(&gate, &record, 0);
		must(rnl_job_set_after(&gate.job, &barrier));
		submit_behind(&order, &more[0], &gate.job);
		for (int i = 0; i < BEHIND; i++) {
			noted_of(&behind[i], &record, 1 + i);
			must(rnl_job_set_class(&behind[i].job, classes[i]));
			submit_behind(&order, &more[1 + i], &behind[i].job);
		}
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_uint_eq(record.nr, 2 + BEHIND);
		for (int i = 0; i < 2 + BEHIND; i++)
			ck_assert_int_eq(record.ids[i], i - 1);
	}
	rnl_order_fini(&order);
	rnl_pool_destroy(pool);
}

/* ---- jobs that are queued in their class: the timer thread raises them ------- */

/* Jobs of the middle class, which submit themselves again until the high job has run. */
struct flood {
	struct rnl_pool *pool;
	_Atomic bool ends;
	struct rnl_job jobs[200];	/* more than can be under way: max_in_flight is 64 */
};

static void flood_done(struct rnl_job *job)
{
	struct flood *flood = job->user;

	if (!flood->ends)
		must(rnl_submit(flood->pool, job));
}

static void begin_flood(struct flood *flood, struct rnl_pool *pool, struct rnl_class *cls)
{
	flood->pool = pool;
	flood->ends = false;
	for (size_t i = 0; i < COUNT(flood->jobs); i++) {
		classed_of(&flood->jobs[i], cls, noop_fn, flood);
		must(rnl_job_set_on_done(&flood->jobs[i], flood_done));
		must(rnl_submit(pool, &flood->jobs[i]));
	}
}

static void begin_flooded(struct setting *s, bool classed, struct flood *flood, struct rnl_barrier *barrier)
{
	set_up(s, classed);
	must(rnl_barrier_init(barrier, s->pool));
	hold_workers(s->pool, &s->gate, &s->held, 1);
	begin_flood(flood, s->pool, s->middle);
}

/* The high job is done, however many jobs of the middle class come. */
static void check_flooded(struct setting *s, struct flood *flood)
{
	gate_open(&s->gate);
	ck_assert_int_eq(rnl_job_wait(&s->waits.job, (int64_t)(PATIENCE_S * 1e9)), 0);
	flood->ends = true;
	must(rnl_pool_drain(s->pool, RNL_FOREVER));
	rnl_pool_destroy(s->pool);
}

static void check_after(struct setting *s, struct flood *flood, struct rnl_barrier *barrier)
{
	must(rnl_job_set_after(&s->waits.job, barrier));
	must(rnl_submit(s->pool, &s->waits.job));
	check_flooded(s, flood);
}

TEST(jobs_of_a_barrier_that_are_queued_in_their_class_run_at_the_priority_of_a_job_after_it)
{
	static struct setting s;
	static struct flood flood;
	struct rnl_barrier barrier;

	begin_flooded(&s, true, &flood, &barrier);
	for (int i = 0; i < AHEAD; i++) {
		must(rnl_barrier_add(&barrier, &s.ahead[i].job));
		must(rnl_submit(s.pool, &s.ahead[i].job));
	}
	check_after(&s, &flood, &barrier);
	for (int i = 0; i < AHEAD; i++)
		ck_assert_int_eq(s.record.ids[i], i);	/* in the order of their class */
}

/* A job after a barrier waits for all of its rounds, also for those that another job has sealed. */
TEST(jobs_of_earlier_rounds_run_at_the_priority_of_a_job_after_a_later_one, .loops = 2)
{
	static struct setting s;
	static struct flood flood;
	struct rnl_barrier barrier;
	struct rnl_job seals;

	begin_flooded(&s, _i, &flood, &barrier);
	for (int i = 0; i < AHEAD; i++) {
		must(rnl_barrier_add(&barrier, &s.ahead[i].job));
		must(rnl_submit(s.pool, &s.ahead[i].job));
		if (i != AHEAD - 2)
			continue;
		classed_of(&seals, s.low, noop_fn, NULL);
		must(rnl_job_set_after(&seals, &barrier));
		must(rnl_submit(s.pool, &seals));
	}
	check_after(&s, &flood, &barrier);
}

TEST(jobs_are_submitted_and_raised_while_a_worker_serves_a_middle_class, .loops = 2)
{
	enum { ROUNDS = 20 };
	static struct setting s;
	static struct flood flood;
	struct rnl_barrier barrier;

	set_up(&s, _i);
	must(rnl_barrier_init(&barrier, s.pool));
	begin_flood(&flood, s.pool, s.middle);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < AHEAD; i++) {
			must(rnl_barrier_add(&barrier, &s.ahead[i].job));
			must(rnl_submit_wait(s.pool, &s.ahead[i].job, RNL_FOREVER));
		}
		must(rnl_job_set_after(&s.waits.job, &barrier));
		must(rnl_submit_wait(s.pool, &s.waits.job, RNL_FOREVER));
		ck_assert_int_eq(rnl_job_wait(&s.waits.job, (int64_t)(PATIENCE_S * 1e9)), 0);
		for (int i = 0; i < AHEAD; i++)
			must(rnl_job_wait(&s.ahead[i].job, RNL_FOREVER));
	}
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	check_flooded(&s, &flood);
}

TEST(a_chain_whose_last_job_is_in_a_barrier_runs_at_the_priority_of_a_job_after_it, .loops = 2)
{
	static struct setting s;
	static struct flood flood;
	struct rnl_barrier barrier;

	begin_flooded(&s, _i, &flood, &barrier);
	for (int i = 0; i < AHEAD; i++) {
		must(rnl_job_set_class(&s.ahead[i].job, i ? NULL : s.low));
		if (i)
			must(rnl_job_set_then(&s.ahead[i - 1].job, &s.ahead[i].job));
	}
	must(rnl_barrier_add(&barrier, &s.ahead[AHEAD - 1].job));
	must(rnl_submit(s.pool, &s.ahead[0].job));
	check_after(&s, &flood, &barrier);
}
