/* SPDX-License-Identifier: MIT */
/* Deadlines: a job that has not started in time does not run; a started job runs to its end. */
#include "asks.h"
#include "classed.h"
#include "host_kernel.h"
#include "record.h"

#define LONG (3600000 * MS)

static void timed_of(struct notified *t, int64_t timeout_ns)
{
	notified_of(t);
	must(rnl_job_set_deadline(&t->job, timeout_ns));
}

/* Returns when all deadlines of @ns that began before the call have passed. */
static void let_pass(int64_t ns)
{
	double end = seconds_now() + (double)ns * 1e-9;

	while (seconds_now() <= end)
		usleep(200);
}

static void check_late(struct notified *t)
{
	ck_assert_int_eq(result_of(&t->job), -ETIMEDOUT);
	ck_assert_int_eq(t->runs, 0);
}

/* Returns a deadline that a job on an idle worker meets; longer on a busy machine. */
static int64_t time_to_start(void)
{
	const double seconds = seconds_allowed(0.3);

	return (int64_t)((seconds < 2 ? seconds : 2) * 1e9);
}

static void check_ran(struct notified *t)
{
	ck_assert_int_eq(result_of(&t->job), 0);
	ck_assert_int_eq(t->runs, 1);
}

/* ---- expired jobs -------------------------------------------------------- */

TEST(a_job_that_waits_beyond_its_deadline_is_not_run)
{
	/* All jobs are in one queue. A negative timeout is no deadline. */
	static const struct {
		int64_t timeout_ns;
		bool late;
	} rows[] = {
		{ 0, true }, { LONG, false }, { 1, true }, { INT64_MAX, false },
		{ 2 * MS, true }, { RNL_FOREVER, false }, { MS, true }, { INT64_MIN, false },
	};
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	struct notified notified[COUNT(rows)];

	hold_workers(pool, &gate, &held, 1);
	for (unsigned i = 0; i < COUNT(rows); i++) {
		timed_of(&notified[i], rows[i].timeout_ns);
		must(rnl_submit(pool, &notified[i].job));
	}
	let_pass(2 * MS);
	gate_open(&gate);
	for (unsigned i = 0; i < COUNT(rows); i++) {
		if (rows[i].late)
			check_late(&notified[i]);
		else
			check_ran(&notified[i]);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).timed_out, COUNT(rows) / 2);
	ck_assert_uint_eq(figures_of(pool).failed, COUNT(rows) / 2);
	ck_assert_uint_eq(figures_of(pool).cancelled, 0);
	ck_assert_uint_eq(figures_of(pool).done, COUNT(rows) + 1);
	rnl_pool_destroy(pool);
}

TEST(a_deadline_is_taken_back_by_a_negative_one)
{
	static const int64_t none[] = { RNL_FOREVER, -2, INT64_MIN };
	struct rnl_pool *pool = pool_of(1);

	for (unsigned i = 0; i < COUNT(none); i++) {
		struct gate gate = GATE_INIT;
		struct rnl_job held;
		struct notified notified;

		hold_workers(pool, &gate, &held, 1);
		timed_of(&notified, 0);
		must(rnl_job_set_deadline(&notified.job, none[i]));
		must(rnl_submit(pool, &notified.job));
		let_pass(MS);
		gate_open(&gate);
		check_ran(&notified);
		ck_assert_int_eq(result_of(&held), 0);
	}
	rnl_pool_destroy(pool);
}

/* Submits the job for its @nr-th run. Returns true if the job started in time. */
static bool runs_in_time(struct rnl_pool *pool, struct notified *t, int nr)
{
	const int ret = submit_and_wait(pool, &t->job);

	ck_assert_int_eq(ret, t->runs == nr ? 0 : -ETIMEDOUT);
	return !ret;
}

/* Returns false if the machine was too busy to start the jobs in time. */
static bool counted_anew(int64_t time)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	struct notified notified;
	bool in_time;

	timed_of(&notified, time);
	let_pass(time);		/* the time does not count from the call that sets it */
	in_time = runs_in_time(pool, &notified, 1);
	let_pass(time);		/* nor from the first submit */
	in_time = in_time && runs_in_time(pool, &notified, 2);
	if (!in_time) {
		rnl_pool_destroy(pool);
		return false;
	}
	/* The deadline stays set: this run expires, and the next one is in time. */
	hold_workers(pool, &gate, &held, 1);
	must(rnl_submit(pool, &notified.job));
	let_pass(time);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&notified.job), -ETIMEDOUT);
	ck_assert_int_eq(notified.runs, 2);
	in_time = runs_in_time(pool, &notified, 3);
	ck_assert_uint_eq(figures_of(pool).timed_out, in_time ? 1 : 2);
	rnl_pool_destroy(pool);
	return in_time;
}

TEST(the_time_is_counted_anew_from_each_submit)
{
	int64_t time = time_to_start();

	while (!counted_anew(time)) {
		time *= 2;
		ck_assert_int_lt(time, patience_ns());
	}
}

/* ---- jobs that were started ---------------------------------------------- */

/*
 * Submits a job that waits at the gate, with a deadline that its start meets: on a busy machine, a
 * longer one. Returns the deadline.
 */
static int64_t start_in_time(struct rnl_pool *pool, struct rnl_job *job, struct gate *gate)
{
	for (int64_t time = time_to_start();; time *= 2) {
		ck_assert_int_lt(time, patience_ns());
		must(rnl_job_set_deadline(job, time));
		must(rnl_submit(pool, job));
		ck_eventually(gate_nr(gate) || is_done(job));
		if (gate_nr(gate))
			return time;
		ck_assert_int_eq(result_of(job), -ETIMEDOUT);
	}
}

TEST(a_function_that_was_called_runs_to_its_end)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job job;
	uint64_t nr_late;

	job_of(&job, gated_fn, &gate);
	let_pass(start_in_time(pool, &job, &gate));
	nr_late = figures_of(pool).timed_out;
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_uint_eq(figures_of(pool).timed_out, nr_late);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_the_device_has_is_not_taken_from_it)
{
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct rnl_job job;

	skip_unless_host();
	pool = pool_of(1);
	job_of(&job, gated_kernel_fn, &kernel);
	let_pass(start_in_time(pool, &job, &kernel));
	ck_assert_int_ne(rnl_job_wait(&job, 0), 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&job), 0);
	rnl_pool_destroy(pool);
}

/* ---- deadlines together with other features ------------------------------ */

TEST(the_time_that_a_job_is_deferred_counts)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held;
	struct notified late[2], in_time;

	hold_barrier(pool, &barrier, &gate, &held);
	timed_of(&late[0], MS);
	timed_of(&late[1], MS);
	timed_of(&in_time, LONG);
	must(rnl_job_set_after(&late[0].job, &barrier));
	must(rnl_job_set_after(&late[1].job, &barrier));
	must(rnl_job_set_after(&in_time.job, &barrier));
	must(rnl_submit(pool, &late[0].job));
	must(submit_by_key(pool, &late[1].job, 3));
	must(rnl_submit(pool, &in_time.job));
	let_pass(MS);
	gate_open(&gate);
	check_late(&late[0]);
	check_late(&late[1]);
	check_ran(&in_time);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	rnl_pool_destroy(pool);
}

TEST(of_a_deadline_and_a_cancel_the_first_one_counts)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	uint64_t nr_cancelled = 0;
	struct notified notified;

	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < 20; i++) {
		int ret;

		timed_of(&notified, i % 2 ? MS : 0);
		must(rnl_submit(pool, &notified.job));
		let_pass(i % 3 * MS / 2);
		ret = rnl_job_cancel(&notified.job);
		ck_assert(!ret || ret == -EALREADY || ret == -EBUSY);
		ck_assert_int_eq(result_of(&notified.job), ret ? -ETIMEDOUT : -ECANCELED);
		nr_cancelled += !ret;
	}
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).cancelled, nr_cancelled);
	ck_assert_uint_eq(figures_of(pool).timed_out, 20 - nr_cancelled);
	rnl_pool_destroy(pool);
}

TEST(jobs_of_a_class_that_goes_first_are_late_as_any_other)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *first = first_class(pool);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	struct notified late, in_time;

	hold_workers(pool, &gate, &held, 1);
	timed_of(&late, MS);
	timed_of(&in_time, LONG);
	must(rnl_job_set_class(&late.job, first));
	must(rnl_job_set_class(&in_time.job, first));
	must(rnl_submit(pool, &late.job));
	must(rnl_submit(pool, &in_time.job));
	let_pass(MS);
	gate_open(&gate);
	check_late(&late);
	check_ran(&in_time);
	rnl_pool_destroy(pool);
}
