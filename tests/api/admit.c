/* SPDX-License-Identifier: MIT */
/*
 * Admission: a class refuses jobs that would be late, and says how long a job would wait.
 *
 * DESIGN
 *	A gate holds the only worker, so the queue changes by submits alone. The unit of time is the
 *	estimate of a job, which the class says by what a queued job adds to the wait: so a busy
 *	machine, on which the jobs that were measured took longer, changes no result.
 */
#include <runnel/more.h>

#include "classed.h"

#define HOUR (3600 * 1000 * MS)

enum { LEARN = 4, FILL = 20, MANY = 200 };

/* A pool whose worker is held, a class that knows its function's jobs, and has some queued. */
struct held {
	struct rnl_pool *pool;
	struct rnl_class *cls;
	struct gate gate;
	struct rnl_job hold, learn[LEARN], queued[FILL], more[MANY];
	uint64_t each_ns;		/* a job's estimate */
};

static struct held held;

static int sleep_fn(struct rnl_job *job)
{
	const struct timespec ts = { .tv_nsec = (long)(intptr_t)job->user };

	nanosleep(&ts, NULL);
	return 0;
}

static uint64_t wait_of(struct rnl_class *cls)
{
	uint64_t ns = UINT64_MAX;

	must(rnl_class_wait(cls, &ns));
	return ns;
}

/* Submits a job with a deadline.  Returns what the submit returns. */
static int submit_by(struct rnl_job *job, uint64_t deadline_ns)
{
	classed_of(job, held.cls, sleep_fn, (void *)(intptr_t)(5 * MS));
	must(rnl_job_set_deadline(job, (int64_t)deadline_ns));
	return rnl_submit(held.pool, job);
}

/* Learns the function, holds the worker, and queues FILL jobs with far deadlines. */
static void begin_held(const struct rnl_class_attr *attr)
{
	held = (struct held){ .gate = GATE_INIT, .pool = pool_of(1) };
	held.cls = class_with(held.pool, attr);
	for (int i = 0; i < LEARN; i++) {
		must(submit_by(&held.learn[i], HOUR));
		must(rnl_job_wait(&held.learn[i], RNL_FOREVER));
	}
	hold_workers(held.pool, &held.gate, &held.hold, 1);
	ck_assert_uint_eq(wait_of(held.cls), 0);
	for (int i = 0; i < FILL; i++)
		must(submit_by(&held.queued[i], HOUR));
	held.each_ns = wait_of(held.cls) / FILL;
	ck_assert_uint_ge(held.each_ns, MS);
}

#define begin(...) \
	begin_held(&(struct rnl_class_attr){ .size = sizeof(struct rnl_class_attr), ##__VA_ARGS__ })

static void end_held(void)
{
	(void)rnl_pool_cancel(held.pool);
	gate_open(&held.gate);
	must(rnl_pool_drain(held.pool, RNL_FOREVER));
	rnl_pool_destroy(held.pool);
}

/* ---- in the order of submits -------------------------------------------------- */

TEST(a_job_that_would_end_late_is_refused_and_one_with_time_is_not)
{
	begin(.flags = RNL_CLASS_ADMIT);
	ck_assert_int_eq(submit_by(&held.more[0], FILL * held.each_ns), -ETIME);
	ck_assert_int_eq(submit_by(&held.more[0], held.each_ns), -ETIME);
	must(submit_by(&held.more[0], (FILL + 2) * held.each_ns));
	ck_assert_int_eq(submit_by(&held.more[1], (FILL + 1) * held.each_ns), -ETIME);
	ck_assert_uint_eq(stats_of(held.cls).unadmitted, 3);
	ck_assert_uint_eq(stats_of(held.cls).accepted, LEARN + FILL + 1);
	ck_assert_str_eq(rnl_strerror(-ETIME), "would end after its deadline");
	end_held();
}

TEST(a_class_without_admission_refuses_no_job)
{
	begin(.flags = RNL_CLASS_LATE);
	must(submit_by(&held.more[0], held.each_ns));
	ck_assert_uint_eq(stats_of(held.cls).unadmitted, 0);
	end_held();
}

TEST(the_deadline_may_be_the_class_s_and_jobs_without_one_are_not_refused)
{
	struct rnl_class *hasty;

	begin(.flags = RNL_CLASS_ADMIT);
	classed_of(&held.more[0], held.cls, sleep_fn, NULL);
	must(rnl_submit(held.pool, &held.more[0]));
	/* The work of the other class goes first. */
	hasty = class_of(held.pool, .flags = RNL_CLASS_ADMIT, .priority = 1, .deadline_ns = FILL * held.each_ns);
	classed_of(&held.more[1], hasty, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(held.pool, &held.more[1]), -ETIME);
	end_held();
}

TEST(a_wait_for_space_returns_at_once_and_of_many_those_before_are_accepted)
{
	struct rnl_job *jobs[3] = { &held.more[0], &held.more[1], &held.more[2] };

	begin(.flags = RNL_CLASS_ADMIT, .max_queued = FILL + 2);
	for (int i = 0; i < 3; i++) {
		classed_of(jobs[i], held.cls, sleep_fn, NULL);
		must(rnl_job_set_deadline(jobs[i], i == 2 ? MS / 2 : HOUR));
	}
	ck_assert_int_eq(rnl_submit_many(held.pool, jobs + 2, 1), -ETIME);
	ck_assert_int_eq(rnl_submit_wait(held.pool, jobs[2], RNL_FOREVER), -ETIME);
	ck_assert_int_eq(rnl_submit_many(held.pool, jobs, 3), 2);
	/* Now the class is full, too. */
	ck_assert_int_eq(rnl_submit_wait(held.pool, jobs[2], RNL_FOREVER), -ETIME);
	end_held();
}

TEST(keys_chains_barriers_and_start_times_are_never_refused)
{
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct rnl_barrier barrier;
	struct rnl_order order;
	struct rnl_job *jobs = held.more;
	struct rnl_job_more ordered = RNL_JOB_MORE_INIT;

	begin(.flags = RNL_CLASS_ADMIT);
	must(rnl_barrier_init(&barrier, held.pool));
	must(rnl_order_init(&order, held.pool, 7));
	for (int i = 0; i < 6; i++) {
		classed_of(&jobs[i], held.cls, noop_fn, NULL);
		must(rnl_job_set_deadline(&jobs[i], 1));
	}
	ck_assert_int_eq(rnl_submit(held.pool, &jobs[0]), -ETIME);
	must(rnl_job_set_key(&jobs[0], 7));
	must(rnl_submit(held.pool, &jobs[0]));
	must(rnl_job_set_then(&jobs[1], &jobs[2]));
	must(rnl_submit(held.pool, &jobs[1]));
	must(rnl_job_set_after(&jobs[3], &barrier));
	must(rnl_submit(held.pool, &jobs[3]));
	more.start_ns = rnl_clock() + HOUR;
	must(rnl_job_set_more(&jobs[4], &more));
	must(rnl_submit(held.pool, &jobs[4]));
	ordered.order = &order;
	must(rnl_job_set_more(&jobs[5], &ordered));
	must(rnl_submit(held.pool, &jobs[5]));
	ck_assert_uint_eq(stats_of(held.cls).unadmitted, 1);
	(void)rnl_pool_cancel(held.pool);
	gate_open(&held.gate);
	for (int i = 0; i < 6; i++)
		(void)rnl_job_wait(&jobs[i], RNL_FOREVER);
	rnl_order_fini(&order);
	end_held();
}

/* ---- by deadline ---------------------------------------------------------------- */

/* Submits jobs with a deadline until one is refused.  Returns how many were accepted. */
static unsigned fill_by(uint64_t deadline_ns)
{
	unsigned nr = 0;
	int ret = 0;

	while (nr < MANY && !(ret = submit_by(&held.more[nr], deadline_ns)))
		nr++;
	ck_assert_int_eq(ret, -ETIME);
	return nr;
}

TEST(jobs_with_far_deadlines_do_not_keep_near_ones_out)
{
	unsigned nr;

	begin(.flags = RNL_CLASS_ADMIT, .order = RNL_CLASS_DEADLINE);
	nr = fill_by(30 * held.each_ns);
	/* Those that expire meanwhile, on a busy machine, make place for others. */
	ck_assert_uint_ge(nr, 29);
	end_held();
}

TEST(an_accepted_job_is_not_made_late_by_later_submits_with_earlier_deadlines)
{
	static struct rnl_job far[90];
	uint64_t began;
	unsigned nr;

	begin(.flags = RNL_CLASS_ADMIT, .order = RNL_CLASS_DEADLINE);
	began = rnl_clock();
	for (int i = 0; i < 90; i++)
		must(submit_by(&far[i], 100 * held.each_ns));
	nr = fill_by(50 * held.each_ns);
	/* On a busy machine later submits have later deadlines. */
	ck_assert_uint_le(nr, 10 + (rnl_clock() - began) / held.each_ns);
	end_held();
}

/* ---- estimates ------------------------------------------------------------------- */

TEST(a_function_that_is_refused_on_an_idle_device_is_tried_again)
{
	struct rnl_job job;
	unsigned nr = 0;

	held = (struct held){ .pool = pool_of(1) };
	held.cls = class_of(held.pool, .flags = RNL_CLASS_ADMIT);
	for (int i = 0; i < LEARN; i++) {
		classed_of(&job, held.cls, sleep_fn, (void *)(intptr_t)(20 * MS));
		must(submit_and_wait(held.pool, &job));
	}
	ck_assert_int_eq(submit_by(&job, 10 * MS), -ETIME);
	while (submit_by(&job, 10 * MS))
		ck_assert_uint_le(++nr, 100);
	(void)result_of(&job);
	rnl_pool_destroy(held.pool);
}

TEST(the_error_of_estimates_is_in_the_statistics)
{
	enum { NR = 20 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool);
	struct rnl_job job;

	ck_assert_uint_eq(stats_of(cls).error_permille, 0);
	for (int i = 0; i < NR; i++) {
		classed_of(&job, cls, sleep_fn, (void *)(intptr_t)(i % 2 ? MS : 10 * MS));
		must(submit_and_wait(pool, &job));
	}
	ck_assert_uint_ge(stats_of(cls).error_permille, 50);
	rnl_pool_destroy(pool);
}

TEST(a_wait_is_for_the_classes_that_go_first_and_the_work_under_way)
{
	struct rnl_class *same, *first, *later;

	begin(.weight = 1);
	same = class_of(held.pool, .weight = 3);
	first = class_of(held.pool, .priority = -1);
	later = class_of(held.pool, .priority = 1, .floor_permille = RNL_CLASS_NO_FLOOR);
	ck_assert_uint_eq(wait_of(first), 0);
	ck_assert_uint_eq(wait_of(same), 0);
	/* Estimates in 16 bits are a little smaller. */
	ck_assert_uint_ge(wait_of(later), (FILL - 1) * held.each_ns);
	ck_assert_uint_le(wait_of(later), (FILL + 1) * held.each_ns);
	end_held();
}

TEST(a_rate_is_a_part_of_the_wait)
{
	enum { NR = 10 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .per_second = 1, .flags = RNL_CLASS_ADMIT);
	struct gate gate = GATE_INIT;
	struct rnl_job hold, jobs[NR + 1];

	hold_workers(pool, &gate, &hold, 1);
	for (int i = 0; i < NR; i++)
		submit_classed(pool, &jobs[i], cls, noop_fn, NULL);
	ck_assert_uint_le(wait_of(cls), NR * 1000 * MS);
	ck_assert_uint_ge(wait_of(cls), (NR - 1) * 1000 * MS);
	classed_of(&jobs[NR], cls, noop_fn, NULL);
	must(rnl_job_set_deadline(&jobs[NR], (NR - 1) * 1000 * MS));
	ck_assert_int_eq(rnl_submit(pool, &jobs[NR]), -ETIME);
	(void)rnl_pool_cancel(pool);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}
