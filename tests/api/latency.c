/* SPDX-License-Identifier: MIT */
/* The times that jobs wait, run, and are on the device, as rnl_pool_read_stats() reports them. */
#include <math.h>

#include <runnel/stats.h>

#include "host_kernel.h"
#include "pool.h"

static struct rnl_pool *timing_pool(unsigned nr_workers, uint32_t time_every)
{
	return pool_of(nr_workers, .time_every = time_every);
}

static void check_order(const struct rnl_latency *l)
{
	ck_assert_uint_le(l->p50_ns, l->p99_ns);
	ck_assert_uint_le(l->p99_ns, l->p999_ns);
	/* A quantile is at most a sixteenth too large. */
	ck_assert_uint_le(l->p999_ns, l->max_ns + l->max_ns / 16 + 1);
	ck_assert_uint_ge(l->sum_ns, l->max_ns);
	ck_assert_uint_le(l->sum_ns, l->nr * l->max_ns);
}

static void check_none(const struct rnl_latency *l)
{
	static const struct rnl_latency none;

	ck_assert_mem_eq(l, &none, sizeof(none));
}

/* Runs for at least @ns, by the clock. */
static void let_pass(int64_t ns)
{
	double end = seconds_now() + (double)ns * 1e-9;

	while (seconds_now() < end)
		usleep(200);
}

/* A job that records when its function ran. */
struct lasting {
	struct rnl_job job;
	struct gate *gate;		/* the function waits there first; NULL: none */
	int64_t ns;
	double began, ended;
};

static int lasting_fn(struct rnl_job *job)
{
	struct lasting *l = rnl_container_of(job, struct lasting, job);

	l->began = seconds_now();
	if (l->gate)
		gate_wait(l->gate);
	if (l->ns)
		let_pass(l->ns);
	l->ended = seconds_now();
	return 0;
}

/*
 * Bounds for the pool's measurements of one worker's jobs, sorted.  A job takes at least the time
 * of its function, and at most the time from the previous job's end to the next job's begin.
 */
struct bounds {
	double *least, *most;
};

static int shorter_first(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct bounds bounds_of(const struct lasting *jobs, unsigned nr, double start)
{
	struct bounds b = { calloc(nr, sizeof(double)), calloc(nr, sizeof(double)) };
	double end = seconds_now();

	for (unsigned i = 0; i < nr; i++) {
		b.least[i] = (jobs[i].ended - jobs[i].began) * 1e9;
		b.most[i] = ((i + 1 < nr ? jobs[i + 1].began : end) -
			     (i ? jobs[i - 1].ended : start)) * 1e9;
	}
	qsort(b.least, nr, sizeof(double), shorter_first);
	qsort(b.most, nr, sizeof(double), shorter_first);
	return b;
}

static void bounds_free(struct bounds *b)
{
	free(b->least);
	free(b->most);
}

/* Checks that a quantile is the time of the @nth shortest job, to a sixteenth. */
static void check_quantile(uint64_t ns, const struct bounds *b, unsigned nth)
{
	ck_assert_double_ge((double)ns, b->least[nth] / 17 * 16);
	ck_assert_double_le((double)ns, b->most[nth] / 16 * 17 + 1);
}

TEST(a_pool_that_ran_nothing_has_timed_nothing)
{
	struct rnl_pool *pool = timing_pool(2, 1);
	struct rnl_pool_stats stats = figures_of(pool);

	check_none(&stats.queue_wait);
	check_none(&stats.host);
	check_none(&stats.device);
	rnl_pool_destroy(pool);
}

TEST(the_time_in_a_function_is_reported)
{
	enum { NR = 15 };
	const int64_t ns = 20 * MS;
	struct rnl_pool *pool = timing_pool(1, 1);
	struct rnl_pool_stats stats;
	struct gate all_wait = GATE_INIT;
	struct lasting jobs[NR];
	double start = seconds_now();
	struct bounds bounds;

	for (int i = 0; i < NR; i++) {
		jobs[i].ns = ns;
		jobs[i].gate = i ? NULL : &all_wait;
		submit_job(pool, &jobs[i].job, lasting_fn, NULL);
	}
	gate_open(&all_wait);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	stats = figures_of(pool);
	check_order(&stats.host);
	check_order(&stats.queue_wait);
	ck_assert_uint_eq(stats.host.nr, NR);
	ck_assert_uint_eq(stats.queue_wait.nr, NR);
	ck_assert_uint_ge(stats.host.max_ns, (uint64_t)ns);
	ck_assert_uint_ge(stats.host.sum_ns, (uint64_t)ns * NR);
	ck_assert_double_le((double)stats.host.sum_ns * 1e-9, seconds_now() - start);
	bounds = bounds_of(jobs, NR, start);
	check_quantile(stats.host.p50_ns, &bounds, NR / 2);
	bounds_free(&bounds);
	/* The last job waited for all other jobs. */
	ck_assert_uint_ge(stats.queue_wait.max_ns, (uint64_t)ns * (NR - 1));
	ck_assert_uint_ge(stats.queue_wait.p50_ns, (uint64_t)ns * (NR / 2 - 1) / 17 * 16);
	rnl_pool_destroy(pool);
}

TEST(quantiles_tell_the_few_from_the_many)
{
	enum { NR = 200 };
	struct rnl_pool *pool = timing_pool(1, 1);
	struct rnl_pool_stats stats;
	struct lasting *jobs = calloc(NR, sizeof(*jobs));
	double start = seconds_now();
	struct bounds bounds;

	/* One job in twenty takes 5 ms, a single one 50 ms. */
	for (int i = 0; i < NR; i++) {
		jobs[i].ns = i == NR / 2 ? 50 * MS : i % 20 == 7 ? 5 * MS : 0;
		submit_job(pool, &jobs[i].job, lasting_fn, NULL);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	stats = figures_of(pool);
	check_order(&stats.host);
	ck_assert_uint_eq(stats.host.nr, NR);
	bounds = bounds_of(jobs, NR, start);
	check_quantile(stats.host.p50_ns, &bounds, NR / 2 - 1);
	check_quantile(stats.host.p99_ns, &bounds, NR - NR / 100 - 1);
	bounds_free(&bounds);
	ck_assert_uint_ge(stats.host.p999_ns, (uint64_t)(50 * MS / 17 * 16));
	ck_assert_uint_ge(stats.host.max_ns, (uint64_t)(50 * MS));
	rnl_pool_destroy(pool);
	free(jobs);
}

TEST(the_time_in_a_queue_is_reported)
{
	struct rnl_pool *pool = timing_pool(1, 1);
	struct gate gate = GATE_INIT;
	struct rnl_job held, queued;
	struct rnl_pool_stats stats;

	hold_workers(pool, &gate, &held, 1);
	submit_job(pool, &queued, noop_fn, NULL);
	let_pass(30 * MS);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	stats = figures_of(pool);
	check_order(&stats.queue_wait);
	ck_assert_uint_eq(stats.queue_wait.nr, 2);
	ck_assert_uint_ge(stats.queue_wait.max_ns, 30 * MS);
	ck_assert_uint_ge(stats.host.max_ns, 30 * MS);	/* the held job */
	rnl_pool_destroy(pool);
}

TEST(the_time_on_the_device_is_reported)
{
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct rnl_job job;
	struct rnl_pool_stats stats;
	double start, until;

	skip_unless_host();
	pool = timing_pool(1, 1);
	start = seconds_now();
	submit_job(pool, &job, gated_kernel_fn, &kernel);
	ck_eventually(figures_of(pool).in_flight == 1);
	until = seconds_now();
	let_pass(30 * MS);
	gate_open(&kernel);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	stats = figures_of(pool);
	check_order(&stats.device);
	ck_assert_uint_eq(stats.device.nr, 1);
	ck_assert_uint_ge(stats.device.max_ns, 30 * MS);
	ck_assert_uint_eq(stats.host.nr, 1);
	ck_assert_double_le((double)stats.host.max_ns, (until - start) * 1e9);
	rnl_pool_destroy(pool);
}

TEST(one_job_in_so_many_is_timed)
{
	enum { NR = 10000 };
	/* One thread submits to all pools; each pool must choose among its own jobs. */
	static const struct {
		uint32_t every, rounded;
	} rows[] = { { 1, 1 }, { 1000, 1024 }, { 1, 1 }, { 2, 2 }, { 0, 64 }, { 10, 16 } };
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs));

	for (unsigned row = 0; row < COUNT(rows); row++) {
		struct rnl_pool *pool = timing_pool(1, rows[row].every);
		double share = 1.0 / rows[row].rounded, mean = NR * share, nr;

		for (int i = 0; i < NR; i++)
			submit_job(pool, &jobs[i], noop_fn, NULL);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		nr = (double)figures_of(pool).host.nr;
		/* Jobs are timed at random: the count is within six standard deviations. */
		ck_assert_msg((nr - mean) * (nr - mean) <= 36 * mean * (1 - share),
			      "%.0f of %d jobs were timed, one in %u", nr, NR, rows[row].rounded);
		ck_assert_double_eq((double)figures_of(pool).queue_wait.nr, nr);
		rnl_pool_destroy(pool);
	}
	free(jobs);
}

TEST(each_worker_has_its_own_times_and_the_pool_those_of_all)
{
	struct rnl_pool *pool = timing_pool(2, 1);
	uint64_t before[2];
	struct rnl_pool_stats one = RNL_POOL_STATS_INIT, all;
	struct lasting jobs[5];

	for (unsigned i = 0; i < 2; i++) {
		must(rnl_pool_read_stats(pool, i, &one));
		before[i] = one.host.nr;
	}
	for (int i = 0; i < 5; i++) {
		jobs[i] = (struct lasting){ .ns = i < 2 ? 2 * MS : MS };
		job_of(&jobs[i].job, lasting_fn, NULL);
		must(submit_by_key(pool, &jobs[i].job, RNL_KEY_WORKER(i >= 2)));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	all = figures_of(pool);
	for (unsigned i = 0; i < 2; i++) {
		must(rnl_pool_read_stats(pool, i, &one));
		check_order(&one.host);
		ck_assert_uint_eq(one.host.nr - before[i], i ? 3 : 2);
		ck_assert_uint_ge(one.host.max_ns, i ? MS : 2 * MS);
		ck_assert_uint_le(one.host.max_ns, all.host.max_ns);
		all.host.nr -= one.host.nr;
		all.host.sum_ns -= one.host.sum_ns;
	}
	ck_assert_uint_eq(all.host.nr, 0);
	ck_assert_uint_eq(all.host.sum_ns, 0);
	rnl_pool_destroy(pool);
}
