/* SPDX-License-Identifier: MIT */
/* Notices for space: when they start, how they complete, and errors; for RNL_EMPTY, see empty.c. */
#include <runnel/more.h>

#include "cq.h"
#include "record.h"

enum { MAX = 8, HALF = MAX / 2 };

/* A pool with one held worker and @nr queued jobs, which record 0, 1, ... */
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

static void submit_notice(struct rnl_pool *pool, struct rnl_job *notice)
{
	job_of(notice, noop_fn, NULL);
	must(submit_when(pool, notice, RNL_SPACE));
}

static void tank_empty(struct tank *t)
{
	gate_open(&t->gate);
	must(rnl_pool_drain(t->pool, RNL_FOREVER));
}

/* ---- when a notice starts ------------------------------------------------ */

TEST(a_notice_starts_at_once_and_last_if_half_of_the_queue_is_free)
{
	struct tank tank = { .pool = pool_of(1, .max_queued = MAX) };
	struct noted notice;

	for (int nr = 0; nr <= HALF; nr++) {
		noted_of(&notice, &tank.record, 100);
		tank_fill(&tank, nr);
		must(submit_when(tank.pool, &notice.job, RNL_SPACE));
		tank_empty(&tank);
		ck_assert_int_eq(result_of(&notice.job), 0);
		ck_assert_int_eq(place_of(&tank.record, 100), nr);
	}
	rnl_pool_destroy(tank.pool);
}

TEST(a_notice_waits_until_half_of_the_queue_is_free)
{
	struct tank tank = { .pool = pool_of(1, .max_queued = MAX) };
	struct noted notice;

	for (int nr = HALF + 1; nr <= MAX; nr++) {
		noted_of(&notice, &tank.record, 100);
		tank_fill(&tank, nr);
		/* A full pool accepts a notice, too. */
		must(submit_when(tank.pool, &notice.job, RNL_SPACE));
		ck_assert_int_eq(rnl_job_wait(&notice.job, MS), -ETIMEDOUT);
		tank_empty(&tank);
		ck_assert_int_eq(result_of(&notice.job), 0);
		ck_assert_int_ge(place_of(&tank.record, 100), nr - HALF);
	}
	rnl_pool_destroy(tank.pool);
}

TEST(a_notice_that_waited_starts_before_the_queued_jobs)
{
	struct tank tank = { .pool = pool_of(1, .max_queued = MAX) };
	struct gate stop = GATE_INIT;
	struct rnl_job stopped, second;
	struct noted notice;

	noted_of(&notice, &tank.record, 100);
	tank_fill(&tank, 0);
	submit_job(tank.pool, &stopped, gated_fn, &stop);
	for (int i = 0; i < HALF; i++) {
		noted_of(&tank.noted[i], &tank.record, i);
		must(rnl_submit(tank.pool, &tank.noted[i].job));
	}
	must(submit_when(tank.pool, &notice.job, RNL_SPACE));
	/* When the timer thread has ended the second notice, it has seen the first one. */
	submit_notice(tank.pool, &second);
	must(rnl_job_cancel(&second));
	ck_assert_int_eq(result_of(&second), -ECANCELED);
	gate_open(&tank.gate);
	gate_await(&stop, 1);
	ck_eventually(figures_of(tank.pool).queued == HALF + 1);
	gate_open(&stop);
	must(rnl_pool_drain(tank.pool, RNL_FOREVER));
	ck_assert_int_eq(place_of(&tank.record, 100), 0);
	rnl_pool_destroy(tank.pool);
}

/* Checks that a notice waits for a place outside of the queues, which are empty. */
static void check_outside(struct rnl_pool *pool, struct gate *gate, struct rnl_job *refused)
{
	struct rnl_job notice;

	ck_assert_int_eq(rnl_submit(pool, refused), -EAGAIN);
	submit_notice(pool, &notice);
	ck_assert_int_eq(rnl_job_wait(&notice, 5 * MS), -ETIMEDOUT);
	gate_open(gate);
	ck_assert_int_eq(result_of(&notice), 0);
	must(rnl_submit_wait(pool, refused, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_notice_waits_for_a_place_in_a_chain)
{
	struct rnl_pool *pool = pool_of(2, .max_queued = 2);
	struct gate gate = GATE_INIT;
	struct rnl_job chain[3], pair[2];

	for (int i = 0; i < 3; i++) {
		job_of(&chain[i], i ? noop_fn : gated_fn, &gate);
		if (i)
			must(rnl_job_set_then(&chain[i - 1], &chain[i]));
	}
	must(rnl_submit(pool, &chain[0]));
	gate_await(&gate, 1);
	for (int i = 0; i < 2; i++)
		job_of(&pair[i], noop_fn, NULL);
	must(rnl_job_set_then(&pair[0], &pair[1]));
	check_outside(pool, &gate, &pair[0]);
}

TEST(a_notice_waits_for_a_place_after_a_barrier)
{
	struct rnl_pool *pool = pool_of(2, .max_queued = 2);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held, after[3];

	hold_barrier(pool, &barrier, &gate, &held);
	for (int i = 0; i < 3; i++) {
		job_of(&after[i], noop_fn, NULL);
		must(rnl_job_set_after(&after[i], &barrier));
		if (i < 2)
			must(rnl_submit(pool, &after[i]));
	}
	check_outside(pool, &gate, &after[2]);
}

/* A barrier's notices take such places, too, although no worker runs them. */
TEST(a_notice_waits_for_the_place_of_a_barriers_notice)
{
	struct rnl_pool *pool = pool_of(2, .max_queued = 2);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held, last[2], pair[2];

	hold_barrier(pool, &barrier, &gate, &held);
	for (int i = 0; i < 2; i++) {
		job_of(&last[i], NULL, NULL);
		must(rnl_barrier_notify(&barrier, &last[i]));
		job_of(&pair[i], noop_fn, NULL);
	}
	must(rnl_job_set_then(&pair[0], &pair[1]));
	check_outside(pool, &gate, &pair[0]);
}

/* An event loop that submits until there is no space, and goes on after its notice. */
TEST(an_event_loop_submits_all_its_jobs, .timeout_s = 60, .loops = 3)
{
	enum { NR = 100 };
	struct rnl_pool *pool = pool_of(1 + (unsigned)_i, .max_queued = 1 + 3 * (unsigned)_i);
	struct rnl_cq *cq = cq_of();
	static struct rnl_job jobs[NR];
	struct rnl_job notice, *reaped;

	for (unsigned round = rounds_of(300); round; round--) {
		cq_job(&notice, NULL, NULL, cq);
		for (int i = 0; i < NR; i++) {
			int ret;

			job_of(&jobs[i], noop_fn, NULL);
			while ((ret = rnl_submit(pool, &jobs[i])) == -EAGAIN) {
				must(submit_when(pool, &notice, RNL_SPACE));
				ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, patience_ns()), 1);
				ck_assert_int_eq(notice.result, 0);
			}
			must(ret);
		}
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}

TEST(several_notices_come_with_several_workers)
{
	enum { WORKERS = 3, NR = 20, NOTICES = 4 };
	struct rnl_pool *pool = pool_of(WORKERS, .max_queued = 30);
	struct rnl_job notices[NOTICES], jobs[NR];

	for (unsigned round = rounds_of(1000); round; round--) {
		struct gate gate = GATE_INIT;
		struct rnl_job held[WORKERS];

		hold_workers(pool, &gate, held, WORKERS);
		for (int i = 0; i < NR; i++)
			submit_job(pool, &jobs[i], noop_fn, NULL);
		for (int i = 0; i < NOTICES; i++) {
			submit_notice(pool, &notices[i]);
			ck_assert_int_ne(rnl_job_wait(&notices[i], 0), 0);
		}
		gate_open(&gate);
		for (int i = 0; i < NOTICES; i++)
			ck_assert_int_eq(result_of(&notices[i]), 0);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

/* ---- submitted again ----------------------------------------------------- */

struct returning {
	struct rnl_job job;
	struct rnl_pool *pool;
	_Atomic int nr, ret;
};

static void submit_itself(struct rnl_job *job)
{
	struct returning *r = rnl_container_of(job, struct returning, job);
	int ret;

	r->nr++;
	ret = job->result ? 0 : submit_when(r->pool, job, RNL_SPACE);
	/* Another thread may have called this function since, so do not overwrite its error. */
	if (ret)
		r->ret = ret;
}

TEST(a_notice_that_submits_itself_lets_other_jobs_run)
{
	for (unsigned nr_workers = 1; nr_workers <= 2; nr_workers++) {
		struct tank tank = { .pool = pool_of(nr_workers, .max_queued = MAX) };
		struct returning returning = { .pool = tank.pool };
		struct rnl_job job;

		job_of(&returning.job, noop_fn, NULL);
		must(rnl_job_set_on_done(&returning.job, submit_itself));
		must(submit_when(tank.pool, &returning.job, RNL_SPACE));
		for (int i = 0; i < 50; i++) {
			submit_job(tank.pool, &job, noop_fn, NULL);
			ck_assert_int_eq(result_of(&job), 0);
		}
		ck_eventually(returning.nr > 1);
		rnl_pool_destroy(tank.pool);
		/* The close cancelled the waiting notice, or its next submit was refused. */
		ck_assert(returning.ret == -ESHUTDOWN || returning.job.result == -ECANCELED);
	}
}

/* ---- how a notice reports ------------------------------------------------ */

static _Atomic int nr_calls;

static void callback(struct rnl_job *job)
{
	nr_calls += job->result == 0 ? 1 : 1000;
}

TEST(a_notice_ends_in_its_callback_or_its_completion_queue)
{
	struct tank tank = { .pool = pool_of(1, .max_queued = MAX) };
	struct rnl_cq *cq = cq_of();
	struct rnl_job called, queued, *list[2];

	nr_calls = 0;
	job_of(&called, noop_fn, NULL);
	must(rnl_job_set_on_done(&called, callback));
	cq_job(&queued, noop_fn, NULL, cq);
	for (int round = 1; round <= 3; round++) {
		tank_fill(&tank, MAX);
		must(submit_when(tank.pool, &called, RNL_SPACE));
		must(submit_when(tank.pool, &queued, RNL_SPACE));
		ck_assert_int_eq(rnl_cq_reap(cq, list, 2, 0), 0);
		tank_empty(&tank);
		reap_all(cq, list, 1);
		ck_assert_ptr_eq(list[0], &queued);
		ck_assert_int_eq(queued.result, 0);
		ck_eventually(nr_calls == round);
		must(rnl_job_wait(&called, RNL_FOREVER));
		/* The drain waits until the callback has returned. */
		must(rnl_pool_drain(tank.pool, RNL_FOREVER));
	}
	rnl_cq_destroy(cq);
	rnl_pool_destroy(tank.pool);
}

/* ---- counters, cancels and ends ------------------------------------------ */

TEST(a_notice_that_waits_is_not_counted)
{
	struct tank tank = { .pool = pool_of(1, .max_queued = MAX) };
	struct rnl_job notice;

	tank_fill(&tank, MAX);
	submit_notice(tank.pool, &notice);
	ck_assert_uint_eq(figures_of(tank.pool).accepted, MAX + 1);
	ck_assert_uint_eq(figures_of(tank.pool).queued, MAX);
	tank_empty(&tank);
	ck_assert_int_eq(result_of(&notice), 0);
	must(rnl_pool_drain(tank.pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(tank.pool).accepted, MAX + 2);
	ck_assert_uint_eq(figures_of(tank.pool).done, MAX + 2);
	rnl_pool_destroy(tank.pool);
}

TEST(closing_a_pool_cancels_the_notices_that_wait)
{
	enum { NR = 5 };
	struct tank tank = { .pool = pool_of(1, .max_queued = MAX) };
	struct rnl_cq *cq = cq_of();
	struct noted notices[NR];
	struct rnl_job *list[2];

	nr_calls = 0;
	tank_fill(&tank, MAX);
	for (int i = 0; i < NR; i++)
		noted_of(&notices[i], &tank.record, 100);
	must(rnl_job_set_on_done(&notices[1].job, callback));
	must(rnl_job_set_cq(&notices[2].job, cq));
	for (int i = 0; i < NR; i++)
		must(submit_when(tank.pool, &notices[i].job, RNL_SPACE));
	must(rnl_pool_close(tank.pool));
	tank_empty(&tank);
	reap_all(cq, list, 1);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&notices[i].job), -ECANCELED);
	ck_eventually(nr_calls == 1000);
	ck_assert_int_eq(submit_when(tank.pool, &notices[0].job, RNL_SPACE), -ESHUTDOWN);
	ck_assert_int_eq(place_of(&tank.record, 100), -1);
	ck_assert_uint_eq(tank.record.nr, MAX);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(tank.pool);
}

static int open_gate(void *arg)
{
	gate_open(arg);
	return 0;
}

TEST(destroying_a_pool_cancels_the_notices_that_wait)
{
	struct tank tank = { .pool = pool_of(1, .max_queued = MAX) };
	struct rnl_job notices[4];
	struct call call;

	tank_fill(&tank, MAX);
	for (int i = 0; i < 4; i++)
		submit_notice(tank.pool, &notices[i]);
	must(rnl_pool_close(tank.pool));
	call_start(&call, open_gate, &tank.gate);
	rnl_pool_destroy(tank.pool);
	must(call_end(&call));
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(notices[i].result, -ECANCELED);
}

TEST(a_cancelled_notice_completes_in_a_full_pool)
{
	enum { NR = 6 };
	struct tank tank = { .pool = pool_of(2, .max_queued = MAX) };
	struct gate other = GATE_INIT;
	struct rnl_job_more *more;
	struct rnl_job held;
	struct noted notices[NR];

	nr_calls = 0;
	tank_fill(&tank, 0);
	hold_workers(tank.pool, &other, &held, 1);
	for (int i = 0; i < MAX; i++) {
		noted_of(&tank.noted[i], &tank.record, i);
		must(rnl_submit(tank.pool, &tank.noted[i].job));
	}
	for (int i = 0; i < NR; i++) {
		noted_of(&notices[i], &tank.record, 100 + i);
		must(rnl_job_set_on_done(&notices[i].job, callback));
		must(submit_when(tank.pool, &notices[i].job, RNL_SPACE));
	}
	for (int i = 1; i < NR; i += 2) {
		must(rnl_job_cancel(&notices[i].job));
		ck_assert_int_eq(result_of(&notices[i].job), -ECANCELED);
		ck_assert_int_eq(rnl_job_cancel(&notices[i].job), -EALREADY);
		/* The notice is no longer on the timer thread's list. */
		must(more_anew(&notices[i].job, &more));
	}
	ck_eventually(nr_calls == NR / 2 * 1000);
	/* The other notices still wait. */
	for (int i = 0; i < NR; i += 2)
		ck_assert_int_ne(rnl_job_wait(&notices[i].job, 0), 0);
	must(rnl_pool_close(tank.pool));
	ck_eventually(nr_calls == NR * 1000);
	gate_open(&other);
	tank_empty(&tank);
	ck_assert_uint_eq(tank.record.nr, MAX);
	rnl_pool_destroy(tank.pool);
}

/* ---- misuse -------------------------------------------------------------- */

TEST(a_notice_with_a_barrier_or_a_next_job_and_a_waiting_one_are_refused)
{
	struct tank tank = { .pool = pool_of(1, .max_queued = MAX) };
	struct rnl_pool *pool = tank.pool;
	struct rnl_barrier barrier;
	struct rnl_job job, next;

	must(rnl_barrier_init(&barrier, pool));
	job_of(&job, noop_fn, NULL);
	ck_assert_int_eq(submit_when(pool, &job, (enum rnl_when)3), -EINVAL);
	ck_assert_int_eq(submit_when(pool, &job, (enum rnl_when)-1), -EINVAL);
	must(rnl_job_set_after(&job, &barrier));
	ck_assert_int_eq(submit_when(pool, &job, RNL_SPACE), -EINVAL);
	must(rnl_job_set_after(&job, NULL));
	/* Jobs that take up the space could wait for the notice, through the barrier. */
	must(rnl_barrier_add(&barrier, &job));
	ck_assert_int_eq(submit_when(pool, &job, RNL_SPACE), -EINVAL);
	job_of(&next, noop_fn, NULL);
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_then(&job, &next));
	ck_assert_int_eq(submit_when(pool, &job, RNL_SPACE), -EINVAL);
	must(rnl_job_set_then(&job, NULL));
	tank_fill(&tank, MAX);
	must(submit_when(pool, &job, RNL_SPACE));
	ck_assert_int_eq(submit_when(pool, &job, RNL_SPACE), -EBUSY);
	ck_assert_int_eq(submit_when(pool, &job, RNL_EMPTY), -EBUSY);
	ck_assert_int_eq(rnl_submit(pool, &job), -EBUSY);
	ck_assert_int_eq(rnl_job_set_deadline(&job, 1), -EBUSY);
	must(rnl_job_cancel(&job));
	ck_assert_int_eq(result_of(&job), -ECANCELED);
	tank_empty(&tank);
	rnl_pool_destroy(pool);
}
