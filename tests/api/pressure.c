/* SPDX-License-Identifier: MIT */
/* A full pool refuses jobs immediately, or its submitters wait for space. */
#include "classed.h"
#include "full.h"
#include "host_kernel.h"

/* ---- jobs on the device are bounded -------------------------------------- */

TEST(a_stream_that_is_full_leaves_the_rest_queued_and_then_pushes_back)
{
	enum { IN_FLIGHT = 3, QUEUED = 5, NR = IN_FLIGHT + QUEUED };
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct rnl_job jobs[NR + 1], *beyond = &jobs[NR];

	skip_unless_host();
	pool = pool_of(1, .max_in_flight = IN_FLIGHT, .max_queued = QUEUED,
		       .in_flight_ns = UINT64_MAX);
	for (int i = 0; i <= NR; i++)
		job_of(&jobs[i], gated_kernel_fn, &kernel);
	for (int i = 0; i < NR; i++) {
		if (i == IN_FLIGHT)
			ck_eventually(figures_of(pool).in_flight == IN_FLIGHT);
		must(rnl_submit(pool, &jobs[i]));
	}
	ck_assert_int_eq(rnl_submit(pool, beyond), -EAGAIN);
	ck_assert_int_eq(rnl_submit_wait(pool, beyond, 10 * MS), -ETIMEDOUT);
	ck_assert_uint_eq(figures_of(pool).in_flight, IN_FLIGHT);
	ck_assert_uint_eq(figures_of(pool).queued, QUEUED);
	gate_open(&kernel);
	must(rnl_submit_wait(pool, beyond, RNL_FOREVER));
	for (int i = 0; i <= NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	rnl_pool_destroy(pool);
}

/* Returns the seconds that one refused submit takes, on average. */
static double time_of_refusals(struct rnl_pool *pool)
{
	enum { NR = 1000 };
	const double start = seconds_now();
	struct rnl_job job;
	double took;

	job_of(&job, noop_fn, NULL);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(rnl_submit(pool, &job), -EAGAIN);
	took = (seconds_now() - start) / NR;
	printf("a refused submit: %.0f ns\n", took * 1e9);
	return took;
}

TEST(refusing_a_job_takes_no_time)
{
	struct full full;

	full_start(&full, 4);
	/* A busy machine may give this thread no CPU. */
	ck_eventually(time_of_refusals(full.pool) < 1e-3 * test_scale());
	full_end(&full);
}

/* ---- waits for space ----------------------------------------------------- */

TEST(a_submit_with_room_does_not_wait)
{
	static const int64_t timeouts[] = { 0, 1, MS, INT64_MAX, RNL_FOREVER };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_job job;

	for (unsigned i = 0; i < COUNT(timeouts) * 2; i++) {
		struct submitting s = { pool, &job, timeouts[i / 2], i, i % 2 };

		job_of(&job, noop_fn, NULL);
		ck_assert_int_eq(submit_waiting(&s), 0);
		ck_assert_int_eq(result_of(&job), 0);
	}
	rnl_pool_destroy(pool);
}

TEST(a_submit_waits_as_long_as_its_timeout_and_leaves_the_job_to_its_caller)
{
	static const int64_t timeouts[] = { 0, 1, 1000, 2 * MS, 30 * MS };
	struct full full;
	struct rnl_job job;

	full_start(&full, 2);
	job_of(&job, noop_fn, NULL);
	for (unsigned i = 0; i < COUNT(timeouts) * 2; i++) {
		struct submitting s = { full.pool, &job, timeouts[i / 2], i, i % 2 };
		double start = seconds_now();

		ck_assert_int_eq(submit_waiting(&s), -ETIMEDOUT);
		ck_assert_double_ge(seconds_now() - start, (double)s.timeout_ns * 1e-9);
		ck_assert_double_lt(seconds_now() - start, PATIENCE_S);
		ck_assert_int_eq(rnl_job_wait(&job, 0), -EINVAL);	/* never submitted */
	}
	ck_assert_uint_eq(figures_of(full.pool).accepted, 3);
	gate_open(&full.gate);
	must(rnl_submit_wait(full.pool, &job, RNL_FOREVER));
	ck_assert_int_eq(result_of(&job), 0);
	full_end(&full);
}

TEST(a_submit_that_waits_gets_the_room_that_a_worker_makes)
{
	static const int64_t timeouts[] = { RNL_FOREVER, INT64_MAX, 3600000 * MS };

	for (unsigned i = 0; i < COUNT(timeouts) * 2; i++) {
		struct full full;
		struct rnl_job job;
		struct submitting s = { .job = &job, .timeout_ns = timeouts[i / 2], .key = i,
					.keyed = i % 2 };
		struct call call;

		full_start(&full, 1 + i % 3);
		s.pool = full.pool;
		job_of(&job, noop_fn, NULL);
		call_start(&call, submit_waiting, &s);
		ck_waits(call.tid);
		ck_assert(!call.returned);
		gate_open(&full.gate);
		ck_assert_int_eq(call_end(&call), 0);
		ck_assert_int_eq(result_of(&job), 0);
		full_end(&full);
	}
}

TEST(a_submit_that_waits_ends_when_the_pool_is_closed)
{
	enum { WAITERS = 4 };
	struct full full;
	struct rnl_job jobs[WAITERS];
	struct submitting s[WAITERS];
	struct call calls[WAITERS];

	full_start(&full, 3);
	for (int i = 0; i < WAITERS; i++) {
		s[i] = (struct submitting){ full.pool, &jobs[i], i % 2 ? RNL_FOREVER : INT64_MAX,
					    (uint64_t)i, i / 2 };
		job_of(&jobs[i], noop_fn, NULL);
		call_start(&calls[i], submit_waiting, &s[i]);
	}
	for (int i = 0; i < WAITERS; i++)
		ck_waits(calls[i].tid);
	must(rnl_pool_close(full.pool));
	for (int i = 0; i < WAITERS; i++) {
		ck_assert_int_eq(call_end(&calls[i]), -ESHUTDOWN);
		ck_assert_int_eq(rnl_job_wait(&jobs[i], 0), -EINVAL);
	}
	ck_assert_int_eq(rnl_submit_wait(full.pool, &jobs[0], 0), -ESHUTDOWN);
	full_end(&full);
}

struct on_worker {
	struct rnl_job job, other;
	struct rnl_pool *pool;
	int64_t timeout_ns;
	struct gate *gate;
};

static int submit_on_worker_fn(struct rnl_job *job)
{
	struct on_worker *w = rnl_container_of(job, struct on_worker, job);

	gate_wait(w->gate);
	return rnl_submit_wait(w->pool, &w->other, w->timeout_ns);
}

TEST(on_a_worker_a_submit_does_not_wait_for_its_own_pool)
{
	static const int64_t timeouts[] = { 0, MS, RNL_FOREVER };
	struct rnl_pool *pool, *other = pool_of(1);
	struct rnl_job queued;

	pool = pool_of(1, .max_queued = 1);
	for (unsigned i = 0; i < COUNT(timeouts); i++) {
		struct gate gate = GATE_INIT;
		struct on_worker w = { .pool = pool, .timeout_ns = timeouts[i], .gate = &gate };

		/* First the pool is full, then it has space. */
		job_of(&w.job, submit_on_worker_fn, NULL);
		job_of(&w.other, noop_fn, NULL);
		job_of(&queued, noop_fn, NULL);
		must(rnl_submit(pool, &w.job));
		gate_await(&gate, 1);
		must(rnl_submit(pool, &queued));
		gate_open(&gate);
		ck_assert_int_eq(result_of(&w.job), -EAGAIN);
		ck_assert_int_eq(result_of(&queued), 0);
		must(rnl_submit_wait(pool, &w.job, RNL_FOREVER));
		ck_assert_int_eq(result_of(&w.job), 0);
		ck_assert_int_eq(result_of(&w.other), 0);

		/* A worker of another pool may wait, because it holds up no worker of this one. */
		gate = (struct gate)GATE_INIT;
		must(rnl_submit(other, &w.job));
		gate_await(&gate, 1);
		if (timeouts[i] >= 0) {
			struct gate hold = GATE_INIT;
			struct rnl_job held;

			hold_workers(pool, &hold, &held, 1);
			must(rnl_submit(pool, &queued));
			gate_open(&gate);
			ck_assert_int_eq(result_of(&w.job), -ETIMEDOUT);
			gate_open(&hold);
			ck_assert_int_eq(result_of(&held), 0);
			ck_assert_int_eq(result_of(&queued), 0);
		} else {
			gate_open(&gate);
			ck_assert_int_eq(result_of(&w.job), 0);
			ck_assert_int_eq(result_of(&w.other), 0);
		}
	}
	rnl_pool_destroy(other);
	rnl_pool_destroy(pool);
}

TEST(a_misuse_does_not_wait_for_space)
{
	struct full full;
	struct rnl_job job, zero = { 0 };
	struct rnl_class *ended;

	full_start(&full, 1);
	ended = class_of(full.pool);
	rnl_class_destroy(ended);
	job_of(&job, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit_wait(full.pool, NULL, RNL_FOREVER), -EINVAL);
	ck_assert_int_eq(rnl_submit_wait(full.pool, &zero, RNL_FOREVER), -EINVAL);
	ck_assert_int_eq(rnl_submit_wait(full.pool, full.queued, RNL_FOREVER), -EBUSY);
	ck_assert_int_eq(submit_by_key_wait(full.pool, NULL, 1, RNL_FOREVER), -EINVAL);
	ck_assert_int_eq(submit_by_key_wait(full.pool, &zero, 1, RNL_FOREVER), -EINVAL);
	ck_assert_int_eq(submit_by_key_wait(full.pool, full.queued, 1, RNL_FOREVER), -EBUSY);
	must(rnl_job_set_class(&job, ended));
	ck_assert_int_eq(submit_by_key_wait(full.pool, &job, 1, RNL_FOREVER), -EINVAL);
	full_end(&full);
}
