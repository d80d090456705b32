/* SPDX-License-Identifier: MIT */
/* Jobs of one key: in the order of their submits, on one worker. */
#include "pool.h"
#include "seed.h"

struct ordered {
	struct rnl_job job;
	int *last;		/* the key's last job; plain: the order protects it */
	int *worker;
	int nr;
};

static int ordered_fn(struct rnl_job *job)
{
	struct ordered *o = rnl_container_of(job, struct ordered, job);
	bool in_order = *o->last == o->nr - 1;
	bool at_home = *o->worker == -1 || *o->worker == rnl_worker().index;

	*o->last = o->nr;
	*o->worker = rnl_worker().index;
	return !in_order ? -EPROTO : !at_home ? -EXDEV : 0;
}

TEST(jobs_of_one_key_run_in_order_on_one_worker)
{
	enum { KEYS = 7, EACH = 1500, WORKERS = 3 };
	/* Workers park as soon as they can. */
	struct rnl_pool *pool = pool_of(WORKERS, .spin_us = -1);
	struct ordered *jobs = calloc(KEYS * EACH, sizeof(*jobs));
	struct rnl_job *noise = calloc(EACH, sizeof(*noise));
	int last[KEYS], worker[KEYS];
	uint64_t random = draws_of(test_seed(), 0);

	for (int k = 0; k < KEYS; k++)
		last[k] = worker[k] = -1;
	for (int i = 0; i < KEYS * EACH; i++) {
		int k = i % KEYS;
		uint64_t key = k < 4 ? (uint64_t)k : UINT64_MAX - (uint64_t)k;

		jobs[i] = (struct ordered){ .last = &last[k], .worker = &worker[k],
					    .nr = i / KEYS };
		job_of(&jobs[i].job, ordered_fn, NULL);
		must(submit_by_key(pool, &jobs[i].job, key));
		/* Unkeyed jobs between them, which other workers steal. */
		if (k == 0)
			submit_job(pool, &noise[i / KEYS], noop_fn, NULL);
		/* Varies the load, so that workers steal and park; proves no order. */
		if (!draw(&random, 64))
			usleep(draw(&random, 300));
	}
	for (int i = 0; i < KEYS * EACH; i++)
		ck_assert_int_eq(result_of(&jobs[i].job), 0);
	for (int k = 0; k < KEYS; k++) {
		ck_assert_int_eq(last[k], EACH - 1);
		ck_assert_int_ge(worker[k], 0);
		ck_assert_int_lt(worker[k], WORKERS);
	}
	rnl_pool_destroy(pool);
	free(jobs);
	free(noise);
}

struct taker_of_turns {
	struct rnl_pool *pool;
	struct ordered *jobs;
	_Atomic int *turn;	/* orders the submits of the two threads */
	int parity, nr;
};

static int take_turns(void *arg)
{
	struct taker_of_turns *t = arg;

	for (int i = t->parity; i < t->nr; i += 2) {
		while (*t->turn != i)
			sched_yield();
		if (submit_by_key(t->pool, &t->jobs[i].job, 5))
			abort();
		*t->turn = i + 1;
	}
	return 0;
}

TEST(a_key_is_kept_by_a_submit_of_many_and_from_submit_to_submit)
{
	enum { NR = 300 };
	struct rnl_pool *pool = pool_of(3);
	struct rnl_job *list[NR];
	struct ordered jobs[NR] = { 0 };

	for (int round = 0; round < 3; round++) {
		int last = -1, worker = -1;

		for (int i = 0; i < NR; i++) {
			jobs[i] = (struct ordered){ .job = jobs[i].job, .last = &last,
						    .worker = &worker, .nr = i };
			list[i] = &jobs[i].job;
			if (!round) {
				job_of(&jobs[i].job, ordered_fn, NULL);
				must(rnl_job_set_key(&jobs[i].job, 7));
			}
		}
		ck_assert_int_eq(rnl_submit_many(pool, list, NR), NR);
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(result_of(&jobs[i].job), 0);
	}
	rnl_pool_destroy(pool);
}

TEST(submits_of_two_threads_keep_the_order_in_which_they_happened)
{
	int nr = (int)(4000 / test_scale());
	struct rnl_pool *pool = pool_of(3);
	struct ordered *jobs = calloc((size_t)nr, sizeof(*jobs));
	int last = -1, worker = -1;
	_Atomic int turn = 0;
	struct taker_of_turns takers[2];
	struct call calls[2];

	for (int i = 0; i < nr; i++) {
		jobs[i] = (struct ordered){ .last = &last, .worker = &worker, .nr = i };
		job_of(&jobs[i].job, ordered_fn, NULL);
	}
	for (int i = 0; i < 2; i++) {
		takers[i] = (struct taker_of_turns){ pool, jobs, &turn, i, nr };
		call_start(&calls[i], take_turns, &takers[i]);
	}
	for (int i = 0; i < 2; i++)
		must(call_end(&calls[i]));
	for (int i = 0; i < nr; i++)
		ck_assert_int_eq(result_of(&jobs[i].job), 0);
	rnl_pool_destroy(pool);
	free(jobs);
}

TEST(keyed_jobs_are_not_stolen_from_a_held_worker)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct rnl_job held, behind[8], unkeyed;

	job_of(&held, gated_fn, &gate);
	must(submit_by_key(pool, &held, 9));
	gate_await(&gate, 1);
	for (int i = 0; i < 8; i++) {
		job_of(&behind[i], noop_fn, NULL);
		must(submit_by_key(pool, &behind[i], 9));
	}
	/* The other worker runs unkeyed jobs, but no job of the key. */
	for (int i = 0; i < 200; i++) {
		submit_job(pool, &unkeyed, noop_fn, NULL);
		ck_assert_int_eq(result_of(&unkeyed), 0);
	}
	for (int i = 0; i < 8; i++)
		ck_assert_int_ne(rnl_job_wait(&behind[i], 0), 0);
	gate_open(&gate);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(result_of(&behind[i]), 0);
	rnl_pool_destroy(pool);
}
