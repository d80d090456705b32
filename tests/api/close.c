/* SPDX-License-Identifier: MIT */
/* Ending a pool: close, drain and destroy, in every order and with work under way. */
#include "asks.h"
#include "pool.h"

TEST(an_empty_pool_can_be_ended_in_any_order)
{
	enum { CLOSE, DRAIN, END };
	static const int orders[][4] = {
		{ END },
		{ CLOSE, END },
		{ DRAIN, END },
		{ CLOSE, DRAIN, END },
		{ DRAIN, CLOSE, END },
		{ CLOSE, CLOSE, DRAIN, END },
		{ DRAIN, DRAIN, CLOSE, END },
	};

	rnl_pool_destroy(NULL);
	for (unsigned i = 0; i < COUNT(orders) * 2; i++) {
		struct rnl_pool *pool = pool_of(2);
		struct gate ran = GATE_INIT;
		struct rnl_job job;

		/* The first rounds have no job, the later ones have one. */
		gate_open(&ran);
		job_of(&job, gated_fn, &ran);
		if (i >= COUNT(orders))
			must(rnl_submit(pool, &job));
		for (const int *step = orders[i % COUNT(orders)]; *step != END; step++)
			ck_assert_int_eq(*step == CLOSE ? rnl_pool_close(pool) :
							  rnl_pool_drain(pool, RNL_FOREVER), 0);
		rnl_pool_destroy(pool);
		ck_assert_uint_eq(ran.came, i >= COUNT(orders));
	}
}

TEST(a_drain_waits_for_the_last_job_or_times_out)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct rnl_job jobs[2], quick;
	double start;

	must(rnl_pool_drain(pool, 0));
	hold_workers(pool, &gate, jobs, 1);
	submit_job(pool, &quick, noop_fn, NULL);
	ck_assert_int_eq(result_of(&quick), 0);

	ck_assert_int_eq(rnl_pool_drain(pool, 0), -ETIMEDOUT);
	start = seconds_now();
	ck_assert_int_eq(rnl_pool_drain(pool, 20 * MS), -ETIMEDOUT);
	ck_assert_double_ge(seconds_now() - start, 0.020);
	ck_assert_int_ne(rnl_job_wait(&jobs[0], 0), 0);

	gate_open(&gate);
	must(rnl_pool_drain(pool, INT64_MAX));
	ck_assert_int_eq(rnl_job_wait(&jobs[0], 0), 0);
	must(rnl_pool_drain(pool, 0));
	rnl_pool_destroy(pool);
}

static int add_one_fn(struct rnl_job *job)
{
	(*(int *)job->user)++;
	return 0;
}

/*
 * If the drain is the pool's first, and the worker sleeps, only the pool's count of jobs orders the
 * job's write before the test's read. ThreadSanitizer checks this.
 */
TEST(a_drain_of_an_idle_pool_shows_its_jobs_writes)
{
	for (int i = 0; i < 5; i++) {
		struct rnl_pool *pool = pool_of(1);
		struct rnl_job job;
		int ran = 0;

		submit_job(pool, &job, add_one_fn, &ran);
		ck_eventually(figures_of(pool).done == 1);
		/* Let the worker sleep. To ask /proc for its state would order the threads. */
		usleep(1000);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_int_eq(ran, 1);
		rnl_pool_destroy(pool);
	}
}

TEST(several_threads_drain_one_pool)
{
	struct rnl_pool *pool = pool_of(2);

	for (int round = 0; round < 50; round++) {
		struct gate gate = GATE_INIT;
		struct rnl_job jobs[2];
		struct call calls[4];

		hold_workers(pool, &gate, jobs, 2);
		for (unsigned i = 0; i < COUNT(calls); i++)
			call_start(&calls[i], drain_fn, pool);
		gate_open(&gate);
		for (unsigned i = 0; i < COUNT(calls); i++)
			must(call_end(&calls[i]));
		ck_assert(is_done(&jobs[0]) && is_done(&jobs[1]));
	}
	rnl_pool_destroy(pool);
}

/* A job that counts its runs in a shared counter. */
struct tally {
	struct rnl_job job;
	_Atomic int *runs;
	int ret;
};

static int tally_fn(struct rnl_job *job)
{
	struct tally *t = rnl_container_of(job, struct tally, job);

	atomic_fetch_add(t->runs, 1);
	return t->ret;
}

TEST(a_closed_pool_refuses_jobs_and_completes_those_it_has)
{
	enum { NR = 100 };
	struct rnl_pool *pool = pool_of(2), *other = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2], *late_jobs[1];
	_Atomic int runs = 0, late_runs = 0;
	struct tally *tallies = calloc(NR, sizeof(*tallies)), late = { .runs = &late_runs };

	hold_workers(pool, &gate, held, 2);
	for (int i = 0; i < NR; i++) {
		tallies[i].runs = &runs;
		tallies[i].ret = i;
		job_of(&tallies[i].job, tally_fn, NULL);
		ck_assert_int_eq(i % 2 ? rnl_submit(pool, &tallies[i].job) :
					 submit_by_key(pool, &tallies[i].job, (uint64_t)i), 0);
	}
	must(rnl_pool_close(pool));
	must(rnl_pool_close(pool));

	job_of(&late.job, tally_fn, NULL);
	late_jobs[0] = &late.job;
	ck_assert_int_eq(rnl_submit(pool, &late.job), -ESHUTDOWN);
	ck_assert_int_eq(submit_by_key(pool, &late.job, 7), -ESHUTDOWN);
	ck_assert_int_eq(rnl_submit_many(pool, late_jobs, 1), -ESHUTDOWN);
	ck_assert_int_eq(rnl_job_wait(&late.job, 0), -EINVAL);

	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&tallies[i].job), i);
	ck_assert_int_eq(runs, NR);
	rnl_pool_destroy(pool);

	/* The refused job still belongs to the caller. */
	ck_assert_int_eq(late_runs, 0);
	ck_assert_int_eq(submit_and_wait(other, &late.job), 0);
	ck_assert_int_eq(late_runs, 1);
	rnl_pool_destroy(other);
	free(tallies);
}

struct submitter {
	struct rnl_pool *pool;
	struct tally *tallies;
	int nr, accepted;
	struct gate *start;
};

static int submit_all(void *arg)
{
	struct submitter *s = arg;
	int ret = 0;

	gate_wait(s->start);
	while (s->accepted < s->nr && (!ret || ret == -EAGAIN)) {
		ret = rnl_submit(s->pool, &s->tallies[s->accepted].job);
		s->accepted += !ret;
	}
	return ret;
}

TEST(a_submit_beside_a_close_is_accepted_in_full_or_refused)
{
	enum { THREADS = 3, NR = 20000 };
	struct tally *tallies = calloc(THREADS * NR, sizeof(*tallies));

	for (int round = 0; round < 10; round++) {
		struct rnl_pool *pool = pool_of(2);
		struct gate start = GATE_INIT;
		struct submitter by[THREADS];
		struct call calls[THREADS];
		_Atomic int runs = 0;
		int accepted = 0;

		for (int i = 0; i < THREADS * NR; i++) {
			tallies[i].runs = &runs;
			job_of(&tallies[i].job, tally_fn, NULL);
		}
		for (int i = 0; i < THREADS; i++) {
			by[i] = (struct submitter){ pool, &tallies[i * NR], NR, 0, &start };
			call_start(&calls[i], submit_all, &by[i]);
		}
		gate_await(&start, THREADS);
		gate_open(&start);
		ck_eventually(runs > 100 * round);
		must(rnl_pool_close(pool));
		for (int i = 0; i < THREADS; i++) {
			int ret = call_end(&calls[i]);

			ck_assert(by[i].accepted == NR || ret == -ESHUTDOWN);
			accepted += by[i].accepted;
		}
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_int_eq(runs, accepted);
		ck_assert_uint_eq(figures_of(pool).accepted, (uint64_t)accepted);
		rnl_pool_destroy(pool);
	}
	free(tallies);
}

static int submit_refused(void *arg)
{
	struct submitter *s = arg;

	gate_wait(s->start);
	while (s->accepted < s->nr)
		s->accepted += rnl_submit(s->pool, &s->tallies->job) == -ESHUTDOWN;
	atomic_fetch_add(s->tallies->runs, 1);
	return 0;
}

TEST(a_drain_is_not_held_by_submits_that_are_refused)
{
	enum { THREADS = 2 };
	struct rnl_pool *pool = pool_of(2);
	struct gate start = GATE_INIT;
	struct tally tallies[THREADS];
	struct submitter by[THREADS];
	struct call calls[THREADS];
	_Atomic int nr_ended = 0;

	must(rnl_pool_close(pool));
	for (int i = 0; i < THREADS; i++) {
		tallies[i] = (struct tally){ .runs = &nr_ended };
		job_of(&tallies[i].job, tally_fn, NULL);
		by[i] = (struct submitter){ pool, &tallies[i], (int)rounds_of(300000), 0, &start };
		call_start(&calls[i], submit_refused, &by[i]);
	}
	gate_await(&start, THREADS);
	gate_open(&start);
	/* Nothing would wake this drain, so it must not wait for a submit that will be refused. */
	while (nr_ended < THREADS)
		must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < THREADS; i++)
		must(call_end(&calls[i]));
	must(rnl_pool_drain(pool, 0));
	ck_assert_uint_eq(figures_of(pool).accepted, 0);
	rnl_pool_destroy(pool);
}

static int open_fn(void *gate)
{
	gate_open(gate);
	return 0;
}

TEST(destroying_a_pool_with_ten_thousand_queued_jobs_completes_each)
{
	enum { NR = 10000, FAILING = NR / 2 };
	struct rnl_pool *pool = pool_of(4);
	struct gate gate = GATE_INIT;
	struct rnl_job held[4];
	struct rnl_barrier barrier;
	struct tally *tallies = calloc(NR, sizeof(*tallies));
	_Atomic int runs = 0;
	struct call opener;
	int nr_run = 0;

	hold_workers(pool, &gate, held, 4);
	must(rnl_barrier_init(&barrier, pool));
	for (int i = 0; i < NR; i++) {
		struct rnl_job *job = &tallies[i].job;

		tallies[i].runs = &runs;
		tallies[i].ret = i == FAILING ? -EPROTO : i;
		job_of(job, tally_fn, NULL);
		/* One job fails; every third later job comes after it. */
		if (i == FAILING)
			must(rnl_barrier_add(&barrier, job));
		else if (i > FAILING && i % 3 == 0)
			must(rnl_job_set_after(job, &barrier));
		ck_assert_int_eq(i % 2 ? rnl_submit(pool, job) :
					 submit_by_key(pool, job, (uint64_t)i), 0);
	}
	call_start(&opener, open_fn, &gate);
	rnl_pool_destroy(pool);
	must(call_end(&opener));

	for (int i = 0; i < NR; i++) {
		const bool after = i > FAILING && i % 3 == 0;

		ck_assert_int_eq(tallies[i].job.result, after ? -ECANCELED : tallies[i].ret);
		nr_run += !after;
	}
	ck_assert_int_eq(runs, nr_run);
	free(tallies);
}

TEST(the_results_of_jobs_outlive_their_pool)
{
	struct rnl_pool *pool = pool_of(1);
	_Atomic int runs = 0;
	struct tally tally = { .runs = &runs, .ret = 6 };

	/* The job is the caller's memory, so its result can be read after the destroy. */
	submit_job(pool, &tally.job, tally_fn, NULL);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(runs, 1);
	ck_assert_int_eq(tally.job.result, 6);
	ck_assert_int_eq(tally.job.device_error, 0);
}

struct copying {
	struct rnl_job job;
	unsigned char *to, *from;
};

enum { COPY_BYTES = 1 << 20 };

static int copying_fn(struct rnl_job *job)
{
	struct copying *c = rnl_container_of(job, struct copying, job);

	return rnl_copy(c->to, c->from, COPY_BYTES);
}

TEST(destroying_a_pool_waits_for_its_device)
{
	enum { NR = 32 };
	struct rnl_pool *pool = pool_of(2);
	unsigned char *from = malloc(COPY_BYTES), *to = calloc(NR, COPY_BYTES);
	struct copying copying[NR];

	memset(from, 7, COPY_BYTES);
	for (int i = 0; i < NR; i++) {
		copying[i] = (struct copying){ .to = to + i * COPY_BYTES, .from = from };
		submit_job(pool, &copying[i].job, copying_fn, NULL);
	}
	rnl_pool_destroy(pool);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(memcmp(to + i * COPY_BYTES, from, COPY_BYTES), 0);
	free(from);
	free(to);
}

TEST(many_pools_exist_at_a_time)
{
	enum { POOLS = 12, NR = 200 };
	struct rnl_pool *pools[POOLS];
	struct tally *tallies = calloc(POOLS * NR, sizeof(*tallies));
	_Atomic int runs[POOLS] = { 0 };

	for (int p = 0; p < POOLS; p++)
		pools[p] = pool_of(1 + (unsigned)p % 3);
	for (int i = 0; i < POOLS * NR; i++) {
		tallies[i].runs = &runs[i % POOLS];
		submit_job(pools[i % POOLS], &tallies[i].job, tally_fn, NULL);
	}
	/* Not in the order of creation: 5 and POOLS have no common divisor. */
	for (int p = 0; p < POOLS; p++) {
		int which = p * 5 % POOLS;

		rnl_pool_destroy(pools[which]);
		ck_assert_int_eq(runs[which], NR);
	}
	free(tallies);
}
