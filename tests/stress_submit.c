/* SPDX-License-Identifier: MIT */
/*
 * Submits that are stopped after each of their instructions while the pool is
 * resized or closed, or the job cancelled, or done: none is lost, and none is
 * touched when it is its caller's again.
 *
 * env: RNL_STEP_STRIDE=1 takes each instruction, not one in some.
 */
#define _GNU_SOURCE		/* REG_EFL */
#include "cq.h"
#include "steps.h"

#define POISON 0x5a

static int other_ret;	/* of the other's call */

/* ---- submits of every kind ------------------------------------------------ */

enum way { PLAIN, KEYED, MANY, URGENT, AT_LOW, AT_HIGH, AFTER, KEYED_AFTER, NR_WAYS };

static enum way way;

static void prepare_way(struct told *t)
{
	told_of(t);
	if (way == URGENT)
		ck_assert_int_eq(rnl_job_urgent(&t->job, 1), 0);
	if (way >= AFTER)
		ck_assert_int_eq(rnl_job_after(&t->job, &barrier), 0);
}

static int submit_way(struct told *t)
{
	struct rnl_job *job = &t->job;

	switch (way) {
	case KEYED:
	case KEYED_AFTER:
		return rnl_submit_keyed(pool, job, round_nr);
	case MANY:
		ret = rnl_submit_many(pool, &job, 1);
		return ret == 1 ? 0 : ret;
	case AT_LOW:
	case AT_HIGH:
		return rnl_submit_when(pool, job, way == AT_LOW ? RNL_LOW_WATER : RNL_HIGH_WATER);
	default:
		return rnl_submit(pool, job);
	}
}

static void call_submit(void)
{
	ret = submit_way(&a);
}

/* ---- ... beside resizes --------------------------------------------------- */

static unsigned nr_resizes;

static void prepare_resized(void)
{
	round_nr++;
	prepare_way(&a);
	told_of(&b);
}

static void other_resize(void)
{
	static unsigned nr;

	for (unsigned i = 0; i < nr_resizes; i++)
		ck_assert_int_eq(rnl_pool_resize(pool, ++nr % 2 ? 1 : 4), 0);
}

static void check_resized(void)
{
	ck_assert_int_eq(ret, 0);
	if (way == KEYED)
		ck_assert_int_eq(rnl_submit_keyed(pool, &b.job, round_nr), 0);
	ck_done(&a, 0);
	if (way != KEYED)
		return;
	ck_done(&b, 0);
	ck_assert_msg(a.place < b.place, "round %u: a key's jobs ran out of order", round_nr);
}

static void submit_beside_resizes(unsigned nr)
{
	nr_resizes = nr;
	for (way = PLAIN; way < NR_WAYS; way++) {
		if (way == AT_HIGH)
			continue;
		pool = sleepy_pool(4, 0);
		make_barrier();
		gate_open(&gate);
		ck_assert_int_eq(result_of(&first), 0);
		steps_through(prepare_resized, call_submit, other_resize, check_resized);
		rnl_pool_destroy(pool);
	}
}

START_TEST(a_submit_beside_a_resize_loses_no_job)
{
	skip_without_steps();
	submit_beside_resizes(1);
}
END_TEST

START_TEST(a_submit_beside_two_resizes_loses_no_job)
{
	skip_without_steps();
	submit_beside_resizes(2);
}
END_TEST

/* ---- ... beside a close --------------------------------------------------- */

static void prepare_closed(void)
{
	round_nr++;
	pool = sleepy_pool(1, 0);
	make_barrier();
	if (way < AFTER)
		gate_open(&gate);
	prepare_way(&a);
}

static void other_close(void)
{
	other_ret = rnl_pool_close(pool);
	gate_open(&gate);
}

static void check_closed(void)
{
	ck_assert_int_eq(other_ret, 0);
	ck_assert(!ret || ret == -ESHUTDOWN);
	if (!ret)
		ck_assert_msg(!rnl_job_wait(&a.job, PATIENCE_NS),
			      "way %d: an accepted job was lost (instruction %u)", way, steps.nr);
	if (ret || way == AT_HIGH)
		ck_assert_int_eq(a.runs, 0);
	/* One for a mark that is reached may have been on its way already. */
	if (!ret)
		ck_done(&a, way == AT_HIGH || (way == AT_LOW && !a.runs) ? -ECANCELED : 0);
	ck_assert_int_eq(rnl_pool_drain(pool, PATIENCE_NS), 0);
	ck_assert_uint_eq(figures_of(pool).done, ret ? 1 : 2);
	rnl_pool_destroy(pool);
}

START_TEST(a_submit_beside_a_close_is_accepted_in_full_or_refused)
{
	skip_without_steps();
	for (way = PLAIN; way < NR_WAYS; way++)
		steps_through(prepare_closed, call_submit, other_close, check_closed);
}
END_TEST

/* ---- ... beside a cancel -------------------------------------------------- */

static void prepare_cancelled(void)
{
	round_nr++;
	/* One that was submitted before, so that it may be cancelled at any time. */
	told_of(&a);
	ck_assert_int_eq(rnl_submit(pool, &a.job), 0);
	ck_assert_int_eq(result_of(&a.job), 0);
	a.runs = 0;
}

static void other_cancel(void)
{
	other_ret = rnl_job_cancel(&a.job);
}

static void check_cancelled(void)
{
	ck_assert_int_eq(ret, 0);
	if (way == AT_HIGH && other_ret) {
		ck_assert_int_eq(other_ret, -EALREADY);
		other_ret = rnl_job_cancel(&a.job);
	}
	ck_assert(!other_ret || other_ret == -EALREADY || other_ret == -EBUSY);
	ck_done(&a, other_ret ? 0 : -ECANCELED);
}

START_TEST(a_submit_beside_a_cancel_is_not_forgotten)
{
	static const enum way ways[] = { PLAIN, KEYED, AT_LOW, AT_HIGH };

	skip_without_steps();
	pool = sleepy_pool(1, 0);
	for (unsigned i = 0; i < COUNT(ways); i++) {
		way = ways[i];
		steps_through(prepare_cancelled, call_submit, other_cancel, check_cancelled);
	}
	rnl_pool_destroy(pool);
}
END_TEST

/* ---- ... of a job that comes after, and is done before its submit returns --- */

enum end { BY_TEST, BY_CQ, BY_CALLBACK, NR_ENDS };

static enum end how;
static bool drains, inherited, inherited_barrier;
static struct rnl_cq *cq;
static _Atomic bool called;

static void inherit(struct rnl_job *job)
{
	memset(job, POISON, sizeof(*job));
	inherited = true;
}

static void inherit_called(struct rnl_job *job)
{
	memset(job, POISON, sizeof(*job));
	called = true;
}

static void prepare_inherited(void)
{
	round_nr++;
	inherited = inherited_barrier = false;
	called = false;
	make_barrier();
	gate_await(&gate, 1);
	told_of(&a);
	ck_assert_int_eq(rnl_job_after(&a.job, &barrier), 0);
	if (how == BY_CQ)
		ck_assert_int_eq(rnl_job_cq(&a.job, cq), 0);
	if (how == BY_CALLBACK)
		ck_assert_int_eq(rnl_job_on_done(&a.job, inherit_called), 0);
}

static bool inherit_if_done(void)
{
	struct rnl_job *job;

	if (how == BY_TEST && rnl_job_test(&a.job) == 1)
		inherit(&a.job);
	if (how == BY_CQ && rnl_cq_reap(cq, &job, 1) == 1)
		inherit(job);
	inherited = inherited || called;
	return inherited;
}

/* It may be that the job was not submitted yet; then what can be told is told later. */
static void other_inherit(void)
{
	double until = seconds_now() + 2e-3;

	gate_open(&gate);
	ck_assert_int_eq(result_of(&first), 0);
	while (!inherit_if_done() && seconds_now() < until)
		sched_yield();
	if (!inherited || (drains ? rnl_pool_drain(pool, MS) : rnl_barrier_wait(&barrier, MS)))
		return;
	memset(&barrier, POISON, sizeof(barrier));
	inherited_barrier = true;
}

static void check_inherited(void)
{
	ck_assert_int_eq(ret, 0);
	if (inherited_barrier)
		ck_assert_bytes((unsigned char *)&barrier, sizeof(barrier), POISON);
	else
		ck_assert_int_eq(rnl_barrier_wait(&barrier, PATIENCE_NS), 0);
	ck_eventually(inherit_if_done());
	ck_assert_bytes((unsigned char *)&a.job, sizeof(a.job), POISON);
	ck_assert_int_eq(rnl_pool_drain(pool, PATIENCE_NS), 0);
}

START_TEST(a_submit_beside_the_jobs_end_touches_nothing_afterwards)
{
	skip_without_steps();
	pool = sleepy_pool(2, 0);
	cq = cq_of();
	way = AFTER;
	for (int i = 0; i < 2 * NR_ENDS; i++) {
		drains = i % 2;
		how = (enum end)(i / 2);
		steps_through(prepare_inherited, call_submit, other_inherit, check_inherited);
	}
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("stress_submit");
	TCase *tc = tcase_create("submits");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, a_submit_beside_a_resize_loses_no_job);
	tcase_add_test(tc, a_submit_beside_two_resizes_loses_no_job);
	tcase_add_test(tc, a_submit_beside_a_close_is_accepted_in_full_or_refused);
	tcase_add_test(tc, a_submit_beside_a_cancel_is_not_forgotten);
	tcase_add_test(tc, a_submit_beside_the_jobs_end_touches_nothing_afterwards);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
