/* SPDX-License-Identifier: MIT */
/* A pool's counts, the bound on queued jobs, and stolen jobs. */
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "host_kernel.h"
#include "pool.h"

/* ---- the bound ----------------------------------------------------------- */

/* Checks the bound with all workers held, so that accepted jobs stay queued. */
static void check_bound(unsigned nr_workers, unsigned max_queued)
{
	/* "the bound is kept for each worker and adds up to max_queued, rounded up" */
	unsigned bound = (max_queued + nr_workers - 1) / nr_workers * nr_workers;
	struct rnl_pool *pool = pool_of(nr_workers, .max_queued = max_queued);
	struct gate gate = GATE_INIT;
	struct rnl_job held[4], *jobs = calloc(bound + 1, sizeof(*jobs)), *last = &jobs[bound];
	_Atomic int runs = 0;

	hold_workers(pool, &gate, held, nr_workers);
	for (unsigned i = 0; i <= bound; i++)
		job_of(&jobs[i], count_fn, &runs);
	for (unsigned i = 0; i < bound; i++)
		ck_assert_msg(!rnl_submit(pool, &jobs[i]), "job %u of %u was refused", i, bound);
	ck_assert_uint_eq(figures_of(pool).queued, bound);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(rnl_submit(pool, last), -EAGAIN);
	ck_assert_int_eq(submit_by_key(pool, last, 1), -EAGAIN);
	ck_assert_int_eq(rnl_submit_many(pool, &last, 1), -EAGAIN);
	ck_assert_int_eq(rnl_job_wait(last, 0), -EINVAL); /* never submitted */
	ck_assert_uint_eq(figures_of(pool).queued, bound);

	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(runs, (int)bound);
	ck_assert_uint_eq(figures_of(pool).queued, 0);
	ck_assert_int_eq(submit_and_wait(pool, last), 0);
	ck_assert_int_eq(runs, (int)bound + 1);

	/* Full again, with the same bound. */
	gate = (struct gate)GATE_INIT;
	hold_workers(pool, &gate, held, nr_workers);
	for (unsigned i = 0; i < bound; i++)
		must(rnl_submit(pool, &jobs[i]));
	ck_assert_int_eq(rnl_submit(pool, last), -EAGAIN);
	gate_open(&gate);
	rnl_pool_destroy(pool);
	free(jobs);
}

TEST(a_full_pool_refuses_exactly_the_job_beyond_its_bound)
{
	check_bound(1, 1);
	check_bound(1, 10);
	check_bound(1, 1000);
	check_bound(2, 1);
	check_bound(2, 2);
	check_bound(4, 3);
	check_bound(4, 10);
	check_bound(4, 64);
}

TEST(keyed_jobs_are_bounded_by_the_queue_of_their_worker)
{
	enum { EACH = 5 };
	struct rnl_pool *pool = pool_of(2, .max_queued = 2 * EACH);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2], jobs[2 * EACH + 1];

	hold_workers(pool, &gate, held, 2);
	for (int i = 0; i <= 2 * EACH; i++)
		job_of(&jobs[i], noop_fn, NULL);
	for (int i = 0; i < EACH; i++)
		must(submit_by_key(pool, &jobs[i], RNL_KEY_WORKER(0)));
	ck_assert_int_eq(submit_by_key(pool, &jobs[EACH], RNL_KEY_WORKER(0)), -EAGAIN);
	/* The other queue has space for its keys, and for jobs without a key. */
	must(submit_by_key(pool, &jobs[EACH], RNL_KEY_WORKER(1)));
	for (int i = EACH + 1; i < 2 * EACH; i++)
		must(rnl_submit(pool, &jobs[i]));
	ck_assert_int_eq(rnl_submit(pool, &jobs[2 * EACH]), -EAGAIN);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(submit_many_takes_what_fits_and_says_how_much)
{
	enum { BOUND = 12, NR = BOUND + 5 };

	for (unsigned nr_workers = 1; nr_workers <= 3; nr_workers++) {
		struct rnl_pool *pool = pool_of(nr_workers, .max_queued = BOUND);
		struct gate gate = GATE_INIT;
		struct rnl_job held[4], jobs[NR], *list[NR];
		_Atomic int runs = 0;

		hold_workers(pool, &gate, held, nr_workers);
		for (unsigned i = 0; i < NR; i++) {
			job_of(&jobs[i], count_fn, &runs);
			list[i] = &jobs[i];
		}
		ck_assert_int_eq(rnl_submit_many(pool, list, NR), BOUND);
		ck_assert_int_eq(rnl_submit_many(pool, list + BOUND, NR - BOUND), -EAGAIN);
		gate_open(&gate);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_int_eq(runs, BOUND);
		/* The other jobs are the caller's, and are accepted now. */
		ck_assert_int_eq(rnl_submit_many(pool, list + BOUND, NR - BOUND), NR - BOUND);
		rnl_pool_destroy(pool);
		ck_assert_int_eq(runs, NR);
	}
}

TEST(a_full_pool_accepts_jobs_again_when_its_workers_took_some)
{
	enum { NR = 20000 };
	struct rnl_pool *pool = pool_of(2, .max_queued = 8);
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs));
	_Atomic int runs = 0;
	long refused = 0;

	for (int i = 0; i < NR; i++) {
		int ret;

		job_of(&jobs[i], count_fn, &runs);
		while ((ret = rnl_submit(pool, &jobs[i])) == -EAGAIN)
			refused++;
		ck_assert_int_eq(ret, 0);
	}
	rnl_pool_destroy(pool);
	ck_assert_int_eq(runs, NR);
	printf("8 queued at most: %ld submits of %d were refused\n", refused, NR);
	free(jobs);
}

/* ---- figures ------------------------------------------------------------- */

TEST(the_figures_add_up)
{
	enum { NR = 300 };
	struct rnl_pool *pool = pool_of(3);
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs)), *list[NR];
	struct rnl_pool_stats stats = figures_of(pool);

	ck_assert_uint_eq(stats.nr_workers, 3);
	ck_assert_uint_eq(stats.accepted + stats.done + stats.failed + stats.queued +
			  stats.in_flight + stats.stolen, 0);
	for (int i = 0; i < NR; i++) {
		/* Results: 0, a number, a failure; a third each. */
		job_of(&jobs[i], result_fn, (void *)(intptr_t)(i % 3 == 2 ? -EPROTO : i % 3));
		list[i] = &jobs[i];
	}
	for (int i = 0; i < NR / 3; i++)
		must(rnl_submit(pool, &jobs[i]));
	for (int i = NR / 3; i < NR / 3 * 2; i++)
		must(submit_by_key(pool, &jobs[i], (uint64_t)i));
	ck_assert_int_eq(rnl_submit_many(pool, list + NR / 3 * 2, NR / 3), NR / 3);
	must(rnl_pool_drain(pool, RNL_FOREVER));

	stats = figures_of(pool);
	ck_assert_uint_eq(stats.accepted, NR);
	ck_assert_uint_eq(stats.done, NR);
	ck_assert_uint_eq(stats.failed, NR / 3);
	ck_assert_uint_eq(stats.queued, 0);
	ck_assert_uint_eq(stats.in_flight, 0);
	ck_assert_uint_le(stats.stolen, NR / 3 * 2);
	rnl_pool_destroy(pool);
	free(jobs);
}

TEST(a_job_is_queued_then_in_flight_then_done)
{
	struct rnl_pool *pool;
	struct gate function = GATE_INIT, kernel = GATE_INIT;
	struct rnl_job held[1];
	struct rnl_job after[2];

	skip_unless_host();
	pool = pool_of(1);
	hold_workers(pool, &function, held, 1);
	ck_assert_uint_eq(figures_of(pool).accepted, 1);
	ck_assert_uint_eq(figures_of(pool).done, 0);
	for (int i = 0; i < 2; i++)
		submit_job(pool, &after[i], noop_fn, NULL);
	ck_assert_uint_eq(figures_of(pool).queued, 2);
	gate_open(&function);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).done, 3);

	must(rnl_thread_attach(pool));	/* the work of other threads does not count */
	ck_assert_int_eq(launch_store(&kernel, NULL, 0), 0);
	gate_await(&kernel, 1);
	ck_assert_uint_eq(figures_of(pool).in_flight, 0);
	gate_open(&kernel);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

TEST(jobs_on_the_device_are_in_flight)
{
	enum { NR = 5 };
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct rnl_job jobs[NR];

	skip_unless_host();
	pool = pool_of(2, .in_flight_ns = UINT64_MAX);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], gated_kernel_fn, &kernel);
		must(submit_by_key(pool, &jobs[i], 3));
	}
	gate_await(&kernel, 1);
	ck_eventually(figures_of(pool).in_flight == NR);
	ck_assert_uint_eq(figures_of(pool).queued, 0);
	ck_assert_uint_eq(figures_of(pool).done, 0);
	gate_open(&kernel);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).in_flight, 0);
	ck_assert_uint_eq(figures_of(pool).done, NR);
	rnl_pool_destroy(pool);
}

TEST(no_more_than_max_in_flight_are_on_the_device)
{
	enum { LIMIT = 3, NR = 10 };
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct rnl_job jobs[NR];

	skip_unless_host();
	pool = pool_of(1, .max_in_flight = LIMIT, .in_flight_ns = UINT64_MAX);
	for (int i = 0; i < NR; i++)
		submit_job(pool, &jobs[i], gated_kernel_fn, &kernel);
	ck_eventually(figures_of(pool).in_flight == LIMIT);
	ck_assert_int_eq(rnl_pool_drain(pool, 20 * MS), -ETIMEDOUT);
	ck_assert_uint_eq(figures_of(pool).in_flight, LIMIT);
	ck_assert_uint_eq(figures_of(pool).queued, NR - LIMIT);
	gate_open(&kernel);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	rnl_pool_destroy(pool);
}

TEST(a_worker_that_is_held_has_its_jobs_stolen)
{
	enum { EACH = 200, NR = 2 * EACH };
	struct rnl_pool *pool = pool_of(2, .max_queued = NR);
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job held[2], *jobs = calloc(NR, sizeof(*jobs));
	_Atomic int runs = 0;
	uint64_t stolen = figures_of(pool).stolen;

	for (int i = 0; i < 2; i++)
		hold_workers(pool, &gates[i], &held[i], 1);
	/* Both queues are full, so a worker that goes on steals half of the jobs. */
	for (int i = 0; i < NR; i++)
		submit_job(pool, &jobs[i], count_fn, &runs);
	gate_open(&gates[1]);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	ck_assert_int_eq(runs, NR);
	ck_assert_int_ne(rnl_job_wait(&held[0], 0), 0);
	ck_assert_uint_ge(figures_of(pool).stolen - stolen, EACH);
	gate_open(&gates[0]);
	rnl_pool_destroy(pool);
	free(jobs);
}
