/* SPDX-License-Identifier: MIT */
/* Notices: when they start, how they end, and what they tell. */
#include "cq.h"
#include "keeper.h"
#include "record.h"

enum { LOW = 3, HIGH = 8, MAX = 10 };

static struct rnl_pool *pool_of_marks(unsigned nr_workers, uint32_t max, uint32_t high,
				      uint32_t low)
{
	return pool_of(nr_workers, .max_queued = max, .high_water = high, .low_water = low);
}

/* A pool with one held worker and @nr queued jobs, which note 0, 1, ... */
struct tank {
	struct rnl_pool *pool;
	struct gate gate;
	struct record record;
	struct rnl_job held;
	struct noted noted[MAX];
};

static void tank_fill(struct tank *t, int nr)
{
	t->gate = (struct gate)GATE_INIT;
	t->record.nr = 0;
	hold_workers(t->pool, &t->gate, &t->held, 1);
	for (int i = 0; i < nr; i++) {
		noted_of(&t->noted[i], &t->record, i);
		must(rnl_submit(t->pool, &t->noted[i].job));
	}
}

static void tank_empty(struct tank *t)
{
	gate_open(&t->gate);
	must(rnl_pool_drain(t->pool, RNL_FOREVER));
}

/* ---- when a notice starts ------------------------------------------------ */

TEST(a_notice_of_high_water_starts_at_once_if_the_pool_is_so_full)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct noted notice;

	noted_of(&notice, &tank.record, 100);
	for (int nr = HIGH; nr <= MAX; nr++) {
		tank_fill(&tank, nr);
		/* A full pool accepts it, too. */
		must(rnl_submit_when(tank.pool, &notice.job, RNL_HIGH_WATER));
		tank_empty(&tank);
		ck_assert_int_eq(result_of(&notice.job), 0);
		ck_assert_int_eq(place_of(&tank.record, 100), 0);	/* before the queued jobs */
		ck_assert_uint_eq(tank.record.nr, (unsigned)nr + 1);
	}
	rnl_pool_destroy(tank.pool);
}

TEST(a_notice_of_high_water_waits_until_the_pool_is_so_full)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct noted notice;

	noted_of(&notice, &tank.record, 100);
	for (int round = 0; round < 3; round++) {
		must(rnl_submit_when(tank.pool, &notice.job, RNL_HIGH_WATER));
		for (int i = 0; i < 3; i++) {
			tank_fill(&tank, HIGH - 1);
			tank_empty(&tank);
			ck_assert_int_eq(rnl_job_test(&notice.job), 0);
		}
		tank_fill(&tank, HIGH);
		tank_empty(&tank);
		ck_assert_int_eq(result_of(&notice.job), 0);
		ck_assert_int_eq(place_of(&tank.record, 100), 0);
	}
	rnl_pool_destroy(tank.pool);
}

TEST(a_notice_of_low_water_starts_at_once_if_the_pool_is_so_empty)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct noted notice;

	noted_of(&notice, &tank.record, 100);
	must(rnl_submit_when(tank.pool, &notice.job, RNL_LOW_WATER));
	ck_assert_int_eq(result_of(&notice.job), 0);
	for (int nr = 0; nr <= LOW; nr++) {
		noted_of(&notice, &tank.record, 100);	/* a new one */
		tank_fill(&tank, nr);
		must(rnl_submit_when(tank.pool, &notice.job, RNL_LOW_WATER));
		tank_empty(&tank);
		ck_assert_int_eq(result_of(&notice.job), 0);
		ck_assert_int_eq(place_of(&tank.record, 100), 0);
	}
	rnl_pool_destroy(tank.pool);
}

TEST(a_notice_of_low_water_waits_until_the_pool_is_so_empty)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct noted notice;

	noted_of(&notice, &tank.record, 100);
	for (int nr = LOW + 1; nr <= MAX; nr++) {
		tank_fill(&tank, nr);
		must(rnl_submit_when(tank.pool, &notice.job, RNL_LOW_WATER));
		tank_empty(&tank);
		ck_assert_int_eq(result_of(&notice.job), 0);
		/* The worker took one job after the other, so it did not miss the mark. */
		ck_assert_int_eq(place_of(&tank.record, 100), nr - LOW);
	}
	rnl_pool_destroy(tank.pool);
}

TEST(a_notice_of_high_water_starts_when_a_submit_was_refused)
{
	enum { EACH = 4 };
	struct rnl_pool *pool = pool_of_marks(2, 2 * EACH, 2 * EACH, 1);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2], jobs[EACH], refused, notice;

	hold_workers(pool, &gate, held, 2);
	job_of(&notice, noop_fn, NULL);
	must(rnl_submit_when(pool, &notice, RNL_HIGH_WATER));
	/* The key's worker is full, the pool is not. */
	for (int i = 0; i < EACH; i++) {
		job_of(&jobs[i], noop_fn, NULL);
		must(submit_by_key(pool, &jobs[i], 1));
	}
	job_of(&refused, noop_fn, NULL);
	ck_assert_int_eq(submit_by_key(pool, &refused, 1), -EAGAIN);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&notice), 0);
	rnl_pool_destroy(pool);
}

/* ---- submitted again ----------------------------------------------------- */

struct returning {
	struct rnl_job job;
	struct rnl_pool *pool;
	enum rnl_water mark;
	_Atomic int nr, ret;
};

static void submit_itself(struct rnl_job *job)
{
	struct returning *r = rnl_container_of(job, struct returning, job);

	if (rnl_job_result(job))
		return;
	r->nr++;
	r->ret |= rnl_submit_when(r->pool, job, r->mark);
}

static void returning_of(struct returning *r, struct rnl_pool *pool, enum rnl_water mark)
{
	*r = (struct returning){ .pool = pool, .mark = mark };
	job_of(&r->job, noop_fn, NULL);
	must(rnl_job_on_done(&r->job, submit_itself));
	must(rnl_submit_when(pool, &r->job, mark));
}

TEST(a_notice_of_low_water_that_submits_itself_lets_other_jobs_run)
{
	for (unsigned nr_workers = 1; nr_workers <= 2; nr_workers++) {
		struct tank tank = { .pool = pool_of_marks(nr_workers, MAX, HIGH, LOW) };
		struct returning returning;
		struct rnl_job job;

		returning_of(&returning, tank.pool, RNL_LOW_WATER);
		ck_eventually(returning.nr == 1);
		must(rnl_pool_drain(tank.pool, RNL_FOREVER));	/* it is submitted again */
		for (int i = 0; i < 50; i++) {
			job_of(&job, noop_fn, NULL);
			ck_assert_int_eq(submit_and_wait(tank.pool, &job), 0);
		}
		ck_assert_int_eq(returning.nr, 1);
		rnl_pool_destroy(tank.pool);
		ck_assert_int_eq(returning.ret, 0);
		ck_assert_int_eq(result_of(&returning.job), -ECANCELED);
	}
}

TEST(a_notice_comes_again_when_its_mark_was_left)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct returning low, high;

	returning_of(&low, tank.pool, RNL_LOW_WATER);
	ck_eventually(low.nr == 1);
	for (int round = 0; round < 3; round++) {
		tank_fill(&tank, LOW);
		tank_empty(&tank);
		ck_assert_int_eq(low.nr, round + 1);
		tank_fill(&tank, LOW + 1);
		tank_empty(&tank);
		ck_eventually(low.nr == round + 2);
	}
	must(rnl_pool_drain(tank.pool, RNL_FOREVER));
	returning_of(&high, tank.pool, RNL_HIGH_WATER);
	for (int round = 0; round < 3; round++) {
		tank_fill(&tank, HIGH);
		tank_empty(&tank);
		ck_assert_int_eq(high.nr, round + 1);
	}
	rnl_pool_destroy(tank.pool);
}

/* A job at a gate, with as many jobs behind it as may wait so. */
enum { BEHIND = 3 };

struct crowd {
	struct gate gate;
	struct rnl_job first, behind[BEHIND];
};

static void crowd_of(struct crowd *crowd, struct rnl_pool *pool)
{
	crowd->gate = (struct gate)GATE_INIT;
	job_of(&crowd->first, gated_fn, &crowd->gate);
	for (int i = 0; i < BEHIND; i++) {
		job_of(&crowd->behind[i], noop_fn, NULL);
		must(rnl_job_then(i ? &crowd->behind[i - 1] : &crowd->first, &crowd->behind[i]));
	}
	must(rnl_submit(pool, &crowd->first));
}

static void pair_of(struct rnl_job *pair)
{
	job_of(&pair[0], noop_fn, NULL);
	job_of(&pair[1], noop_fn, NULL);
	must(rnl_job_then(&pair[0], &pair[1]));
}

/* What is short is the space for jobs that wait in no queue; the queues are empty. */
TEST(notices_hear_of_a_submit_that_found_no_space_behind_another_job)
{
	struct rnl_pool *pool = pool_of_marks(2, BEHIND, BEHIND, 1);
	struct rnl_job pair[2], last, high;
	struct submitting submitting;
	struct returning low;
	struct rnl_barrier b;
	struct crowd crowd;
	struct call call;

	returning_of(&low, pool, RNL_LOW_WATER);
	ck_eventually(low.nr == 1);
	crowd_of(&crowd, pool);
	ck_assert(gate_came(&crowd.gate, 1));
	must(rnl_barrier_init(&b, pool));
	must(rnl_job_init(&last, NULL));
	job_of(&high, noop_fn, NULL);
	for (int way = 0; way < 4; way++) {
		int ret;

		pair_of(pair);
		must(rnl_submit_when(pool, &high, RNL_HIGH_WATER));
		if (way == 0)
			ret = rnl_submit(pool, &pair[0]);
		else if (way == 1)
			ret = submit_at(pool, &pair[0], 0);
		else if (way == 2)
			ret = rnl_submit_when(pool, &pair[0], RNL_LOW_WATER);
		else
			ret = rnl_barrier_notify(&b, &last);
		ck_assert_int_eq(ret, -EAGAIN);
		ck_assert_int_eq(result_of(&high), 0);
		ck_eventually(low.nr == way + 2);
	}
	/* No worker looks at the mark for this one. */
	ck_assert_int_eq(rnl_barrier_notify(&b, &last), -EAGAIN);
	ck_eventually(low.nr == 6);
	/* A submit that waits leaves the mark once, however often it looks for space. */
	pair_of(pair);
	submitting = (struct submitting){ pool, &pair[0], RNL_FOREVER, 0, false };
	call_start(&call, submit_waiting, &submitting);
	ck_waits(call.tid);
	ck_eventually(low.nr == 7);
	ck_waits(call.tid);
	ck_assert_int_eq(low.nr, 7);
	gate_open(&crowd.gate);
	must(call_end(&call));
	ck_assert_int_eq(result_of(&pair[1]), 0);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(low.ret, 0);
}

/* A program that reads on when the water is low: its notice submits a pair, or waits for the mark. */
struct reading {
	struct rnl_job notice, pair[2];
	struct rnl_pool *pool;
	_Atomic int nr_refused, ret;
	_Atomic bool submitted;
};

static void read_on(struct rnl_job *job)
{
	struct reading *r = rnl_container_of(job, struct reading, notice);
	int ret = rnl_submit(r->pool, &r->pair[0]);

	if (ret == -EAGAIN) {
		r->nr_refused++;
		ret = rnl_submit_when(r->pool, job, RNL_LOW_WATER);
	} else if (!ret) {
		r->submitted = true;
	}
	r->ret |= ret;
}

TEST(a_notice_that_finds_no_space_does_not_go_before_the_jobs_that_make_some)
{
	struct rnl_pool *pool = pool_of_marks(1, BEHIND, BEHIND, 2);
	struct gate plug = GATE_INIT;
	struct reading readings[2];
	struct rnl_job held;
	struct crowd crowd;

	hold_workers(pool, &plug, &held, 1);
	crowd_of(&crowd, pool);
	for (int i = 0; i < 2; i++) {
		readings[i] = (struct reading){ .pool = pool };
		pair_of(readings[i].pair);
		job_of(&readings[i].notice, noop_fn, NULL);
		must(rnl_job_on_done(&readings[i].notice, read_on));
		must(rnl_submit_when(pool, &readings[i].notice, RNL_LOW_WATER));
	}
	/* The one worker has the notices before the crowd, which they wait for. */
	gate_open(&plug);
	ck_assert(gate_came(&crowd.gate, 1));
	gate_open(&crowd.gate);
	for (int i = 0; i < 2; i++) {
		ck_eventually(readings[i].submitted);
		ck_assert_int_eq(result_of(&readings[i].pair[1]), 0);
		ck_assert_int_eq(readings[i].ret, 0);
		/* On a GPU its callback comes later, perhaps when there is space. */
		ck_assert(readings[i].nr_refused >= on_host());
		if (on_host())
			ck_assert_int_le(readings[i].nr_refused, BEHIND + 2);
	}
	rnl_pool_destroy(pool);
}

TEST(notices_do_not_take_each_other_for_the_jobs_that_lead_beyond_the_mark)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct rnl_job notices[LOW + 2], late;

	/* In one turn, one after the other. */
	for (int i = 0; i < LOW + 2; i++) {
		job_of(&notices[i], noop_fn, NULL);
		must(rnl_submit_when(tank.pool, &notices[i], RNL_LOW_WATER));
		ck_assert_int_eq(result_of(&notices[i]), 0);
	}
	for (int i = 0; i < LOW + 2; i++) {
		must(rnl_submit_when(tank.pool, &notices[i], RNL_LOW_WATER));
		ck_assert_int_eq(rnl_job_wait(&notices[i], 5 * MS), -ETIMEDOUT);
	}
	/* One that comes new into the turn starts alone. */
	job_of(&late, noop_fn, NULL);
	must(rnl_submit_when(tank.pool, &late, RNL_LOW_WATER));
	ck_assert_int_eq(result_of(&late), 0);
	for (int i = 0; i < LOW + 2; i++)
		ck_assert_int_eq(rnl_job_test(&notices[i]), 0);
	tank_fill(&tank, LOW + 1);
	tank_empty(&tank);
	for (int i = 0; i < LOW + 2; i++)
		ck_assert_int_eq(result_of(&notices[i]), 0);
	rnl_pool_destroy(tank.pool);
}

TEST(a_notice_that_is_submitted_late_comes_if_its_mark_was_left_meanwhile)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct rnl_job other, refused;
	struct noted notice;

	noted_of(&notice, &tank.record, 100);
	for (int round = 0; round < 3; round++) {
		must(rnl_submit_when(tank.pool, &notice.job, RNL_LOW_WATER));
		ck_assert_int_eq(result_of(&notice.job), 0);
		/* No notice waits meanwhile, and nobody looks. */
		tank_fill(&tank, round == 2 ? MAX : LOW + 1);
		job_of(&refused, noop_fn, NULL);
		if (round == 2)
			ck_assert_int_eq(rnl_submit(tank.pool, &refused), -EAGAIN);
		tank_empty(&tank);
		/* Another one, which comes first, does not change that. */
		job_of(&other, noop_fn, NULL);
		if (round)
			must(rnl_submit_when(tank.pool, &other, RNL_LOW_WATER));
		if (round)
			ck_assert_int_eq(result_of(&other), 0);
	}
	must(rnl_submit_when(tank.pool, &notice.job, RNL_LOW_WATER));
	ck_assert_int_eq(result_of(&notice.job), 0);
	rnl_pool_destroy(tank.pool);
}

TEST(with_several_workers_notices_come_too)
{
	enum { NR = 50 };
	int rounds = (int)(300 / test_scale());
	struct rnl_pool *pool = pool_of_marks(3, 60, 30, 10);
	struct rnl_job high, low, jobs[NR];

	job_of(&high, noop_fn, NULL);
	job_of(&low, noop_fn, NULL);
	for (int round = 0; round < rounds; round++) {
		struct gate gate = GATE_INIT;
		struct rnl_job held[3];

		must(rnl_submit_when(pool, &high, RNL_HIGH_WATER));
		hold_workers(pool, &gate, held, 3);
		for (int i = 0; i < NR; i++) {
			submit_job(pool, &jobs[i], noop_fn, NULL);
		}
		must(rnl_submit_when(pool, &low, RNL_LOW_WATER));
		ck_assert_int_eq(rnl_job_test(&low), 0);
		gate_open(&gate);
		ck_assert_int_eq(result_of(&high), 0);
		ck_assert_int_eq(result_of(&low), 0);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

TEST(marks_that_were_not_set_are_three_quarters_and_half_of_that)
{
	struct tank tank = { .pool = pool_of_marks(1, 8, 0, 0) };
	struct noted notice;

	noted_of(&notice, &tank.record, 100);
	must(rnl_submit_when(tank.pool, &notice.job, RNL_HIGH_WATER));
	tank_fill(&tank, 5);
	tank_empty(&tank);
	ck_assert_int_eq(rnl_job_test(&notice.job), 0);
	tank_fill(&tank, 6);
	tank_empty(&tank);
	ck_assert_int_eq(result_of(&notice.job), 0);

	tank_fill(&tank, 8);
	must(rnl_submit_when(tank.pool, &notice.job, RNL_LOW_WATER));
	tank_empty(&tank);
	ck_assert_int_eq(result_of(&notice.job), 0);
	ck_assert_int_eq(place_of(&tank.record, 100), 8 - 3);
	rnl_pool_destroy(tank.pool);
}

/* ---- how it tells -------------------------------------------------------- */

static _Atomic int nr_calls;

static void callback(struct rnl_job *job)
{
	nr_calls += rnl_job_result(job) == 0 ? 1 : 1000;
}

TEST(a_notice_tells_by_its_callback_or_its_completion_queue)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct rnl_cq *cq = cq_of();
	struct rnl_job called, queued, *list[2];

	nr_calls = 0;
	job_of(&called, noop_fn, NULL);
	must(rnl_job_on_done(&called, callback));
	cq_job(&queued, noop_fn, NULL, cq);
	for (int round = 1; round <= 3; round++) {
		must(rnl_submit_when(tank.pool, &called, RNL_HIGH_WATER));
		must(rnl_submit_when(tank.pool, &queued, RNL_HIGH_WATER));
		ck_assert_int_eq(rnl_cq_reap(cq, list, 2), 0);
		tank_fill(&tank, HIGH);
		tank_empty(&tank);
		reap_all(cq, list, 1);
		ck_assert_ptr_eq(list[0], &queued);
		ck_assert_int_eq(rnl_job_result(&queued), 0);
		ck_eventually(nr_calls == round);
		must(rnl_job_wait(&called, RNL_FOREVER));
		/* The drain waits until the callback has returned. */
		must(rnl_pool_drain(tank.pool, RNL_FOREVER));
	}
	rnl_cq_destroy(cq);
	rnl_pool_destroy(tank.pool);
}

/* ---- what counts it, and what ends it ------------------------------------ */

TEST(a_notice_that_waits_is_counted_by_nobody_but_its_barrier)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct rnl_barrier barrier;
	struct rnl_job notice;

	must(rnl_barrier_init(&barrier, tank.pool));
	job_in(&barrier, &notice, noop_fn, NULL);
	must(rnl_submit_when(tank.pool, &notice, RNL_HIGH_WATER));
	must(rnl_pool_drain(tank.pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(tank.pool).accepted, 0);
	ck_assert_uint_eq(figures_of(tank.pool).queued, 0);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 5 * MS), -ETIMEDOUT);
	tank_fill(&tank, HIGH);
	ck_assert_uint_le(figures_of(tank.pool).queued, HIGH + 1);	/* or it started */
	tank_empty(&tank);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	must(rnl_pool_drain(tank.pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(tank.pool).accepted, HIGH + 2);
	ck_assert_uint_eq(figures_of(tank.pool).done, HIGH + 2);
	rnl_pool_destroy(tank.pool);
}

TEST(closing_a_pool_cancels_the_notices_that_wait)
{
	enum { NR = 5 };
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct rnl_cq *cq = cq_of();
	struct noted notices[NR];
	struct rnl_barrier barrier;
	struct rnl_job *list[2];

	nr_calls = 0;
	must(rnl_barrier_init(&barrier, tank.pool));
	tank_fill(&tank, LOW + 1);
	for (int i = 0; i < NR; i++)
		noted_of(&notices[i], &tank.record, 100);
	must(rnl_job_on_done(&notices[1].job, callback));
	must(rnl_job_cq(&notices[2].job, cq));
	must(rnl_barrier_add(&barrier, &notices[3].job));
	for (int i = 0; i < NR; i++)
		must(rnl_submit_when(tank.pool, &notices[i].job,
				     i % 2 ? RNL_HIGH_WATER : RNL_LOW_WATER));
	must(rnl_pool_close(tank.pool));
	tank_empty(&tank);
	ck_assert_int_eq(result_of_barrier(&barrier), -ECANCELED);
	reap_all(cq, list, 1);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&notices[i].job), -ECANCELED);
	ck_eventually(nr_calls == 1000);
	ck_assert_int_eq(rnl_submit_when(tank.pool, &notices[0].job, RNL_LOW_WATER), -ESHUTDOWN);
	ck_assert_int_eq(place_of(&tank.record, 100), -1);
	ck_assert_uint_eq(tank.record.nr, LOW + 1);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(tank.pool);
}

TEST(destroying_a_pool_cancels_the_notices_that_wait)
{
	struct rnl_pool *pool = pool_of_marks(2, MAX, HIGH, LOW);
	struct rnl_job notices[4];

	for (int i = 0; i < 4; i++) {
		job_of(&notices[i], noop_fn, NULL);
		must(rnl_submit_when(pool, &notices[i], RNL_HIGH_WATER));
	}
	rnl_pool_destroy(pool);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(rnl_job_result(&notices[i]), -ECANCELED);
}

TEST(a_notice_that_was_cancelled_does_not_run_when_its_time_comes)
{
	struct tank tank = { .pool = pool_of_marks(1, MAX, HIGH, LOW) };
	struct gate plug = GATE_INIT, keeper = GATE_INIT;
	struct rnl_job busy, blocker;
	struct noted notices[2];

	/* It would have both notices in hand while it looks for the cancelled one. */
	hold_workers(tank.pool, &plug, &busy, 1);
	hold_keeper(tank.pool, &keeper, &blocker);
	gate_open(&plug);
	ck_assert_int_eq(result_of(&busy), 0);
	for (int i = 0; i < 2; i++) {
		noted_of(&notices[i], &tank.record, 100 + i);
		must(rnl_submit_when(tank.pool, &notices[i].job, RNL_HIGH_WATER));
	}
	must(rnl_job_cancel(&notices[0].job));
	tank_fill(&tank, HIGH);
	gate_open(&tank.gate);
	ck_assert_int_eq(result_of(&notices[0].job), -ECANCELED);
	ck_assert_int_eq(result_of(&notices[1].job), 0);
	gate_open(&keeper);
	tank_empty(&tank);
	ck_assert_int_eq(place_of(&tank.record, 100), -1);
	ck_assert_int_eq(place_of(&tank.record, 101), 0);
	rnl_pool_destroy(tank.pool);
}

TEST(a_notice_that_was_cancelled_completes_though_its_time_does_not_come)
{
	enum { NR = 6 };
	struct tank tank = { .pool = pool_of_marks(2, MAX, HIGH, LOW) };
	struct rnl_barrier barrier;
	struct noted notices[NR];

	nr_calls = 0;
	must(rnl_barrier_init(&barrier, tank.pool));
	for (int i = 0; i < NR; i++) {
		noted_of(&notices[i], &tank.record, i);
		must(rnl_job_on_done(&notices[i].job, callback));
		must(rnl_barrier_add(&barrier, &notices[i].job));
		must(rnl_submit_when(tank.pool, &notices[i].job, RNL_HIGH_WATER));
	}
	for (int i = 1; i < NR; i += 2) {
		must(rnl_job_cancel(&notices[i].job));
		ck_assert_int_eq(result_of(&notices[i].job), -ECANCELED);
		ck_assert_int_eq(rnl_job_cancel(&notices[i].job), -EALREADY);
	}
	ck_eventually(nr_calls == NR / 2 * 1000);
	/* The other notices still wait. */
	for (int i = 0; i < NR; i += 2)
		ck_assert_int_eq(rnl_job_test(&notices[i].job), 0);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, MS), -ETIMEDOUT);
	must(rnl_pool_close(tank.pool));
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ck_assert_int_eq(nr_calls, NR * 1000);
	ck_assert_uint_eq(tank.record.nr, 0);
	rnl_pool_destroy(tank.pool);
}

/* ---- misuse -------------------------------------------------------------- */

TEST(misuse_gets_an_errno)
{
	static const struct {
		uint32_t max, high, low;
	} bad[] = { { 10, 5, 5 }, { 10, 5, 6 }, { 0, 1, 1 }, { 10, 5, UINT32_MAX } };
	struct rnl_pool *pool = pool_of_marks(1, MAX, HIGH, LOW), *none = NULL;
	struct rnl_barrier barrier;
	struct rnl_job job, zero = { 0 };

	for (unsigned i = 0; i < COUNT(bad); i++) {
		struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

		attr.device = test_device();
		attr.nr_workers = 1;
		attr.max_queued = bad[i].max;
		attr.high_water = bad[i].high;
		attr.low_water = bad[i].low;
		ck_assert_msg(rnl_pool_create(&none, &attr) == -EINVAL, "row %u", i);
	}
	must(rnl_barrier_init(&barrier, pool));
	job_of(&job, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit_when(NULL, &job, RNL_LOW_WATER), -EINVAL);
	ck_assert_int_eq(rnl_submit_when(pool, NULL, RNL_LOW_WATER), -EINVAL);
	ck_assert_int_eq(rnl_submit_when(pool, &zero, RNL_LOW_WATER), -EINVAL);
	ck_assert_int_eq(rnl_submit_when(pool, &job, (enum rnl_water)3), -EINVAL);
	ck_assert_int_eq(rnl_submit_when(pool, &job, (enum rnl_water)-1), -EINVAL);
	must(rnl_job_after(&job, &barrier));
	ck_assert_int_eq(rnl_submit_when(pool, &job, RNL_LOW_WATER), -EINVAL);
	must(rnl_job_after(&job, NULL));
	must(rnl_submit_when(pool, &job, RNL_HIGH_WATER));
	ck_assert_int_eq(rnl_submit_when(pool, &job, RNL_HIGH_WATER), -EBUSY);
	ck_assert_int_eq(rnl_submit_when(pool, &job, RNL_LOW_WATER), -EBUSY);
	ck_assert_int_eq(rnl_submit(pool, &job), -EBUSY);
	ck_assert_int_eq(rnl_job_deadline(&job, 1), -EBUSY);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(rnl_job_result(&job), -ECANCELED);
}
