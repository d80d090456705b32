/* SPDX-License-Identifier: MIT */
/* The counts of a barrier: unreported jobs are limited, and jobs beyond the range are refused. */
#include <runnel/map.h>

#include "pool.h"

#include "sys/atomic.h"

enum { CHAIN = 4000 };

static struct {
	struct rnl_barrier barrier;
	struct rnl_job jobs[CHAIN];
	_Atomic uint32_t most;
} chain;

static uint32_t nr_undone(const struct rnl_barrier *barrier)
{
	return (uint32_t)rnl__peek(rnl__atomic((uint64_t *)&barrier->open)) / 2;
}

/* Submits the next job of the barrier before this job ends. */
static int chain_fn(struct rnl_job *job)
{
	uint32_t undone = nr_undone(&chain.barrier);

	if (undone > chain.most)
		chain.most = undone;
	return job + 1 < &chain.jobs[CHAIN] ? rnl_submit(job->pool, job + 1) : 0;
}

TEST(a_barrier_is_told_though_its_jobs_never_end)
{
	struct rnl_pool *pool = pool_of(1);

	must(rnl_barrier_init(&chain.barrier, pool));
	for (int i = 0; i < CHAIN; i++)
		job_in(&chain.barrier, &chain.jobs[i], chain_fn, NULL);
	must(rnl_submit(pool, &chain.jobs[0]));
	must(rnl_barrier_wait(&chain.barrier, RNL_FOREVER));
	ck_assert_int_eq(chain.barrier.result, 0);
	ck_assert_uint_le(chain.most, 300);
	rnl_pool_destroy(pool);
}

static int nothing(const struct rnl_chunk *chunk)
{
	(void)chunk;
	return 0;
}

TEST(a_barrier_refuses_what_it_cannot_count)
{
	const uint64_t many = UINT64_C(1) << 24;
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job before, job, *jobs[1] = { &job };
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	char in[1];
	struct rnl_map map = { .size = sizeof(map), .fn = nothing, .nr = 1, .chunk = 1,
			       .in_bytes = 1, .in = in };

	hold_barrier(pool, &barrier, &gate, &before);
	/* As if that many more jobs were submitted. */
	atomic_fetch_add(rnl__atomic(&barrier.open), (many << 32) + many * 2);
	job_in(&barrier, &job, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &job), -EAGAIN);
	ck_assert_int_eq(submit_by_key(pool, &job, 1), -EAGAIN);
	ck_assert_int_eq(rnl_submit_many(pool, jobs, 1), -EAGAIN);
	ck_assert_int_eq(rnl_submit_wait(pool, &job, MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_map_start(pool, &map, &barrier), -EAGAIN);
	atomic_fetch_sub(rnl__atomic(&barrier.open), (many << 32) + many * 2);
	must(rnl_submit(pool, &job));
	gate_open(&gate);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_submit_waits_until_its_barrier_can_count_it)
{
	const uint64_t many = (UINT64_C(1) << 24) - 1;
	/* Short queues: the wait does not begin with a nap. */
	struct rnl_pool *pool = pool_of(2, .max_queued = 64);
	struct gate gate = GATE_INIT;
	struct submitting submitting;
	struct rnl_barrier barrier;
	struct rnl_job before, job;
	uint64_t keys[2];
	struct call call;

	for (int i = 0; i < 2; i++)
		keys[i] = key_on(pool, i);
	must(rnl_barrier_init(&barrier, pool));
	job_in(&barrier, &before, gated_fn, &gate);
	must(submit_by_key(pool, &before, keys[0]));
	gate_await(&gate, 1);
	/* As if that many more jobs were submitted, and held elsewhere. */
	atomic_fetch_add(rnl__atomic(&barrier.open), (many << 32) + many * 2);
	job_in(&barrier, &job, noop_fn, NULL);
	submitting = (struct submitting){ pool, &job, RNL_FOREVER, keys[1], true };
	call_start(&call, submit_waiting, &submitting);
	ck_waits(call.tid);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	ck_assert_int_eq(result_of(&job), 0);
	atomic_fetch_sub(rnl__atomic(&barrier.open), (many << 32) + many * 2);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	rnl_pool_destroy(pool);
}
