/* SPDX-License-Identifier: MIT */
/*
 * Submits are stopped after each instruction while the pool is resized or closed, or the job is
 * cancelled or done. No job is lost, and the library accesses no job that is done.
 *
 * env: RNL_STEP_STRIDE=1 stops after each instruction.
 */
#define _GNU_SOURCE		/* REG_EFL */
#include <runnel/more.h>

#include "classed.h"
#include "cq.h"
#include "steps.h"

#define POISON 0x5a

static int other_ret;	/* result of the other call */

/* ---- submits of every kind ------------------------------------------------ */

enum way { PLAIN, KEYED, MANY, CLASSED, TO_OWN, FOR_SPACE, AFTER, KEYED_AFTER, NR_WAYS };

static enum way way;
static struct rnl_class *cls;	/* the job's; TO_OWN: it has a worker of its own */

static void make_pool(unsigned nr_workers)
{
	pool = way == TO_OWN ? pool_of(nr_workers, .spin_us = -1, .nr_class_workers = 1) :
			       sleepy_pool(nr_workers, 0);
	cls = way == TO_OWN ? own_class(pool, 1) : way == CLASSED ? first_class(pool) : NULL;
}

static void prepare_way(struct notified *t)
{
	notified_of(t);
	must(rnl_job_set_class(&t->job, cls));
	if (way >= AFTER)
		must(rnl_job_set_after(&t->job, &barrier));
}

static int submit_way(struct notified *t)
{
	struct rnl_job *job = &t->job;

	switch (way) {
	case KEYED:
	case KEYED_AFTER:
		return submit_by_key(pool, job, round_nr);
	case MANY:
		ret = rnl_submit_many(pool, &job, 1);
		return ret == 1 ? 0 : ret;
	case FOR_SPACE:
		return submit_when(pool, job, RNL_SPACE);
	default:
		return rnl_submit(pool, job);
	}
}

static void call_submit(void)
{
	ret = submit_way(&a);
}

/* ---- ... during resizes --------------------------------------------------- */

/* Two resizes between the submit's read of the table and its promise. */
#define KEYED_STRIDE (SANITIZED ? 21 : 7)

static unsigned nr_resizes;

static void prepare_resized(void)
{
	round_nr++;
	prepare_way(&a);
	notified_of(&b);
}

static void other_resize(void)
{
	static unsigned nr;

	for (unsigned i = 0; i < nr_resizes; i++)
		must(rnl_pool_resize(pool, ++nr % 2 ? 1 : 4));
}

static void check_resized(void)
{
	ck_assert_int_eq(ret, 0);
	if (way == KEYED)
		must(submit_by_key(pool, &b.job, round_nr));
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
		make_pool(4);
		make_barrier();
		gate_open(&gate);
		ck_assert_int_eq(result_of(&first), 0);
		steps_through_some(way == KEYED ? KEYED_STRIDE : STEPS_STRIDE, prepare_resized,
				   call_submit, other_resize, check_resized);
		rnl_pool_destroy(pool);
	}
}

TEST(a_submit_beside_a_resize_loses_no_job, .timeout_s = 120)
{
	skip_without_steps();
	submit_beside_resizes(1);
}

TEST(a_submit_beside_two_resizes_loses_no_job, .timeout_s = 120)
{
	skip_without_steps();
	submit_beside_resizes(2);
}

/* ---- ... during a close --------------------------------------------------- */

static void prepare_closed(void)
{
	round_nr++;
	make_pool(1);
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
		ck_assert_msg(!rnl_job_wait(&a.job, patience_ns()),
			      "way %d: an accepted job was lost (instruction %u)", way, steps.nr);
	if (ret)
		ck_assert_int_eq(a.runs, 0);
	/* The notice may have started already. */
	if (!ret)
		ck_done(&a, way == FOR_SPACE && !a.runs ? -ECANCELED : 0);
	must(rnl_pool_drain(pool, patience_ns()));
	ck_assert_uint_eq(figures_of(pool).done, ret ? 1 : 2);
	rnl_pool_destroy(pool);
}

TEST(a_submit_beside_a_close_is_accepted_in_full_or_refused, .timeout_s = 120)
{
	skip_without_steps();
	for (way = PLAIN; way < NR_WAYS; way++)
		steps_through(prepare_closed, call_submit, other_close, check_closed);
}

/* ---- ... during the end of the job's class ---------------------------------- */

static void hear_nothing(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

static void prepare_ended(void)
{
	round_nr++;
	cls = way == TO_OWN ? own_class(pool, 1) : first_class(pool);
	prepare_way(&a);
}

static void other_end(void)
{
	rnl_class_destroy(cls);
}

static void check_ended(void)
{
	ck_assert(!ret || ret == -EINVAL);
	if (ret)
		ck_assert_int_eq(a.runs, 0);
	else
		ck_done(&a, 0);
}

TEST(a_submit_beside_the_end_of_its_class_is_accepted_in_full_or_refused, .timeout_s = 120)
{
	skip_without_steps();
	pool = pool_of(1, .spin_us = -1, .nr_class_workers = 1, .log = hear_nothing);
	for (way = CLASSED; way <= TO_OWN; way++)
		steps_through(prepare_ended, call_submit, other_end, check_ended);
	rnl_pool_destroy(pool);
}

/* ---- ... during a cancel -------------------------------------------------- */

static void prepare_cancelled(void)
{
	round_nr++;
	/* The job was submitted before, so it may be cancelled at any time. */
	notified_of(&a);
	ck_assert_int_eq(submit_and_wait(pool, &a.job), 0);
	a.runs = 0;
}

static void other_cancel(void)
{
	other_ret = rnl_job_cancel(&a.job);
}

static void check_cancelled(void)
{
	ck_assert_int_eq(ret, 0);
	ck_assert(!other_ret || other_ret == -EALREADY || other_ret == -EBUSY);
	ck_done(&a, other_ret ? 0 : -ECANCELED);
}

TEST(a_submit_beside_a_cancel_is_not_forgotten, .timeout_s = 120)
{
	static const enum way ways[] = { PLAIN, KEYED, FOR_SPACE };

	skip_without_steps();
	pool = sleepy_pool(1, 0);
	for (unsigned i = 0; i < COUNT(ways); i++) {
		way = ways[i];
		steps_through(prepare_cancelled, call_submit, other_cancel, check_cancelled);
	}
	rnl_pool_destroy(pool);
}

/* ---- ... refused, while another submit waits for the space it reserved -------- */

/* A reservation lasts about 30 instructions, so some stops are during it. */
#define REFUSED_STRIDE (SANITIZED ? 21 : 7)

static bool waits_keyed;
static struct notified late;
static double other_took;

static void prepare_refused(void)
{
	round_nr++;
	make_barrier();
	gate_await(&gate, 1);
	prepare_way(&a);
	notified_of(&b);
	notified_of(&late);
	/* The queue is full by then. */
	ck_assert_int_eq(rnl_submit(pool, &b.job), 0);
}

/* No other job can make space, so only the refused submit can wake this waiter. */
static void other_wait(void)
{
	double since;

	gate_open(&gate);
	ck_done(&b, 0);
	since = seconds_now();
	other_ret = waits_keyed ? submit_by_key_wait(pool, &late.job, 1, patience_ns()) :
				  rnl_submit_wait(pool, &late.job, patience_ns());
	other_took = seconds_now() - since;
}

static void check_refused(void)
{
	ck_assert(!ret || ret == -EAGAIN);
	/* A wait checks again at its timeout, and finds space even without a wake. */
	ck_assert_msg(!other_ret && other_took < 1e-9 * (double)patience_ns(),
		      "round %u: a submit took its reservation back and woke no thread (instruction %u)",
		      round_nr, steps.nr);
	if (!ret)
		ck_done(&a, 0);
	ck_done(&late, 0);
	ck_assert_int_eq(rnl_pool_drain(pool, patience_ns()), 0);
}

TEST(a_submit_that_is_refused_tells_who_waits_of_the_room_it_had, .timeout_s = 120)
{
	static const enum way ways[] = { PLAIN, MANY };

	skip_without_steps();
	pool = sleepy_pool(1, 1);
	cls = NULL;
	for (unsigned i = 0; i < 2 * COUNT(ways); i++) {
		way = ways[i / 2];
		waits_keyed = i % 2;
		steps_through_some(REFUSED_STRIDE, prepare_refused, call_submit, other_wait,
				   check_refused);
	}
	rnl_pool_destroy(pool);
}

/* ---- ... of a dependent job, which is done before its submit returns --- */

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
	notified_of(&a);
	must(rnl_job_set_after(&a.job, &barrier));
	if (how == BY_CQ)
		must(rnl_job_set_cq(&a.job, cq));
	if (how == BY_CALLBACK)
		must(rnl_job_set_on_done(&a.job, inherit_called));
}

static bool inherit_if_done(void)
{
	struct rnl_job *job;

	if (how == BY_TEST && !rnl_job_wait(&a.job, 0))
		inherit(&a.job);
	if (how == BY_CQ && rnl_cq_reap(cq, &job, 1, 0) == 1)
		inherit(job);
	inherited = inherited || called;
	return inherited;
}

/* If the job is not submitted yet, check_inherited() looks at it. */
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
		must(rnl_barrier_wait(&barrier, patience_ns()));
	ck_eventually(inherit_if_done());
	ck_assert_bytes((unsigned char *)&a.job, sizeof(a.job), POISON);
	must(rnl_pool_drain(pool, patience_ns()));
}

TEST(a_submit_beside_the_jobs_end_touches_nothing_afterwards, .timeout_s = 120)
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
