/* SPDX-License-Identifier: MIT */
/* The figures of classes: times in the queue, shares of the device time, health. */
#include <runnel/more.h>
#include <runnel/stats.h>

#include "classed.h"

#define SLEEP_US 2000

static int sleep_fn(struct rnl_job *job)
{
	(void)job;
	usleep(SLEEP_US);
	return 0;
}

/* ---- times in the queue ---------------------------------------------------- */

/* Checks both times, which a histogram gives to a sixteenth. */
static void queued_for(struct rnl_class *cls, uint64_t nr, uint64_t least, uint64_t most)
{
	const struct rnl_class_stats stats = stats_of(cls);

	ck_assert_uint_eq(stats.queue_timed, nr);
	ck_assert_uint_ge(stats.queue_ns_p50, least);
	ck_assert_uint_ge(stats.queue_ns_p99, stats.queue_ns_p50);
	ck_assert_uint_le(stats.queue_ns_p99, most + most / 16);
}

TEST(a_job_is_queued_in_its_class_from_its_submit_until_a_worker_takes_it)
{
	enum { NR = 20 };
	struct rnl_pool *pool = pool_of(1, .time_every = 1);
	struct rnl_class *cls = class_of(pool), *other = class_of(pool);
	struct gate gate = GATE_INIT;
	struct rnl_job held, jobs[NR];
	int64_t begin, end, open;

	hold_workers(pool, &gate, &held, 1);
	begin = rnl_clock();
	for (int i = 0; i < NR; i++)
		submit_classed(pool, &jobs[i], cls, noop_fn, NULL);
	end = rnl_clock();
	queued_for(cls, 0, 0, 0);
	usleep(20000);
	open = rnl_clock();
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	queued_for(cls, NR, (uint64_t)(open - end), (uint64_t)(rnl_clock() - begin));
	queued_for(other, 0, 0, 0);
	rnl_pool_destroy(pool);
}

TEST(a_wait_for_a_barrier_or_a_start_time_is_no_time_in_the_queue, .loops = 2)
{
	struct rnl_pool *pool = pool_of(2, .time_every = 1);
	struct rnl_class *cls = class_of(pool);
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held, job;
	int64_t begin;

	hold_barrier(pool, &barrier, &gate, &held);
	classed_of(&job, cls, noop_fn, NULL);
	more.start_ns = begin = rnl_clock() + 50000000;
	must(_i ? rnl_job_set_more(&job, &more) : rnl_job_set_after(&job, &barrier));
	must(rnl_submit(pool, &job));
	if (!_i) {
		usleep(50000);
		begin = rnl_clock();
		gate_open(&gate);
	}
	ck_assert_int_eq(result_of(&job), 0);
	queued_for(cls, 1, 0, (uint64_t)(rnl_clock() - begin));
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(keyed_jobs_and_later_jobs_of_a_chain_are_not_timed_in_the_queue)
{
	struct rnl_pool *pool = pool_of(1, .time_every = 1);
	struct rnl_class *cls = class_of(pool);
	struct rnl_job keyed, first, second;

	classed_of(&keyed, cls, noop_fn, NULL);
	must(rnl_job_set_key(&keyed, 3));
	must(rnl_submit(pool, &keyed));
	job_of(&second, noop_fn, NULL);
	classed_of(&first, cls, noop_fn, NULL);
	must(rnl_job_set_then(&first, &second));
	must(rnl_submit(pool, &first));
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(stats_of(cls).done, 3);
	ck_assert_uint_eq(stats_of(cls).queue_timed, 1);
	rnl_pool_destroy(pool);
}

/* ---- shares ----------------------------------------------------------------- */

TEST(a_class_has_its_part_of_the_device_time_since_its_creation)
{
	enum { NR = 5 };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls[2] = { class_of(pool), class_of(pool) }, *late;
	struct rnl_class_stats stats[2], before;
	struct rnl_job jobs[3 * NR], job;

	ck_assert_uint_eq(stats_of(cls[0]).share_permille + stats_of(cls[0]).all_device_ns, 0);
	for (int i = 0; i < 3 * NR; i++)
		submit_classed(pool, &jobs[i], i % 3 < 2 ? cls[i % 3] : NULL, sleep_fn, NULL);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < 2; i++) {
		stats[i] = stats_of(cls[i]);
		ck_assert_uint_gt(stats[i].share_permille, 0);
		ck_assert_double_eq_tol(stats[i].share_permille, 1000.0 * (double)stats[i].device_ns /
					(double)stats[i].all_device_ns, 0.51);
	}
	/* The rest is of the jobs without a class.  At most two workers were busy at once. */
	ck_assert_uint_eq(stats[0].all_device_ns, stats[1].all_device_ns);
	ck_assert_uint_gt(stats[0].all_device_ns, stats[0].device_ns + stats[1].device_ns);
	ck_assert_uint_ge(stats[0].all_device_ns, 3 * NR * SLEEP_US * UINT64_C(1000) / 3);
	late = class_of(pool);
	ck_assert_uint_eq(stats_of(late).all_device_ns, 0);
	submit_classed(pool, &job, late, sleep_fn, NULL);
	must(rnl_job_wait(&job, RNL_FOREVER));
	ck_assert_uint_eq(stats_of(late).share_permille, 1000);
	/* A class's end, and the next one in its place, take nothing away. */
	before = stats_of(cls[0]);
	rnl_class_destroy(cls[1]);
	ck_assert_uint_eq(stats_of(cls[0]).all_device_ns, before.all_device_ns);
	cls[1] = class_of(pool);
	ck_assert_uint_eq(stats_of(cls[0]).all_device_ns, before.all_device_ns);
	ck_assert_uint_eq(stats_of(cls[1]).all_device_ns, 0);
	rnl_pool_destroy(pool);
}

/* ---- health ----------------------------------------------------------------- */

static void health_is(struct rnl_pool *pool, uint64_t queued, enum rnl_health_state state)
{
	struct rnl_health health = RNL_HEALTH_INIT;

	must(rnl_pool_health(pool, &health));
	ck_assert_uint_eq(health.queued, queued);
	ck_assert_uint_eq(health.state, state);
	ck_assert_uint_eq(figures_of(pool).queued, queued);
}

TEST(a_pool_is_overloaded_when_a_class_is_full_to_three_quarters_of_its_own_limit)
{
	enum { SMALL = 8, LARGE = 100, OWN = 4 };
	struct rnl_pool *pool = pool_of(1, .max_queued = OWN, .stuck_ms = 3600000);
	struct rnl_class *small = class_of(pool, .max_queued = SMALL);
	struct rnl_class *large = class_of(pool, .max_queued = LARGE);
	struct rnl_job held, jobs[LARGE];
	struct gate gate = GATE_INIT;
	unsigned nr = 0;

	health_is(pool, 0, RNL_HEALTH_OK);
	hold_workers(pool, &gate, &held, 1);
	/* More than the pool's own limit. */
	for (; nr < LARGE / 2; nr++)
		submit_classed(pool, &jobs[nr], large, noop_fn, NULL);
	health_is(pool, nr, RNL_HEALTH_OK);
	for (int i = 0; i < SMALL * 3 / 4; i++) {
		health_is(pool, nr, RNL_HEALTH_OK);
		submit_classed(pool, &jobs[nr++], small, noop_fn, NULL);
	}
	health_is(pool, nr, RNL_HEALTH_OVERLOADED);
	must(rnl_job_cancel(&jobs[nr - 1]));
	ck_assert_int_eq(result_of(&jobs[--nr]), -ECANCELED);
	health_is(pool, nr, RNL_HEALTH_OK);
	for (int i = 0; i < OWN * 3 / 4; i++)
		submit_job(pool, &jobs[nr++], noop_fn, NULL);
	health_is(pool, nr, RNL_HEALTH_OVERLOADED);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	health_is(pool, 0, RNL_HEALTH_OK);
	rnl_class_destroy(small);
	health_is(pool, 0, RNL_HEALTH_OK);
	rnl_pool_destroy(pool);
}

/* ---- beside creations and ends ------------------------------------------------- */

struct reader {
	struct rnl_pool *pool;
	_Atomic bool over;
	pthread_t thread;
};

static void *keeps_reading(void *arg)
{
	struct reader *r = arg;
	struct rnl_health health = RNL_HEALTH_INIT;

	while (!r->over) {
		ck_assert_int_gt(rnl_pool_stats_text(r->pool, NULL, NULL, 0), 0);
		must(rnl_pool_health(r->pool, &health));
	}
	return NULL;
}

TEST(figures_are_read_while_classes_are_created_and_end)
{
	struct rnl_pool *pool = pool_of(2, .time_every = 1);
	struct reader reader = { .pool = pool };
	struct rnl_class *stays = class_of(pool);
	uint64_t all = 0;

	must(pthread_create(&reader.thread, NULL, keeps_reading, &reader));
	for (unsigned i = 0; i < 100; i++) {
		struct rnl_class *cls = class_of(pool, .name = i % 2 ? "odd" : "even");
		struct rnl_job job;

		classed_of(&job, cls, noop_fn, NULL);
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
		ck_assert_uint_eq(stats_of(cls).done, 1);
		ck_assert_uint_eq(stats_of(cls).queue_timed, 1);
		rnl_class_destroy(cls);
		ck_assert_uint_ge(stats_of(stays).all_device_ns, all);
		all = stats_of(stays).all_device_ns;
	}
	reader.over = true;
	must(pthread_join(reader.thread, NULL));
	rnl_pool_destroy(pool);
}
