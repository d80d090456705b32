/* SPDX-License-Identifier: MIT */
/*
 * Concurrent maps of every kind, with other jobs, resizes and errors, have the results of a model
 * on the CPU.
 *
 * env: RNL_TEST_SEED repeats the draws; RNL_STRESS_SECONDS sets the duration.
 */
#include <runnel/map.h>
#include <runnel/stats.h>

#include "map.h"
#include "pool.h"
#include "seed.h"

#define NR_MAPPERS 3
#define NR_AT_ONCE 4		/* maps of a mapper at a time, with one barrier */
#define WORKERS 6		/* resizes are from 1 to this */
#define NR_JOBS 16

struct storm {
	struct rnl_pool *pool;
	uint64_t seed;
	double until;		/* seconds_now() */
	_Atomic uint64_t nr_maps, nr_failed, nr_refused;
};

struct mapper {
	struct storm *storm;
	uint64_t number, random;
	pthread_t thread;
};

/* ---- a map --------------------------------------------------------------- */

static bool likely(uint64_t *random, unsigned percent)
{
	return draw(random, 100) < percent;
}

/* Draws a size: small sizes are as likely as large ones. */
static uint64_t some(uint64_t *random, uint64_t max)
{
	const uint64_t most = draw(random, 3) ? max >> draw(random, 8) : max;

	return most ? draw(random, (unsigned)most + 1) : 0;
}

static void draw_sizes(struct task *t, uint64_t *random)
{
	static const size_t sizes[] = { 1, 2, 3, 4, 8, 12, 16, 100, 4096 };

	t->in_bytes = sizes[draw(random, COUNT(sizes))];
	t->out_bytes = likely(random, 40) ? sizes[draw(random, COUNT(sizes))] : t->in_bytes;
	/* At most 100 KB on either side. */
	t->nr = 1 + some(random, 100000 / (t->in_bytes > t->out_bytes ? t->in_bytes :
							   t->out_bytes));
	t->chunk = 1 + some(random, t->nr + t->nr / 4);
	/* More chunks would take too long. */
	if (t->nr / t->chunk > 400)
		t->chunk = t->nr / 400;
	if (likely(random, 60))
		t->before = some(random, t->chunk);
	if (likely(random, 60))
		t->after = some(random, t->chunk);
}

static void draw_task(struct task *t, uint64_t *random)
{
	static const enum where wheres[] = { PINNED, PAGEABLE, CALLED };

	*t = (struct task){ .in = wheres[draw(random, 3)], .out = wheres[draw(random, 3)] };
	draw_sizes(t, random);
	if (likely(random, 10)) {
		t->out = NOWHERE;
		t->out_bytes = 0;
	} else if (t->in != CALLED && likely(random, 35)) {
		t->out = IN_PLACE;
		t->out_bytes = t->in_bytes;
	}
	t->flags = draw(random, 4);
	t->reports = likely(random, 50);
	/*
	 * In order, no halos: the callback cannot know which part of a read is the chunk without
	 * halos.
	 */
	if (likely(random, 10)) {
		t->chunk = RNL_MAP_AUTO;
		if (t->flags & RNL_MAP_IN_ORDER)
			t->before = t->after = 0;
	}
}

/* Makes a callback or a function fail. */
static int draw_error(struct task *t, uint64_t *random)
{
	struct event *events[] = { &t->at_fn, &t->at_read, &t->at_write };
	struct event *e = events[draw(random, 3)];

	*e = (struct event){ .wanted = true, .element = draw(random, (unsigned)t->nr),
			     .error = -ENOSPC };
	return e == &t->at_fn || (e == &t->at_read && t->in == CALLED) ||
	       (e == &t->at_write && t->out == CALLED) ? -ENOSPC : 0;
}

/* ---- a mapper ------------------------------------------------------------ */

/* Starts some concurrent maps and checks them. */
static void map_some(struct mapper *m)
{
	struct storm *storm = m->storm;
	const unsigned nr = 1 + draw(&m->random, NR_AT_ONCE);
	struct task tasks[NR_AT_ONCE];
	bool begun[NR_AT_ONCE];
	struct rnl_barrier barrier;
	int expected = 0, ret;

	must(rnl_barrier_init(&barrier, storm->pool));
	for (unsigned i = 0; i < nr; i++) {
		int error;

		draw_task(&tasks[i], &m->random);
		error = likely(&m->random, 10) ? draw_error(&tasks[i], &m->random) : 0;
		task_prepare(&tasks[i], storm->pool);
		ret = rnl_map_start(storm->pool, &tasks[i].map, &barrier);
		ck_assert_msg(!ret || ret == -EAGAIN, "a map was refused with %d", ret);
		begun[i] = !ret;
		storm->nr_maps += !ret;
		storm->nr_refused += !!ret;
		expected = begun[i] && error ? error : expected;
	}
	ret = rnl_barrier_wait(&barrier, RNL_FOREVER);
	ck_assert_int_eq(ret, 0);
	ck_assert_int_eq(barrier.result, expected);
	storm->nr_failed += !!expected;
	for (unsigned i = 0; i < nr; i++) {
		if (begun[i] && !tasks[i].at_fn.wanted && !tasks[i].at_read.wanted &&
		    !tasks[i].at_write.wanted) {
			task_verify(&tasks[i]);
			if (tasks[i].reports)
				task_check_report(&tasks[i]);
		}
		if (!begun[i])
			ck_assert_uint_eq(tasks[i].nr_fn + tasks[i].nr_read, 0);
		task_end(&tasks[i]);
	}
}

static void *mapper_main(void *arg)
{
	struct mapper *m = arg;

	m->random = draws_of(m->storm->seed, m->number);
	while (seconds_now() < m->storm->until)
		map_some(m);
	return NULL;
}

/* ---- other work --------------------------------------------------- */

/* Submits other jobs, keyed or not, as many as there is space for. */
static void *submit_others(void *arg)
{
	struct storm *storm = arg;
	uint64_t random = draws_of(storm->seed, 100);
	struct rnl_job jobs[NR_JOBS];

	while (seconds_now() < storm->until) {
		unsigned nr = 0;

		for (; nr < NR_JOBS; nr++) {
			job_of(&jobs[nr], noop_fn, NULL);
			if (likely(&random, 50) ?
				    rnl_submit(storm->pool, &jobs[nr]) :
				    submit_by_key(storm->pool, &jobs[nr], draw(&random, 5)))
				break;
		}
		while (nr)
			ck_assert_int_eq(result_of(&jobs[--nr]), 0);
		usleep(draw(&random, 300));
	}
	return NULL;
}

static void *resize_often(void *arg)
{
	struct storm *storm = arg;
	uint64_t random = draws_of(storm->seed, 101);

	while (seconds_now() < storm->until) {
		must(rnl_pool_resize(storm->pool, 1 + draw(&random, WORKERS)));
		usleep(draw(&random, 5000));
	}
	return NULL;
}

static void storm_with(const struct rnl_pool_attr *attr)
{
	struct storm storm = { .seed = test_seed(), .until = seconds_now() + stress_seconds(3) };
	struct mapper mappers[NR_MAPPERS];
	struct rnl_pool_stats stats;
	pthread_t others, resizer;

	storm.pool = pool_with(attr, WORKERS / 2);
	for (unsigned i = 0; i < NR_MAPPERS; i++) {
		mappers[i] = (struct mapper){ .storm = &storm, .number = i };
		must(pthread_create(&mappers[i].thread, NULL, mapper_main, &mappers[i]));
	}
	must(pthread_create(&others, NULL, submit_others, &storm));
	must(pthread_create(&resizer, NULL, resize_often, &storm));
	for (unsigned i = 0; i < NR_MAPPERS; i++)
		pthread_join(mappers[i].thread, NULL);
	pthread_join(others, NULL);
	pthread_join(resizer, NULL);
	printf("%llu maps, of which groups with an error %llu; %llu were refused\n",
	       (unsigned long long)storm.nr_maps, (unsigned long long)storm.nr_failed,
	       (unsigned long long)storm.nr_refused);
	ck_assert_uint_gt(storm.nr_maps, 10);
	must(rnl_pool_drain(storm.pool, RNL_FOREVER));
	stats = figures_of(storm.pool);
	ck_assert_uint_eq(stats.accepted, stats.done);
	ck_assert_uint_eq(stats.pinned_used, 0);
	rnl_pool_destroy(storm.pool);
}

static const struct {
	const char *name;
	struct rnl_pool_attr attr;
} storms[] = {
	{ "by default", { .size = sizeof(struct rnl_pool_attr) } },
	{ "on private streams, with little space",
	  { .size = sizeof(struct rnl_pool_attr), .stream = RNL_STREAM_PRIVATE, .max_queued = 8,
	    .max_in_flight = 2, .nr_class_workers = 1, .staging_max = 1 << 16,
	    .scratch_keep = 1 << 16 } },
	{ "with little pinned memory",
	  { .size = sizeof(struct rnl_pool_attr), .pinned_max = 16 << 20, .pinned_preload = 16 << 20,
	    .spin_us = -1 } },
};

TEST(maps_of_every_kind_give_what_a_model_gives, .timeout_s = 60 + stress_seconds(3), .loops = 3)
{
	printf("%s: ", storms[_i].name);
	storm_with(&storms[_i].attr);
}
