/* SPDX-License-Identifier: MIT */
/*
 * Two threads submit to one order concurrently: a job of a barrier, and a job that comes after the
 * barrier. Whichever is first, the jobs do not deadlock.
 *
 * The second thread spins before its submit, for a varying time, so the submits meet at every
 * place. The barrier's job has a chained job, which is in the barrier, too.
 */
#include <runnel/more.h>

#include "pool.h"
#include "seed.h"

#define NR_ROUNDS 100000

struct meeting {
	struct rnl_order order;
	struct rnl_job first, behind, after;
	_Atomic unsigned begun, ended;		/* the last round that ... */
	unsigned nr;
};

static int submit_first(void *arg)
{
	struct meeting *m = arg;

	for (unsigned round = 1; round <= m->nr; round++) {
		await_round(&m->begun, round);
		must(submit_in_order(&m->order, &m->first));
		m->ended = round;
	}
	return 0;
}

TEST(a_job_and_one_after_its_barrier_enter_an_order_at_once, .timeout_s = 300)
{
	struct meeting m = { .nr = rounds_of(NR_ROUNDS) };
	uint64_t random = draws_of(test_seed(), 0);
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier;
	struct call submitter;

	must(rnl_order_init(&m.order, pool, 1));
	must(rnl_barrier_init(&barrier, pool));
	job_of(&m.first, noop_fn, NULL);
	job_of(&m.behind, noop_fn, NULL);
	job_of(&m.after, noop_fn, NULL);
	must(rnl_barrier_add(&barrier, &m.first));
	must(rnl_barrier_add(&barrier, &m.behind));
	must(rnl_job_set_then(&m.first, &m.behind));
	must(rnl_job_set_after(&m.after, &barrier));
	call_start(&submitter, submit_first, &m);
	for (unsigned round = 1; round <= m.nr; round++) {
		const unsigned turns = draw(&random, 600);

		m.begun = round;
		for (unsigned volatile i = 0; i < turns; i++)
			;
		must(submit_in_order(&m.order, &m.after));
		await_round(&m.ended, round);
		ck_assert_int_eq(result_of(&m.first), 0);
		ck_assert_int_eq(result_of(&m.behind), 0);
		ck_assert_int_eq(result_of(&m.after), 0);
	}
	call_end(&submitter);
	rnl_order_fini(&m.order);
	rnl_pool_destroy(pool);
}
