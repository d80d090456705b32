/* SPDX-License-Identifier: MIT */
/* During resizes keys keep their order, accepted jobs run once, and the figures are right. */
#include <runnel/stats.h>

#include "record.h"

TEST(a_key_keeps_its_order_when_the_pool_grows_while_its_jobs_are_held, .timeout_s = 60)
{
	enum { KEYS = 8, STEPS = 2 };
	struct rnl_pool *pool = pool_of(1);
	struct resize resize = { pool, 4 };
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct rnl_job held;
	struct noted noted[KEYS][STEPS];
	struct call call;

	hold_workers(pool, &gate, &held, 1);
	for (int step = 0; step < STEPS; step++) {
		if (step) {
			call_start(&call, resize_fn, &resize);
			ck_eventually(figures_of(pool).nr_workers == 4);
		}
		for (int key = 0; key < KEYS; key++) {
			noted_of(&noted[key][step], &record, key * STEPS + step);
			must(submit_by_key(pool, &noted[key][step].job, (uint64_t)key));
		}
	}
	/* The workers that must not run the keyed jobs are idle, so they run other jobs. */
	for (int i = 0; i < 20; i++) {
		struct rnl_job other;

		submit_job(pool, &other, index_fn, NULL);
		ck_assert_int_ge(result_of(&other), 1);
	}
	ck_assert_int_eq(rnl_pool_drain(pool, 5 * MS), -ETIMEDOUT);
	ck_assert_uint_eq(record.nr, 0);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, KEYS * STEPS);
	for (int key = 0; key < KEYS; key++)
		ck_assert_int_lt(place_of(&record, key * STEPS),
				 place_of(&record, key * STEPS + 1));
	rnl_pool_destroy(pool);
}

/* ---- during submits ------------------------------------------------------ */

enum { SUBMITTERS = 3, KEYS = 4, EACH_WINDOW = 64 };

struct in_order {
	struct rnl_job job;
	struct submitter *by;
	unsigned number;	/* within its key */
	int key;		/* -1: none */
};

struct submitter {
	struct rnl_pool *pool;
	_Atomic bool *stop;
	struct in_order jobs[EACH_WINDOW];
	unsigned next[KEYS], seen[KEYS];	/* plain: a key's jobs run one after the other */
	unsigned accepted, bad;
	_Atomic unsigned ran, wrong;
};

static int in_order_fn(struct rnl_job *job)
{
	struct in_order *o = rnl_container_of(job, struct in_order, job);

	if (o->key >= 0 && o->by->seen[o->key]++ != o->number)
		o->by->wrong++;
	o->by->ran++;
	return 0;
}

static int submit_on(void *arg)
{
	struct submitter *s = arg;

	for (unsigned i = 0; !*s->stop; i = (i + 1) % EACH_WINDOW) {
		struct in_order *o = &s->jobs[i];
		uint64_t key;
		int ret;

		if (rnl_job_wait(&o->job, 0) == -ETIMEDOUT && rnl_job_wait(&o->job, RNL_FOREVER))
			s->bad++;
		o->by = s;
		o->key = (int)(i % (KEYS + 1)) - 1;
		if (o->key < 0) {
			ret = rnl_submit(s->pool, &o->job);
		} else {
			o->number = s->next[o->key]++;
			key = (uint64_t)(uintptr_t)s + (uint64_t)o->key;
			ret = submit_by_key(s->pool, &o->job, key);
		}
		s->bad += ret != 0;
		s->accepted += !ret;
	}
	return 0;
}

static void check_sums(struct rnl_pool *pool, uint64_t accepted)
{
	struct rnl_pool_stats all = figures_of(pool), one = RNL_POOL_STATS_INIT;
	uint64_t done = 0, nr_workers = 0;

	ck_assert_uint_eq(all.accepted, accepted);
	ck_assert_uint_eq(all.done, accepted);
	ck_assert_uint_eq(all.failed + all.queued + all.in_flight, 0);
	for (unsigned i = 0; !rnl_pool_read_stats(pool, i, &one); i++) {
		done += one.done;
		nr_workers += one.nr_workers;
		ck_assert_uint_eq(one.nr_workers, i < all.nr_workers);
		ck_assert_uint_eq(one.queued + one.in_flight, 0);
	}
	ck_assert_uint_eq(done, accepted);
	ck_assert_uint_eq(nr_workers, all.nr_workers);
}

/* Calls @resize while several threads submit. */
static void beside_submitters(struct rnl_pool *pool, void (*resize)(struct rnl_pool *pool))
{
	struct submitter *by = calloc(SUBMITTERS, sizeof(*by));
	struct call calls[SUBMITTERS];
	_Atomic bool stop = false;
	uint64_t accepted = 0;

	for (int i = 0; i < SUBMITTERS; i++) {
		by[i].pool = pool;
		by[i].stop = &stop;
		for (int k = 0; k < EACH_WINDOW; k++)
			job_of(&by[i].jobs[k].job, in_order_fn, NULL);
		call_start(&calls[i], submit_on, &by[i]);
	}
	ck_eventually(by[0].ran && by[1].ran && by[2].ran);
	resize(pool);
	stop = true;
	for (int i = 0; i < SUBMITTERS; i++)
		call_end(&calls[i]);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < SUBMITTERS; i++) {
		ck_assert_uint_eq(by[i].bad, 0);
		ck_assert_uint_eq(by[i].wrong, 0);
		ck_assert_uint_eq(by[i].ran, by[i].accepted);
		accepted += by[i].accepted;
	}
	check_sums(pool, accepted);
	free(by);
}

static void up_and_down(struct rnl_pool *pool)
{
	int rounds = (int)(60 / test_scale());

	for (int round = 0; round < rounds; round++) {
		unsigned nr = 1 + (unsigned)round * 5 % 6;	/* 1 6 5 4 3 2 1 ... */
		unsigned before = figures_of(pool).nr_workers;
		uint64_t done = figures_of(pool).done;

		must(rnl_pool_resize(pool, nr));
		ck_assert_uint_eq(figures_of(pool).nr_workers, nr);
		ck_assert_uint_le(before, 6);
		ck_eventually(figures_of(pool).done > done + 20);
	}
}

TEST(beside_submitters_every_job_runs_and_every_key_keeps_its_order, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);

	beside_submitters(pool, up_and_down);
	rnl_pool_destroy(pool);
}

static int resize_often(void *arg)
{
	struct resize *r = arg;

	for (unsigned i = 0; i < 15; i++) {
		int ret = rnl_pool_resize(r->pool, 1 + (i * 5 + r->nr) % 6);

		if (ret)
			return ret;
	}
	return 0;
}

static void by_several(struct rnl_pool *pool)
{
	enum { RESIZERS = 4 };
	struct resize resizes[RESIZERS];
	struct call calls[RESIZERS];

	for (unsigned i = 0; i < RESIZERS; i++) {
		resizes[i] = (struct resize){ pool, i };
		call_start(&calls[i], resize_often, &resizes[i]);
	}
	for (int i = 0; i < RESIZERS; i++)
		ck_assert_int_eq(call_end(&calls[i]), 0);
}

TEST(several_threads_resize_one_pool, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(3);

	beside_submitters(pool, by_several);
	must(rnl_pool_resize(pool, 3));
	ck_assert_uint_eq(figures_of(pool).nr_workers, 3);
	rnl_pool_destroy(pool);
}
