/* SPDX-License-Identifier: MIT */
/* Waits for barriers on the host: counts, rounds, results and memory. */
#include <runnel/memory.h>

#include "pool.h"

TEST(an_empty_barrier_holds_no_thread)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_barrier barrier;
	struct rnl_job job;

	must(rnl_barrier_init(&barrier, pool));
	must(rnl_barrier_wait(&barrier, 0));
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	/* The barrier counts an added job only from its submit on. */
	job_in(&barrier, &job, noop_fn, NULL);
	must(rnl_barrier_wait(&barrier, 0));
	rnl_pool_destroy(pool);
}

TEST(a_barrier_waits_for_each_of_its_jobs)
{
	enum { NR = 6 };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier;
	struct gate gates[NR];
	struct rnl_job jobs[NR];
	double start;

	skip_unless_done_on_return();
	for (unsigned nr = 1; nr <= NR; nr++) {
		must(rnl_barrier_init(&barrier, pool));
		for (unsigned i = 0; i < nr; i++) {
			gates[i] = (struct gate)GATE_INIT;
			job_in(&barrier, &jobs[i], gated_fn, &gates[i]);
			must(submit_by_key(pool, &jobs[i], i));
		}
		/* The barrier waits for the last job, whichever job that is. */
		for (unsigned i = 0; i < nr; i++) {
			ck_assert_int_eq(rnl_barrier_wait(&barrier, i % 2 ? MS : 0), -ETIMEDOUT);
			gate_open(&gates[i]);
			ck_assert_int_eq(result_of(&jobs[i]), 0);
		}
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
		must(rnl_barrier_wait(&barrier, 0));
	}

	must(rnl_barrier_init(&barrier, pool));
	gates[0] = (struct gate)GATE_INIT;
	submit_in(pool, &barrier, &jobs[0], gated_fn, &gates[0]);
	start = seconds_now();
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 20 * MS), -ETIMEDOUT);
	ck_assert_double_ge(seconds_now() - start, 0.020);
	gate_open(&gates[0]);
	must(rnl_barrier_wait(&barrier, INT64_MAX));
	rnl_pool_destroy(pool);
}

TEST(other_jobs_do_not_hold_a_barrier)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier, other;
	struct gate gate = GATE_INIT;
	struct rnl_job in_none, in_other, job;

	must(rnl_barrier_init(&barrier, pool));
	must(rnl_barrier_init(&other, pool));
	hold_workers(pool, &gate, &in_none, 1);
	job_in(&other, &in_other, gated_fn, &gate);
	submit_in(pool, &barrier, &job, noop_fn, NULL);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	must(rnl_submit(pool, &in_other));
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ck_assert_int_eq(rnl_barrier_wait(&other, 0), -ETIMEDOUT);
	gate_open(&gate);
	must(rnl_barrier_wait(&other, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

/*
 * A worker completes several jobs together. It must notify the barrier before it starts another
 * job.
 */
TEST(a_barrier_is_notified_before_its_worker_does_something_else)
{
	enum { NR = 5 };
	struct rnl_pool *pool = pool_of(1);

	skip_unless_done_on_return();
	for (int variant = 0; variant < 3; variant++) {
		struct rnl_barrier barrier, other;
		struct gate first = GATE_INIT, last = GATE_INIT;
		struct rnl_job plug, jobs[NR], next;

		must(rnl_barrier_init(&barrier, pool));
		must(rnl_barrier_init(&other, pool));
		hold_workers(pool, &first, &plug, 1);
		for (int i = 0; i < NR; i++) {
			submit_in(pool, &barrier, &jobs[i], result_fn,
				  (void *)(intptr_t)(i == 2 ? -EBADF : 0));
		}
		job_of(&next, gated_fn, &last);
		if (variant)
			must(rnl_barrier_add(&other, &next));
		if (variant < 2)
			must(rnl_submit(pool, &next));
		gate_open(&first);
		ck_assert_int_eq(result_of_barrier(&barrier), -EBADF);
		gate_open(&last);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	rnl_pool_destroy(pool);
}

TEST(a_barrier_serves_round_after_round)
{
	enum { NR = 20 };
	int rounds = (int)(1000 / test_scale());
	struct rnl_pool *pool = pool_of(3);
	struct rnl_barrier barrier;
	struct rnl_job jobs[NR], *list[NR];

	must(rnl_barrier_init(&barrier, pool));
	for (int i = 0; i < NR; i++) {
		job_in(&barrier, &jobs[i], result_fn, (void *)(intptr_t)i);
		list[i] = &jobs[i];
	}
	for (int round = 0; round < rounds; round++) {
		unsigned nr = (unsigned)round % NR + 1;

		ck_assert_int_eq(rnl_submit_many(pool, list, nr), (int)nr);
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
		for (unsigned i = 0; i < nr; i++)
			ck_assert_int_eq(jobs[i].result, (int)i);
	}
	ck_assert_int_eq(barrier.result, 0);
	rnl_pool_destroy(pool);
}

struct waiter {
	struct rnl_barrier *barrier;
	const int *written;
	struct gate *start;
};

/* Returns the sum of the written values, or an error. */
static int wait_and_add(void *arg)
{
	struct waiter *w = arg;
	int ret;

	gate_wait(w->start);
	ret = rnl_barrier_wait(w->barrier, RNL_FOREVER);
	return ret ? ret : w->written[0] + w->written[1];
}

struct writing {
	struct rnl_job job;
	struct gate *gate;
	int *word;
};

static int writing_fn(struct rnl_job *job)
{
	struct writing *w = rnl_container_of(job, struct writing, job);

	gate_wait(w->gate);
	*w->word = 21;
	return 0;
}

TEST(several_threads_wait_on_one_barrier)
{
	enum { NR = 5 };
	struct rnl_pool *pool = pool_of(2);

	for (int round = 0; round < 100; round++) {
		struct gate gate = GATE_INIT, start = GATE_INIT;
		struct rnl_barrier barrier;
		struct writing writing[2];
		struct waiter waiters[NR];
		struct call calls[NR];
		int words[2] = { 0, 0 };

		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < 2; i++) {
			writing[i] = (struct writing){ .gate = &gate, .word = &words[i] };
			submit_in(pool, &barrier, &writing[i].job, writing_fn, NULL);
		}
		for (int i = 0; i < NR; i++) {
			waiters[i] = (struct waiter){ &barrier, words, &start };
			call_start(&calls[i], wait_and_add, &waiters[i]);
		}
		gate_await(&start, NR);
		gate_open(&start);
		gate_open(&gate);
		for (int i = 0; i < NR; i++)
			ck_assert_int_eq(call_end(&calls[i]), 42);
	}
	rnl_pool_destroy(pool);
}

TEST(a_barrier_has_the_result_of_the_first_job_that_failed)
{
	struct rnl_pool *pool = pool_of(2);
	static const int results[] = { 0, 5, -EPROTO, 0, -ENOSPC, 7, -EPROTO };
	struct rnl_barrier barrier;
	struct rnl_job job;

	must(rnl_barrier_init(&barrier, pool));
	for (unsigned i = 0; i < COUNT(results); i++) {
		submit_in(pool, &barrier, &job, result_fn, (void *)(intptr_t)results[i]);
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
		ck_assert_int_eq(job.result, results[i]);
		ck_assert_int_eq(barrier.result, i < 2 ? 0 : -EPROTO);
	}
	must(rnl_barrier_init(&barrier, pool));
	ck_assert_int_eq(barrier.result, 0);
	rnl_pool_destroy(pool);
}

TEST(the_memory_of_a_barrier_and_its_jobs_is_the_callers_after_a_wait)
{
	enum { JOBS = 3 };
	int nr = (int)(4000 / test_scale());
	struct rnl_pool *pool = pool_of(2);
	struct {
		struct rnl_barrier barrier;
		struct rnl_job jobs[JOBS];
	} *all;
	void *mem;

	must(rnl_memory_get(pool, 0, 2 * 64, &mem, 0));
	for (int i = 0; i < nr; i++) {
		all = malloc(sizeof(*all));
		must(rnl_barrier_init(&all->barrier, pool));
		for (int k = 0; k < JOBS; k++) {
			submit_in(pool, &all->barrier, &all->jobs[k],
				  i % 2 ? noop_fn : fill_own_fn, mem);
		}
		must(rnl_barrier_wait(&all->barrier, RNL_FOREVER));
		memset(all, 0xa5, sizeof(*all));
		free(all);
	}
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

TEST(the_memory_of_a_barrier_is_the_callers_after_a_drain)
{
	int nr = (int)(4000 / test_scale());
	struct rnl_pool *pool = pool_of(2);
	struct rnl_job jobs[3];

	for (int i = 0; i < nr; i++) {
		struct rnl_barrier *barrier = malloc(sizeof(*barrier));

		must(rnl_barrier_init(barrier, pool));
		for (int k = 0; k < 3; k++)
			submit_in(pool, barrier, &jobs[k], noop_fn, NULL);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		memset(barrier, 0xa5, sizeof(*barrier));
		free(barrier);
	}
	rnl_pool_destroy(pool);
}

TEST(the_memory_of_a_barrier_is_the_callers_after_a_later_job)
{
	int nr = (int)(4000 / test_scale());
	struct rnl_pool *pool = pool_of(2);

	for (int i = 0; i < nr; i++) {
		struct rnl_barrier *barrier = malloc(sizeof(*barrier));
		struct rnl_job *before = malloc(sizeof(*before)), *after = malloc(sizeof(*after));

		must(rnl_barrier_init(barrier, pool));
		job_in(barrier, before, noop_fn, NULL);
		job_of(after, noop_fn, NULL);
		must(rnl_job_set_after(after, barrier));
		must(rnl_submit(pool, before));
		must(rnl_submit(pool, after));
		must(rnl_job_wait(after, RNL_FOREVER));
		free(after);
		spin_until(!rnl_barrier_wait(barrier, 0));
		free(barrier);
		free(before);
	}
	rnl_pool_destroy(pool);
}

TEST(a_refused_submit_does_not_count)
{
	struct rnl_pool *pool = pool_of(1, .max_queued = 1);
	struct rnl_barrier barrier, busy;
	struct gate gate = GATE_INIT;
	struct rnl_job held, queued, deferred, job, *list[1] = { &job };

	must(rnl_barrier_init(&barrier, pool));
	must(rnl_barrier_init(&busy, pool));
	submit_in(pool, &busy, &held, gated_fn, &gate);
	gate_await(&gate, 1);
	/* Deferred jobs have a limit of their own, but a full queue refuses them, too. */
	job_of(&deferred, noop_fn, NULL);
	must(rnl_job_set_after(&deferred, &busy));
	must(rnl_submit(pool, &deferred));
	submit_job(pool, &queued, noop_fn, NULL);

	job_in(&barrier, &job, noop_fn, NULL);
	for (int after = 0; after < 3; after++) {
		struct rnl_barrier empty, *const barriers[] = { NULL, &busy, &empty };

		must(rnl_barrier_init(&empty, pool));
		must(rnl_job_set_after(&job, barriers[after]));
		ck_assert_int_eq(rnl_submit(pool, &job), -EAGAIN);
		ck_assert_int_eq(submit_by_key(pool, &job, 1), -EAGAIN);
		ck_assert_int_eq(rnl_submit_many(pool, list, 1), -EAGAIN);
		must(rnl_barrier_wait(&barrier, 0));
		must(rnl_barrier_join(&barrier));
	}
	must(rnl_job_set_after(&job, NULL));
	rnl_pool_close(pool);
	ck_assert_int_eq(rnl_submit(pool, &job), -ESHUTDOWN);
	must(rnl_job_set_after(&job, &busy));
	ck_assert_int_eq(rnl_submit(pool, &job), -ESHUTDOWN);
	must(rnl_barrier_wait(&barrier, 0));
	gate_open(&gate);
	ck_assert_int_eq(result_of(&deferred), 0);
	rnl_pool_destroy(pool);
}

TEST(a_job_moves_from_barrier_to_barrier)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_barrier first, second;
	struct gate gate = GATE_INIT;
	struct rnl_job job;

	must(rnl_barrier_init(&first, pool));
	must(rnl_barrier_init(&second, pool));
	job_in(&first, &job, gated_fn, &gate);
	must(rnl_barrier_add(&second, &job));
	must(rnl_submit(pool, &job));
	must(rnl_barrier_wait(&first, 0));
	ck_assert_int_eq(rnl_barrier_wait(&second, 0), -ETIMEDOUT);
	ck_assert_int_eq(rnl_barrier_add(&first, &job), -EBUSY);
	gate_open(&gate);
	must(rnl_barrier_wait(&second, RNL_FOREVER));
	rnl_pool_destroy(pool);
}
