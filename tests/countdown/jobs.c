/* SPDX-License-Identifier: MIT */
/* Jobs: every way to submit a job, and all calls about a job. */
#include <runnel/guard.h>
#include <runnel/more.h>
#include <runnel/replay.h>

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

/* Submits @nr jobs by that expression, each as @w, until one is refused. */
#define SUBMITS(name, nr, submits) \
	static int name(struct rnl_pool **pool) \
	{ \
		int ret = 0; \
\
		for (unsigned i = 0; i < (nr) && !ret; i++) { \
			struct watched *w = watched_next(i % 2 ? BY_WAIT : BY_CALLBACK); \
\
			ret = watched_submitted(w, submits); \
		} \
		return drained(*pool, ret); \
	}

SUBMITS(submit, 2, rnl_submit(*pool, &w->job))
SUBMITS(submit_keyed, 2, submit_by_key(*pool, &w->job, 5))
/* The first jobs fill a pool with space for one, so later jobs wait. */
SUBMITS(submit_wait, 4, rnl_submit_wait(*pool, &w->job, RNL_FOREVER))
SUBMITS(submit_keyed_wait, 4, submit_by_key_wait(*pool, &w->job, 5, RNL_FOREVER))

static int submit_notice(struct rnl_pool **pool)
{
	struct watched *w = watched_next(BY_CALLBACK);
	uint8_t id[16];
	int ret;

	watched_more(w)->when = RNL_SPACE;
	ret = watched_submitted(w, rnl_submit(*pool, &w->job));
	if (!ret)
		expect(!rnl_job_wait(&w->job, RNL_FOREVER) && !rnl_job_trace_id(&w->job, id));
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

/* ---- calls about a job -------------------------------------------------------- */

static int describe(struct rnl_pool **pool)
{
	struct rnl_job *job = &watched_with(BY_WAIT, noop_fn)->job;
	struct rnl_barrier barrier;

	expect(!rnl_barrier_init(&barrier, *pool));
	expect(!rnl_job_init(job, noop_fn) && !rnl_job_set_flags(job, 0));
	expect(!rnl_job_set_after(job, &barrier) && !rnl_job_set_after(job, NULL));
	expect(!rnl_job_set_on_done(job, NULL) && !rnl_job_set_cq(job, NULL));
	expect(!rnl_job_set_deadline(job, 1000 * MS));
	return 0;
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

/* A failed device refuses its submits. */
#define JOB(says, ...) { .name = says, .errnos = { -EIO }, __VA_ARGS__ }

const struct operation job_operations[] = {
	JOB("rnl_submit", .run = submit),
	JOB("rnl_submit, private streams", .attr = { .stream = RNL_STREAM_PRIVATE }, .run = submit),
	JOB("rnl_submit, guarded", .attr = { .guard = RNL_GUARD_REPORT }, .run = submit),
	JOB("rnl_submit, guarded, private streams",
	    .attr = { .guard = RNL_GUARD_REPORT, .stream = RNL_STREAM_PRIVATE }, .run = submit),
	JOB("rnl_submit, rnl_job_set_after", .attr = TWO_WORKERS, .run = after_barrier),
	JOB("rnl_submit, where streams write no words", .first = true, .plan = "nowrite",
	    .attr = TWO_WORKERS, .run = submit),
	JOB("rnl_submit, rnl_job_set_after, no words", .first = true, .plan = "nowrite",
	    .attr = TWO_WORKERS, .run = after_barrier),
	JOB("rnl_submit, rnl_job_set_then", .attr = TWO_WORKERS, .run = chain),
	JOB("rnl_submit, rnl_job_set_key", .attr = TWO_WORKERS, .run = submit_keyed),
	JOB("rnl_submit_wait", .attr = { .max_queued = 1 }, .run = submit_wait),
	JOB("rnl_submit_wait, rnl_job_set_key", .attr = { .max_queued = 1 },
	    .run = submit_keyed_wait),
	JOB("rnl_submit, rnl_job_set_more, rnl_job_trace_id, a notice", .run = submit_notice),
	JOB("rnl_submit, rnl_job_set_more, at a time", .functions = "rnl_job_set_key rnl_clock",
	    .run = submit_at_times),
	JOB("rnl_submit_many", .attr = TWO_WORKERS, .run = submit_many),
	/* Two jobs of an unknown function are enough for that time, so they are a group. */
	JOB("rnl_job_set_flags, gathered", .attr = { .in_flight_ns = 100000 },
	    .run = submit_gathered),
	{ .name = "rnl_job_init, rnl_job_set_...", .run = describe,
	  .functions = "rnl_job_set_after rnl_job_set_on_done rnl_job_set_cq rnl_job_set_deadline" },
	JOB("rnl_job_wait", .run = ask),
	JOB("rnl_job_cancel, rnl_job_is_cancelled", .before = hold, .run = cancel),
	JOB("rnl_pool_stop", .closes = true, .before = hold, .run = stop),
	JOB("rnl_pool_cancel", .before = hold, .run = cancel_all),
	{ 0 }
};
