/* SPDX-License-Identifier: MIT */
/* Jobs: every way to submit a job, and all calls about a job. */
#include <runnel/guard.h>
#include <runnel/more.h>
#include <runnel/replay.h>

#include "fake_cudart/fake_cudart.h"
#include "countdown.h"
#include "pool.h"

static struct gate gate = GATE_INIT;

/* Drains, because the jobs' own calls may fail, too. */
static int drained(struct rnl_pool *pool, int ret)
{
	expect(!rnl_pool_drain(pool, RNL_FOREVER));
	return ret;
}

/* ---- submits ---------------------------------------------------------------- */

static int submit(struct rnl_pool **pool)
{
	struct watched *w;
	int ret = 0;

	for (unsigned i = 0; i < 2 && !ret; i++) {
		w = watched_next(i ? BY_WAIT : BY_CALLBACK);
		ret = watched_submitted(w, rnl_submit(*pool, &w->job));
	}
	return drained(*pool, ret);
}

static int submit_keyed(struct rnl_pool **pool)
{
	struct watched *w;
	int ret = 0;

	for (unsigned i = 0; i < 2 && !ret; i++) {
		w = watched_next(BY_CALLBACK);
		ret = watched_submitted(w, submit_by_key(*pool, &w->job, 5));
	}
	return drained(*pool, ret);
}

/* The first jobs fill the pool, so later jobs wait. */
static void room_for_one(struct rnl_pool_attr *attr)
{
	attr->max_queued = 1;
}

static int submit_wait(struct rnl_pool **pool)
{
	struct watched *w;
	int ret = 0;

	for (unsigned i = 0; i < 4 && !ret; i++) {
		w = watched_next(BY_CALLBACK);
		ret = watched_submitted(w, rnl_submit_wait(*pool, &w->job, RNL_FOREVER));
	}
	return drained(*pool, ret);
}

static int submit_keyed_wait(struct rnl_pool **pool)
{
	struct watched *w;
	int ret = 0;

	for (unsigned i = 0; i < 4 && !ret; i++) {
		w = watched_next(BY_CALLBACK);
		ret = watched_submitted(w, submit_by_key_wait(*pool, &w->job, 5,
								 RNL_FOREVER));
	}
	return drained(*pool, ret);
}

static int submit_notice(struct rnl_pool **pool)
{
	struct watched *w = watched_next(BY_CALLBACK);
	int ret;

	watched_more(w)->when = RNL_SPACE;
	ret = watched_submitted(w, rnl_submit(*pool, &w->job));
	if (!ret)
		expect(!rnl_job_wait(&w->job, RNL_FOREVER));
	return drained(*pool, ret);
}

static int submit_at_times(struct rnl_pool **pool)
{
	struct watched *w = watched_next(BY_CALLBACK);
	int ret;

	watched_more(w)->start_ns = rnl_clock();
	ret = watched_submitted(w, rnl_submit(*pool, &w->job));
	if (!ret)
		expect(!rnl_job_wait(&w->job, RNL_FOREVER));
	w = watched_next(BY_WAIT);
	watched_more(w)->start_ns = 0;
	if (!ret)
		ret = watched_submitted(w, submit_by_key(*pool, &w->job, 5));
	if (!ret)
		expect(!rnl_job_wait(&w->job, RNL_FOREVER));
	return drained(*pool, ret);
}

static int submit_all(struct rnl_pool **pool, bool gather)
{
	struct watched *all[NR_WATCHED];
	struct rnl_job *jobs[NR_WATCHED];
	int ret;

	for (unsigned i = 0; i < NR_WATCHED; i++) {
		all[i] = watched_next(i % 2 ? BY_WAIT : BY_CALLBACK);
		jobs[i] = &all[i]->job;
		expect(!rnl_job_set_flags(jobs[i], gather ? RNL_GATHER : 0));
	}
	ret = rnl_submit_many(*pool, jobs, NR_WATCHED);
	for (int i = 0; i < NR_WATCHED; i++)
		watched_submitted(all[i], i < ret ? 0 : -EAGAIN);
	expect(ret < 0 || ret == NR_WATCHED || fault_lasts());
	return drained(*pool, ret);
}

static int submit_many(struct rnl_pool **pool)
{
	return submit_all(pool, false);
}

static int submit_gathered(struct rnl_pool **pool)
{
	return submit_all(pool, true);
}

static void urgent(struct rnl_pool_attr *attr)
{
	attr->nr_urgent = 1;
}

static int submit_urgent(struct rnl_pool **pool)
{
	struct watched *w = watched_next(BY_CALLBACK);
	int ret = rnl_job_set_flags(&w->job, RNL_URGENT);

	if (!ret)
		ret = watched_submitted(w, rnl_submit(*pool, &w->job));
	return drained(*pool, ret);
}

/* Two jobs of an unknown function are enough for that time, so they are a group. */
static void groups_of_two(struct rnl_pool_attr *attr)
{
	attr->in_flight_ns = 100000;
}

static void private_streams(struct rnl_pool_attr *attr)
{
	attr->stream = RNL_STREAM_PRIVATE;
}

#pragma weak fake_plan

/* The process has not used the device yet, so the plan takes effect. */
static void without_words(struct rnl_pool_attr *attr)
{
	attr->nr_workers = 2;
	if (test_fake())
		expect(!fake_plan("nowrite"));
}

static void guarded(struct rnl_pool_attr *attr)
{
	attr->guard = RNL_GUARD_REPORT;
}

static void guarded_private(struct rnl_pool_attr *attr)
{
	attr->guard = RNL_GUARD_REPORT;
	attr->stream = RNL_STREAM_PRIVATE;
}

/* ---- calls about a job -------------------------------------------------------- */

static int describe(struct rnl_pool **pool)
{
	struct watched *w = watched_with(BY_WAIT, noop_fn);
	struct rnl_barrier barrier;
	int ret = rnl_barrier_init(&barrier, *pool);

	if (!ret)
		ret = rnl_job_init(&w->job, noop_fn);
	if (!ret)
		ret = rnl_job_set_after(&w->job, &barrier);
	if (!ret)
		ret = rnl_job_set_after(&w->job, NULL);
	if (!ret)
		ret = rnl_job_set_on_done(&w->job, NULL);
	if (!ret)
		ret = rnl_job_set_cq(&w->job, NULL);
	if (!ret)
		ret = rnl_job_set_deadline(&w->job, 1000 * MS);
	return ret ? ret : rnl_job_set_flags(&w->job, 0);
}

static int ask(struct rnl_pool **pool)
{
	struct watched *w = watched_next(BY_WAIT);
	int ret = watched_submitted(w, rnl_submit(*pool, &w->job)), result;

	if (!ret)
		ret = rnl_job_wait(&w->job, RNL_FOREVER);
	if (!ret)
		ret = !rnl_job_wait(&w->job, 0) ? 0 : -EPROTO;
	if (ret)
		return drained(*pool, ret);
	result = w->job.result;
	/* CUDA's error code belongs to a failed job only. */
	expect(result || !w->job.device_error);
	return drained(*pool, 0);
}

static int held_fn(struct rnl_job *job)
{
	rnl_container_of(job, struct watched, job)->ran++;
	gate_wait(&gate);
	return 0;
}

/* One job holds the only worker, so later jobs are queued. */
static void hold(struct rnl_pool *pool)
{
	struct watched *w = watched_with(BY_WAIT, held_fn);

	expect(!watched_submitted(w, rnl_submit(pool, &w->job)));
	expect(gate_came(&gate, 1));
}

static int cancel(struct rnl_pool **pool)
{
	struct watched *all[2];
	int ret = 0;

	for (unsigned i = 0; i < 2 && !ret; i++) {
		all[i] = watched_next(BY_CALLBACK);
		all[i]->late = i;
		ret = watched_submitted(all[i], rnl_submit(*pool, &all[i]->job));
	}
	if (!ret)
		ret = rnl_job_cancel(&all[1]->job);
	/* 0 if the timer thread has already completed it. */
	if (!ret)
		expect(rnl_job_is_cancelled(&all[1]->job) >= 0);
	gate_open(&gate);
	return drained(*pool, ret);
}

static int cancel_all(struct rnl_pool **pool)
{
	struct watched *w = watched_next(BY_CALLBACK);
	int ret;

	w->late = 1;
	ret = watched_submitted(w, rnl_submit(*pool, &w->job));
	if (!ret)
		expect(rnl_pool_cancel(*pool) == 1);
	gate_open(&gate);
	return drained(*pool, ret);
}

static int stop(struct rnl_pool **pool)
{
	struct watched *w = watched_next(BY_CALLBACK);
	int ret;

	w->late = 1;
	ret = watched_submitted(w, rnl_submit(*pool, &w->job));
	expect(rnl_pool_stop(*pool, 0) == -ETIMEDOUT);
	gate_open(&gate);
	expect(!rnl_pool_stop(*pool, RNL_FOREVER));
	return ret;
}

static int after_barrier(struct rnl_pool **pool)
{
	struct rnl_barrier barriers[2];
	int ret = 0;

	for (unsigned i = 0; i < 2 && !ret; i++)
		ret = rnl_barrier_init(&barriers[i], *pool);
	for (unsigned i = 0; i < 4 && !ret; i++) {
		struct watched *w = watched_next(BY_CALLBACK);

		w->late = i >= 2;
		ret = rnl_barrier_add(&barriers[i / 2], &w->job);
		if (!ret && i >= 2)
			ret = rnl_job_set_after(&w->job, &barriers[0]);
		if (!ret)
			ret = watched_submitted(w, rnl_submit(*pool, &w->job));
	}
	/* The jobs continue meanwhile. */
	for (unsigned i = 0; i < 2; i++)
		expect(!rnl_barrier_wait(&barriers[i], RNL_FOREVER));
	return drained(*pool, ret);
}

/*
 * A submit of the first job accepts all jobs that are chained after it, or refuses all.  Jobs of a
 * barrier are marked on the stream one by one, and may end there.
 */
static int chain(struct rnl_pool **pool)
{
	static struct rnl_barrier barrier;
	struct watched *all[3];
	int ret = rnl_barrier_init(&barrier, *pool);

	expect(!ret);
	for (unsigned i = 0; i < 3; i++) {
		all[i] = watched_next(i == 1 ? BY_WAIT : BY_CALLBACK);
		all[i]->late = i;
		expect(!rnl_barrier_add(&barrier, &all[i]->job));
		if (i)
			expect(!rnl_job_set_then(&all[i - 1]->job, &all[i]->job));
	}
	ret = rnl_submit(*pool, &all[0]->job);
	for (unsigned i = 0; i < 3; i++)
		watched_submitted(all[i], ret);
	return drained(*pool, ret);
}

static void two_workers(struct rnl_pool_attr *attr)
{
	attr->nr_workers = 2;
}

const struct operation job_operations[] = {
	{ .name = "rnl_submit", .functions = "rnl_submit", .run = submit, .errnos = { -EIO } },
	{ .name = "rnl_submit, private streams", .functions = "rnl_submit",
	  .attr = private_streams, .run = submit, .errnos = { -EIO } },
	{ .name = "rnl_submit, guarded", .functions = "rnl_submit", .attr = guarded,
	  .run = submit, .errnos = { -EIO } },
	{ .name = "rnl_submit, guarded, private streams", .functions = "rnl_submit",
	  .attr = guarded_private, .run = submit, .errnos = { -EIO } },
	{ .name = "rnl_submit, after a barrier", .functions = "rnl_submit rnl_job_set_after",
	  .attr = two_workers, .run = after_barrier, .errnos = { -EIO } },
	{ .name = "rnl_submit, where streams write no words", .functions = "rnl_submit",
	  .first = true, .attr = without_words, .run = submit, .errnos = { -EIO } },
	{ .name = "rnl_submit, after a barrier, no words", .functions = "rnl_submit",
	  .first = true, .attr = without_words, .run = after_barrier, .errnos = { -EIO } },
	{ .name = "rnl_submit, of a chain", .functions = "rnl_submit rnl_job_set_then",
	  .attr = two_workers, .run = chain, .errnos = { -EIO } },
	{ .name = "rnl_submit, by a key", .functions = "rnl_submit rnl_job_set_key", .attr = two_workers,
	  .run = submit_keyed, .errnos = { -EIO } },
	{ .name = "rnl_submit_wait", .functions = "rnl_submit_wait", .attr = room_for_one,
	  .run = submit_wait, .errnos = { -EIO } },
	{ .name = "rnl_submit_wait, by a key", .functions = "rnl_submit_wait rnl_job_set_key",
	  .attr = room_for_one, .run = submit_keyed_wait, .errnos = { -EIO } },
	{ .name = "rnl_submit, of a notice", .functions = "rnl_submit rnl_job_set_more", .run = submit_notice,
	  .errnos = { -EIO } },
	{ .name = "rnl_submit, at a time, rnl_clock",
	  .functions = "rnl_job_set_more rnl_job_set_key rnl_submit rnl_clock", .run = submit_at_times,
	  .errnos = { -EIO } },
	{ .name = "rnl_submit_many", .functions = "rnl_submit_many", .attr = two_workers,
	  .run = submit_many, .errnos = { -EIO } },
	{ .name = "rnl_job_set_flags, gathered", .functions = "rnl_job_set_flags", .attr = groups_of_two,
	  .run = submit_gathered, .errnos = { -EIO } },
	{ .name = "rnl_job_set_flags", .functions = "rnl_job_set_flags", .attr = urgent,
	  .run = submit_urgent, .errnos = { -EIO } },
	{ .name = "rnl_job_init, _after, _on_done, _cq, _deadline",
	  .functions = "rnl_job_init rnl_job_set_after rnl_job_set_on_done rnl_job_set_cq rnl_job_set_deadline",
	  .run = describe },
	{ .name = "rnl_job_wait",
	  .functions = "rnl_job_wait",
	  .run = ask, .errnos = { -EIO } },
	{ .name = "rnl_job_cancel, _is_cancelled",
	  .functions = "rnl_job_cancel rnl_job_is_cancelled", .before = hold, .run = cancel,
	  .errnos = { -EIO } },
	{ .name = "rnl_pool_stop", .functions = "rnl_pool_stop", .closes = true,
	  .before = hold, .run = stop, .errnos = { -EIO } },
	{ .name = "rnl_pool_cancel", .functions = "rnl_pool_cancel", .before = hold,
	  .run = cancel_all, .errnos = { -EIO } },
	{ 0 }
};
