/* SPDX-License-Identifier: MIT */
/* The number of jobs that a worker has on its stream: enough to keep a device busy for a while. */
#include <runnel/trace.h>

#include "host_kernel.h"
#include "pool.h"
#include "trace.h"

struct gated {
	struct rnl_job job;
	struct gate *gate;	/* gate of the kernel; NULL: none */
	_Atomic int *begun;
};

static int run_gated(struct rnl_job *job)
{
	struct gated *g = rnl_container_of(job, struct gated, job);

	atomic_fetch_add(g->begun, 1);
	return launch_store(g->gate, NULL, 0);
}

static void submit_gated(struct rnl_pool *pool, struct gated *g, struct gate *gate,
			 _Atomic int *begun)
{
	*g = (struct gated){ .gate = gate, .begun = begun };
	submit_job(pool, &g->job, run_gated, NULL);
}

TEST(long_jobs_that_wait_for_the_device_can_be_cancelled)
{
	enum { WORKERS = 3, NR = 20 };
	struct gate kernel = GATE_INIT;
	_Atomic int begun = 0;
	struct gated jobs[NR];
	struct rnl_pool *pool;
	int nr_cancelled = 0;

	skip_unless_host();
	pool = pool_of(WORKERS);
	for (int i = 0; i < NR; i++)
		submit_gated(pool, &jobs[i], &kernel, &begun);
	/* Each stream has two jobs, so the device does not wait between them. */
	ck_eventually(begun == 2 * WORKERS);
	for (int i = 0; i < NR; i++)
		nr_cancelled += !rnl_job_cancel(&jobs[i].job);
	ck_assert_int_eq(nr_cancelled, NR - 2 * WORKERS);
	gate_open(&kernel);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(begun, 2 * WORKERS);
	rnl_pool_destroy(pool);
}

TEST(long_jobs_that_wait_for_the_device_are_stolen)
{
	enum { NR = 20 };
	struct gate kernel = GATE_INIT;
	_Atomic int begun = 0;
	struct gated held[2], jobs[NR];
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(2);
	for (int i = 0; i < 2; i++) {
		held[i] = (struct gated){ .gate = &kernel, .begun = &begun };
		job_of(&held[i].job, run_gated, NULL);
		must(submit_by_key(pool, &held[i].job, RNL_KEY_WORKER(0)));
	}
	ck_eventually(begun == 2);
	for (int i = 0; i < NR; i++)
		submit_gated(pool, &jobs[i], NULL, &begun);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i].job), 0);
	ck_assert_int_ne(rnl_job_wait(&held[0].job, 0), 0);
	gate_open(&kernel);
	rnl_pool_destroy(pool);
}

TEST(long_jobs_that_wait_for_the_device_are_queued_and_bounded_as_such)
{
	enum { QUEUED = 5, NR = 2 + QUEUED };
	struct gate kernel = GATE_INIT;
	_Atomic int begun = 0;
	struct gated jobs[NR + 1];
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(1, .max_queued = QUEUED);
	for (int i = 0; i < NR; i++) {
		if (i == 2)
			ck_eventually(begun == 2);
		submit_gated(pool, &jobs[i], &kernel, &begun);
	}
	jobs[NR] = (struct gated){ .begun = &begun };
	job_of(&jobs[NR].job, run_gated, NULL);
	ck_assert_int_eq(rnl_submit(pool, &jobs[NR].job), -EAGAIN);
	ck_assert_uint_eq(figures_of(pool).queued, QUEUED);
	ck_eventually(figures_of(pool).in_flight == 2);
	gate_open(&kernel);
	rnl_pool_destroy(pool);
}

/* Each row has the number of jobs that are begun, of NR jobs with held kernels. */
TEST(both_attributes_bound_what_is_on_a_stream)
{
	enum { NR = 8 };
	static const struct {
		uint32_t max_in_flight;
		uint64_t in_flight_ns;
		int begun;
	} rows[] = {
		{ 1, 0, 1 }, { 1, UINT64_MAX, 1 }, { 2, 0, 2 }, { 3, 0, 2 }, { 0, 1, 2 },
		{ 3, UINT64_MAX, 3 }, { 0, UINT64_MAX, NR }, { 4, 60000000000, 4 },
	};

	skip_unless_host();
	for (unsigned row = 0; row < COUNT(rows); row++) {
		struct gate kernel = GATE_INIT;
		_Atomic int begun = 0;
		struct gated jobs[NR];
		struct rnl_pool *pool;

		pool = pool_of(1, .max_in_flight = rows[row].max_in_flight,
			       .in_flight_ns = rows[row].in_flight_ns);
		for (int i = 0; i < NR; i++)
			submit_gated(pool, &jobs[i], &kernel, &begun);
		ck_eventually(begun == rows[row].begun);
		ck_assert_int_eq(rnl_pool_drain(pool, 5 * MS), -ETIMEDOUT);
		ck_assert_msg(begun == rows[row].begun, "row %u: %d", row, begun);
		gate_open(&kernel);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_int_eq(begun, NR);
		rnl_pool_destroy(pool);
	}
}

/* Runs quick jobs, then @max jobs with held kernels. Returns true if all of them are begun. */
static bool all_begin(struct rnl_pool *pool, struct gated *jobs, int nr, int max)
{
	struct gate kernel = GATE_INIT;
	_Atomic int begun = 0;
	double until;

	for (int i = 0; i < nr; i++) {
		/* Quick jobs that share a mark with a held job would count as on the stream. */
		if (i == nr - max)
			must(rnl_pool_drain(pool, RNL_FOREVER));
		submit_gated(pool, &jobs[i], i < nr - max ? NULL : &kernel, &begun);
	}
	ck_eventually(begun > nr - max);
	until = seconds_now() + 0.1;
	while (begun < nr && seconds_now() < until)
		usleep(1000);
	max = begun;
	gate_open(&kernel);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	return max == nr;
}

TEST(after_many_quick_jobs_a_worker_has_as_many_as_it_may)
{
	enum { MAX = 16, NR = 200 };
	struct gated *jobs = calloc(NR, sizeof(*jobs));
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(1, .max_in_flight = MAX, .in_flight_ns = 20000000);
	/* The host device may get no CPU for a while, and so be slow. */
	ck_eventually(all_begin(pool, jobs, NR, MAX));
	rnl_pool_destroy(pool);
	free(jobs);
}

static int start_trace(void *arg)
{
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;

	attr.timing = RNL_TRACE_HOST;	/* device timing begins when the stream is empty */
	return rnl_trace_start(arg, path, &attr);
}

TEST(a_worker_that_waits_for_its_stream_obeys, .setup = set_path, .teardown = remove_file)
{
	enum { NR = 6 };
	struct gate kernel = GATE_INIT;
	_Atomic int begun = 0;
	struct gated jobs[NR];
	struct rnl_pool *pool;
	struct call call;

	skip_unless_host();
	pool = pool_of(1);
	for (int i = 0; i < NR; i++)
		submit_gated(pool, &jobs[i], &kernel, &begun);
	ck_eventually(begun == 2);
	call_start(&call, start_trace, pool);
	ck_eventually(call.returned);
	must(call_end(&call));
	call_start(&call, resize_fn, &(struct resize){ pool, 2 });
	ck_eventually(call.returned);
	must(call_end(&call));
	/* The new worker has begun two of the waiting jobs. */
	ck_eventually(begun == 4);
	gate_open(&kernel);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	must(rnl_trace_stop(pool));
	rnl_pool_destroy(pool);
}

/* ---- a long job ---------------------------------------------------------- */

enum { BURST = 40 };

/* Like gated_kernel_fn(), the function of long jobs: each function has an estimate of its own. */
static int short_fn(struct rnl_job *job)
{
	return launch_store(job->user, NULL, 0);
}

/* Teaches the workers that jobs of @fn are quick: many complete before one is slow. */
static void teach_quick(struct rnl_pool *pool, int (*fn)(struct rnl_job *job))
{
	struct rnl_job jobs[64];

	for (int round = 0; round < 5; round++) {
		for (unsigned i = 0; i < COUNT(jobs); i++)
			submit_job(pool, &jobs[i], fn, NULL);
		for (unsigned i = 0; i < COUNT(jobs); i++)
			ck_assert_int_eq(result_of(&jobs[i]), 0);
	}
}

static unsigned nr_done(struct rnl_job *jobs, unsigned nr)
{
	unsigned done = 0;

	for (unsigned i = 0; i < nr; i++)
		done += !rnl_job_wait(&jobs[i], 0);
	return done;
}

/* Returns how many of a burst of short jobs wait for the long job that @kernel holds. */
static unsigned nr_delayed(struct rnl_pool *pool, struct gate *kernel)
{
	struct rnl_job jobs[BURST];
	unsigned nr;

	for (unsigned i = 0; i < BURST; i++)
		submit_job(pool, &jobs[i], short_fn, NULL);
	ck_eventually(nr_done(jobs, BURST) >= BURST - 1);
	nr = BURST - nr_done(jobs, BURST);
	gate_open(kernel);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	return nr;
}

TEST(of_a_burst_of_short_jobs_one_at_most_waits_for_a_long_job_that_is_not_known, .loops = 2)
{
	for (int i = 0; i < 10; i++) {
		struct gate kernel = GATE_INIT;
		struct rnl_pool *pool;
		struct rnl_job held;

		skip_unless_host();
		pool = pool_of(2, .stream = _i ? RNL_STREAM_PER_THREAD : RNL_STREAM_PRIVATE);
		teach_quick(pool, short_fn);
		submit_job(pool, &held, gated_kernel_fn, &kernel);
		ck_assert_uint_le(nr_delayed(pool, &kernel), 1);
		rnl_pool_destroy(pool);
	}
}

TEST(short_jobs_do_not_wait_for_a_job_that_takes_longer_than_its_function_did)
{
	for (int i = 0; i < 10; i++) {
		struct gate kernel = GATE_INIT;
		struct rnl_pool *pool;
		struct rnl_job held;

		skip_unless_host();
		pool = pool_of(2);
		teach_quick(pool, short_fn);
		teach_quick(pool, gated_kernel_fn);
		submit_job(pool, &held, gated_kernel_fn, &kernel);
		gate_await(&kernel, 1);
		/* Leaves the job on the stream for longer than in_flight_ns. */
		usleep(5000);
		ck_assert_uint_le(nr_delayed(pool, &kernel), 1);
		rnl_pool_destroy(pool);
	}
}

/*
 * Returns true if a short job does not wait for a long one.  It may: if the other worker is still about to
 * complete earlier jobs when the long job's worker takes the short one.
 */
static bool short_job_overtakes(int32_t spin_us, bool teaches, bool awaits)
{
	struct gate kernel = GATE_INIT;
	struct rnl_job held, job;
	struct rnl_pool *pool;
	bool overtakes;

	pool = pool_of(2, .spin_us = spin_us);
	if (teaches)
		teach_quick(pool, short_fn);
	submit_job(pool, &held, gated_kernel_fn, &kernel);
	if (awaits)
		gate_await(&kernel, 1);
	submit_job(pool, &job, short_fn, NULL);
	overtakes = !rnl_job_wait(&job, 2000 * MS);
	ck_assert_int_ne(rnl_job_wait(&held, 0), 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&job), 0);
	rnl_pool_destroy(pool);
	return overtakes;
}

TEST(a_short_job_does_not_wait_for_a_long_one_while_a_worker_has_nothing_to_do, .loops = 4,
     .timeout_s = 120)
{
	static const int32_t spins[] = { 0, -1, 50, 1000000 };
	unsigned nr_kept = 0;

	skip_unless_host();
	for (int i = 0; i < (sim_begin ? 4 : 50); i++)
		nr_kept += !short_job_overtakes(spins[_i], i % 2, i / 2 % 2);
	ck_assert_uint_le(nr_kept, 1);
}
