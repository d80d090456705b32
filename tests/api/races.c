/* SPDX-License-Identifier: MIT */
/* Races between calls in which the library once had errors. */
#include <runnel/stats.h>

#include "cq.h"

/* ---- a job after a barrier belongs to its owner once it is done ---------- */

struct reaper {
	struct rnl_cq *cq;
	int nr;
	int not_done;		/* jobs that were not done when they were reaped */
};

static int reap_and_free(void *arg)
{
	struct reaper *r = arg;

	for (int got = 0; got < r->nr;) {
		struct rnl_job *jobs[16];
		int ret = rnl_cq_reap(r->cq, jobs, 16, patience_ns());

		if (ret < 0)
			return ret;
		got += ret;
		for (int i = 0; i < ret; i++) {
			r->not_done += rnl_job_wait(jobs[i], 0) || jobs[i]->result;
			free(jobs[i]);
		}
	}
	return 0;
}

static _Atomic int nr_called, nr_busy;

static void look_and_free(struct rnl_job *job)
{
	nr_busy += rnl_job_wait(job, 0) != 0;
	free(job);
	nr_called++;
}

TEST(a_job_after_a_barrier_is_its_owners_at_once, .timeout_s = 60)
{
	enum { ROUNDS = 4 };
	int nr = (int)rounds_of(20000);
	struct rnl_pool *pool = pool_of(2);
	struct reaper reaper = { .cq = cq_of(), .nr = ROUNDS * nr / 2 };
	struct call call;

	call_start(&call, reap_and_free, &reaper);
	for (int round = 0; round < ROUNDS; round++) {
		struct rnl_barrier *barrier = malloc(sizeof(*barrier));
		struct rnl_job *before = malloc(sizeof(*before));

		must(rnl_barrier_init(barrier, pool));
		for (int i = 0; i < nr; i++) {
			struct rnl_job *job = malloc(sizeof(*job));
			int ret;

			/* In every eighth round the barrier has a job to wait for. */
			if (i % 8 == 0) {
				must(rnl_barrier_wait(barrier, RNL_FOREVER));
				job_in(barrier, before, noop_fn, NULL);
				must(rnl_submit_wait(pool, before, RNL_FOREVER));
			}
			job_of(job, noop_fn, NULL);
			must(rnl_job_set_after(job, barrier));
			if (i % 2)
				must(rnl_job_set_cq(job, reaper.cq));
			else
				must(rnl_job_set_on_done(job, look_and_free));
			ret = rnl_submit_wait(pool, job, RNL_FOREVER);
			ck_assert_int_eq(ret, 0);
		}
		must(rnl_barrier_wait(barrier, RNL_FOREVER));
		must(rnl_pool_drain(pool, RNL_FOREVER));
		free(before);
		free(barrier);
	}
	ck_assert_int_eq(call_end(&call), 0);
	ck_assert_int_eq(reaper.not_done, 0);
	ck_assert_int_eq(nr_called, ROUNDS * nr / 2);
	ck_assert_int_eq(nr_busy, 0);
	rnl_pool_destroy(pool);
	rnl_cq_destroy(reaper.cq);
}

/* ---- resizes ------------------------------------------------------------- */

static int shrink_fn(void *pool)
{
	return rnl_pool_resize(pool, 1);
}

struct held {
	struct rnl_job job;
	struct gate gate;
	int worker;
};

static int held_fn(struct rnl_job *job)
{
	struct held *h = rnl_container_of(job, struct held, job);

	h->worker = rnl_worker().index;
	gate_wait(&h->gate);
	return 0;
}

TEST(a_drain_hears_of_the_last_job_from_a_worker_that_leaves, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct held held[2] = { { .gate = GATE_INIT }, { .gate = GATE_INIT } };
	struct call shrink, drain;
	int last;

	for (int i = 0; i < 2; i++) {
		submit_job(pool, &held[i].job, held_fn, NULL);
		gate_await(&held[i].gate, 1);
	}
	last = held[1].worker == 1;
	call_start(&shrink, shrink_fn, pool);
	ck_waits(shrink.tid);
	call_start(&drain, drain_fn, pool);
	ck_waits(drain.tid);
	gate_open(&held[!last].gate);
	ck_assert_int_eq(result_of(&held[!last].job), 0);
	ck_waits(drain.tid);
	/* The last job is on the worker that leaves. */
	gate_open(&held[last].gate);
	ck_eventually(drain.returned);
	ck_assert_int_eq(call_end(&drain), 0);
	ck_assert_int_eq(call_end(&shrink), 0);
	rnl_pool_destroy(pool);
}

static _Atomic bool refuse_to_start;

static int start_fn(void *arg, unsigned worker, void **datap)
{
	(void)arg;
	(void)datap;
	return worker >= 2 && refuse_to_start ? -ENOSPC : 0;
}

TEST(what_a_pool_could_not_grow_to_leaves_its_counts_right, .timeout_s = 60)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct gate gate = GATE_INIT;
	struct rnl_job held, jobs[50];
	struct rnl_pool *pool = pool_of(1, .on_start = start_fn);


	refuse_to_start = true;
	hold_workers(pool, &gate, &held, 1);
	for (unsigned i = 0; i < COUNT(jobs); i++)
		submit_job(pool, &jobs[i], noop_fn, NULL);
	/* Worker 1 starts, and finds jobs that it could steal; worker 2 does not start. */
	ck_assert_int_eq(rnl_pool_resize(pool, 3), -ENOSPC);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
	ck_assert_uint_eq(stats.nr_workers, 1);
	ck_assert_uint_eq(stats.done, COUNT(jobs) + 1);
	ck_assert_uint_eq(stats.accepted, stats.done);
	refuse_to_start = false;
	must(rnl_pool_resize(pool, 3));
	must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
	ck_assert_uint_eq(stats.nr_workers, 3);
	rnl_pool_destroy(pool);
}

/* ---- waits for space ----------------------------------------------------- */

struct pusher {
	struct rnl_pool *pool;
	int nr;
};

static int push_fn(void *arg)
{
	struct pusher *p = arg;
	struct rnl_job jobs[8];

	for (unsigned i = 0; i < COUNT(jobs); i++)
		job_of(&jobs[i], noop_fn, NULL);
	for (int i = 0; i < p->nr; i++) {
		struct rnl_job *job = &jobs[i % (int)COUNT(jobs)];
		int ret;

		if (i >= (int)COUNT(jobs) && rnl_job_wait(job, RNL_FOREVER))
			return -EIO;
		ret = rnl_submit_wait(p->pool, job, patience_ns());
		if (ret)
			return ret;
	}
	for (unsigned i = 0; i < COUNT(jobs); i++)
		(void)rnl_job_wait(&jobs[i], RNL_FOREVER);
	return 0;
}

TEST(two_that_refuse_each_other_the_last_place_do_not_both_sleep, .timeout_s = 60)
{
	struct pusher pusher = { .nr = (int)rounds_of(100000) };
	struct call calls[3];

	pusher.pool = pool_of(1, .max_queued = 1);
	for (unsigned i = 0; i < COUNT(calls); i++)
		call_start(&calls[i], push_fn, &pusher);
	for (unsigned i = 0; i < COUNT(calls); i++)
		ck_assert_int_eq(call_end(&calls[i]), 0);
	rnl_pool_destroy(pusher.pool);
}

/* ---- figures ------------------------------------------------------------- */

static int look_at_health(void *arg)
{
	struct pusher *p = arg;

	for (int i = 0; i < p->nr; i++) {
		struct rnl_health health = RNL_HEALTH_INIT;
		int ret = rnl_pool_health(p->pool, &health);

		if (ret || health.state == RNL_HEALTH_STUCK || health.stuck_ms)
			return ret ? ret : 1 + (int)health.stuck_ms;
	}
	return 0;
}

TEST(a_worker_that_gets_on_is_never_called_stuck, .timeout_s = 60)
{
	struct pusher push = { .nr = (int)rounds_of(300000) };
	struct pusher look = { .nr = (int)rounds_of(1000000) };
	struct call pushes, looks;

	push.pool = look.pool = pool_of(1, .stuck_ms = 60000);
	call_start(&pushes, push_fn, &push);
	call_start(&looks, look_at_health, &look);
	ck_assert_int_eq(call_end(&looks), 0);
	ck_assert_int_eq(call_end(&pushes), 0);
	rnl_pool_destroy(push.pool);
}

TEST(each_pool_times_as_many_jobs_as_it_was_told_to, .timeout_s = 60)
{
	struct rnl_pool *seldom = pool_of(1, .time_every = 1000000);
	struct rnl_pool *always = pool_of(1, .time_every = 1);
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_job job;

	job_of(&job, noop_fn, NULL);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(submit_and_wait(i % 2 ? always : seldom, &job), 0);
	}
	must(rnl_pool_read_stats(always, RNL_ALL_WORKERS, &stats));
	ck_assert_uint_eq(stats.host.nr, 10);
	must(rnl_pool_read_stats(seldom, RNL_ALL_WORKERS, &stats));
	ck_assert_uint_le(stats.host.nr, 1);
	rnl_pool_destroy(always);
	rnl_pool_destroy(seldom);
}
