/* SPDX-License-Identifier: MIT */
/* Urgent jobs run before other jobs, in pools with urgent workers and in pools without. */
#include <runnel/stats.h>

#include "record.h"

static void urgent_of(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user)
{
	job_of(job, fn, user);
	must(rnl_job_set_flags(job, RNL_URGENT));
}

static void submit_urgent(struct rnl_pool *pool, struct rnl_job *job,
			  int (*fn)(struct rnl_job *job), void *user)
{
	urgent_of(job, fn, user);
	must(rnl_submit(pool, job));
}

static void urgent_noted_of(struct noted *n, struct record *record, int id)
{
	noted_of(n, record, id);
	must(rnl_job_set_flags(&n->job, RNL_URGENT));
}

/* Holds the urgent workers.  The other workers are held, so only urgent workers run @jobs. */
static void hold_urgent(struct rnl_pool *pool, struct gate *gate, struct rnl_job *jobs, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		submit_urgent(pool, &jobs[i], gated_fn, gate);
	gate_await(gate, nr);
}

/* ---- without urgent workers ---------------------------------------------- */

TEST(without_urgent_workers_an_urgent_job_goes_before_queued_jobs)
{
	enum { OTHERS = 20 };
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct rnl_job held;
	struct noted noted[OTHERS], urgent[2];

	for (int round = 0; round < 2; round++) {
		gate = (struct gate)GATE_INIT;
		record.nr = 0;
		hold_workers(pool, &gate, &held, 1);
		for (int i = 0; i < OTHERS; i++) {
			noted_of(&noted[i], &record, i);
			ck_assert_int_eq(i % 2 ? rnl_submit(pool, &noted[i].job) :
						 submit_by_key(pool, &noted[i].job, 1), 0);
		}
		for (int i = 0; i < 2; i++) {
			/* The job stays urgent in later runs. */
			if (!round) {
				urgent_noted_of(&urgent[i], &record, 100 + i);
			}
			must(rnl_submit(pool, &urgent[i].job));
		}
		gate_open(&gate);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_uint_eq(record.nr, OTHERS + 2);
		ck_assert_int_lt(place_of(&record, 100), 2);
		ck_assert_int_lt(place_of(&record, 101), 2);
	}
	rnl_pool_destroy(pool);
}

TEST(a_job_that_is_urgent_no_more_waits_for_its_turn)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct rnl_job held;
	struct noted first, second;

	hold_workers(pool, &gate, &held, 1);
	noted_of(&first, &record, 1);
	urgent_noted_of(&second, &record, 2);
	must(rnl_job_set_flags(&second.job, 0));
	must(rnl_submit(pool, &first.job));
	must(rnl_submit(pool, &second.job));
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(place_of(&record, 2), 1);
	rnl_pool_destroy(pool);
}

TEST(an_urgent_job_that_was_deferred_goes_before_others_once_it_may)
{
	enum { OTHERS = 10 };
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct rnl_barrier barrier;
	struct rnl_job held;
	struct noted noted[OTHERS], urgent;

	hold_barrier(pool, &barrier, &gate, &held);
	for (int i = 0; i < OTHERS; i++) {
		noted_of(&noted[i], &record, i);
		must(rnl_submit(pool, &noted[i].job));
	}
	urgent_noted_of(&urgent, &record, 100);
	must(rnl_job_set_after(&urgent.job, &barrier));
	must(rnl_submit(pool, &urgent.job));
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(place_of(&record, 100), 0);
	rnl_pool_destroy(pool);
}

/* ---- with urgent workers ------------------------------------------------- */

TEST(urgent_workers_run_urgent_jobs_while_all_others_are_held)
{
	enum { URGENT = 2, WORKERS = 2, NR = 200 };
	struct rnl_pool *pool = pool_of(WORKERS, .nr_urgent = URGENT);
	struct gate gate = GATE_INIT;
	struct rnl_job held[WORKERS], queued[3], jobs[NR], *list[4];

	hold_workers(pool, &gate, held, WORKERS);
	for (int i = 0; i < 3; i++)
		job_of(&queued[i], noop_fn, NULL);
	must(rnl_submit(pool, &queued[0]));
	for (int i = 0; i < NR - 2; i++)
		submit_urgent(pool, &jobs[i], index_fn, NULL);
	/* Urgent jobs in a list with other jobs, too. */
	list[0] = &queued[1];
	list[1] = &jobs[NR - 2];
	list[2] = &queued[2];
	list[3] = &jobs[NR - 1];
	urgent_of(list[1], index_fn, NULL);
	urgent_of(list[3], index_fn, NULL);
	ck_assert_int_eq(rnl_submit_many(pool, list, 4), 4);
	for (int i = 0; i < NR; i++) {
		int worker = result_of(&jobs[i]);

		ck_assert_int_ge(worker, 0);
		ck_assert_int_lt(worker, URGENT);
	}
	for (int i = 0; i < 3; i++)
		ck_assert_int_ne(rnl_job_wait(&queued[i], 0), 0);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(urgent_workers_run_no_other_jobs)
{
	enum { URGENT = 2, WORKERS = 2, NR = 3000 };
	struct rnl_pool *pool = pool_of(WORKERS, .nr_urgent = URGENT);
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs)), *list[NR / 3];
	struct gate gate = GATE_INIT;
	struct rnl_job held[WORKERS], urgent;

	/* The other workers have a backlog; the urgent workers are idle and awake. */
	hold_workers(pool, &gate, held, WORKERS);
	for (int i = 0; i < NR; i++)
		job_of(&jobs[i], index_fn, NULL);
	for (int i = 0; i < NR / 3; i++) {
		must(rnl_submit(pool, &jobs[i]));
		must(submit_by_key(pool, &jobs[NR / 3 + i], (uint64_t)i));
		list[i] = &jobs[NR / 3 * 2 + i];
	}
	ck_assert_int_eq(rnl_submit_many(pool, list, NR / 3), NR / 3);
	for (int i = 0; i < 100; i++) {
		submit_urgent(pool, &urgent, index_fn, NULL);
		ck_assert_int_lt(result_of(&urgent), URGENT);
	}
	gate_open(&gate);
	for (int i = 0; i < NR; i++) {
		int worker = result_of(&jobs[i]);

		ck_assert_int_ge(worker, URGENT);
		ck_assert_int_lt(worker, URGENT + WORKERS);
	}
	rnl_pool_destroy(pool);
	free(jobs);
}

TEST(on_the_host_device_a_free_worker_takes_urgent_jobs_of_a_held_one)
{
	struct rnl_pool *pool;
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job held[2], urgent;

	skip_on_cuda("urgent workers take urgent jobs alone");
	pool = pool_of(1, .nr_urgent = 1);
	hold_workers(pool, &gates[0], &held[0], 1);
	hold_urgent(pool, &gates[1], &held[1], 1);
	/* The first job is queued before the other worker is free, the second while it is free. */
	for (int i = 0; i < 2; i++) {
		submit_urgent(pool, &urgent, index_fn, NULL);
		gate_open(&gates[0]);
		ck_assert_int_eq(result_of(&urgent), 1);
	}
	gate_open(&gates[1]);
	rnl_pool_destroy(pool);
}

TEST(on_the_host_device_every_worker_takes_urgent_jobs_first)
{
	enum { OTHERS = 10 };
	struct rnl_pool *pool;
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct record record = { 0 };
	struct rnl_job held[2];
	struct noted noted[OTHERS], urgent;

	skip_on_cuda("urgent workers take urgent jobs alone");
	pool = pool_of(1, .nr_urgent = 1);
	hold_workers(pool, &gates[0], &held[0], 1);
	hold_urgent(pool, &gates[1], &held[1], 1);
	for (int i = 0; i < OTHERS; i++) {
		noted_of(&noted[i], &record, i);
		must(rnl_submit(pool, &noted[i].job));
	}
	urgent_noted_of(&urgent, &record, 100);
	must(rnl_submit(pool, &urgent.job));
	gate_open(&gates[0]);
	ck_assert_int_eq(result_of(&urgent.job), 0);
	for (int i = 0; i < OTHERS; i++)
		ck_assert_int_eq(result_of(&noted[i].job), 0);
	ck_assert_int_eq(place_of(&record, 100), 0);
	gate_open(&gates[1]);
	rnl_pool_destroy(pool);
}

/* Worker 2 may start; worker 3 may not, once the gate is open. */
struct starts {
	_Atomic pid_t tid;		/* of worker 2 */
	struct gate gate;
};

static int start_or_fail(void *arg, unsigned worker, void **datap)
{
	struct starts *s = arg;

	(void)datap;
	if (worker == 2)
		s->tid = own_tid();
	if (worker != 3)
		return 0;
	gate_wait(&s->gate);
	return -EPROTO;
}

TEST(a_worker_takes_no_urgent_job_in_a_growth_that_fails)
{
	struct starts starts = { .gate = GATE_INIT };
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job held[2], urgent;
	struct rnl_pool *pool;
	struct call call;

	skip_on_cuda("urgent workers take urgent jobs alone");
	pool = pool_of(1, .nr_urgent = 1, .on_start = start_or_fail, .hook_arg = &starts);
	hold_workers(pool, &gates[0], &held[0], 1);
	hold_urgent(pool, &gates[1], &held[1], 1);
	submit_urgent(pool, &urgent, index_fn, NULL);
	call_start(&call, resize_fn, &(struct resize){ pool, 3 });
	gate_await(&starts.gate, 1);
	ck_waits(starts.tid);
	gate_open(&starts.gate);
	ck_assert_int_eq(call_end(&call), -EPROTO);
	gate_open(&gates[1]);
	ck_assert_int_eq(result_of(&urgent), 0);
	gate_open(&gates[0]);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).accepted, 3);
	ck_assert_uint_eq(figures_of(pool).done, 3);
	rnl_pool_destroy(pool);
}

/* ---- numbers ------------------------------------------------------------- */

TEST(urgent_workers_are_counted_first_and_with_the_others)
{
	enum { URGENT = 3, WORKERS = 2, NR = URGENT + WORKERS };
	struct rnl_pool *pool = pool_of(WORKERS, .nr_urgent = URGENT);
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job held[NR], refused;

	ck_assert_uint_eq(figures_of(pool).nr_workers, NR);
	hold_workers(pool, &gates[0], held, WORKERS);
	hold_urgent(pool, &gates[1], held + WORKERS, URGENT);
	gate_open(&gates[0]);
	gate_open(&gates[1]);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (unsigned i = 0; i < NR; i++) {
		must(rnl_pool_read_stats(pool, i, &stats));
		ck_assert_uint_eq(stats.nr_workers, 1);
		ck_assert_uint_eq(stats.done, 1);
	}
	ck_assert_int_eq(rnl_pool_read_stats(pool, NR, &stats), -EINVAL);
	ck_assert_int_eq(rnl_pool_read_stats(pool, -2, &stats), -EINVAL);
	urgent_of(&refused, noop_fn, NULL);
	ck_assert_int_eq(submit_by_key(pool, &refused, 1), -EINVAL);
	rnl_pool_destroy(pool);
}

TEST(more_urgent_workers_than_a_pool_has_room_for_are_refused)
{
	static const struct {
		uint32_t nr_urgent, nr_workers;
	} rows[] = {
		{ RNL_WORKERS_MAX, 1 },
		{ 1, RNL_WORKERS_MAX },
		{ RNL_WORKERS_MAX, 0 },
		{ UINT32_MAX, 1 },
		{ UINT32_MAX, UINT32_MAX },
	};

	for (unsigned i = 0; i < COUNT(rows); i++) {
		struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
		struct rnl_pool *pool = NULL;

		attr.device = test_device();
		attr.nr_urgent = rows[i].nr_urgent;
		attr.nr_workers = rows[i].nr_workers;
		ck_assert_msg(rnl_pool_create(&pool, &attr) == -EINVAL, "row %u", i);
	}
}

TEST(an_urgent_job_has_no_key)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job urgent;

	urgent_of(&urgent, noop_fn, NULL);
	ck_assert_int_eq(submit_by_key(pool, &urgent, 0), -EINVAL);
	ck_assert_int_eq(submit_by_key_wait(pool, &urgent, 0, RNL_FOREVER), -EINVAL);
	ck_assert_int_eq(rnl_job_wait(&urgent, 0), -EINVAL);	/* never submitted */
	must(rnl_job_set_key(&urgent, RNL_KEY_NONE));
	ck_assert_int_eq(submit_and_wait(pool, &urgent), 0);
	must(rnl_job_set_flags(&urgent, 0));
	must(submit_by_key(pool, &urgent, 0));
	ck_assert_int_eq(result_of(&urgent), 0);
	rnl_pool_destroy(pool);
}
