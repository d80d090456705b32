/* SPDX-License-Identifier: MIT */
/* Classes: which job starts next, limits, deadlines, and that no job of a class is lost. */
#include <runnel/more.h>

#include "classed.h"
#include "record.h"
#include "seed.h"

static void submit_noted(struct rnl_pool *pool, struct noted *n, struct rnl_class *cls,
			 struct record *record, int id)
{
	noted_of(n, record, id);
	must(rnl_job_set_class(&n->job, cls));
	must(rnl_submit(pool, &n->job));
}

/* ---- who is next ---------------------------------------------------------- */

TEST(a_class_of_smaller_priority_goes_first_and_jobs_without_a_class_have_priority_0)
{
	enum { EACH = 10 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *low = class_of(pool, .priority = 3, .floor_permille = RNL_CLASS_NO_FLOOR);
	struct rnl_class *high = class_of(pool, .priority = -1);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct noted noted[3 * EACH];
	struct rnl_job held;

	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < 3 * EACH; i++)
		submit_noted(pool, &noted[i], i % 3 == 0 ? low : i % 3 == 1 ? NULL : high, &record,
			     i % 3 * EACH + i / 3);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, 3 * EACH);
	/* The own class has a floor of 1 %, which may put one of its jobs first. */
	for (int i = 0; i < EACH; i++) {
		ck_assert_int_ge(place_of(&record, 2 * EACH + i), i);
		ck_assert_int_le(place_of(&record, 2 * EACH + i), i + 2);
		ck_assert_int_eq(place_of(&record, i), 2 * EACH + i);
	}
	rnl_pool_destroy(pool);
}

TEST(jobs_of_a_class_start_in_the_order_of_their_submits_on_whichever_worker)
{
	enum { NR = 300 };
	struct rnl_pool *pool = pool_of(4);
	struct rnl_class *cls = class_of(pool, .max_jobs = 1);
	struct record record = { 0 };
	static struct noted noted[NR];

	for (int i = 0; i < NR; i++)
		submit_noted(pool, &noted[i], cls, &record, i);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(record.ids[i], i);
	rnl_pool_destroy(pool);
}

TEST(the_earliest_deadline_goes_first_then_jobs_without_one)
{
	enum { NR = 40 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .order = RNL_CLASS_DEADLINE);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct noted noted[NR];
	struct rnl_job held;

	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < NR; i++) {
		const int id = i * 7 % NR;

		noted_of(&noted[i], &record, id);
		must(rnl_job_set_class(&noted[i].job, cls));
		if (id < NR / 2)
			must(rnl_job_set_deadline(&noted[i].job, (1000 + id) * 1000 * MS));
		else
			noted[i].id = NR / 2 + i;	/* in the order of the submits */
		must(rnl_submit(pool, &noted[i].job));
	}
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, NR);
	for (int i = 0; i < NR / 2; i++)
		ck_assert_int_eq(record.ids[i], i);
	for (int i = NR / 2 + 1; i < NR; i++)
		ck_assert_int_gt(record.ids[i], record.ids[i - 1]);
	rnl_pool_destroy(pool);
}

/* Job function: takes `user` ns, and no CPU. */
static int busy_fn(struct rnl_job *job)
{
	const struct timespec ts = { .tv_nsec = (long)(intptr_t)job->user };

	nanosleep(&ts, NULL);
	return 0;
}

/* Jobs that submit themselves again, so their classes always have work. */
struct load {
	struct rnl_pool *pool;
	_Atomic unsigned runs;
	_Atomic unsigned until;	/* the gate opens at this number of runs, and `ends` ends all */
	struct gate gate;
	_Atomic bool ends;
};

struct again {
	struct rnl_job job;
	struct load *load;
};

static void again_done(struct rnl_job *job)
{
	struct load *load = rnl_container_of(job, struct again, job)->load;

	if (++load->runs == load->until)
		gate_open(&load->gate);
	if (!load->ends)
		must(rnl_submit(load->pool, job));
}

static void again_of(struct again *a, struct load *load, struct rnl_class *cls, int64_t ns)
{
	a->load = load;
	classed_of(&a->job, cls, busy_fn, (void *)(intptr_t)ns);
	must(rnl_job_set_on_done(&a->job, again_done));
}

static uint64_t used_since(struct rnl_class *cls, const struct rnl_class_stats *before)
{
	return stats_of(cls).device_ns - before->device_ns;
}

TEST(two_busy_classes_share_the_device_by_their_weights_whatever_their_jobs_take, .loops = 2)
{
	enum { EACH = 200 };	/* more than can be under way: max_in_flight is 64 */
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls[2] = { class_of(pool, .weight = 3), class_of(pool, .weight = 1) };
	static struct again again[2 * EACH];
	struct load load = { .pool = pool, .until = UINT32_MAX, .gate = GATE_INIT };
	struct rnl_class_stats before[2];
	double a, b;

	for (int i = 0; i < 2 * EACH; i++) {
		again_of(&again[i], &load, cls[i % 2], _i && !(i % 2) ? MS / 10 : MS);
		must(rnl_submit(pool, &again[i].job));
	}
	before[0] = stats_of(cls[0]);
	before[1] = stats_of(cls[1]);
	load.until = load.runs + 2000;
	gate_wait(&load.gate);
	a = (double)used_since(cls[0], &before[0]);
	b = (double)used_since(cls[1], &before[1]);
	load.ends = true;
	must(rnl_pool_drain(pool, RNL_FOREVER));
	/* In made-up time, in unit/class, the shares are exact. */
	ck_assert_msg(a > 2.5 * b && a < 3.5 * b, "%g and %g ns", a, b);
	rnl_pool_destroy(pool);
}

/* api/own_workers has more. */
TEST(a_class_with_workers_of_its_own_runs_on_them_alone, .loops = 2)
{
	struct rnl_pool *pool = pool_of(2, .nr_class_workers = 1);
	struct rnl_class *own = class_of(pool, .nr_workers = 1, .spin_us = _i ? 100000 : 0);
	struct rnl_class *other = class_of(pool, .priority = -4);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2], first, second;

	hold_workers(pool, &gate, held, 2);
	submit_classed(pool, &second, other, index_fn, NULL);
	for (int i = 0; i < 20; i++) {
		submit_classed(pool, &first, own, index_fn, NULL);
		ck_assert_int_eq(result_of(&first), 0);
	}
	ck_assert_int_eq(rnl_job_wait(&second, 0), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_ge(result_of(&second), 1);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

/* ---- limits ---------------------------------------------------------------- */

struct beside {
	_Atomic int now, most;
	struct gate *gate;
};

static int beside_fn(struct rnl_job *job)
{
	struct beside *beside = job->user;
	int now = ++beside->now, most = beside->most;

	while (now > most && !atomic_compare_exchange_weak(&beside->most, &most, now))
		;
	if (beside->gate)
		gate_wait(beside->gate);
	beside->now--;
	return 0;
}

TEST(a_class_has_as_many_jobs_under_way_as_it_may_and_the_other_workers_serve_others)
{
	enum { NR = 40 };
	struct rnl_pool *pool = pool_of(4);
	struct rnl_class *half = class_of(pool, .max_jobs = 2, .priority = -4);
	struct gate gate = GATE_INIT;
	struct beside beside = { .gate = &gate };
	static struct rnl_job jobs[NR], others[NR];

	for (int i = 0; i < NR; i++)
		submit_classed(pool, &jobs[i], half, beside_fn, &beside);
	gate_await(&gate, 2);
	for (int i = 0; i < NR; i++) {
		submit_job(pool, &others[i], noop_fn, NULL);
		must(rnl_job_wait(&others[i], RNL_FOREVER));
	}
	ck_assert_uint_eq(gate_nr(&gate), 2);
	ck_assert_uint_eq(stats_of(half).started, 2);
	ck_assert_uint_eq(stats_of(half).queued, NR - 2);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(beside.most, 2);
	ck_assert_uint_eq(stats_of(half).done, NR);
	rnl_pool_destroy(pool);
}

struct place {
	struct gate gate;
	int index;			/* of the worker, once it has come to the gate */
};

static int place_fn(struct rnl_job *job)
{
	struct place *place = job->user;

	place->index = rnl_worker().index;
	gate_wait(&place->gate);
	return 0;
}

/* The worker whose job ends goes on with another one, so one that sleeps must take the class's next. */
TEST(the_end_of_a_job_at_a_limit_wakes_another_worker)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool, .max_jobs = 1, .priority = 3,
					 .floor_permille = RNL_CLASS_NO_FLOOR);
	struct place first = { .gate = GATE_INIT }, other = { .gate = GATE_INIT };
	struct rnl_job jobs[3];

	if (strcmp(test_device(), "host"))
		test_skip("with a stream, a worker in a function does not see that a job has ended");
	submit_classed(pool, &jobs[0], cls, place_fn, &first);
	gate_await(&first.gate, 1);
	submit_classed(pool, &jobs[1], cls, noop_fn, NULL);
	job_of(&jobs[2], place_fn, &other);
	must(rnl_job_set_key(&jobs[2], RNL_KEY_WORKER(first.index)));
	must(rnl_submit(pool, &jobs[2]));
	gate_open(&first.gate);
	must(rnl_job_wait(&jobs[1], RNL_FOREVER));
	gate_open(&other.gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_full_class_refuses_and_a_submit_that_waits_gets_its_place)
{
	enum { NR = 5 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .max_queued = NR);
	struct gate gate = GATE_INIT;
	struct rnl_job held, jobs[NR], one, other;

	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < NR; i++)
		submit_classed(pool, &jobs[i], cls, noop_fn, NULL);
	classed_of(&one, cls, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &one), -EAGAIN);
	ck_assert_int_eq(rnl_submit_wait(pool, &one, 5 * MS), -ETIMEDOUT);
	/* Others are not refused. */
	submit_job(pool, &other, noop_fn, NULL);
	ck_assert_uint_ge(stats_of(cls).refused, 2);
	gate_open(&gate);
	must(rnl_submit_wait(pool, &one, RNL_FOREVER));
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(stats_of(cls).accepted, NR + 1);
	ck_assert_uint_eq(stats_of(cls).queued, 0);
	rnl_pool_destroy(pool);
}

static int time_fn(struct rnl_job *job)
{
	*(int64_t *)job->user = rnl_clock();
	return 0;
}

TEST(a_rate_spaces_jobs_and_a_burst_is_at_once)
{
	enum { NR = 12, BURST = 4 };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool, .per_second = 200, .burst = BURST);
	struct rnl_job jobs[NR];
	int64_t begin = rnl_clock(), times[NR];

	for (int i = 0; i < NR; i++)
		submit_classed(pool, &jobs[i], cls, time_fn, &times[i]);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	/* A job may run late, but none runs early. */
	for (int i = BURST; i < NR; i++)
		ck_assert_int_ge(times[i] - begin, (i - BURST + 1) * 5 * MS - MS / 10);
	rnl_pool_destroy(pool);
}

/* ---- in time ---------------------------------------------------------------- */

TEST(a_queued_job_that_is_cancelled_or_expires_completes_while_all_workers_are_busy)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2], jobs[20];

	hold_workers(pool, &gate, held, 2);
	for (int i = 0; i < 20; i++) {
		classed_of(&jobs[i], cls, noop_fn, NULL);
		if (i % 4 == 1)
			must(rnl_job_set_deadline(&jobs[i], MS));
		must(rnl_submit(pool, &jobs[i]));
	}
	for (int i = 0; i < 20; i += 4)
		must(rnl_job_cancel(&jobs[i]));
	for (int i = 0; i < 20; i++)
		if (i % 4 < 2)
			ck_assert_int_eq(result_of(&jobs[i]), i % 4 ? -ETIMEDOUT : -ECANCELED);
	ck_assert_uint_eq(stats_of(cls).queued, 10);
	ck_assert_uint_eq(stats_of(cls).expired, 5);
	gate_open(&gate);
	for (int i = 0; i < 20; i++)
		if (i % 4 >= 2)
			ck_assert_int_eq(result_of(&jobs[i]), 0);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_would_be_late_is_not_started_unless_its_class_says_so, .loops = 2)
{
	enum { LEARN = 4 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .flags = _i ? RNL_CLASS_LATE : 0);
	struct rnl_job jobs[LEARN], late;

	for (int i = 0; i < LEARN; i++) {
		submit_classed(pool, &jobs[i], cls, busy_fn, (void *)(intptr_t)(20 * MS));
		must(rnl_job_wait(&jobs[i], RNL_FOREVER));
	}
	classed_of(&late, cls, busy_fn, (void *)(intptr_t)(20 * MS));
	/* Time enough to start on a busy machine, and not to end. */
	must(rnl_job_set_deadline(&late, 10 * MS));
	must(rnl_submit(pool, &late));
	if (!_i) {
		ck_assert_int_eq(result_of(&late), -ETIMEDOUT);
		ck_assert_uint_eq(stats_of(cls).late + stats_of(cls).expired, 1);
	} else {
		/* It has started, or not even that was in time. */
		ck_assert_int_eq(result_of(&late), stats_of(cls).expired ? -ETIMEDOUT : 0);
		ck_assert_uint_eq(stats_of(cls).late, 0);
	}
	rnl_pool_destroy(pool);
}

TEST(a_class_has_a_deadline_for_jobs_without_one)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .deadline_ns = MS);
	struct gate gate = GATE_INIT;
	struct rnl_job held, job, own;

	hold_workers(pool, &gate, &held, 1);
	submit_classed(pool, &job, cls, noop_fn, NULL);
	classed_of(&own, cls, noop_fn, NULL);
	must(rnl_job_set_deadline(&own, 3600 * 1000 * MS));
	must(rnl_submit(pool, &own));
	ck_assert_int_eq(result_of(&job), -ETIMEDOUT);
	/* Without its class, it has no deadline. */
	must(rnl_job_set_class(&job, NULL));
	must(rnl_submit(pool, &job));
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_int_eq(result_of(&own), 0);
	rnl_pool_destroy(pool);
}

/* ---- with keys, chains, barriers, times ------------------------------------- */

TEST(a_chain_goes_by_its_first_job_and_a_key_keeps_its_order)
{
	enum { NR = 30 };
	struct rnl_pool *pool = pool_of(3);
	struct rnl_class *cls = class_of(pool, .priority = 1), *other = class_of(pool);
	struct record chained = { 0 }, keyed = { 0 };
	static struct noted chain[NR], keys[NR];

	for (int i = NR - 1; i >= 0; i--) {
		noted_of(&chain[i], &chained, i);
		must(rnl_job_set_class(&chain[i].job, i ? other : cls));
		if (i < NR - 1)
			must(rnl_job_set_then(&chain[i].job, &chain[i + 1].job));
	}
	for (int i = 0; i < NR; i++) {
		noted_of(&keys[i], &keyed, i);
		must(rnl_job_set_class(&keys[i].job, i % 2 ? cls : other));
		must(rnl_job_set_key(&keys[i].job, 7));
		must(rnl_submit(pool, &keys[i].job));
	}
	must(rnl_submit(pool, &chain[0].job));
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++) {
		ck_assert_int_eq(chained.ids[i], i);
		ck_assert_int_eq(keyed.ids[i], i);
	}
	ck_assert_uint_eq(stats_of(cls).done, NR + NR / 2);
	ck_assert_uint_eq(stats_of(other).done, NR / 2);
	ck_assert_uint_eq(stats_of(cls).started + stats_of(other).started, 0);
	rnl_pool_destroy(pool);
}

TEST(a_job_after_a_barrier_or_at_a_time_keeps_its_place_in_its_class)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool, .max_queued = 2);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct rnl_job held, after, timed, third;

	hold_barrier(pool, &barrier, &gate, &held);
	classed_of(&after, cls, noop_fn, NULL);
	must(rnl_job_set_after(&after, &barrier));
	must(rnl_submit(pool, &after));
	more.start_ns = rnl_clock() + 20 * MS;
	classed_of(&timed, cls, noop_fn, NULL);
	must(rnl_job_set_more(&timed, &more));
	must(rnl_submit(pool, &timed));
	classed_of(&third, cls, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &third), -EAGAIN);
	ck_assert_int_eq(result_of(&timed), 0);
	must(rnl_submit(pool, &third));
	gate_open(&gate);
	ck_assert_int_eq(result_of(&after), 0);
	ck_assert_int_eq(result_of(&third), 0);
	rnl_pool_destroy(pool);
}

TEST(a_delayed_job_that_is_cancelled_gives_its_place_back)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .max_queued = 1);
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct gate gate = GATE_INIT;
	struct rnl_job held, job;

	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < 3; i++) {
		more = (struct rnl_job_more)RNL_JOB_MORE_INIT;
		more.start_ns = rnl_clock() + 3600 * 1000 * MS;
		classed_of(&job, cls, noop_fn, NULL);
		must(rnl_job_set_more(&job, &more));
		must(rnl_submit(pool, &job));
		must(rnl_job_cancel(&job));
		ck_assert_int_eq(result_of(&job), -ECANCELED);
	}
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

/* ---- ends ------------------------------------------------------------------ */

TEST(a_pool_ends_with_ten_thousand_queued_jobs_and_none_is_lost, .loops = 4)
{
	enum { NR = 10000 };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool, .max_queued = NR);
	struct gate gate = GATE_INIT;
	struct rnl_job held[2];
	static struct notified jobs[NR];
	unsigned ran = 0;

	hold_workers(pool, &gate, held, 2);
	for (int i = 0; i < NR; i++) {
		notified_of(&jobs[i]);
		must(rnl_job_set_class(&jobs[i].job, cls));
		must(rnl_submit(pool, &jobs[i].job));
	}
	if (_i == 1)
		ck_assert_int_ge(rnl_pool_cancel(pool), NR);
	if (_i == 2)
		ck_assert_int_eq(rnl_pool_stop(pool, 0), -ETIMEDOUT);
	if (_i == 3)
		must(rnl_pool_close(pool));
	gate_open(&gate);
	if (!_i) {
		rnl_class_destroy(cls);
		for (int i = 0; i < NR; i++)
			must(rnl_job_wait(&jobs[i].job, 0));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++) {
		must(rnl_job_wait(&jobs[i].job, 0));
		ck_assert_int_eq(jobs[i].job.result, jobs[i].runs ? 0 : -ECANCELED);
		ran += (unsigned)jobs[i].runs;
	}
	ck_assert_uint_eq(ran, _i == 1 || _i == 2 ? 0 : NR);
	rnl_pool_destroy(pool);
}

TEST(a_class_may_end_and_its_place_serves_another)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls[RNL_CLASSES_MAX], *more = NULL;
	struct rnl_job job;

	for (int i = 0; i < RNL_CLASSES_MAX; i++)
		cls[i] = class_of(pool, .max_queued = (uint32_t)(1 + i * 100));
	ck_assert_int_eq(rnl_class_create(&more, pool, NULL), -EAGAIN);
	ck_assert_ptr_null(more);
	for (int round = 0; round < 50; round++) {
		struct rnl_class **any = &cls[round % RNL_CLASSES_MAX];

		submit_classed(pool, &job, *any, noop_fn, NULL);
		rnl_class_destroy(*any);
		ck_assert_int_eq(result_of(&job), 0);
		/* It still names the class that ended. */
		ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
		*any = class_of(pool, .max_queued = (uint32_t)(1 + round * 30), .max_jobs = 1);
		ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
		must(rnl_job_set_class(&job, *any));
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	}
	rnl_pool_destroy(pool);
}

TEST(the_pool_grows_and_shrinks_while_jobs_of_classes_run)
{
	enum { NR = 2000 };
	struct rnl_pool *pool = pool_of(4);
	struct rnl_class *cls[3] = { class_of(pool, .max_queued = NR), class_of(pool, .priority = 1, .max_queued = NR),
				     class_of(pool, .max_jobs = 1, .max_queued = NR) };
	static struct notified jobs[NR];

	for (int i = 0; i < NR; i++) {
		notified_of(&jobs[i]);
		must(rnl_job_set_class(&jobs[i].job, cls[i % 3]));
		must(rnl_submit(pool, &jobs[i].job));
		if (i % 200 == 0)
			must(rnl_pool_resize(pool, 1 + (unsigned)i / 200 % 5));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(jobs[i].runs, 1);
	rnl_pool_destroy(pool);
}

/* ---- submits that wait, and ends ----------------------------------------------- */

struct waits {
	struct rnl_pool *pool;
	struct rnl_job *job;
	_Atomic int ret;
	pthread_t thread;
};

static void *wait_main(void *arg)
{
	struct waits *w = arg;

	w->ret = rnl_submit_wait(w->pool, w->job, RNL_FOREVER);
	return NULL;
}

static void submits_and_waits(struct waits *w, struct rnl_pool *pool, struct rnl_job *job)
{
	w->pool = pool;
	w->job = job;
	w->ret = 1;
	must(pthread_create(&w->thread, NULL, wait_main, w));
}

static void gets_its_place(struct waits *w)
{
	must(pthread_join(w->thread, NULL));
	ck_assert_int_eq(w->ret, 0);
}

TEST(a_place_that_an_expired_or_cancelled_job_leaves_serves_a_submit_that_waits, .loops = 2)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .max_queued = 1);
	struct gate gate = GATE_INIT;
	struct rnl_job held, first, second;
	struct waits waits;

	hold_workers(pool, &gate, &held, 1);
	classed_of(&first, cls, noop_fn, NULL);
	must(rnl_job_set_deadline(&first, _i ? 50 * MS : -1));
	must(rnl_submit(pool, &first));
	classed_of(&second, cls, noop_fn, NULL);
	submits_and_waits(&waits, pool, &second);
	if (!_i)
		must(rnl_job_cancel(&first));
	gets_its_place(&waits);
	ck_assert_int_eq(result_of(&first), _i ? -ETIMEDOUT : -ECANCELED);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&second), 0);
	rnl_pool_destroy(pool);
}

static void *fails_main(void *arg)
{
	struct waits *w = arg;

	for (int i = 0; i < 3000; i++)
		(void)rnl_submit(w->pool, w->job);
	return NULL;
}

TEST(a_submit_that_fails_late_gives_its_place_to_one_that_waits)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool, .max_queued = 1);
	struct gate gate = GATE_INIT;
	struct waits fails = { .pool = pool }, waits;
	struct rnl_job busy, leads, job;

	/* The next job of its chain is under way. */
	job_of(&busy, gated_fn, &gate);
	classed_of(&leads, cls, noop_fn, NULL);
	must(rnl_job_set_then(&leads, &busy));
	must(rnl_submit(pool, &busy));
	gate_await(&gate, 1);
	fails.job = &leads;
	must(pthread_create(&fails.thread, NULL, fails_main, &fails));
	for (int i = 0; i < 300; i++) {
		classed_of(&job, cls, noop_fn, NULL);
		submits_and_waits(&waits, pool, &job);
		gets_its_place(&waits);
		ck_assert_int_eq(result_of(&job), 0);
	}
	must(pthread_join(fails.thread, NULL));
	ck_assert_uint_eq(stats_of(cls).accepted, 300);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(submits_that_wait_for_a_slow_class_do_not_take_the_wakes_of_another)
{
	enum { SLOW = 8, NR = 200 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *slow = class_of(pool, .max_queued = 1, .per_second = 1);
	struct rnl_class *fast = class_of(pool, .max_queued = 2);
	static struct rnl_job jobs[NR], waiting[SLOW], full[2];
	struct waits waits[SLOW];
	const int64_t start = rnl_clock();

	for (int i = 0; i < 2; i++)
		classed_of(&full[i], slow, noop_fn, NULL);
	must(rnl_submit_wait(pool, &full[0], RNL_FOREVER));
	must(rnl_submit_wait(pool, &full[1], RNL_FOREVER));
	for (int i = 0; i < SLOW; i++) {
		classed_of(&waiting[i], slow, noop_fn, NULL);
		submits_and_waits(&waits[i], pool, &waiting[i]);
	}
	for (int i = 0; i < NR; i++) {
		classed_of(&jobs[i], fast, noop_fn, NULL);
		must(rnl_submit_wait(pool, &jobs[i], RNL_FOREVER));
	}
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	/* Of the slow class, a job a second was done meanwhile. */
	ck_assert_uint_le(stats_of(slow).done, 3 + (uint64_t)((rnl_clock() - start) / (1000 * MS)));
	/* The pool's end completes the queued ones; those that wait are refused. */
	(void)rnl_pool_stop(pool, RNL_FOREVER);
	for (int i = 0; i < SLOW; i++) {
		must(pthread_join(waits[i].thread, NULL));
		ck_assert(!waits[i].ret || waits[i].ret == -ESHUTDOWN);
	}
	rnl_pool_destroy(pool);
}

TEST(a_stopped_pool_does_not_keep_a_rate)
{
	enum { NR = 20 };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *cls = class_of(pool, .per_second = 1);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held, jobs[NR];
	const int64_t start = rnl_clock();

	hold_barrier(pool, &barrier, &gate, &held);
	for (int i = 0; i < NR; i++) {
		classed_of(&jobs[i], cls, noop_fn, NULL);
		must(rnl_job_set_after(&jobs[i], &barrier));
		must(rnl_submit(pool, &jobs[i]));
	}
	gate_open(&gate);
	must(rnl_pool_stop(pool, RNL_FOREVER));
	/* At a job a second it would take 18 s. */
	ck_assert_int_lt(rnl_clock() - start, 10 * 1000 * MS);
	rnl_pool_destroy(pool);
}

TEST(after_a_slow_start_a_class_with_deadlines_goes_on)
{
	enum { NR = 100 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .deadline_ns = 100 * MS);
	struct rnl_job job;
	unsigned late = 0;

	/* Two slow ones, so that the function's mean is known. */
	for (int i = 0; i < NR; i++) {
		classed_of(&job, cls, busy_fn, (void *)(intptr_t)(i < 2 ? 400 * MS : MS / 10));
		late += submit_and_wait(pool, &job) == -ETIMEDOUT;
	}
	ck_assert_uint_lt(late, NR / 2);
	ck_assert_uint_eq(stats_of(cls).late + stats_of(cls).expired, late);
	rnl_pool_destroy(pool);
}

TEST(a_classes_deadline_does_not_stay_with_a_job_and_a_far_one_is_none)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool, .deadline_ns = 20 * MS), *far, *none = NULL;
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	struct rnl_job first, next;

	submit_classed(pool, &next, cls, noop_fn, NULL);
	must(rnl_job_wait(&next, RNL_FOREVER));
	job_of(&first, busy_fn, (void *)(intptr_t)(100 * MS));
	must(rnl_job_set_then(&first, &next));
	must(rnl_submit(pool, &first));
	ck_assert_int_eq(result_of(&next), 0);
	far = class_of(pool, .deadline_ns = INT64_MAX);
	must(rnl_job_set_then(&first, NULL));
	must(rnl_job_set_class(&first, far));
	ck_assert_int_eq(submit_and_wait(pool, &first), 0);
	attr.deadline_ns = UINT64_MAX;
	ck_assert_int_eq(rnl_class_create(&none, pool, &attr), -EINVAL);
	rnl_pool_destroy(pool);
}

struct enders {
	pthread_t thread;
	struct rnl_pool *pool;
	_Atomic(struct rnl_class *) cls;
	_Atomic bool over;
};

static void *keeps_submitting(void *arg)
{
	struct enders *e = arg;
	struct rnl_job job;

	job_of(&job, noop_fn, NULL);
	while (!e->over) {
		must(rnl_job_set_class(&job, e->cls));
		for (int i = 0; i < 50; i++)
			if (!rnl_submit(e->pool, &job))
				must(rnl_job_wait(&job, RNL_FOREVER));
	}
	return NULL;
}

static void hear_nothing(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

TEST(a_destroy_ends_beside_submits_that_are_refused)
{
	struct rnl_pool *pool = pool_of(1, .log = hear_nothing);
	struct enders enders = { .pool = pool };
	struct rnl_class *cls = class_of(pool, .max_queued = 4);

	enders.cls = cls;
	must(pthread_create(&enders.thread, NULL, keeps_submitting, &enders));
	for (int i = 0; i < 300; i++) {
		rnl_class_destroy(cls);
		cls = class_of(pool, .max_queued = 4);
		enders.cls = cls;
	}
	enders.over = true;
	must(pthread_join(enders.thread, NULL));
	rnl_pool_destroy(pool);
}

/* ---- mistakes --------------------------------------------------------------- */

TEST(a_wrong_class_or_attribute_is_refused)
{
	struct rnl_pool *pool = pool_of(1), *other = pool_of(1);
	struct rnl_class *cls = class_of(pool), *none = NULL;
	struct rnl_class_stats stats = RNL_CLASS_STATS_INIT;
	struct rnl_job job;
	const struct rnl_class_attr wrong[] = {
		{ .size = sizeof(wrong[0]), .priority = 4 }, { .size = sizeof(wrong[0]), .priority = -5 },
		{ .size = sizeof(wrong[0]), .weight = 10001 },
		{ .size = sizeof(wrong[0]), .floor_permille = 1001 },
		{ .size = sizeof(wrong[0]), .order = 2 }, { .size = sizeof(wrong[0]), .flags = 8 },
		{ .size = sizeof(wrong[0]), .flags = RNL_CLASS_KEPT_SMS },
		{ .size = sizeof(wrong[0]), .nr_workers = 1 },
		{ .size = sizeof(wrong[0]), .stream_priority = 1 },
		{ .size = sizeof(wrong[0]), .spin_us = 1 },
		{ .size = sizeof(wrong[0]), .max_queued = 65537 },
		{ .size = sizeof(wrong[0]), .burst = 2 }, { .size = 4 },
	};

	for (unsigned i = 0; i < COUNT(wrong); i++)
		ck_assert_int_eq(rnl_class_create(&none, pool, &wrong[i]), -EINVAL);
	ck_assert_int_eq(rnl_class_create(&none, NULL, NULL), -EINVAL);
	ck_assert_int_eq(rnl_class_create(NULL, pool, NULL), -EINVAL);
	ck_assert_ptr_null(none);
	ck_assert_int_eq(rnl_job_set_class(NULL, cls), -EINVAL);
	ck_assert_int_eq(rnl_class_read_stats(NULL, &stats), -EINVAL);
	ck_assert_int_eq(rnl_class_read_stats(cls, NULL), -EINVAL);
	rnl_class_destroy(NULL);
	classed_of(&job, cls, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(other, &job), -EINVAL);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	must(rnl_pool_close(pool));
	ck_assert_int_eq(rnl_submit(pool, &job), -ESHUTDOWN);
	ck_assert_int_eq(rnl_class_create(&none, pool, NULL), -ESHUTDOWN);
	ck_assert_uint_eq(stats_of(cls).accepted, 1);
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
}

static int destroy_fn(struct rnl_job *job)
{
	rnl_class_destroy(job->user);
	return 0;
}

TEST(a_destroy_on_a_worker_closes_the_class_and_does_not_wait)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = class_of(pool);
	struct rnl_job job;

	classed_of(&job, cls, destroy_fn, cls);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	rnl_pool_destroy(pool);
}

/* ---- a storm --------------------------------------------------------------- */

struct client {
	pthread_t thread;
	struct rnl_pool *pool;
	struct rnl_class *cls[3];
	struct notified jobs[64];
	uint64_t random;
	unsigned rounds, nr_ran, nr_not;
};

static void *client_main(void *arg)
{
	struct client *c = arg;

	for (unsigned i = 0; i < COUNT(c->jobs); i++)
		notified_of(&c->jobs[i]);
	for (unsigned round = 0; round < c->rounds; round++) {
		for (unsigned i = 0; i < COUNT(c->jobs); i++) {
			struct rnl_job *job = &c->jobs[i].job;

			must(rnl_job_set_class(job, c->cls[draw(&c->random, 3)]));
			must(rnl_job_set_deadline(job, draw(&c->random, 10) ? -1 : (int64_t)draw(&c->random, 200000)));
			must(rnl_job_set_key(job, draw(&c->random, 8) ? RNL_KEY_NONE : draw(&c->random, 3)));
			must(rnl_submit_wait(c->pool, job, RNL_FOREVER));
			if (!draw(&c->random, 7))
				(void)rnl_job_cancel(job);
		}
		for (unsigned i = 0; i < COUNT(c->jobs); i++) {
			int result = result_of(&c->jobs[i].job);

			ck_assert(!result || result == -ECANCELED || result == -ETIMEDOUT);
			c->nr_ran += !result;
			c->nr_not += result != 0;
		}
	}
	return NULL;
}

TEST(many_clients_with_cancels_deadlines_keys_and_resizes_lose_no_job, .timeout_s = 120)
{
	enum { CLIENTS = 4 };
	struct rnl_pool *pool = pool_of(3);
	struct rnl_class *cls[3] = { class_of(pool, .max_queued = 20, .weight = 3),
				     class_of(pool, .max_jobs = 1, .priority = -1),
				     class_of(pool, .order = RNL_CLASS_DEADLINE, .per_second = 100000, .burst = 50) };
	static struct client clients[CLIENTS];
	const uint64_t seed = test_seed();
	unsigned runs = 0, ran = 0, not = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		clients[i] = (struct client){ .pool = pool, .random = draws_of(seed, i), .rounds = 40 };
		memcpy(clients[i].cls, cls, sizeof(cls));
		must(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]));
	}
	for (unsigned i = 0; i < 8; i++)
		must(rnl_pool_resize(pool, 1 + i % 4));
	for (unsigned i = 0; i < CLIENTS; i++) {
		must(pthread_join(clients[i].thread, NULL));
		for (unsigned k = 0; k < COUNT(clients[i].jobs); k++)
			runs += (unsigned)clients[i].jobs[k].runs;
		ran += clients[i].nr_ran;
		not += clients[i].nr_not;
	}
	ck_assert_uint_eq(runs, ran);
	ck_assert_uint_eq(ran + not, CLIENTS * clients[0].rounds * COUNT(clients[0].jobs));
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(stats_of(cls[i]).queued, 0);
		/* The last job is done shortly before it is no longer counted. */
		ck_eventually(stats_of(cls[i]).started == 0);
		rnl_class_destroy(cls[i]);
	}
	rnl_pool_destroy(pool);
}
