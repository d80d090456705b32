/* SPDX-License-Identifier: MIT */
/* Jobs that come after several barriers, set by struct rnl_job_more. */
#include <runnel/memory.h>
#include <runnel/more.h>

#include "asks.h"
#include "heard.h"
#include "host_kernel.h"
#include "pool.h"

#define NR 3

/* Barriers with one job each, and a job that comes after all of them. */
struct several {
	struct rnl_pool *pool;
	struct rnl_barrier barriers[NR];
	struct gate gates[NR];
	struct rnl_job jobs[NR], job;
	struct rnl_after after[NR];
	struct rnl_job_more more;
	_Atomic int ran;
};

/* @by_setter: the first barrier is set by rnl_job_set_after(). */
static void several_make(struct several *s, struct rnl_pool *pool, bool by_setter)
{
	memset(s, 0, sizeof(*s));
	s->pool = pool;
	for (int i = 0; i < NR; i++) {
		must(rnl_barrier_init(&s->barriers[i], pool));
		s->gates[i] = (struct gate)GATE_INIT;
		s->after[i].barrier = &s->barriers[i];
	}
	s->more = (struct rnl_job_more)RNL_JOB_MORE_INIT;
	s->more.after = &s->after[by_setter];
	s->more.nr_after = NR - by_setter;
	job_of(&s->job, count_fn, &s->ran);
	if (by_setter)
		must(rnl_job_set_after(&s->job, &s->barriers[0]));
	must(rnl_job_set_more(&s->job, &s->more));
}

/* Submits a job that must be refused with a line that contains @what. */
#define ck_invalid(pool, job, what) \
	do { \
		heard.bytes = heard.text[0] = 0; \
		ck_assert_int_eq(rnl_submit(pool, job), -EINVAL); \
		ck_assert_msg(has_heard(&heard, what), "%s", heard.text); \
	} while (0)

/* Waits until each job has a worker: a worker in a later job's gate sees no earlier job's end. */
static void several_begin(struct several *s)
{
	for (int i = 0; i < NR; i++)
		submit_in(s->pool, &s->barriers[i], &s->jobs[i], gated_fn, &s->gates[i]);
	for (int i = 0; i < NR; i++)
		gate_await(&s->gates[i], 1);
}

static void open_all(struct several *s)
{
	for (int i = 0; i < NR; i++)
		gate_open(&s->gates[i]);
}

/* Ends the barriers' jobs in this order; the job @waits is not done before the last of them. */
static void end_in_turn(struct several *s, const int *turn, struct rnl_job *waits, int64_t wait_ns)
{
	const int ran = s->ran;

	for (int i = 0; i < NR; i++) {
		ck_assert_int_ne(rnl_job_wait(waits, wait_ns), 0);
		ck_assert_int_eq(s->ran, ran);
		gate_open(&s->gates[turn[i]]);
		must(rnl_job_wait(&s->jobs[turn[i]], RNL_FOREVER));
	}
}

static void several_end(struct several *s)
{
	for (int i = 0; i < NR; i++)
		must(rnl_barrier_wait(&s->barriers[i], RNL_FOREVER));
}

static const int turns[][NR] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 },
				 { 2, 1, 0 } };

TEST(a_job_after_several_runs_after_the_last_of_their_jobs, .loops = 2 * COUNT(turns))
{
	struct rnl_pool *pool = pool_of(NR + 1);
	struct several s;

	several_make(&s, pool, _i % 2);
	for (int round = 0; round < 3; round++) {
		several_begin(&s);
		must(rnl_submit(pool, &s.job));
		end_in_turn(&s, turns[_i / 2], &s.job, 0);
		ck_assert_int_eq(result_of(&s.job), 0);
		ck_assert_int_eq(s.ran, round + 1);
		several_end(&s);
		for (int i = 0; i < NR; i++)
			s.gates[i] = (struct gate)GATE_INIT;
	}
	rnl_pool_destroy(pool);
}

TEST(a_cancelled_job_after_several_is_done_when_their_jobs_are, .loops = COUNT(turns))
{
	struct rnl_pool *pool = pool_of(NR + 1);
	struct several s;

	several_make(&s, pool, false);
	several_begin(&s);
	must(rnl_submit(pool, &s.job));
	must(rnl_job_cancel(&s.job));
	end_in_turn(&s, turns[_i], &s.job, 0);
	ck_assert_int_eq(result_of(&s.job), -ECANCELED);
	ck_assert_int_eq(s.ran, 0);
	several_end(&s);
	rnl_pool_destroy(pool);
}

/* The chain's next job starts when the first job is done: after all jobs of the barriers. */
TEST(a_job_after_several_leads_a_chain, .loops = 2 * COUNT(turns))
{
	struct rnl_pool *pool = pool_of(NR + 1);
	struct rnl_job next;
	struct several s;

	several_make(&s, pool, _i % 2);
	job_of(&next, count_fn, &s.ran);
	must(rnl_job_set_then(&s.job, &next));
	several_begin(&s);
	must(rnl_submit(pool, &s.job));
	end_in_turn(&s, turns[_i / 2], &next, 0);
	ck_assert_int_eq(result_of(&next), 0);
	ck_assert_int_eq(s.ran, 2);
	ck_assert_int_eq(result_of(&s.job), 0);
	several_end(&s);
	rnl_pool_destroy(pool);
}

TEST(the_next_job_of_one_after_a_barrier_is_done_after_it, .loops = 2)
{
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct rnl_after after = { .barrier = &barrier };
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct gate kernel = GATE_INIT, worker = GATE_INIT;
	struct rnl_job before, plug, job, next;
	_Atomic int ran = 0;
	bool early;

	skip_unless_host();
	pool = pool_of(2, .in_flight_ns = UINT64_MAX);
	must(rnl_barrier_init(&barrier, pool));
	job_in(&barrier, &before, gated_kernel_fn, &kernel);
	must(submit_by_key(pool, &before, RNL_KEY_WORKER(0)));
	job_of(&plug, gated_fn, &worker);
	must(submit_by_key(pool, &plug, RNL_KEY_WORKER(0)));
	gate_await(&worker, 1);		/* `before` is issued, but its worker cannot complete it */
	job_of(&job, noop_fn, NULL);
	job_of(&next, count_fn, &ran);
	must(rnl_job_set_then(&job, &next));
	if (_i) {
		more.after = &after;
		more.nr_after = 1;
		must(rnl_job_set_more(&job, &more));
	} else {
		must(rnl_job_set_after(&job, &barrier));
	}
	must(submit_by_key(pool, &job, RNL_KEY_WORKER(1)));
	gate_open(&kernel);
	(void)rnl_job_wait(&next, 200 * MS);
	early = ran || is_done(&next);
	ck_assert_int_ne(rnl_job_wait(&job, 0), 0);
	gate_open(&worker);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_int_eq(result_of(&next), 0);
	rnl_pool_destroy(pool);
	ck_assert_msg(!early, "the next job ran, and was done, before the first one was");
}

/* All kernels are issued, so the job is on its worker, and each barrier in turn delays it. */
TEST(a_cancelled_job_is_held_back_until_the_last_barrier_ends, .loops = COUNT(turns))
{
	struct gate plug = GATE_INIT;
	struct rnl_pool *pool;
	struct rnl_job plugged;
	struct several s;

	skip_unless_host();
	pool = pool_of(NR + 1, .in_flight_ns = UINT64_MAX);
	several_make(&s, pool, false);
	/* Each on its own stream: on one stream, a kernel would wait for the kernel before. */
	for (int i = 0; i < NR; i++) {
		job_in(&s.barriers[i], &s.jobs[i], gated_kernel_fn, &s.gates[i]);
		must(submit_by_key(pool, &s.jobs[i], RNL_KEY_WORKER(i)));
	}
	job_of(&plugged, gated_fn, &plug);
	must(submit_by_key(pool, &plugged, RNL_KEY_WORKER(NR)));
	must(submit_by_key(pool, &s.job, RNL_KEY_WORKER(NR)));
	must(rnl_job_cancel(&s.job));
	gate_open(&plug);
	must(rnl_job_wait(&plugged, RNL_FOREVER));
	end_in_turn(&s, turns[_i], &s.job, 10 * MS);
	ck_assert_int_eq(result_of(&s.job), -ECANCELED);
	ck_assert_int_eq(s.ran, 0);
	several_end(&s);
	rnl_pool_destroy(pool);
}

TEST(a_job_after_several_is_cancelled_if_a_job_of_one_fails, .loops = NR)
{
	struct rnl_pool *pool = pool_of(2);
	struct several s;

	several_make(&s, pool, false);
	for (int i = 0; i < NR; i++)
		submit_in(pool, &s.barriers[i], &s.jobs[i], result_fn,
			  (void *)(intptr_t)(i == _i ? -EPROTO : 0));
	must(rnl_submit(pool, &s.job));
	ck_assert_int_eq(result_of(&s.job), -ECANCELED);
	ck_assert_int_eq(s.ran, 0);
	rnl_pool_destroy(pool);
}

/* Job t of cell i adds up the values that it and its neighbours got in the step before. */
enum { CELLS = 6, STEPS = 40 };

struct cell {
	struct rnl_job job;
	struct rnl_job_more more;
	struct rnl_after after[3];
	struct rnl_barrier done;
	const uint32_t *from[3];
	uint32_t *to;
};

static int add_fn(struct rnl_job *job)
{
	struct cell *c = rnl_container_of(job, struct cell, job);

	*c->to = 0;
	for (int i = 0; i < 3; i++)
		*c->to += *c->from[i];
	return 0;
}

/* Cells may be at different steps, and no thread waits for the end of a step. */
TEST(a_stencil_waits_only_for_neighbours, .timeout_s = 60)
{
	static struct cell cells[STEPS][CELLS];
	static uint32_t values[STEPS + 1][CELLS];
	struct rnl_pool *pool = pool_of(4);
	uint32_t expected = 1;

	for (int i = 0; i < CELLS; i++)
		values[0][i] = 1;
	for (int t = 0; t < STEPS; t++, expected *= 3) {
		for (int i = 0; i < CELLS; i++) {
			struct cell *c = &cells[t][i];

			must(rnl_job_init(&c->job, add_fn));
			must(rnl_barrier_init(&c->done, pool));
			must(rnl_barrier_add(&c->done, &c->job));
			c->more = (struct rnl_job_more)RNL_JOB_MORE_INIT;
			c->more.after = c->after;
			c->more.nr_after = t ? 3 : 0;
			c->to = &values[t + 1][i];
			for (int n = 0; n < 3; n++) {
				const int at = (i + n + CELLS - 1) % CELLS;

				c->from[n] = &values[t][at];
				if (t)
					c->after[n].barrier = &cells[t - 1][at].done;
			}
			must(rnl_job_set_more(&c->job, &c->more));
			must(rnl_submit_wait(pool, &c->job, RNL_FOREVER));
		}
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < CELLS; i++)
		ck_assert_uint_eq(values[STEPS][i], expected);
	rnl_pool_destroy(pool);
}

/* ---- on the device ----------------------------------------------------------- */

enum { BYTES = 4 << 20 };

struct moving {
	struct several several;
	unsigned char *device, *host;
};

static int fill_fn(struct rnl_job *job)
{
	return rnl_fill(job->user, 9, BYTES);
}

static int fetch_fn(struct rnl_job *job)
{
	const struct moving *m = job->user;

	return rnl_copy(m->host, m->device, NR * BYTES);
}

TEST(a_stream_waits_for_the_jobs_of_several_barriers, .loops = 2)
{
	struct rnl_pool *pool = pool_of(NR + 1);
	struct moving m;
	void *mem;

	must(rnl_memory_get(pool, 0, NR * BYTES, &mem, 0));
	m.device = mem;
	must(rnl_memory_get(pool, RNL_PINNED, NR * BYTES, &mem, 0));
	m.host = mem;
	memset(m.host, 0, NR * BYTES);
	several_make(&m.several, pool, _i);
	for (int i = 0; i < NR; i++)
		submit_in(pool, &m.several.barriers[i], &m.several.jobs[i], fill_fn,
			  m.device + i * BYTES);
	job_of(&m.several.job, fetch_fn, &m);
	if (_i)
		must(rnl_job_set_after(&m.several.job, &m.several.barriers[0]));
	must(rnl_job_set_more(&m.several.job, &m.several.more));
	must(rnl_submit(pool, &m.several.job));
	ck_assert_int_eq(result_of(&m.several.job), 0);
	ck_assert_bytes(m.host, NR * BYTES, 9);
	rnl_memory_put(pool, m.device);
	rnl_memory_put(pool, m.host);
	rnl_pool_destroy(pool);
}

/* ---- refused submits --------------------------------------------------------- */

/* A refused submit gives back the rounds that it took, so many tries do not use them up. */
TEST(a_job_after_several_is_refused_as_long_as_one_has_all_rounds_under_way)
{
	enum { ROUNDS = 7 };
	struct rnl_pool *pool = pool_of(NR + 1);
	struct rnl_job before[ROUNDS], after[ROUNDS];
	struct several s;

	several_make(&s, pool, false);
	several_begin(&s);
	for (int i = 0; i < ROUNDS; i++) {
		job_of(&after[i], noop_fn, NULL);
		must(rnl_job_set_after(&after[i], &s.barriers[NR - 1]));
		must(rnl_submit(pool, &after[i]));
		submit_in(pool, &s.barriers[NR - 1], &before[i], noop_fn, NULL);
	}
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(rnl_submit(pool, &s.job), -EAGAIN);
	open_all(&s);
	must(rnl_submit_wait(pool, &s.job, RNL_FOREVER));
	ck_assert_int_eq(result_of(&s.job), 0);
	rnl_pool_destroy(pool);
}

TEST(a_wrong_barrier_of_several_is_refused_with_a_line)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool, *other = pool_of(1);
	struct rnl_barrier elsewhere;
	struct several s;
	struct heard heard;
	struct rnl_job job;

	hear(&heard, &attr);
	pool = pool_with(&attr, 2);
	several_make(&s, pool, false);
	must(rnl_barrier_init(&elsewhere, other));
	for (int i = 0; i < 4; i++) {
		struct rnl_barrier *const wrong[] = { NULL, &elsewhere, &s.barriers[0],
						      &(struct rnl_barrier){ .pool = NULL } };

		must(rnl_barrier_add(&s.barriers[0], &s.job));
		s.after[0].barrier = &s.barriers[1];
		s.after[1].barrier = wrong[i];
		ck_invalid(pool, &s.job, "barrier 1 of 3 that job ");
	}
	s.more.after = NULL;
	ck_invalid(pool, &s.job, "barrier 0 of 3 that job ");
	/* Each job needs its own struct rnl_job_more. */
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_more(&job, &s.more));
	ck_invalid(pool, &s.job, ": each job has its own");
	s.more.nr_after = 0;
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	s.more.when = 3;
	ck_invalid(pool, &job, "`when` of job ");
	must(rnl_job_set_more(&job, NULL));
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
}

TEST(memory_that_begins_anew_while_its_job_names_it_is_refused)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job job;

	must(rnl_barrier_init(&barrier, pool));
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_more(&job, &more));
	must(rnl_job_set_after(&job, &barrier));
	must(rnl_job_set_more(&job, &more));
	ck_assert_ptr_eq(more.first, &barrier);
	/* The job's barrier, which the old memory has, would be lost. */
	more = (struct rnl_job_more)RNL_JOB_MORE_INIT;
	ck_assert_int_eq(rnl_job_set_more(&job, &more), -EINVAL);
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	must(rnl_job_set_more(&job, NULL));
	must(rnl_job_set_more(&job, &more));
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	rnl_pool_destroy(pool);
}

/* Each job would write the round that it waits for into the list. */
TEST(two_jobs_do_not_share_a_list_of_barriers)
{
	struct rnl_pool *pool = pool_of(NR + 1);
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct several s;
	struct rnl_job job;

	several_make(&s, pool, false);
	several_begin(&s);
	must(rnl_submit(pool, &s.job));
	job_of(&job, noop_fn, NULL);
	more.after = s.after;
	more.nr_after = NR;
	must(rnl_job_set_more(&job, &more));
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	open_all(&s);
	ck_assert_int_eq(result_of(&s.job), 0);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	several_end(&s);
	rnl_pool_destroy(pool);
}
