/* SPDX-License-Identifier: MIT */
/*
 * Cancels race with the start of the job. Each time either the cancel or the start wins, and the
 * call, the result and the function agree on the winner.
 *
 * The canceller spins first: longer if its last cancel won, shorter if the start won. So cancel and
 * start meet. On a busy machine the canceller may lose its CPU each time it wakes the worker. So in
 * some rounds an earlier job waits for the canceller.
 */
#include "pool.h"
#include "seed.h"

#define NR_ROUNDS 60000
#define MAX_TURNS 10000

struct race {
	struct rnl_job before, job;
	_Atomic unsigned begun, met, ended, left;	/* the last round that ... */
	unsigned runs;				/* plain, for ThreadSanitizer */
	/* written by the canceller in the round */
	unsigned nr_cancelled, nr_busy, nr_other;
	uint64_t random;
};

static unsigned nr_rounds(void)
{
	return rounds_of(NR_ROUNDS);
}

static bool has_before(unsigned round)
{
	return round % 16 == 0;
}

static int meet(struct rnl_job *job)
{
	struct race *race = rnl_container_of(job, struct race, before);

	await_round(&race->met, race->begun);
	return 0;
}

static int run(struct rnl_job *job)
{
	struct race *race = rnl_container_of(job, struct race, job);

	race->runs++;
	return (int)(race->begun & 0x7fff);
}

static int cancel_all(void *arg)
{
	struct race *race = arg;
	unsigned nr = nr_rounds();
	unsigned wait = 0;

	for (unsigned round = 1; round <= nr; round++) {
		unsigned turns = wait + draw(&race->random, 8);

		await_round(&race->begun, round);
		race->nr_cancelled = race->nr_busy = race->nr_other = 0;
		race->met = round;
		for (unsigned volatile i = 0; i < turns; i++)
			;
		do {
			/* -EALREADY: before the submit, or after the end */
			int ret = rnl_job_cancel(&race->job);

			race->nr_cancelled += !ret;
			race->nr_busy += ret == -EBUSY;
			race->nr_other += ret && ret != -EBUSY && ret != -EALREADY;
		} while (race->ended != round);
		if (race->nr_cancelled)
			wait = (wait + !has_before(round)) % MAX_TURNS;
		else if (wait)
			wait--;
		race->left = round;
	}
	return 0;
}

TEST(of_a_cancel_and_a_start_that_meet_one_comes_first, .timeout_s = 120)
{
	unsigned nr = nr_rounds(), nr_ran = 0, nr_cancelled = 0;
	struct race race = { .random = draws_of(test_seed(), 0) };
	struct rnl_pool *pool = pool_of(1, .spin_us = -1);
	struct call canceller;

	job_of(&race.before, meet, NULL);
	job_of(&race.job, run, NULL);
	/* The job is done once, so a cancel before its next submit returns -EALREADY. */
	ck_assert_int_eq(submit_and_wait(pool, &race.job), 0);
	race.runs = 0;
	call_start(&canceller, cancel_all, &race);
	for (unsigned round = 1; round <= nr; round++) {
		bool ran, cancelled;
		int result;

		race.begun = round;
		if (has_before(round))
			must(rnl_submit(pool, &race.before));
		must(rnl_submit(pool, &race.job));
		result = result_of(&race.job);
		if (has_before(round))
			ck_assert_int_eq(result_of(&race.before), 0);
		ck_assert_int_eq(rnl_job_cancel(&race.job), -EALREADY);
		race.ended = round;
		await_round(&race.left, round);
		ran = race.runs > nr_ran;
		cancelled = race.nr_cancelled;
		ck_assert_msg(ran != cancelled && race.runs <= nr_ran + 1 && !race.nr_other &&
			      !(race.nr_busy && cancelled) &&
			      result == (cancelled ? -ECANCELED : (int)(round & 0x7fff)),
			      "round %u: ran %u times, result %d; of the cancels %u returned 0, "
			      "%u -EBUSY, %u what they never do", round, race.runs - nr_ran,
			      result, race.nr_cancelled, race.nr_busy, race.nr_other);
		nr_ran += ran;
		nr_cancelled += cancelled;
	}
	call_end(&canceller);
	printf("%u ran, %u were cancelled\n", nr_ran, nr_cancelled);
	ck_assert_uint_eq(nr_ran + nr_cancelled, nr);
	ck_assert_uint_gt(nr_ran, 0);
	ck_assert_uint_gt(nr_cancelled, 0);
	ck_assert_uint_eq(figures_of(pool).cancelled, nr_cancelled);
	ck_assert_uint_eq(figures_of(pool).done, 1 + nr + nr / 16);
	rnl_pool_destroy(pool);
}
