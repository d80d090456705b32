/* SPDX-License-Identifier: MIT */
/*
 * Notices for space of a full pool are cancelled, or the pool is closed, during their submits. Each
 * notice completes.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#include <runnel/more.h>

#include "effort.h"
#include "full.h"
#include "halts.h"
#include "pool.h"

enum { NR_CANCELS = 5000, NR_CLOSES = 300, NR_NOTICES = 1000 };

/* ---- cancelled ------------------------------------------------------------ */

struct notice {
	struct rnl_job job;
	pthread_t submitter;
	uint64_t random;
	_Atomic unsigned begun, ended, left;	/* the last round that ... */
	_Atomic bool over;			/* `left` is the last round */
	unsigned nr_bad;
};

static int cancel_all(void *arg)
{
	struct notice *n = arg;

	for (unsigned round = 1;; round++) {
		await_round(&n->begun, round);
		if (n->over)
			return 0;
		halts_one(n->submitter, draw(&n->random, 300));
		do {
			int ret = rnl_job_cancel(&n->job);

			/* -EALREADY: before the notice is accepted, or after it is done */
			n->nr_bad += ret && ret != -EALREADY;
			sched_yield();
		} while (n->ended != round);
		n->left = round;
	}
}

TEST(a_notice_that_is_cancelled_beside_its_submit_completes, .timeout_s = 60)
{
	struct effort effort = effort_of(rounds_of(NR_CANCELS));
	struct notice n = {
		.submitter = pthread_self(), .random = draws_of(test_seed(), 0),
	};
	struct full full;
	struct rnl_pool *pool;
	struct call canceller;

	full_start(&full, 1);
	pool = full.pool;
	job_of(&n.job, noop_fn, NULL);
	must(submit_when(pool, &n.job, RNL_SPACE));
	must(rnl_job_cancel(&n.job));
	ck_assert_int_eq(result_of(&n.job), -ECANCELED);
	halts_init();
	call_start(&canceller, cancel_all, &n);
	while (effort_goes_on(&effort)) {
		const unsigned round = effort.nr;

		n.begun = round;
		must(submit_when(pool, &n.job, RNL_SPACE));
		ck_assert_msg(!rnl_job_wait(&n.job, patience_ns()),
			      "round %u: a notice was cancelled and is not done", round);
		ck_assert_int_eq(n.job.result, -ECANCELED);
		n.ended = round;
		await_round(&n.left, round);
	}
	n.over = true;
	n.begun = effort.nr + 1;
	call_end(&canceller);
	ck_assert_uint_eq(n.nr_bad, 0);
	ck_assert_uint_eq(figures_of(pool).cancelled, effort.nr + 1);
	full_end(&full);
}

/* ---- closed --------------------------------------------------------------- */

struct crowd {
	struct rnl_pool *pool;
	struct rnl_job jobs[NR_NOTICES];
	_Atomic unsigned nr;	/* accepted */
	const char *wrong;
};

static int submit_all(void *arg)
{
	struct crowd *crowd = arg;
	int ret = 0;

	for (unsigned i = 0; i < NR_NOTICES && !ret; i++) {
		ret = submit_when(crowd->pool, &crowd->jobs[i], RNL_SPACE);
		crowd->nr += !ret;
	}
	if (ret && ret != -ESHUTDOWN)
		crowd->wrong = "a submit failed";
	return 0;
}

TEST(a_notice_that_is_submitted_beside_a_close_completes, .timeout_s = 60)
{
	struct effort effort = effort_of(rounds_of(NR_CLOSES));
	uint64_t random = draws_of(test_seed(), 0);
	struct crowd *crowd = calloc(1, sizeof(*crowd));

	ck_assert_ptr_nonnull(crowd);
	halts_init();
	while (effort_goes_on(&effort)) {
		struct call submitter;
		struct full full;
		unsigned some = draw(&random, NR_NOTICES / 2);

		full_start(&full, 1);
		crowd->pool = full.pool;
		crowd->nr = 0;
		for (unsigned i = 0; i < NR_NOTICES; i++)
			job_of(&crowd->jobs[i], noop_fn, NULL);
		call_start(&submitter, submit_all, crowd);
		spin_until(crowd->nr >= some || crowd->wrong);
		halts_one(submitter.thread, draw(&random, 100));
		must(rnl_pool_close(crowd->pool));
		call_end(&submitter);
		ck_assert_msg(!crowd->wrong, "%s", crowd->wrong);
		for (unsigned i = 0; i < crowd->nr; i++) {
			int ret = rnl_job_wait(&crowd->jobs[i], patience_ns());

			if (ret || crowd->jobs[i].result != -ECANCELED)
				ck_abort_msg("round %u: of %u notices number %u: wait %d, result "
					     "%d",
					     effort.nr, crowd->nr, i, ret, crowd->jobs[i].result);
		}
		gate_open(&full.gate);
		must(rnl_pool_drain(crowd->pool, RNL_FOREVER));
		ck_assert_uint_eq(figures_of(crowd->pool).cancelled, crowd->nr);
		full_end(&full);
	}
	free(crowd);
}
