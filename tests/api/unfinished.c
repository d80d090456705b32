/* SPDX-License-Identifier: MIT */
/* Unfinished jobs: those that have started and are not done, and where they are. */
#include <runnel/stats.h>

#include "host_kernel.h"
#include "pool.h"

static struct rnl_unfinished unfinished[5];

/* Returns the number of unfinished jobs.  Stores up to @max of them in `unfinished`. */
static unsigned find_unfinished(struct rnl_pool *pool, unsigned max)
{
	struct rnl_health health = RNL_HEALTH_INIT;

	health.unfinished = unfinished;
	health.max_unfinished = max;
	memset(unfinished, 0xff, sizeof(unfinished));
	must(rnl_pool_health(pool, &health));
	ck_assert_ptr_eq(health.unfinished, unfinished);
	ck_assert_uint_eq(health.max_unfinished, max);
	return health.nr_unfinished;
}

TEST(a_function_that_runs_holds_its_job)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct rnl_job jobs[3];

	ck_assert_uint_eq(find_unfinished(pool, 3), 0);
	hold_workers(pool, &gate, jobs, 2);
	submit_job(pool, &jobs[2], noop_fn, NULL);
	/* The queued job has not started. */
	ck_assert_uint_eq(find_unfinished(pool, 3), 2);
	for (int i = 0; i < 2; i++) {
		ck_assert(unfinished[i].job == &jobs[0] || unfinished[i].job == &jobs[1]);
		ck_assert_uint_eq(unfinished[i].worker, (unsigned)i);
		ck_assert_uint_eq(unfinished[i].where, RNL_IN_FUNCTION);
		ck_assert_uint_lt(unfinished[i].for_ns, UINT64_C(1000000000) * 600);
	}
	ck_assert(unfinished[0].job != unfinished[1].job);
	/* Jobs for which the array has no space are counted. */
	ck_assert_uint_eq(find_unfinished(pool, 1), 2);
	ck_assert_uint_eq(unfinished[1].worker, UINT32_MAX);
	/* Without an array no jobs are counted. */
	ck_assert_uint_eq(find_unfinished(pool, 0), 0);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_eventually(find_unfinished(pool, 1) == 0);
	rnl_pool_destroy(pool);
}

TEST(the_device_holds_the_jobs_on_a_stream_and_lets_each_go)
{
	enum { NR = 5 };
	struct rnl_pool *pool;
	struct gate gates[NR];
	struct rnl_job jobs[NR];

	skip_unless_host();
	for (int round = 0; round < 3; round++) {
		/* While a function is new to a pool, each of its jobs has its own mark. */
		pool = pool_of(1, .in_flight_ns = UINT64_MAX, .max_in_flight = NR);
		for (int i = 0; i < NR; i++) {
			gates[i] = (struct gate)GATE_INIT;
			submit_job(pool, &jobs[i], gated_kernel_fn, &gates[i]);
		}
		ck_eventually(figures_of(pool).in_flight == NR);
		for (int done = 0; done < NR; done++) {
			unsigned seen = 0;

			ck_eventually(find_unfinished(pool, NR) == (unsigned)(NR - done));
			for (int i = 0; i < NR - done; i++) {
				ck_assert_uint_eq(unfinished[i].where, RNL_IN_DEVICE);
				seen |= 1u << (unfinished[i].job - jobs);
			}
			ck_assert_uint_eq(seen, (1u << NR) - (1u << done));
			gate_open(&gates[done]);
			ck_assert_int_eq(result_of(&jobs[done]), 0);
		}
		rnl_pool_destroy(pool);
	}
}

static void gated_done(struct rnl_job *job)
{
	gate_wait(job->user);
}

TEST(a_callback_holds_its_job_also_on_the_timer_thread)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT, callback = GATE_INIT;
	struct rnl_job first, job;

	hold_workers(pool, &gate, &first, 1);
	job_of(&job, noop_fn, &callback);
	must(rnl_job_set_on_done(&job, gated_done));
	must(rnl_submit(pool, &job));
	must(rnl_job_cancel(&job));
	gate_await(&callback, 1);
	ck_assert_uint_eq(find_unfinished(pool, 2), 2);
	ck_assert_ptr_eq(unfinished[1].job, &job);
	ck_assert_uint_eq(unfinished[1].worker, RNL_WORKERS_MAX);
	gate_open(&callback);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}
