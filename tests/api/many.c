/* SPDX-License-Identifier: MIT */
/* rnl_submit_many(): how many jobs it accepts, and where it stops. */
#include <limits.h>

#include "pool.h"

enum { NR = 40 };

struct many {
	struct rnl_job jobs[NR], *list[NR];
	_Atomic int runs[NR];
	struct rnl_pool *pool;
};

static void setup(struct many *m, unsigned nr_workers)
{
	m->pool = pool_of(nr_workers);
	for (int i = 0; i < NR; i++) {
		m->runs[i] = 0;
		job_of(&m->jobs[i], count_fn, (void *)&m->runs[i]);
		m->list[i] = &m->jobs[i];
	}
}

/* Destroys the pool. Jobs @from to @to - 1 must have run once, other jobs never. */
static void ran_only(struct many *m, int from, int to)
{
	rnl_pool_destroy(m->pool);
	for (int i = 0; i < NR; i++)
		ck_assert_msg(m->runs[i] == (i >= from && i < to), "job %d ran %d times", i,
			      m->runs[i]);
}

TEST(none_is_not_an_error)
{
	struct many m;

	setup(&m, 2);
	must(rnl_submit_many(m.pool, m.list, 0));
	must(rnl_submit_many(m.pool, NULL, 0));
	ran_only(&m, 0, 0);
}

TEST(every_number_is_taken_whole)
{
	for (unsigned nr_workers = 1; nr_workers <= 5; nr_workers += 2) {
		for (int nr = 1; nr <= NR; nr += 1 + nr / 8) {
			struct many m;

			setup(&m, nr_workers);
			ck_assert_int_eq(rnl_submit_many(m.pool, m.list, (unsigned)nr), nr);
			/* The array is the caller's again. */
			memset(m.list, 0, sizeof(m.list));
			ran_only(&m, 0, nr);
		}
	}
}

/* Loop 1: it was not initialised.  A number beyond INT_MAX shows that the rest is not read. */
TEST(it_stops_at_a_null_or_a_zeroed_job, .loops = 2)
{
	struct rnl_job zero = { 0 };
	struct many m;

	setup(&m, 3);
	m.list[17] = _i ? &zero : NULL;
	ck_assert_int_eq(rnl_submit_many(m.pool, m.list, UINT_MAX), 17);
	ck_assert_int_eq(rnl_submit_many(m.pool, m.list + 17, NR - 17), -EINVAL);
	ran_only(&m, 0, 17);
}

TEST(it_stops_at_a_job_under_way)
{
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	struct many m;

	for (int at = 0; at < NR; at += 13) {
		gate = (struct gate)GATE_INIT;
		setup(&m, 2);
		hold_workers(m.pool, &gate, &held, 1);
		m.list[at] = &held;
		ck_assert_int_eq(rnl_submit_many(m.pool, m.list, NR), at ? at : -EBUSY);
		gate_open(&gate);
		ran_only(&m, 0, at);
	}
}

TEST(a_job_that_is_there_twice_is_taken_once)
{
	struct gate gate = GATE_INIT;
	struct rnl_job held[2];
	struct many m;

	setup(&m, 2);
	hold_workers(m.pool, &gate, held, 2);
	m.list[11] = m.list[5];
	ck_assert_int_eq(rnl_submit_many(m.pool, m.list, NR), 11);
	ck_assert_int_eq(rnl_submit_many(m.pool, m.list + 11, 1), -EBUSY);
	gate_open(&gate);
	ran_only(&m, 0, 11);
}

TEST(it_stops_at_a_job_whose_barrier_is_of_another_pool)
{
	struct rnl_pool *other = pool_of(1);
	struct rnl_barrier barrier;
	struct many m;

	for (int after = 0; after < 2; after++) {
		setup(&m, 2);
		must(rnl_barrier_init(&barrier, other));
		ck_assert_int_eq(after ? rnl_job_set_after(m.list[9], &barrier) :
					 rnl_barrier_add(&barrier, m.list[9]), 0);
		ck_assert_int_eq(rnl_submit_many(m.pool, m.list, NR), 9);
		ck_assert_int_eq(rnl_submit_many(m.pool, m.list + 9, NR - 9), -EINVAL);
		must(rnl_barrier_wait(&barrier, 0));
		ran_only(&m, 0, 9);
	}
	rnl_pool_destroy(other);
}

TEST(jobs_that_come_after_a_barrier_are_taken_among_others)
{
	struct rnl_barrier barrier;
	struct gate gate = GATE_INIT;
	struct rnl_job first;
	struct many m;

	setup(&m, 3);
	hold_barrier(m.pool, &barrier, &gate, &first);
	for (int i = 0; i < NR; i += 3)
		must(rnl_job_set_after(m.list[i], &barrier));
	ck_assert_int_eq(rnl_submit_many(m.pool, m.list, NR), NR);
	for (int i = 0; i < NR; i++) {
		if (i % 3)
			ck_assert_int_eq(result_of(m.list[i]), 0);
	}
	for (int i = 0; i < NR; i += 3)
		ck_assert_int_eq(m.runs[i], 0);
	gate_open(&gate);
	ran_only(&m, 0, NR);
}

TEST(a_barrier_counts_the_accepted_jobs)
{
	struct rnl_barrier barrier;
	struct gate gate = GATE_INIT;
	struct rnl_job held[2];
	struct many m;

	setup(&m, 2);
	hold_workers(m.pool, &gate, held, 2);
	must(rnl_barrier_init(&barrier, m.pool));
	for (int i = 0; i < NR; i++)
		must(rnl_barrier_add(&barrier, m.list[i]));
	m.list[21] = NULL;
	ck_assert_int_eq(rnl_submit_many(m.pool, m.list, NR), 21);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 0), -ETIMEDOUT);
	gate_open(&gate);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ran_only(&m, 0, 21);
}
