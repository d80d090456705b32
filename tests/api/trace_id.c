/* SPDX-License-Identifier: MIT */
/* The trace id of a job: its own, or that of the job that submits it. */
#include <runnel/guard.h>
#include <runnel/more.h>
#include <runnel/trace.h>

#include "guard.h"
#include "trace.h"

SUITE_FORKS

enum { BYTES = 16 };

/* A job that reads trace ids on its worker, and may submit another job there. */
struct traced {
	struct rnl_job job;
	struct rnl_job_more more;
	struct rnl_pool *pool;
	struct traced *in_fn, *in_callback; /* jobs that it submits */
	struct rnl_barrier *notifies;	/* in_fn is given to rnl_barrier_notify() */
	struct gate done;		/* is open after the callback */
	uint8_t fn_id, job_id, callback_id; /* first bytes of the ids that it read */
};

/* Returns the first byte of an id whose bytes are equal; 0: there is none. */
static uint8_t id_of(const struct rnl_job *job)
{
	uint8_t id[BYTES + 1];
	int has;

	memset(id, 0x55, sizeof(id));
	has = rnl_job_trace_id(job, id);
	ck_assert_bytes(id, BYTES, id[0]);
	ck_assert_int_eq(id[BYTES], 0x55);
	ck_assert_int_eq(has, id[0] != 0);
	return id[0];
}

static void submit_next(struct traced *t, struct traced *next)
{
	if (next)
		must(t->notifies ? rnl_barrier_notify(t->notifies, &next->job) :
				   rnl_submit(t->pool, &next->job));
}

static int traced_fn(struct rnl_job *job)
{
	struct traced *t = rnl_container_of(job, struct traced, job);

	t->fn_id = id_of(NULL);
	t->job_id = id_of(job);
	submit_next(t, t->in_fn);
	return 0;
}

static void traced_done(struct rnl_job *job)
{
	struct traced *t = rnl_container_of(job, struct traced, job);

	t->callback_id = id_of(NULL);
	submit_next(t, t->in_callback);
	gate_open(&t->done);
}

/* @id: each byte of its trace id; 0: none.  @more: it has a struct rnl_job_more. */
static void traced_make(struct traced *t, struct rnl_pool *pool, uint8_t id, bool more)
{
	*t = (struct traced){ .pool = pool, .done = GATE_INIT, .more = RNL_JOB_MORE_INIT };
	memset(t->more.trace_id, id, BYTES);
	job_of(&t->job, traced_fn, NULL);
	must(rnl_job_set_on_done(&t->job, traced_done));
	if (more)
		must(rnl_job_set_more(&t->job, &t->more));
}

/* Waits until the job's callback has returned, and checks the id that each reader saw. */
static void traced_check(struct traced *t, uint8_t id)
{
	gate_wait(&t->done);
	ck_assert_int_eq(t->job.result, 0);
	ck_assert_uint_eq(t->fn_id, id);
	ck_assert_uint_eq(t->job_id, id);
	ck_assert_uint_eq(t->callback_id, id);
	ck_assert_uint_eq(id_of(&t->job), id);
}

TEST(a_job_has_its_id_in_its_function_and_its_callback, .loops = 2)
{
	static struct said said;
	struct rnl_pool *pool = _i ? guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 1) :
				     pool_of(1);
	struct traced jobs[3];

	traced_make(&jobs[0], pool, 7, true);
	traced_make(&jobs[1], pool, 0, true);
	traced_make(&jobs[2], pool, 0, false);
	for (int i = 0; i < 3; i++) {
		must(rnl_submit(pool, &jobs[i].job));
		traced_check(&jobs[i], i ? 0 : 7);
	}
	ck_assert_uint_eq(id_of(NULL), 0);
	rnl_pool_destroy(pool);
}

TEST(a_job_gets_the_id_of_the_job_whose_function_or_callback_submits_it, .loops = 2)
{
	static struct said said;
	struct rnl_pool *pool = _i ? guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 2) :
				     pool_of(2);
	struct traced first, by_fn, by_callback, own, after_own;

	traced_make(&first, pool, 7, true);
	traced_make(&by_fn, pool, 0, true);
	traced_make(&by_callback, pool, 0, true);
	traced_make(&own, pool, 9, true);
	traced_make(&after_own, pool, 0, true);
	first.in_fn = &by_fn;
	first.in_callback = &by_callback;
	by_callback.in_callback = &own;
	own.in_fn = &after_own;
	must(rnl_submit(pool, &first.job));
	traced_check(&first, 7);
	traced_check(&by_fn, 7);
	traced_check(&by_callback, 7);
	traced_check(&own, 9);
	traced_check(&after_own, 9);
	rnl_pool_destroy(pool);
}

/* One worker, whose earlier job had an id. */
TEST(a_job_without_more_has_no_id_and_passes_none_on)
{
	struct rnl_pool *pool = pool_of(1);
	struct traced first, plain, by_fn, by_callback;

	traced_make(&first, pool, 7, true);
	traced_make(&plain, pool, 0, false);
	traced_make(&by_fn, pool, 0, true);
	traced_make(&by_callback, pool, 0, true);
	first.in_fn = &plain;
	plain.in_fn = &by_fn;
	plain.in_callback = &by_callback;
	must(rnl_submit(pool, &first.job));
	traced_check(&first, 7);
	traced_check(&plain, 0);
	traced_check(&by_fn, 0);
	traced_check(&by_callback, 0);
	rnl_pool_destroy(pool);
}

TEST(an_id_of_another_job_is_for_one_submit)
{
	struct rnl_pool *pool = pool_of(1);
	struct traced first, again;

	traced_make(&first, pool, 7, true);
	traced_make(&again, pool, 0, true);
	first.in_fn = &again;
	must(rnl_submit(pool, &first.job));
	traced_check(&again, 7);
	must(rnl_pool_drain(pool, RNL_FOREVER));	/* the callback has left the gate */
	again.done = (struct gate)GATE_INIT;
	must(rnl_submit(pool, &again.job));
	traced_check(&again, 0);
	rnl_pool_destroy(pool);
}

/* Of five jobs the second has no more, the fourth an id of its own. */
static void chain_make(struct traced *jobs, struct rnl_pool *pool, uint8_t id, bool more)
{
	traced_make(&jobs[0], pool, id, more);
	for (int i = 1; i < 5; i++) {
		traced_make(&jobs[i], pool, i == 3 ? 9 : 0, i != 1);
		must(rnl_job_set_then(&jobs[i - 1].job, &jobs[i].job));
	}
}

static void chain_check(struct traced *jobs, uint8_t first, uint8_t id)
{
	traced_check(&jobs[0], first);
	traced_check(&jobs[1], 0);
	traced_check(&jobs[2], id);
	traced_check(&jobs[3], 9);
	traced_check(&jobs[4], 9);
}

TEST(a_later_job_of_a_chain_gets_the_id_of_the_nearest_one_before)
{
	struct rnl_pool *pool = pool_of(2);
	struct traced jobs[5], submits;

	chain_make(jobs, pool, 7, true);
	must(rnl_submit(pool, &jobs[0].job));
	chain_check(jobs, 7, 7);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	/* With an id of its own, the first job does not pass on that of the job that submits it. */
	for (int more = 0; more < 3; more++) {
		chain_make(jobs, pool, more == 2 ? 8 : 0, more);
		traced_make(&submits, pool, 7, true);
		submits.in_fn = &jobs[0];
		must(rnl_submit(pool, &submits.job));
		chain_check(jobs, more == 2 ? 8 : more ? 7 : 0, more == 2 ? 8 : 7);
		traced_check(&submits, 7);
		must(rnl_pool_drain(pool, RNL_FOREVER));	/* the callbacks have left the gates */
	}
	rnl_pool_destroy(pool);
}

/* ---- jobs that are not queued at once ------------------------------------ */

enum { AT_A_TIME, AS_NOTICE, IN_AN_ORDER, AFTER_BARRIERS, OF_A_BARRIER, NR_WAYS };

TEST(a_job_that_waits_for_something_gets_the_id_at_its_submit, .loops = NR_WAYS)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_after after = { &barrier, 0 };
	struct traced first, next;
	struct rnl_order order;
	struct rnl_job held;

	must(rnl_order_init(&order, pool, 1));
	hold_barrier(pool, &barrier, &gate, &held);
	traced_make(&first, pool, 7, true);
	traced_make(&next, pool, 0, true);
	first.in_fn = &next;
	switch (_i) {
	case AT_A_TIME:
		next.more.start_ns = rnl_clock() + MS;
		break;
	case AS_NOTICE:
		next.more.when = RNL_SPACE;
		break;
	case IN_AN_ORDER:
		next.more.order = &order;
		break;
	case AFTER_BARRIERS:
		next.more.after = &after;
		next.more.nr_after = 1;
		break;
	case OF_A_BARRIER:
		first.notifies = &barrier;
		next.fn_id = next.job_id = 7;	/* its function is not called */
		break;
	}
	must(rnl_submit(pool, &first.job));
	traced_check(&first, 7);
	gate_open(&gate);
	traced_check(&next, 7);
	rnl_order_fini(&order);
	rnl_pool_destroy(pool);
}

/* The timer thread calls the callback while the worker is busy. */
TEST(a_cancelled_job_has_its_id_in_its_callback)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct traced cancelled, next;
	struct rnl_job held;

	hold_workers(pool, &gate, &held, 1);
	traced_make(&cancelled, pool, 7, true);
	traced_make(&next, pool, 0, true);
	cancelled.in_callback = &next;
	must(rnl_submit(pool, &cancelled.job));
	must(rnl_job_cancel(&cancelled.job));
	gate_wait(&cancelled.done);
	ck_assert_uint_eq(cancelled.callback_id, 7);
	gate_open(&gate);
	traced_check(&next, 7);
	rnl_pool_destroy(pool);
}

/* ---- traces -------------------------------------------------------------- */

TEST(a_trace_has_the_id_of_each_job_that_got_it, .setup = set_path, .teardown = remove_file)
{
	struct rnl_pool *pool = pool_of(2);
	struct traced jobs[5], by_fn;
	char *text;

	must(rnl_trace_start(pool, path, NULL));
	chain_make(jobs, pool, 7, true);
	traced_make(&by_fn, pool, 0, true);
	jobs[4].in_fn = &by_fn;
	must(rnl_submit(pool, &jobs[0].job));
	chain_check(jobs, 7, 7);
	traced_check(&by_fn, 9);
	must(rnl_trace_stop(pool));
	text = text_of(path);
	ck_assert_uint_eq(count(text, "\"trace_id\":"), 5);
	ck_assert_uint_eq(count(text, "\"trace_id\":\"07070707070707070707070707070707\"}}"), 2);
	ck_assert_uint_eq(count(text, "\"trace_id\":\"09090909090909090909090909090909\"}}"), 3);
	free(text);
	rnl_pool_destroy(pool);
}
