/* SPDX-License-Identifier: MIT */
/* Callbacks: when, where and how often they run, the waits for them, and what they may do. */
#include <runnel/memory.h>

#include "asks.h"
#include "host_kernel.h"
#include "pool.h"

/* A job that stores the state that its callback saw. */
struct called {
	struct rnl_job job;
	_Atomic int calls;
	int result, test, worker;	/* as seen by the callback */
	struct gate *in_call;		/* gate of the callback; NULL: none */
};

static void callback(struct rnl_job *job)
{
	struct called *c = rnl_container_of(job, struct called, job);

	c->result = job->result;
	c->test = is_done(job);
	c->worker = rnl_worker().index;
	if (c->in_call)
		gate_wait(c->in_call);
	c->calls++;
}

static void called_of(struct called *c, int ret)
{
	*c = (struct called){ .worker = -2 };
	job_of(&c->job, result_fn, (void *)(intptr_t)ret);
	must(rnl_job_set_on_done(&c->job, callback));
}

static void submit_called(struct rnl_pool *pool, struct called *c, int ret)
{
	called_of(c, ret);
	must(rnl_submit(pool, &c->job));
}

static void check_called(const struct called *c, int nr, int result)
{
	ck_assert_int_eq(c->calls, nr);
	ck_assert_int_eq(c->result, result);
	ck_assert_int_eq(c->test, 1);
}

/* ---- when, where, how often ---------------------------------------------- */

TEST(a_callback_is_called_once_for_each_run_on_a_worker)
{
	static const int results[] = { 0, 42, -EPROTO };
	struct rnl_pool *pool = pool_of(2);
	struct called called;

	for (unsigned i = 0; i < COUNT(results); i++) {
		called_of(&called, results[i]);
		for (int round = 1; round <= 100; round++) {
			ck_assert_int_eq(round % 2 ? rnl_submit(pool, &called.job) :
				submit_by_key(pool, &called.job, (uint64_t)round), 0);
			must(rnl_pool_drain(pool, RNL_FOREVER));
			check_called(&called, round, results[i]);
			ck_assert_int_ge(called.worker, 0);
			ck_assert_int_lt(called.worker, 2);
		}
		must(rnl_job_set_on_done(&called.job, NULL));
		ck_assert_int_eq(submit_and_wait(pool, &called.job), results[i]);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_int_eq(called.calls, 100);
	}
	rnl_pool_destroy(pool);
}

TEST(a_refused_submit_calls_no_callback)
{
	struct rnl_pool *pool = pool_of(1, .max_queued = 1);
	struct gate gate = GATE_INIT;
	struct rnl_job held, queued;
	struct called called;

	hold_workers(pool, &gate, &held, 1);
	submit_job(pool, &queued, noop_fn, NULL);
	called_of(&called, 0);
	ck_assert_int_eq(rnl_submit(pool, &called.job), -EAGAIN);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	must(rnl_pool_close(pool));
	ck_assert_int_eq(rnl_submit(pool, &called.job), -ESHUTDOWN);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(called.calls, 0);
}

TEST(jobs_that_never_ran_have_their_callbacks_called)
{
	enum { FAILS, AFTER, CANCELLED, LATE, NR };
	static const int results[NR] = { -EPROTO, -ECANCELED, -ECANCELED, -ETIMEDOUT };
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held;
	struct called called[NR];

	must(rnl_barrier_init(&barrier, pool));
	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < NR; i++)
		called_of(&called[i], i == FAILS ? -EPROTO : 1);
	must(rnl_barrier_add(&barrier, &called[FAILS].job));
	must(rnl_job_set_after(&called[AFTER].job, &barrier));
	must(rnl_job_set_deadline(&called[LATE].job, 0));
	for (int i = 0; i < NR; i++)
		must(rnl_submit(pool, &called[i].job));
	must(rnl_job_cancel(&called[CANCELLED].job));
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++)
		check_called(&called[i], 1, results[i]);
	rnl_pool_destroy(pool);
}

struct stored {
	struct rnl_job job;
	struct gate *kernel;
	int word, seen;
};

static int stored_fn(struct rnl_job *job)
{
	struct stored *s = rnl_container_of(job, struct stored, job);

	return launch_store(s->kernel, &s->word, 5);
}

static void see_word(struct rnl_job *job)
{
	struct stored *s = rnl_container_of(job, struct stored, job);

	s->seen = s->word;
}

TEST(a_callback_is_called_when_the_device_has_completed_the_job)
{
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct stored stored = { .kernel = &kernel, .seen = -1 };

	skip_unless_host();
	pool = pool_of(1);
	job_of(&stored.job, stored_fn, NULL);
	must(rnl_job_set_on_done(&stored.job, see_word));
	must(rnl_submit(pool, &stored.job));
	gate_await(&kernel, 1);
	ck_assert_int_eq(rnl_pool_drain(pool, 10 * MS), -ETIMEDOUT);
	gate_open(&kernel);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(stored.seen, 5);
	rnl_pool_destroy(pool);
}

/* ---- waits --------------------------------------------------------------- */

TEST(barriers_and_drains_count_a_job_until_its_callback_has_returned)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate in_call = GATE_INIT;
	struct rnl_barrier barrier;
	struct called called;

	must(rnl_barrier_init(&barrier, pool));
	called_of(&called, 3);
	called.in_call = &in_call;
	must(rnl_barrier_add(&barrier, &called.job));
	must(rnl_submit(pool, &called.job));
	gate_await(&in_call, 1);
	/* A wait for the job itself returns before the callback does. */
	ck_assert_int_eq(result_of(&called.job), 3);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 0), -ETIMEDOUT);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 10 * MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_pool_drain(pool, 10 * MS), -ETIMEDOUT);
	gate_open(&in_call);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ck_assert_int_eq(called.calls, 1);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_barrier_wait_returns_after_every_callback)
{
	enum { NR = 50 };
	struct rnl_pool *pool = pool_of(2);
	struct called *called = calloc(NR, sizeof(*called));
	int rounds = (int)(200 / test_scale());

	for (int round = 0; round < rounds; round++) {
		struct rnl_barrier barrier;

		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < NR; i++) {
			called_of(&called[i], i);
			must(rnl_barrier_add(&barrier, &called[i].job));
			must(rnl_submit(pool, &called[i].job));
		}
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
		for (int i = 0; i < NR; i++)
			check_called(&called[i], 1, i);
		/* The memory is the caller's again: a sanitizer would report an access. */
		memset(called, 0xa5, NR * sizeof(*called));
	}
	rnl_pool_destroy(pool);
	free(called);
}

TEST(destroying_a_pool_waits_for_callbacks)
{
	enum { NR = 2000 };
	struct rnl_pool *pool = pool_of(2);
	struct called *called = calloc(NR, sizeof(*called));

	for (int i = 0; i < NR; i++)
		submit_called(pool, &called[i], i);
	rnl_pool_destroy(pool);
	for (int i = 0; i < NR; i++)
		check_called(&called[i], 1, i);
	free(called);
}

/* ---- calls in a callback ------------------------------------------------- */

struct chain {
	struct rnl_job job;
	struct rnl_pool *pool;
	int runs, left, error;		/* not atomic: the runs are sequential */
};

static int chain_fn(struct rnl_job *job)
{
	return ++rnl_container_of(job, struct chain, job)->runs;
}

static void submit_again(struct rnl_job *job)
{
	struct chain *c = rnl_container_of(job, struct chain, job);
	int ret;

	if (job->result != c->runs)
		c->error = -EPROTO;
	if (!--c->left)
		return;
	ret = c->left % 2 ? rnl_submit(c->pool, job) : submit_by_key(c->pool, job, 1);
	if (ret)		/* otherwise the memory belongs to the next run */
		c->error = ret;
}

TEST(a_callback_submits_its_job_again_ten_thousand_times)
{
	int nr = (int)(10000 / test_scale());

	for (unsigned nr_workers = 1; nr_workers <= 3; nr_workers++) {
		struct rnl_pool *pool = pool_of(nr_workers);
		struct chain chains[2] = { { .pool = pool, .left = nr },
					   { .pool = pool, .left = nr } };
		struct rnl_barrier barrier;

		/*
		 * In a barrier: the callback adds the next run before the barrier counts this one
		 * as done.
		 */
		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < 2; i++) {
			job_of(&chains[i].job, chain_fn, NULL);
			must(rnl_job_set_on_done(&chains[i].job, submit_again));
		}
		must(rnl_barrier_add(&barrier, &chains[1].job));
		for (int i = 0; i < 2; i++)
			must(rnl_submit(pool, &chains[i].job));
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
		ck_assert_int_eq(chains[1].runs, nr);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_int_eq(chains[0].runs, nr);
		ck_assert_int_eq(chains[0].error, 0);
		ck_assert_int_eq(chains[1].error, 0);
		ck_assert_uint_eq(figures_of(pool).done, (uint64_t)nr * 2);
		rnl_pool_destroy(pool);
	}
}

static _Atomic int nr_freed;

static void free_it(struct rnl_job *job)
{
	memset(job, 0xa5, sizeof(*job));
	free(job);
	nr_freed++;
}

TEST(a_callback_frees_its_job)
{
	int nr = (int)(10000 / test_scale());
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier;
	void *mem;

	must(rnl_memory_get(pool, 0, 2 * 64, &mem, 0));
	must(rnl_barrier_init(&barrier, pool));
	for (int i = 0; i < nr; i++) {
		struct rnl_job *job = malloc(sizeof(*job));

		job_of(job, i % 3 ? noop_fn : fill_own_fn, mem);
		must(rnl_job_set_on_done(job, free_it));
		if (i % 2)
			must(rnl_barrier_add(&barrier, job));
		ck_assert_int_eq(i % 5 ? rnl_submit(pool, job) :
					 submit_by_key(pool, job, (uint64_t)i), 0);
	}
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ck_assert_int_ge(nr_freed, nr / 2);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(nr_freed, nr);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

struct nosy {
	struct rnl_job job, running, done, fresh;
	struct rnl_barrier held, idle;
	struct rnl_pool *pool;
	int line;		/* line of the check that failed */
	_Atomic int calls;
};

#define OR_LINE(n, condition) \
	do { \
		if (!(condition)) \
			(n)->line = __LINE__; \
	} while (0)

static void be_nosy(struct rnl_job *job)
{
	struct nosy *n = rnl_container_of(job, struct nosy, job);

	for (int64_t timeout = RNL_FOREVER; timeout <= MS; timeout += MS + 1) {
		OR_LINE(n, rnl_job_wait(&n->running, timeout) == -EBUSY);
		OR_LINE(n, rnl_job_wait(&n->done, timeout) == 0);
		OR_LINE(n, rnl_job_wait(job, timeout) == 0);
		OR_LINE(n, rnl_barrier_wait(&n->held, timeout) == -EBUSY);
		OR_LINE(n, rnl_barrier_wait(&n->idle, timeout) == 0);
		OR_LINE(n, rnl_pool_drain(n->pool, timeout) == -EBUSY);
		OR_LINE(n, rnl_submit_wait(n->pool, &n->fresh, timeout) == -EAGAIN);
		OR_LINE(n, submit_by_key_wait(n->pool, &n->fresh, 1, timeout) == -EAGAIN);
	}
	OR_LINE(n, rnl_submit(n->pool, &n->fresh) == -EAGAIN);
	OR_LINE(n, rnl_pool_resize(n->pool, 1) == -EBUSY);
	n->calls++;
}

TEST(a_callback_does_not_wait_for_its_own_pool)
{
	struct gate gate = GATE_INIT;
	struct nosy nosy = { .line = 0 };
	struct rnl_job queued;

	/* The only worker runs the callback, so the pool stays full meanwhile. */
	skip_unless_done_on_return();
	nosy.pool = pool_of(1, .max_queued = 1);
	must(rnl_barrier_init(&nosy.held, nosy.pool));
	must(rnl_barrier_init(&nosy.idle, nosy.pool));
	submit_job(nosy.pool, &nosy.done, noop_fn, NULL);
	ck_assert_int_eq(result_of(&nosy.done), 0);
	job_of(&nosy.fresh, noop_fn, NULL);
	job_of(&nosy.job, gated_fn, &gate);
	must(rnl_job_set_on_done(&nosy.job, be_nosy));
	must(rnl_submit(nosy.pool, &nosy.job));
	gate_await(&gate, 1);
	submit_in(nosy.pool, &nosy.held, &nosy.running, noop_fn, NULL);
	job_of(&queued, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(nosy.pool, &queued), -EAGAIN);
	gate_open(&gate);
	must(rnl_pool_drain(nosy.pool, RNL_FOREVER));
	ck_assert_int_eq(nosy.calls, 1);
	ck_assert_msg(!nosy.line, "line %d", nosy.line);
	rnl_pool_destroy(nosy.pool);
}

static void issue_store(struct rnl_job *job)
{
	must(launch_store(NULL, job->user, 9));
}

TEST(work_of_a_callback_is_on_the_stream_before_the_next_job)
{
	struct rnl_pool *pool;
	struct rnl_job job;
	struct stored stored = { .word = 0 };
	int word = 0;

	skip_unless_host();
	pool = pool_of(1);
	job_of(&job, noop_fn, &word);
	must(rnl_job_set_on_done(&job, issue_store));
	must(rnl_submit(pool, &job));
	must(rnl_pool_drain(pool, RNL_FOREVER));
	/* The callback's work belongs to no job, but the stream executes it in order. */
	submit_job(pool, &stored.job, stored_fn, NULL);
	ck_assert_int_eq(result_of(&stored.job), 0);
	ck_assert_int_eq(word, 9);
	rnl_pool_destroy(pool);
}
