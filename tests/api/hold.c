/* SPDX-License-Identifier: MIT */
/* Jobs that are finished from outside: waits for a hold, and every outcome of a release. */
#define _GNU_SOURCE		/* cpu_set_t */
#include <sched.h>

#include <runnel/guard.h>
#include <runnel/hold.h>
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>
#include <runnel/trace.h>

#include "asks.h"
#include "cq.h"
#include "guard.h"
#include "heap.h"
#include "host_kernel.h"
#include "timer.h"
#include "record.h"
#include "seed.h"
#include "trace.h"

/* A job whose function takes holds. */
struct holder {
	struct rnl_job job;
	struct rnl_hold holds[4];
	unsigned nr;
	int result;			/* of the function */
	bool ran;
	_Atomic bool has_holds;		/* orders `holds`; the pool's counters do not */
	struct gate *kernel;		/* the kernel waits there; NULL: no kernel */
};

static int hold_fn(struct rnl_job *job)
{
	struct holder *h = rnl_container_of(job, struct holder, job);

	h->ran = true;
	for (unsigned i = 0; i < h->nr; i++)
		must(rnl_job_hold(job, &h->holds[i]));
	h->has_holds = true;
	job->user = h->kernel;
	if (h->kernel)
		must(gated_kernel_fn(job));
	return h->result;
}

#define HOUR (3600 * 1000 * MS)	/* a deadline that is never reached */

static void holder_of(struct holder *h, unsigned nr)
{
	*h = (struct holder){ .nr = nr };
	job_of(&h->job, hold_fn, NULL);
}

/* Submits the job, and waits until only its holds keep it from being done. */
static void submit_held(struct rnl_pool *pool, struct holder *h)
{
	uint64_t before = figures_of(pool).held;

	h->has_holds = false;
	must(rnl_submit(pool, &h->job));
	ck_eventually(h->has_holds && figures_of(pool).held == before + 1);
}

static void submit_holder(struct rnl_pool *pool, struct holder *h, unsigned nr)
{
	holder_of(h, nr);
	submit_held(pool, h);
}

/* Waits until only the holds of the pool's single held job keep it from being done. */
static void await_held(struct rnl_pool *pool, struct holder *h)
{
	ck_eventually(h->has_holds && figures_of(pool).held == 1);
}

static void release_all(struct holder *h)
{
	for (unsigned i = 0; i < h->nr; i++)
		must(rnl_hold_release(&h->holds[i], 0));
}

/* Releases all holds.  Returns the job's result. */
static int result_released(struct holder *h)
{
	release_all(h);
	return result_of(&h->job);
}

static int result_with_deadline(struct rnl_pool *pool, struct rnl_job *job, int64_t deadline_ns)
{
	must(rnl_job_set_deadline(job, deadline_ns));
	return submit_and_wait(pool, job);
}

TEST(a_job_is_done_when_its_last_hold_is_released)
{
	struct rnl_pool *pool = pool_of(2);
	struct holder h;

	holder_of(&h, 3);
	h.result = 7;
	for (int round = 0; round < 3; round++) {
		submit_held(pool, &h);
		must(rnl_hold_release(&h.holds[1], 0));
		must(rnl_hold_release(&h.holds[0], 5));
		ck_assert_int_ne(rnl_job_wait(&h.job, 0), 0);
		ck_assert_int_eq(rnl_job_wait(&h.job, MS), -ETIMEDOUT);
		must(rnl_hold_release(&h.holds[2], 0));
		ck_assert_int_eq(result_of(&h.job), 7);
		ck_eventually(figures_of(pool).held == 0);
	}
	rnl_pool_destroy(pool);
}

static int release_fn(void *arg)
{
	return rnl_hold_release(arg, 0);
}

/* Takes a hold, and has another thread release it before the function returns. */
static int released_inside_fn(struct rnl_job *job)
{
	struct rnl_hold hold;
	struct call call;

	must(rnl_job_hold(job, &hold));
	call_start(&call, release_fn, &hold);
	must(call_end(&call));
	ck_assert_int_eq(rnl_hold_release(&hold, 0), -EALREADY);
	return 3;
}

TEST(a_hold_that_is_released_before_the_function_returns_delays_nothing)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;

	job_of(&job, released_inside_fn, NULL);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(submit_and_wait(pool, &job), 3);
	rnl_pool_destroy(pool);
}

TEST(a_job_whose_holds_are_released_first_waits_for_the_device)
{
	struct gate kernel = GATE_INIT;
	struct rnl_pool *pool;
	struct holder h;

	skip_unless_host();
	pool = pool_of(1);
	holder_of(&h, 1);
	h.kernel = &kernel;
	must(rnl_submit(pool, &h.job));
	gate_await(&kernel, 1);
	must(rnl_hold_release(&h.holds[0], 0));
	ck_assert_int_eq(rnl_job_wait(&h.job, MS), -ETIMEDOUT);
	ck_assert_uint_eq(figures_of(pool).held, 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&h.job), 0);
	rnl_pool_destroy(pool);
}

TEST(a_negative_result_of_a_release_fails_the_job_and_the_first_failure_stays)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier;
	struct holder h;

	must(rnl_barrier_init(&barrier, pool));
	holder_of(&h, 3);
	h.result = 7;
	must(rnl_barrier_add(&barrier, &h.job));
	submit_held(pool, &h);
	must(rnl_hold_release(&h.holds[0], 0));
	must(rnl_hold_release(&h.holds[1], -EPROTO));
	must(rnl_hold_release(&h.holds[2], -ENOENT));
	ck_assert_int_eq(result_of(&h.job), -EPROTO);
	ck_assert_int_eq(result_of_barrier(&barrier), -EPROTO);
	/* A release does not change the result of a function that failed. */
	h.result = -EDOM;
	submit_held(pool, &h);
	for (int i = 0; i < 3; i++)
		must(rnl_hold_release(&h.holds[i], -ENOENT));
	ck_assert_int_eq(result_of(&h.job), -EDOM);
	rnl_pool_destroy(pool);
}

TEST(no_worker_waits_for_a_hold)
{
	enum { NR = 300 };
	static struct holder held[NR];
	struct rnl_pool *pool = pool_of(1);

	for (int i = 0; i < NR; i++) {
		holder_of(&held[i], 1);
		must(rnl_submit(pool, &held[i].job));
	}
	fence(pool);
	ck_eventually(figures_of(pool).held == NR);
	ck_assert_int_eq(rnl_pool_drain(pool, 0), -ETIMEDOUT);
	for (int i = NR; i--;) {
		ck_eventually(held[i].has_holds);
		release_all(&held[i]);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).held, 0);
	ck_assert_uint_eq(figures_of(pool).done, NR + 1);
	rnl_pool_destroy(pool);
}

/* ---- waits for a hold ----------------------------------------------------- */

static _Atomic int called;

static void note_called(struct rnl_job *job)
{
	(void)job;
	called++;
}

TEST(queues_and_callbacks_get_the_job_after_the_last_release)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_cq *cq = cq_of();
	struct rnl_job *reaped;
	struct holder h[2];

	called = 0;
	for (int i = 0; i < 2; i++)
		holder_of(&h[i], 1);
	must(rnl_job_set_cq(&h[0].job, cq));
	must(rnl_job_set_on_done(&h[1].job, note_called));
	for (int i = 0; i < 2; i++)
		submit_held(pool, &h[i]);
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, 0), 0);
	ck_assert_int_eq(called, 0);
	for (int i = 0; i < 2; i++)
		must(rnl_hold_release(&h[i].holds[0], -EPROTO));
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, RNL_FOREVER), 1);
	ck_assert_ptr_eq(reaped, &h[0].job);
	ck_assert_int_eq(reaped->result, -EPROTO);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(called, 1);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

static int join_fn(void *arg)
{
	int ret = rnl_barrier_join(arg);

	rnl_thread_attach(NULL);
	return ret;
}

/* A join and a job after the barrier, with a kernel on the stream and without one. */
TEST(jobs_after_a_barrier_and_joins_wait_for_holds, .loops = 2)
{
	struct gate kernel = GATE_INIT;
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct rnl_job after;
	_Atomic int ran = 0;
	struct call call;
	struct holder h;

	if (_i)
		skip_unless_host();
	pool = pool_of(2);
	must(rnl_barrier_init(&barrier, pool));
	holder_of(&h, 1);
	h.kernel = _i ? &kernel : NULL;
	must(rnl_barrier_add(&barrier, &h.job));
	must(rnl_submit(pool, &h.job));
	job_of(&after, count_fn, &ran);
	must(rnl_job_set_after(&after, &barrier));
	must(rnl_submit(pool, &after));
	call_start(&call, join_fn, &barrier);
	ck_waits(call.tid);
	gate_open(&kernel);
	await_held(pool, &h);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, MS), -ETIMEDOUT);
	ck_assert_int_eq(ran, 0);
	ck_assert(!call.returned);
	must(rnl_hold_release(&h.holds[0], 0));
	must(call_end(&call));
	ck_assert_int_eq(result_of(&after), 0);
	ck_assert_int_eq(ran, 1);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	rnl_pool_destroy(pool);
}

TEST(a_job_after_a_barrier_may_have_holds_of_its_own)
{
	struct gate plug = GATE_INIT;
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier first, second;
	struct rnl_job before;
	struct holder h;

	must(rnl_barrier_init(&first, pool));
	must(rnl_barrier_init(&second, pool));
	hold_barrier(pool, &first, &plug, &before);
	holder_of(&h, 1);
	must(rnl_barrier_add(&second, &h.job));
	must(rnl_job_set_after(&h.job, &first));
	must(rnl_submit(pool, &h.job));
	gate_open(&plug);
	await_held(pool, &h);
	ck_assert_int_eq(rnl_barrier_wait(&second, 0), -ETIMEDOUT);
	ck_assert_int_eq(result_released(&h), 0);
	ck_assert_int_eq(result_of_barrier(&second), 0);
	rnl_pool_destroy(pool);
}

TEST(the_next_job_of_a_key_starts_while_one_is_held)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_job next;
	struct holder h;

	holder_of(&h, 1);
	must(submit_by_key(pool, &h.job, 9));
	job_of(&next, noop_fn, NULL);
	must(submit_by_key(pool, &next, 9));
	ck_assert_int_eq(result_of(&next), 0);
	ck_assert_int_ne(rnl_job_wait(&h.job, 0), 0);
	await_held(pool, &h);
	ck_assert_int_eq(result_released(&h), 0);
	rnl_pool_destroy(pool);
}

TEST(a_worker_that_leaves_waits_for_its_held_jobs)
{
	struct rnl_pool *pool = pool_of(2);
	struct resize to_one = { pool, 1 };
	struct holder h;
	struct call call;

	holder_of(&h, 1);
	must(submit_by_key(pool, &h.job, key_on(pool, 1)));
	await_held(pool, &h);
	call_start(&call, resize_fn, &to_one);
	ck_waits(call.tid);
	ck_assert_int_eq(result_released(&h), 0);
	must(call_end(&call));
	rnl_pool_destroy(pool);
}

/* A resize that reaches a gate when it has returned. */
struct coming_resize {
	struct resize to;
	struct gate returned;
};

static int resize_and_come_fn(void *arg)
{
	struct coming_resize *r = arg;
	int ret = resize_fn(&r->to);

	gate_wait(&r->returned);
	return ret;
}

/* Loop 0: the pool grows; 1: it shrinks, the held job's worker stays; 2: that worker leaves. */
TEST(a_held_job_stops_no_key_when_the_pool_is_resized, .loops = 3)
{
	enum { NR = 8 };
	struct rnl_pool *pool = pool_of(2);
	struct coming_resize r = { { pool, _i ? 1 : 3 }, GATE_INIT };
	const uint64_t key = key_on(pool, _i == 2);
	struct gate ran = GATE_INIT;
	bool all_ran, returned;
	struct rnl_job jobs[NR];
	struct holder h;
	struct call call;

	gate_open(&ran);
	gate_open(&r.returned);
	holder_of(&h, 1);
	must(submit_by_key(pool, &h.job, key));
	await_held(pool, &h);
	call_start(&call, resize_and_come_fn, &r);
	ck_eventually(figures_of(pool).nr_workers == r.to.nr);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], gated_fn, &ran);
		must(submit_by_key(pool, &jobs[i], key + (uint64_t)i));
	}
	all_ran = gate_came(&ran, NR);
	/* If the job's worker leaves, the resize waits for the job. */
	returned = _i == 2 || gate_came(&r.returned, 1);
	must(rnl_hold_release(&h.holds[0], 0));
	must(call_end(&call));
	rnl_pool_destroy(pool);
	ck_assert_msg(all_ran && returned, "until the release: keyed jobs %s, the resize %s",
		      all_ran ? "ran" : "waited", returned ? "returned" : "waited");
}

/* ---- deadlines, cancels, ends ---------------------------------------------- */

/* Returns true if the job was held, and one hold was released, before the deadline. */
static bool released_in_time(struct rnl_pool *pool, struct holder *h)
{
	h->has_holds = false;
	must(rnl_submit(pool, &h->job));
	ck_eventually((h->has_holds && figures_of(pool).held) || is_done(&h->job));
	return rnl_job_wait(&h->job, 0) && !rnl_hold_release(&h->holds[0], 0);
}

TEST(a_deadline_ends_the_holds_of_a_job_even_if_every_worker_is_busy)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate plug = GATE_INIT;
	int64_t deadline = 300 * MS;
	struct rnl_job busy;
	struct holder h;
	bool in_time;

	do {	/* on a busy machine the deadline may come first */
		holder_of(&h, 2);
		must(rnl_job_set_deadline(&h.job, deadline));
		in_time = released_in_time(pool, &h);
		ck_assert_int_eq(result_of(&h.job), -ETIMEDOUT);
		deadline *= 2;
		ck_assert_int_lt(deadline, patience_ns());
	} while (!in_time);
	ck_assert_int_eq(rnl_hold_release(&h.holds[1], 0), -ESTALE);
	ck_assert_int_eq(rnl_hold_release(&h.holds[1], 0), -ESTALE);
	/* Again, while another job keeps a worker busy. */
	hold_workers(pool, &plug, &busy, 1);
	ck_assert_int_eq(submit_and_wait(pool, &h.job), -ETIMEDOUT);
	gate_open(&plug);
	ck_assert_int_eq(result_of(&busy), 0);
	rnl_pool_destroy(pool);
}

TEST(each_deadline_ends_its_own_jobs_holds)
{
	struct rnl_pool *pool = pool_of(1);
	struct holder h[3];

	for (int i = 0; i < 3; i++) {
		holder_of(&h[i], 1);
		must(rnl_job_set_deadline(&h[i].job, i < 2 ? (1 + i) * 200 * MS : HOUR));
		must(rnl_submit(pool, &h[i].job));
	}
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(result_of(&h[i].job), -ETIMEDOUT);
	await_held(pool, &h[2]);
	ck_assert_int_eq(result_released(&h[2]), 0);
	rnl_pool_destroy(pool);
}

TEST(a_hold_that_is_released_in_time_meets_no_deadline)
{
	struct rnl_pool *pool = pool_of(1);
	struct holder h;

	holder_of(&h, 1);
	must(rnl_job_set_deadline(&h.job, HOUR));
	for (int i = 0; i < 20; i++) {
		submit_held(pool, &h);
		ck_assert_int_eq(result_released(&h), 0);
	}
	rnl_pool_destroy(pool);
}

TEST(the_owner_of_a_hold_sees_a_cancel_of_the_job)
{
	struct rnl_pool *pool = pool_of(1);
	struct holder h;

	submit_holder(pool, &h, 1);
	ck_assert_int_eq(rnl_job_is_cancelled(&h.job), 0);
	ck_assert_int_eq(rnl_job_cancel(&h.job), -EBUSY);
	ck_assert_int_eq(rnl_job_is_cancelled(&h.job), 1);
	must(rnl_hold_release(&h.holds[0], -ECANCELED));
	ck_assert_int_eq(result_of(&h.job), -ECANCELED);
	rnl_pool_destroy(pool);
}

TEST(a_stop_names_the_jobs_that_holds_keep)
{
	struct rnl_health health = RNL_HEALTH_INIT;
	struct rnl_pool *pool = pool_of(2, .stuck_ms = 1);
	struct rnl_unfinished unfinished[2];
	struct holder h;

	submit_holder(pool, &h, 2);
	ck_assert_int_eq(rnl_pool_stop(pool, MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_job_is_cancelled(&h.job), 1);
	health.unfinished = unfinished;
	health.max_unfinished = 2;
	must(rnl_pool_health(pool, &health));
	ck_assert_uint_eq(health.nr_unfinished, 1);
	ck_assert_ptr_eq(unfinished[0].job, &h.job);
	ck_assert_uint_eq(unfinished[0].where, RNL_IN_HOLD);
	ck_assert_uint_lt(unfinished[0].worker, 2);
	ck_assert_uint_lt(unfinished[0].for_ns, UINT64_C(1000000000) * 600);
	/* The pool is not stuck: the hold's owner is slow. */
	ck_eventually(!rnl_pool_health(pool, &health) && health.held_ms > 5);
	ck_assert_uint_eq(health.state, RNL_HEALTH_OK);
	ck_assert_uint_eq(health.held, 1);
	release_all(&h);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	must(rnl_pool_health(pool, &health));
	ck_assert_uint_eq(health.nr_unfinished, 0);
	ck_assert_uint_eq(health.held, 0);
	rnl_pool_destroy(pool);
}

static unsigned nr_lines_with(const char *text, const char *one, const char *other)
{
	unsigned nr = 0;

	for (const char *at = text; (at = strstr(at, one)) != NULL; at++) {
		const char *found = strstr(at, other), *end = strchr(at, '\n');

		nr += found && (!end || found < end);
	}
	return nr;
}

TEST(figures_and_a_trace_know_held_jobs, .setup = set_path, .teardown = remove_file)
{
	struct rnl_pool *pool = pool_of(1);
	static char page[65536];
	const char *label = on_host() ? "worker=\"0\",device=\"host:0\"} 1\n" :
					"worker=\"0\",device=\"cuda:0\"} 1\n";
	struct holder h;
	char *text;

	holder_of(&h, 1);
	must(rnl_trace_start(pool, path, NULL));
	for (int i = 0; i < 3; i++) {
		submit_held(pool, &h);
		ck_assert_int_gt(rnl_pool_stats_text(pool, "p", page, sizeof(page)), 0);
		ck_assert_uint_eq(nr_lines_with(page, "rnl_jobs_held{", label), 1);
		ck_assert_int_eq(result_released(&h), 0);
	}
	must(rnl_trace_stop(pool));
	text = text_of(path);
	ck_assert_uint_eq(nr_lines_with(text, "\"cat\":\"held\"", "\"ph\":\"b\""), 3);
	ck_assert_uint_eq(nr_lines_with(text, "\"cat\":\"held\"", "\"ph\":\"e\""), 3);
	ck_assert_uint_eq(nr_lines_with(text, "{\"name\":\"hold_fn", "\"cat\":\"held\""), 6);
	free(text);
	rnl_pool_destroy(pool);
}

/* ---- refused calls ---------------------------------------------------------- */

TEST(a_second_or_late_release_says_so_and_touches_nothing)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_hold copy, old;
	struct holder *h = malloc(sizeof(*h));

	ck_assert_ptr_nonnull(h);
	submit_holder(pool, h, 2);
	copy = h->holds[0];
	must(rnl_hold_release(&copy, 0));
	ck_assert_int_eq(rnl_hold_release(&copy, 0), -EALREADY);
	ck_assert_int_eq(rnl_hold_release(&h->holds[0], -EPROTO), -EALREADY);
	old = h->holds[1];
	must(rnl_hold_release(&old, 0));
	ck_assert_int_eq(result_of(&h->job), 0);
	/* The old hold's slot is used again, then the job is freed, then the pool is destroyed. */
	for (int i = 0; i < 5; i++) {
		submit_held(pool, h);
		ck_assert_int_eq(result_released(h), 0);
		ck_assert_int_eq(rnl_hold_release(&old, 0), -ESTALE);
		ck_assert_int_eq(rnl_hold_release(&copy, 0), -ESTALE);
	}
	free(h);
	ck_assert_int_eq(rnl_hold_release(&old, -EPROTO), -ESTALE);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(rnl_hold_release(&old, -EPROTO), -ESTALE);
}

static char last_line[256];

static void note_line(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	snprintf(last_line, sizeof(last_line), "%s", msg);
}

#define ck_invalid(call, text) \
	do { \
		last_line[0] = 0; \
		ck_assert_int_eq(call, -EINVAL); \
		ck_assert_msg(strstr(last_line, text), "no \"%s\" in: %s", text, last_line); \
	} while (0)

static int hold_another_fn(struct rnl_job *job)
{
	struct rnl_hold hold;

	ck_invalid(rnl_job_hold(job->user, &hold), "does not run on this thread");
	ck_invalid(rnl_job_hold(job, NULL), "hold is NULL");
	return 0;
}

TEST(a_hold_on_a_job_that_does_not_run_is_refused_and_logged)
{
	struct rnl_pool *pool = pool_of(1, .log = note_line);
	struct rnl_hold hold = { .use = 1 };
	struct rnl_job jobs[2];

	rnl_set_log(note_line, NULL);
	ck_invalid(rnl_job_hold(NULL, &hold), "does not run on this thread");
	submit_job(pool, &jobs[0], noop_fn, NULL);
	ck_assert_int_eq(result_of(&jobs[0]), 0);
	ck_invalid(rnl_job_hold(&jobs[0], &hold), "does not run on this thread");
	ck_assert_uint_eq(hold.use, 1);
	submit_job(pool, &jobs[1], hold_another_fn, &jobs[0]);
	ck_assert_int_eq(result_of(&jobs[1]), 0);
	rnl_pool_destroy(pool);
	rnl_set_log(NULL, NULL);
}

TEST(a_release_of_an_invalid_hold_is_refused_and_logged)
{
	struct rnl_pool *pool = pool_of(1);
	/* Each also gets the generation, the pool and the epoch of a real hold. */
	struct rnl_hold wrong[] = {
		{ .use = 0 }, { .use = 1 }, { .use = 2, .slot = 1 },
		{ .use = 1, .slot = UINT32_MAX }, { .use = UINT64_MAX, .slot = 1 },
		{ .use = 1, .slot = 65 }, { .use = 1, .slot = 1 << 20 },
		{ .use = 1, .slot = 1 << 22 }, { .use = 1, .slot = (1 << 22) + 1 },
	};
	struct rnl_hold others[3];
	struct holder h;

	submit_holder(pool, &h, 1);
	ck_assert_int_eq(result_released(&h), 0);
	rnl_set_log(note_line, NULL);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		wrong[i].generation = h.holds[0].generation;
		wrong[i].pool = h.holds[0].pool;
		wrong[i].epoch = h.holds[0].epoch;
		ck_invalid(rnl_hold_release(&wrong[i], 0), "is no hold");
	}
	/* A later pool with the same number, and pools that never existed. */
	others[0] = others[1] = others[2] = h.holds[0];
	others[0].epoch += 2;
	others[1].pool++;
	others[2].pool = UINT32_MAX;
	for (size_t i = 0; i < COUNT(others); i++)
		ck_assert_int_eq(rnl_hold_release(&others[i], 0), -EINVAL);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(rnl_hold_release(&h.holds[0], 0), -ESTALE);
	wrong[0].generation++;
	ck_assert_int_eq(rnl_hold_release(&wrong[0], 0), -EINVAL);
	ck_invalid(rnl_hold_release(NULL, 0), "hold is NULL");
	rnl_set_log(NULL, NULL);
}

/* Forged from parts of past, current and future holds, and from random numbers. */
TEST(holds_that_are_forged_end_nothing)
{
	uint64_t random = draws_of(test_seed(), 0);
	struct rnl_pool *pool = pool_of(2);
	struct holder h;

	submit_holder(pool, &h, 2);
	rnl_set_log(note_line, NULL);
	/* The worker's next slots. The waiting job has one of them, which is no hold. */
	for (unsigned i = 1; i < 16; i++) {
		struct rnl_hold forged = h.holds[0];

		forged.slot += i;
		if (forged.slot != h.holds[1].slot)
			ck_assert_int_eq(rnl_hold_release(&forged, 0), -EINVAL);
	}
	for (unsigned i = 0; i < 100000; i++) {
		struct rnl_hold forged = h.holds[i % 2];

		forged.use = draw(&random, 2) ? 2 * draw(&random, 4) :
					       (uint64_t)draw(&random, UINT32_MAX) << 33;
		if (draw(&random, 2))
			forged.slot = draw(&random, UINT32_MAX) >> draw(&random, 32);
		if (draw(&random, 4) == 0)
			forged.pool = draw(&random, UINT32_MAX) >> draw(&random, 32);
		if (draw(&random, 4) == 0)
			forged.epoch = draw(&random, UINT32_MAX) >> draw(&random, 32);
		ck_assert_int_lt(rnl_hold_release(&forged, -EPROTO), 0);
	}
	rnl_set_log(NULL, NULL);
	ck_assert_int_ne(rnl_job_wait(&h.job, 0), 0);
	ck_assert_int_eq(result_released(&h), 0);
	rnl_pool_destroy(pool);
}

static void release_when_warned(void *arg, enum rnl_log_level level, const char *msg)
{
	struct holder *h = arg;

	note_line(NULL, level, msg);
	if (level == RNL_LOG_WARNING)
		must(rnl_hold_release(&h->holds[0], 0));
}

/* The warning makes the test release the hold; without a warning the test hangs. */
TEST(a_destroy_warns_of_a_hold_that_is_not_released)
{
	struct holder h;
	struct rnl_pool *pool =
		pool_of(1, .stuck_ms = 20, .log = release_when_warned, .log_arg = &h);
	char name[32];

	submit_holder(pool, &h, 1);
	rnl_pool_destroy(pool);
	snprintf(name, sizeof(name), "job %p, one of 1 ", (void *)&h.job);
	ck_assert_ptr_nonnull(strstr(last_line, name));
	ck_assert_int_eq(h.job.result, 0);
}

static int destroy_fn(void *pool)
{
	rnl_pool_destroy(pool);
	return 0;
}

static void count_warning(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)msg;
	*(_Atomic unsigned *)arg += level == RNL_LOG_WARNING;
}

TEST(a_destroy_warns_once_however_long_a_hold_lasts)
{
	_Atomic unsigned notified = 0;
	struct rnl_pool *pool =
		pool_of(1, .stuck_ms = 1, .log = count_warning, .log_arg = (void *)&notified);
	struct holder h;
	struct call call;

	submit_holder(pool, &h, 1);
	call_start(&call, destroy_fn, pool);
	ck_eventually(notified);
	usleep(50000);	/* time for a second warning, which must not come */
	ck_assert_uint_eq(notified, 1);
	must(rnl_hold_release(&h.holds[0], 0));
	must(call_end(&call));
	ck_assert_uint_eq(notified, 1);
	ck_assert_int_eq(h.job.result, 0);
}

/* ---- many threads ------------------------------------------------------------ */

/* Threads that release copies of the same holds; one release of each hold succeeds. */
struct race {
	struct holder *h;
	_Atomic int won;
	_Atomic bool go;
};

static int race_fn(void *arg)
{
	struct race *r = arg;

	while (!r->go)
		sched_yield();
	for (unsigned i = 0; i < r->h->nr; i++) {
		const struct rnl_hold copy = r->h->holds[i];
		int ret = rnl_hold_release(&copy, 0);

		ck_assert(!ret || ret == -EALREADY || ret == -ESTALE);
		r->won += !ret;
	}
	return 0;
}

TEST(of_releases_by_several_threads_one_wins_and_the_pool_may_go_at_once)
{
	for (int round = 0; round < 40; round++) {
		struct rnl_pool *pool = pool_of(1);
		struct call calls[3];
		struct holder h;
		struct race r = { .h = &h };

		submit_holder(pool, &h, 4);
		for (int i = 0; i < 3; i++)
			call_start(&calls[i], race_fn, &r);
		r.go = true;
		/* The destroy waits for the job, and for the call of the last release. */
		rnl_pool_destroy(pool);
		for (int i = 0; i < 3; i++)
			must(call_end(&calls[i]));
		ck_assert_int_eq(r.won, 4);
		ck_assert_int_eq(h.job.result, 0);
	}
}

/* Two threads release one hold. After the first release, the job's wait may reuse the slot. */
struct rivals {
	struct rnl_hold holds[2];
	_Atomic bool go, first;
	_Atomic int nr_wrong, won;
};

static int hold_two_fn(struct rnl_job *job)
{
	struct rivals *r = job->user;

	must(rnl_job_hold(job, &r->holds[0]));
	must(rnl_job_hold(job, &r->holds[1]));
	r->go = true;
	while (!r->first)
		sched_yield();
	return 0;
}

static int rival_fn(void *arg)
{
	struct rivals *r = arg;
	int ret;

	while (!r->go)
		sched_yield();
	ret = rnl_hold_release(&r->holds[0], 0);
	r->won += !ret;
	r->nr_wrong += ret && ret != -EALREADY && ret != -ESTALE;
	r->first = true;
	return 0;
}

TEST(a_second_release_says_so_although_its_slot_is_used_again, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);

	for (int round = 0; round < (sim_begin ? 20 : 300); round++) {
		struct rivals r = { .won = 0 };
		struct call calls[2];
		struct rnl_job job;

		job_of(&job, hold_two_fn, &r);
		for (int i = 0; i < 2; i++)
			call_start(&calls[i], rival_fn, &r);
		must(rnl_submit(pool, &job));
		for (int i = 0; i < 2; i++)
			must(call_end(&calls[i]));
		must(rnl_hold_release(&r.holds[1], 0));
		ck_assert_int_eq(result_of(&job), 0);
		ck_assert_int_eq(r.won, 1);
		ck_assert_int_eq(r.nr_wrong, 0);
	}
	rnl_pool_destroy(pool);
}

struct writer {
	struct rnl_hold hold;
	int wrote;
};

static int write_fn(void *arg)
{
	struct writer *w = arg;

	w->wrote = 1;
	return rnl_hold_release(&w->hold, 0);
}

TEST(writes_before_each_release_are_seen_when_the_job_is_done)
{
	enum { NR = 4 };
	struct rnl_pool *pool = pool_of(1);
	struct holder h;

	for (int round = 0; round < 30; round++) {
		struct writer writers[NR] = { 0 };
		struct call calls[NR];
		int sum = 0;

		submit_holder(pool, &h, NR);
		for (int i = 0; i < NR; i++) {
			writers[i].hold = h.holds[i];
			call_start(&calls[i], write_fn, &writers[i]);
		}
		ck_assert_int_eq(result_of(&h.job), 0);
		for (int i = 0; i < NR; i++)
			sum += writers[i].wrote;
		ck_assert_int_eq(sum, NR);
		for (int i = 0; i < NR; i++)
			must(call_end(&calls[i]));
	}
	rnl_pool_destroy(pool);
}

/* Takes holds after the job's deadline: rnl_job_hold() may return a hold that has ended. */
static int hold_late_fn(struct rnl_job *job)
{
	const int64_t until = *(int64_t *)job->user;

	while (rnl_clock() <= until)
		sched_yield();
	for (int i = 0; i < 3000; i++) {
		struct rnl_hold hold;
		int ret;

		must(rnl_job_hold(job, &hold));
		ret = rnl_hold_release(&hold, 0);
		ck_assert_msg(!ret || ret == -ESTALE, "the first release returned %d", ret);
		ret = rnl_hold_release(&hold, 0);
		ck_assert_msg(ret == -EALREADY || ret == -ESTALE, "the second returned %d", ret);
	}
	return 0;
}

TEST(a_hold_that_is_late_when_it_is_taken_is_a_hold, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);

	for (int round = 0; round < 10; round++) {
		struct rnl_job jobs[2];
		int64_t until;

		for (int i = 0; i < 2; i++) {
			job_of(&jobs[i], hold_late_fn, &until);
			must(rnl_job_set_deadline(&jobs[i], 20 * MS));
		}
		until = rnl_clock() + 25 * MS;
		for (int i = 0; i < 2; i++)
			must(rnl_submit(pool, &jobs[i]));
		for (int i = 0; i < 2; i++)
			must(rnl_job_wait(&jobs[i], RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

TEST(thousands_of_holds_at_once_end_in_any_order)
{
	enum { NR = 5000 };
	struct holder *held = calloc(NR, sizeof(*held));
	struct rnl_health health = RNL_HEALTH_INIT;
	struct rnl_pool *pool = pool_of(3);

	for (int i = 0; i < NR; i++) {
		holder_of(&held[i], 1 + i % 2);
		must(rnl_submit_wait(pool, &held[i].job, RNL_FOREVER));
	}
	ck_eventually(figures_of(pool).held == NR);
	must(rnl_pool_health(pool, &health));
	ck_assert_uint_eq(health.held, NR);
	for (int i = 0; i < NR; i++) {
		struct holder *h = &held[(i * 7919) % NR];

		ck_eventually(h->has_holds);
		release_all(h);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(rnl_job_wait(&held[i].job, 0), 0);
	rnl_pool_destroy(pool);
	free(held);
}

/* ---- after many holds --------------------------------------------------------- */

static unsigned nr_at_once;

/* Takes many holds before it releases the first. */
static int hold_many_fn(struct rnl_job *job)
{
	struct rnl_hold *holds = calloc(nr_at_once, sizeof(*holds));
	int ret = 0;

	/* No assertions in the loops: one takes longer than a hold. */
	for (unsigned i = 0; i < nr_at_once && !ret; i++)
		ret = rnl_job_hold(job, &holds[i]);
	for (unsigned i = 0; i < nr_at_once && !ret; i++)
		ret = rnl_hold_release(&holds[i], 0);
	free(holds);
	return ret;
}

static void hold_many(struct rnl_pool *pool, unsigned nr)
{
	struct rnl_job job;

	nr_at_once = nr;
	submit_job(pool, &job, hold_many_fn, NULL);
	ck_assert_int_eq(result_of(&job), 0);
}

/* Makes the timer thread end expired holds, one at a time. */
static void end_late_ones(void *arg)
{
	int64_t deadline = MS;

	for (int nr = 0; nr < 5;) {
		struct holder h;

		holder_of(&h, 1);
		ck_assert_int_eq(result_with_deadline(arg, &h.job, deadline), -ETIMEDOUT);
		if (h.ran)
			nr++;
		else
			deadline *= 2;
	}
}

TEST(a_late_hold_is_no_more_work_after_many_holds, .timeout_s = 60, .not_simulated = "CPU time")
{
	struct rnl_pool *pool = pool_of(1);
	double before, after;

	find_timer(pool);
	before = least_timer_seconds(end_late_ones, pool);
	hold_many(pool, 1 << 19);
	after = least_timer_seconds(end_late_ones, pool);
	rnl_pool_destroy(pool);
	ck_assert_msg(after < 8 * before, "%g s before, %g s after 524,288 holds", before, after);
}

/* ThreadSanitizer does not report the size of the heap. */
TEST(the_memory_of_holds_goes_with_their_pool, .left_out = THREAD_SANITIZED,
     .not_simulated = "the heap")
{
	size_t before = 0, after;

	if (!on_host() && !test_fake())
		test_skip("the heap is CUDA's, too");
	for (int i = 0; i < 2; i++) {
		struct rnl_pool *pool = pool_of(1);

		hold_many(pool, i ? 1 << 18 : 1);
		rnl_pool_destroy(pool);
		after = live_bytes();
		if (!i)
			before = after;
	}
	ck_assert_msg(after < before + (4 << 20), "%zu bytes before, %zu after", before, after);
}

/*
 * The timer thread puts released slots back if a worker asks, or at the deadline, in an hour.  The
 * test takes more than a worker's four million slots: without reuse a hold would be refused.
 */
TEST(holds_with_a_far_deadline_come_back, .left_out = THREAD_SANITIZED,
     .not_simulated = "it is long")
{
	struct rnl_pool *pool = pool_of(1);

	nr_at_once = 1000;
	for (int nr = 0; nr < 10000; nr++) {
		struct rnl_job job;

		job_of(&job, hold_many_fn, NULL);
		ck_assert_int_eq(result_with_deadline(pool, &job, HOUR), 0);
	}
	rnl_pool_destroy(pool);
}

/*
 * Makes the timer thread end a hold whose deadline is @ns from now.  On return the timer thread has
 * handled all holds that were released before the call, and all holds with an earlier deadline.
 */
static void have_the_timer_thread_look(struct rnl_pool *pool, int64_t ns)
{
	struct holder h;

	holder_of(&h, 1);
	ck_assert_int_eq(result_with_deadline(pool, &h.job, ns), -ETIMEDOUT);
}

TEST(a_slot_is_used_again_before_its_old_deadline, .timeout_s = 20)
{
	struct rnl_pool *pool = pool_of(1);

	for (int i = 0; i < 16; i++) {
		struct holder h;

		holder_of(&h, 1);
		must(rnl_job_set_deadline(&h.job, 50 * MS));
		h.has_holds = false;
		must(rnl_submit(pool, &h.job));
		ck_eventually(h.has_holds || is_done(&h.job));
		have_the_timer_thread_look(pool, 2 * MS);
		/* On a busy machine the deadline may come first. */
		if (rnl_job_wait(&h.job, 0))
			(void)rnl_hold_release(&h.holds[0], 0);
		ck_assert(result_of(&h.job) == 0 || h.job.result == -ETIMEDOUT);
		have_the_timer_thread_look(pool, 2 * MS);
		/* Wait until the old deadlines are over, too. */
		if (i % 4 == 3)
			have_the_timer_thread_look(pool, 60 * MS);
	}
	rnl_pool_destroy(pool);
}

/* ---- a function that a guard calls twice -------------------------------------- */

struct twice {
	struct rnl_job job;
	struct rnl_hold holds[2];
	_Atomic unsigned calls;
	void *to;
};

static char from[4096];

static int copy_pageable_fn(struct rnl_job *job)
{
	struct twice *t = rnl_container_of(job, struct twice, job);

	must(rnl_job_hold(job, &t->holds[t->calls]));
	t->calls++;
	return rnl_copy(t->to, from, sizeof(from));
}

TEST(holds_of_a_watched_call_end_if_the_function_is_called_again)
{
	struct rnl_pool *pool = pool_of(1, .guard = RNL_GUARD_REPORT);
	struct twice t = { .calls = 0 };
	unsigned calls;

	must(rnl_memory_get(pool, 0, sizeof(from), &t.to, 0));
	submit_job(pool, &t.job, copy_pageable_fn, NULL);
	ck_eventually(figures_of(pool).held == 1);
	calls = atomic_fetch_add(&t.calls, 0);	/* a read-modify-write reads the latest value */
	if (calls == 2)
		ck_assert_int_eq(rnl_hold_release(&t.holds[0], -EPROTO), -ESTALE);
	must(rnl_hold_release(&t.holds[calls - 1], 0));
	ck_assert_int_eq(result_of(&t.job), 0);
	rnl_memory_put(pool, t.to);
	rnl_pool_destroy(pool);
}

/* ---- priorities ---------------------------------------------------------- */

static int be_ordinary_and_release(void *arg)
{
	struct sched_param none = { 0 };

	must(sched_setscheduler(0, SCHED_OTHER, &none));
	return rnl_hold_release(arg, 0);
}

static double own_cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/*
 * On one CPU, the release wakes a worker of higher priority, which completes the job.  Then the
 * owner destroys the pool during the releasing thread's call.  Only the owner's CPU time counts.
 */
TEST(a_destroy_sleeps_while_a_thread_of_a_lower_priority_releases_a_hold)
{
	struct sched_param lowest = { .sched_priority = 1 };
	double used = 0;
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET((unsigned)cpu, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	if (sched_setscheduler(0, SCHED_FIFO, &lowest))
		test_skip("a_destroy_sleeps...: this process may not use SCHED_FIFO");
	for (int i = 0; i < 5; i++) {
		struct rnl_pool *pool = pool_of(1);
		struct call call;
		struct holder h;

		submit_holder(pool, &h, 1);
		call_start(&call, be_ordinary_and_release, &h.holds[0]);
		ck_assert_int_eq(result_of(&h.job), 0);
		used -= own_cpu_seconds();
		rnl_pool_destroy(pool);
		used += own_cpu_seconds();
		must(call_end(&call));
	}
	/* An owner that spins takes most of a second per round, until the kernel throttles it. */
	ck_assert_msg(used < 0.5, "%f s", used);
}
