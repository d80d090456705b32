/* SPDX-License-Identifier: MIT */
/* Several threads wait for space in a full pool: each gets in when its job can use the space. */
#include "record.h"

struct pusher {
	struct rnl_pool *pool;
	struct rnl_job *jobs;
	int nr;
};

static int push_all(void *arg)
{
	struct pusher *p = arg;

	for (int i = 0; i < p->nr; i++) {
		int ret = i % 3 ? rnl_submit_wait(p->pool, &p->jobs[i], RNL_FOREVER) :
				  rnl_submit_keyed_wait(p->pool, &p->jobs[i], (uint64_t)i,
							RNL_FOREVER);

		if (ret)
			return ret;
	}
	return 0;
}

/* Threads that push @nr jobs each. The jobs count themselves in @ran. */
static void start_pushers(struct rnl_pool *pool, struct pusher *pushers, struct call *calls,
			  int nr_pushers, int nr, _Atomic int *ran)
{
	for (int p = 0; p < nr_pushers; p++) {
		pushers[p] = (struct pusher){ pool, calloc((size_t)nr, sizeof(struct rnl_job)), nr };
		for (int i = 0; i < nr; i++)
			job_of(&pushers[p].jobs[i], count_fn, ran);
		call_start(&calls[p], push_all, &pushers[p]);
	}
}

/* All threads got in, and all their jobs ran. */
static void end_pushers(struct pusher *pushers, struct call *calls, int nr_pushers,
			_Atomic int *ran)
{
	for (int p = 0; p < nr_pushers; p++)
		ck_assert_int_eq(call_end(&calls[p]), 0);
	must(rnl_pool_drain(pushers[0].pool, RNL_FOREVER));
	ck_assert_int_eq(*ran, nr_pushers * pushers[0].nr);
	for (int p = 0; p < nr_pushers; p++)
		free(pushers[p].jobs);
}

TEST(many_that_wait_all_get_in)
{
	enum { PUSHERS = 12 };
	int nr = (int)(1500 / test_scale());

	for (unsigned nr_workers = 1; nr_workers <= 3; nr_workers++) {
		struct pusher pushers[PUSHERS];
		struct call calls[PUSHERS];
		struct rnl_pool *pool = pool_of(nr_workers, .max_queued = 2);
		_Atomic int ran = 0;

		start_pushers(pool, pushers, calls, PUSHERS, nr, &ran);
		end_pushers(pushers, calls, PUSHERS, &ran);
		rnl_pool_destroy(pool);
	}
}

/* A waiter leaves a long full queue alone for a while. */
TEST(many_that_wait_for_a_long_queue_all_get_in)
{
	enum { PUSHERS = 4, MAX = 4096, NR = MAX + 1000 };
	struct pusher pushers[PUSHERS];
	struct call calls[PUSHERS];
	struct rnl_job held, late;
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool = pool_of(1, .max_queued = MAX);
	_Atomic int ran = 0;

	hold_workers(pool, &gate, &held, 1);
	start_pushers(pool, pushers, calls, PUSHERS, NR, &ran);
	for (int p = 0; p < PUSHERS; p++)
		ck_waits(calls[p].tid);
	/* Waits end in time. */
	job_of(&late, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit_wait(pool, &late, 1000), -ETIMEDOUT);
	gate_open(&gate);
	end_pushers(pushers, calls, PUSHERS, &ran);
	rnl_pool_destroy(pool);
}

TEST(a_keyed_submit_waits_for_room_at_the_worker_of_its_key)
{
	enum { EACH = 4 };
	struct rnl_pool *pool;
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct record record = { 0 };
	struct rnl_job held[2], other;
	struct noted noted[EACH + 1];
	struct submitting s = { .keyed = true, .timeout_ns = RNL_FOREVER };
	struct call call;
	uint64_t keys[2];

	s.pool = pool = pool_of(2, .max_queued = 2 * EACH);
	for (int i = 0; i < 2; i++)
		keys[i] = key_on(pool, i);
	for (int i = 0; i < 2; i++) {
		job_of(&held[i], gated_fn, &gates[i]);
		must(rnl_submit_keyed(pool, &held[i], keys[i]));
		gate_await(&gates[i], 1);
	}
	for (int i = 0; i <= EACH; i++)
		noted_of(&noted[i], &record, i);
	for (int i = 0; i < EACH; i++)
		must(rnl_submit_keyed(pool, &noted[i].job, keys[0]));
	s.job = &noted[EACH].job;
	s.key = keys[0];
	ck_assert_int_eq(rnl_submit_keyed_wait(pool, s.job, s.key, 10 * MS), -ETIMEDOUT);
	/* The other queue has space for other keys. */
	job_of(&other, noop_fn, NULL);
	must(rnl_submit_keyed_wait(pool, &other, keys[1], 0));
	call_start(&call, submit_waiting, &s);
	ck_waits(call.tid);
	gate_open(&gates[1]);
	ck_assert_int_eq(result_of(&other), 0);
	ck_assert(!call.returned);
	gate_open(&gates[0]);
	ck_assert_int_eq(call_end(&call), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i <= EACH; i++)
		ck_assert_int_eq(place_of(&record, i), i);
	rnl_pool_destroy(pool);
}

TEST(jobs_after_a_barrier_and_urgent_ones_wait_for_room_of_their_own)
{
	enum { MAX = 3, DEFERRED, URGENT, KINDS };

	for (int kind = DEFERRED; kind < KINDS; kind++) {
		struct rnl_pool *pool = pool_of(1, .max_queued = MAX, .nr_urgent = 1);
		struct gate gate = GATE_INIT;
		struct rnl_job held[2], jobs[MAX + 1], other;
		struct submitting s = { pool, &jobs[MAX], RNL_FOREVER, 0, false };
		struct rnl_barrier barrier;
		struct call call;

		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < 2; i++) {	/* one for the worker, one for the urgent worker */
			job_of(&held[i], gated_fn, &gate);
			must(rnl_job_urgent(&held[i], i));
			must(rnl_barrier_add(&barrier, &held[i]));
			must(rnl_submit(pool, &held[i]));
			gate_await(&gate, (unsigned)i + 1);
		}
		for (int i = 0; i <= MAX; i++) {
			job_of(&jobs[i], noop_fn, NULL);
			ck_assert_int_eq(kind == URGENT ? rnl_job_urgent(&jobs[i], 1) :
							  rnl_job_after(&jobs[i], &barrier), 0);
			ck_assert_int_eq(rnl_submit(pool, &jobs[i]), i < MAX ? 0 : -EAGAIN);
		}
		ck_assert_int_eq(rnl_submit_wait(pool, &jobs[MAX], 5 * MS), -ETIMEDOUT);
		/* Jobs of another kind have space. */
		submit_job(pool, &other, noop_fn, NULL);
		call_start(&call, submit_waiting, &s);
		ck_waits(call.tid);
		ck_assert(!call.returned);
		gate_open(&gate);
		ck_assert_int_eq(call_end(&call), 0);
		ck_assert_int_eq(result_of(&jobs[MAX]), 0);
		rnl_pool_destroy(pool);
	}
}

TEST(each_that_waits_is_told_of_the_room_that_it_can_use)
{
	enum { KEYED0, KEYED1, ANY, WAITERS };

	for (int first = 0; first < WAITERS; first++) {
		/* One place for each worker. */
		struct rnl_pool *pool = pool_of(2, .max_queued = 2);
		uint64_t keys[2] = { key_on(pool, 0), key_on(pool, 1) };
		struct gate gates[2] = { GATE_INIT, GATE_INIT };
		struct rnl_job held[2], queued[2], jobs[WAITERS];
		struct submitting s[WAITERS];
		struct call calls[WAITERS];

		for (int i = 0; i < 2; i++) {
			job_of(&held[i], gated_fn, &gates[i]);
			must(rnl_submit_keyed(pool, &held[i], keys[i]));
			gate_await(&gates[i], 1);
			job_of(&queued[i], noop_fn, NULL);
			must(rnl_submit_keyed(pool, &queued[i], keys[i]));
		}
		/* The threads fall asleep in three orders. In each the right one is woken. */
		for (int i = 0; i < WAITERS; i++) {
			int which = (first + i) % WAITERS;

			job_of(&jobs[which], noop_fn, NULL);
			s[which] = (struct submitting){ pool, &jobs[which], RNL_FOREVER,
							keys[which == KEYED1], which != ANY };
			call_start(&calls[which], submit_waiting, &s[which]);
			ck_waits(calls[which].tid);
		}
		gate_open(&gates[1]);
		ck_assert_int_eq(call_end(&calls[KEYED1]), 0);
		ck_assert_int_eq(call_end(&calls[ANY]), 0);
		ck_assert_int_eq(result_of(&jobs[KEYED1]), 0);
		ck_assert_int_eq(result_of(&jobs[ANY]), 0);
		ck_assert(!calls[KEYED0].returned);
		gate_open(&gates[0]);
		ck_assert_int_eq(call_end(&calls[KEYED0]), 0);
		ck_assert_int_eq(result_of(&jobs[KEYED0]), 0);
		rnl_pool_destroy(pool);
	}
}

static int resize_to_two(void *pool)
{
	return rnl_pool_resize(pool, 2);
}

TEST(a_worker_that_comes_is_room_for_those_that_wait)
{
	enum { MAX = 4, WAITERS = 2 };
	struct rnl_pool *pool;
	struct gate gate = GATE_INIT;
	struct rnl_job held, queued[MAX], jobs[WAITERS];
	struct submitting s[WAITERS];
	struct call calls[WAITERS], resize;
	uint64_t key;

	/* A key of the second worker. */
	pool = pool_of(2, .max_queued = MAX);
	key = key_on(pool, 1);
	must(rnl_pool_resize(pool, 1));
	hold_workers(pool, &gate, &held, 1);
	/* No worker can steal these, so only the new worker has space. */
	for (int i = 0; i < MAX; i++) {
		job_of(&queued[i], noop_fn, NULL);
		must(rnl_submit_keyed(pool, &queued[i], key + 1));
	}
	for (int i = 0; i < WAITERS; i++) {
		job_of(&jobs[i], index_fn, NULL);
		s[i] = (struct submitting){ pool, &jobs[i], RNL_FOREVER, key, i };
		call_start(&calls[i], submit_waiting, &s[i]);
		ck_waits(calls[i].tid);
	}
	call_start(&resize, resize_to_two, pool);
	for (int i = 0; i < WAITERS; i++) {
		ck_eventually(calls[i].returned);
		ck_assert_int_eq(call_end(&calls[i]), 0);
	}
	ck_assert_int_eq(result_of(&jobs[0]), 1);	/* the other may be behind older jobs */
	ck_assert_int_eq(rnl_job_test(&held), 0);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&resize), 0);
	ck_assert_int_eq(result_of(&jobs[1]), 1);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_its_barrier_lets_go_makes_room_for_another)
{
	enum { EACH = 3, DEFERRED = 2 * EACH };	/* of a worker; of the pool */
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job held[2], deferred[DEFERRED], job;
	struct rnl_barrier barriers[2];
	struct rnl_pool *pool;
	struct submitting s;
	struct call call;
	uint64_t keys[2];

	/* Each worker is in a job of its barrier; jobs after the barrier go to the first worker. */
	pool = pool_of(2, .max_queued = 2 * EACH);
	for (int i = 0; i < 2; i++)
		keys[i] = key_on(pool, i);
	for (int i = 0; i < 2; i++) {
		must(rnl_barrier_init(&barriers[i], pool));
		job_in(&barriers[i], &held[i], gated_fn, &gates[i]);
		must(rnl_submit_keyed(pool, &held[i], keys[i]));
		gate_await(&gates[i], 1);
	}
	for (int i = 0; i < DEFERRED; i++) {
		job_of(&deferred[i], noop_fn, NULL);
		must(rnl_job_after(&deferred[i], &barriers[i ? 0 : 1]));
		must(rnl_submit_keyed(pool, &deferred[i], keys[0]));
	}
	job_of(&job, noop_fn, NULL);
	must(rnl_job_after(&job, &barriers[0]));
	s = (struct submitting){ pool, &job, RNL_FOREVER, keys[0], 1 };
	call_start(&call, submit_waiting, &s);
	ck_waits(call.tid);
	ck_assert(!call.returned);
	/* A deferred job is queued with the first worker, so one submit goes on. */
	gate_open(&gates[1]);
	ck_eventually(call.returned);
	ck_assert_int_eq(call_end(&call), 0);
	ck_assert_int_eq(rnl_job_test(&held[0]), 0);
	gate_open(&gates[0]);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(rnl_job_result(&job), 0);
	rnl_pool_destroy(pool);
}
