/* SPDX-License-Identifier: MIT */
/*
 * The row submit: do more workers (8, 16, 32) make a submit slower?
 *
 * DESIGN
 *	Only submits: one thread submits empty jobs to an idle pool, and the clock stops at the last
 *	submit. And J per second from four producers, compared with one hand-written thread per
 *	worker. The goal is 97 % of the best rate with fewer workers. All pools exist all the time.
 *	A submit has no variant by hand: the row compares pools of one library, of other sizes. What
 *	it costs, beside other pools and beside a lock-free queue with a futex, is the row throughput
 *	of make bench.
 */
#include "gpu/work.h"

#include <string.h>

#define SIZES 3
#define JOBS 16384		/* much less than a pool's limit */
#define BATCHES 4
#define REQUESTS 64		/* for each worker */
#define PRODUCERS 4

static const unsigned sizes[SIZES] = { 8, 16, 32 };

struct bench {
	const struct bench_options *opt;
	struct rnl_pool *pools[SIZES];
	struct gpu_team *teams[SIZES];
	struct rnl_job *jobs;
	struct gpu_request *requests;
};

static atomic_uint ran;

static int run_empty(struct rnl_job *job)
{
	(void)job;
	/* relaxed: read when all jobs are done */
	atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
	return 0;
}

/* Returns millions of submits per second. */
static double submits(struct bench *b, struct rnl_pool *pool)
{
	uint64_t ns = 0;

	atomic_store(&ran, 0);
	for (unsigned batch = 0; batch < BATCHES; batch++) {
		const uint64_t start = bench_now();

		for (unsigned i = 0; i < JOBS; i++)
			bench_rnl(rnl_submit(pool, &b->jobs[i]), "rnl_submit");
		ns += bench_now() - start;
		bench_rnl(rnl_pool_drain(pool, RNL_FOREVER), "rnl_pool_drain");
	}
	bench_must(atomic_load(&ran) == BATCHES * JOBS, "each job runs once");
	return BATCHES * JOBS * 1e3 / (double)ns;
}

enum { SUBMITS, J, BY_HAND, SIDES };

static void measure(void *arg, unsigned way, double *values)
{
	static const struct gpu_hand_variant usual = { GPU_EVENT, 8, 64, 0 };
	struct bench *b = arg;
	const unsigned size = way / SIDES, nr = REQUESTS * sizes[SIZES - 1];

	if (way % SIDES == SUBMITS)
		values[0] = submits(b, b->pools[size]);
	else if (way % SIDES == J)
		values[0] = 1e-3 * gpu_pool_rate(b->pools[size], b->requests, nr, GPU_CQ,
						 PRODUCERS, b->opt->run_ms);
	else
		values[0] = 1e-3 * gpu_team_rate(b->teams[size], &usual, b->opt->run_ms);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	b->opt = run->opt;
	b->jobs = bench_alloc(JOBS * sizeof(*b->jobs));
	for (unsigned i = 0; i < JOBS; i++)
		bench_rnl(gpu_job_init(&b->jobs[i], run_empty), "rnl_job_init");
	b->requests = gpu_requests(REQUESTS * sizes[SIZES - 1]);
	for (unsigned i = 0; i < SIZES; i++) {
		b->pools[i] = gpu_pool(run->opt->device, run->kind, sizes[i], NULL);
		b->teams[i] = gpu_team_start(run->opt->info.ordinal, run->kind, sizes[i],
					     gpu_issue_j, true);
		(void)submits(b, b->pools[i]);
	}
	return b;
}

/* Ends the row.  The best figure of fewer workers sets the goal for more workers. */
static void end_row(void *arg, struct bench_line **lines)
{
	struct bench *b = arg;

	for (unsigned i = 0; i < SIZES; i++)
		rnl_pool_destroy(b->pools[i]);
	for (unsigned first = 0; first < 2 * SIZES; first += SIZES) {
		double most = 0;

		for (unsigned i = first; i < first + SIZES; i++) {
			const double median = bench_summary(bench_best(lines[i], BENCH_RUNNEL)).median;

			lines[i]->goal_value *= most;
			most = median > most ? median : most;
		}
	}
}

const struct bench_work bench_submit = { begin_row, measure, end_row, NULL };
