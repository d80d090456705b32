/* SPDX-License-Identifier: MIT */
/*
 * Waits, reaps and cancels are stopped after each instruction while their event happens. No call
 * sleeps on, and no call returns a wrong result.
 *
 * env: RNL_STEP_STRIDE=1 stops after each instruction.
 */
#define _GNU_SOURCE		/* REG_EFL */
#include "cq.h"
#include "steps.h"

static double since;		/* when the call began */

/* A wait checks again at its timeout, and returns 0 even without a wake. */
static void check_woken(void)
{
	ck_assert_msg(seconds_now() - since < 1e-9 * (double)patience_ns(),
		      "round %u: a wait was not woken (instruction %u)", round_nr, steps.nr);
}

/* ---- the reader of a completion queue ------------------------------------- */

static struct rnl_cq *cq;
static unsigned nr_before, nr_come, max; /* jobs in the queue; added during the call; asked for */
static bool waits;
static struct rnl_job jobs[3], *list[4];

static void complete(unsigned i)
{
	cq_job(&jobs[i], noop_fn, NULL, cq);
	must(rnl_submit(pool, &jobs[i]));
	/* The job is in the queue. */
	must(rnl_pool_drain(pool, RNL_FOREVER));
}

static void prepare_reaped(void)
{
	round_nr++;
	for (unsigned i = 0; i < nr_before; i++)
		complete(i);
	since = seconds_now();
}

static void call_reap(void)
{
	ret = waits ? rnl_cq_reap(cq, list, max, patience_ns()) : rnl_cq_reap(cq, list, max, 0);
}

static void other_complete(void)
{
	for (unsigned i = 0; i < nr_come; i++)
		complete(nr_before + i);
}

static void check_reaped(void)
{
	int left = (int)(nr_before + nr_come) - ret;

	ck_assert_int_ge(ret, waits);
	ck_assert_int_le(ret, (int)max);
	check_woken();
	for (; left; left -= ret) {
		ck_assert_msg(readable(rnl_cq_fd(cq)), "%d jobs are in the queue, and it is not "
			      "readable (instruction %u)", left, steps.nr);
		ret = rnl_cq_reap(cq, list, max, 0);
		ck_assert_int_gt(ret, 0);
	}
	/* The queue is empty now. */
	ck_assert_int_eq(rnl_cq_reap(cq, list, max, 0), 0);
	ck_assert(!readable(rnl_cq_fd(cq)));
}

/* The program has its descriptor, so each reap leaves it right. */
static struct rnl_cq *polled_cq(void)
{
	struct rnl_cq *polled = cq_of();

	ck_assert_int_ge(rnl_cq_fd(polled), 0);
	return polled;
}

TEST(a_reap_beside_a_completion_leaves_the_queue_readable, .timeout_s = 120)
{
	skip_without_steps();
	pool = sleepy_pool(1, 0);
	cq = polled_cq();
	nr_come = 1;
	for (unsigned i = 0; i < 3 * 3 * 2; i++) {
		nr_before = i % 3;
		max = 1 + i / 3 % 3;
		waits = i / 9;
		steps_through(prepare_reaped, call_reap, other_complete, check_reaped);
	}
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}

/* Two jobs arrive between the reap's look at the empty list and its arming; it takes one. */
TEST(a_reap_that_takes_a_part_of_what_comes_leaves_the_queue_readable, .timeout_s = 120)
{
	skip_without_steps();
	pool = sleepy_pool(1, 0);
	cq = polled_cq();
	nr_come = 2;
	for (unsigned i = 0; i < 2 * 2; i++) {
		nr_before = i % 2;
		max = nr_before + 1;
		waits = i / 2;
		steps_through_some(SANITIZED ? 21 : 7, prepare_reaped, call_reap, other_complete,
				   check_reaped);
	}
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}

/* ---- a wait for an event that is about to happen -------------------------------------- */

enum wait { JOB, BARRIER, DRAIN, ROOM, ROOM_KEYED, NR_WAITS };

static enum wait what;

static void prepare_wait(void)
{
	round_nr++;
	make_barrier();
	gate_await(&gate, 1);
	notified_of(&a);
	notified_of(&b);
	/* The queue is full by then. */
	if (what >= ROOM)
		must(rnl_submit(pool, &b.job));
	since = seconds_now();
}

static void call_wait(void)
{
	switch (what) {
	case JOB:
		ret = rnl_job_wait(&first, patience_ns());
		break;
	case BARRIER:
		ret = rnl_barrier_wait(&barrier, patience_ns());
		break;
	case DRAIN:
		ret = rnl_pool_drain(pool, patience_ns());
		break;
	case ROOM:
		ret = rnl_submit_wait(pool, &a.job, patience_ns());
		break;
	default:
		ret = submit_by_key_wait(pool, &a.job, 1, patience_ns());
		break;
	}
}

static void other_open(void)
{
	gate_open(&gate);
	ck_assert_int_eq(result_of(&first), 0);
}

static void check_wait(void)
{
	ck_assert_msg(!ret, "wait %d returned %d (instruction %u)", what, ret, steps.nr);
	check_woken();
	if (what >= ROOM) {
		ck_done(&a, 0);
		ck_done(&b, 0);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
}

TEST(a_wait_beside_what_it_waits_for_is_woken, .timeout_s = 120)
{
	skip_without_steps();
	pool = sleepy_pool(1, 1);
	for (what = JOB; what < NR_WAITS; what++)
		steps_through(prepare_wait, call_wait, other_open, check_wait);
	rnl_pool_destroy(pool);
}

/* ---- a cancel -------------------------------------------------------------- */

static void prepare_cancel(void)
{
	prepare_wait();
	must(rnl_submit(pool, &a.job));
}

static void call_cancel(void)
{
	ret = rnl_job_cancel(&a.job);
}

static void other_start(void)
{
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
}

static void check_cancel(void)
{
	ck_assert(!ret || ret == -EALREADY);
	ck_done(&a, ret ? 0 : -ECANCELED);
}

TEST(a_cancel_beside_the_start_says_which_came_first, .timeout_s = 120)
{
	skip_without_steps();
	pool = sleepy_pool(1, 0);
	what = JOB;
	steps_through(prepare_cancel, call_cancel, other_start, check_cancel);
	rnl_pool_destroy(pool);
}
