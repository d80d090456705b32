/* SPDX-License-Identifier: MIT */
/*
 * The line submit: whether more workers make it slower, from 8 to 16 to 32.
 *
 * DESIGN
 *	Submits alone: one thread hands over empty jobs to an idle pool, and the
 *	clock stops at the last submit.  And J per second, of four producers,
 *	beside as many hand-written threads.  "Does not fall" is 97 % of what fewer
 *	workers did in the same run; all pools are there from the beginning.
 */
#include "gpu.h"
#include "gpu_work.h"

#include <stdlib.h>
#include <string.h>

#define SIZES 3
#define JOBS 16384		/* less than a pool takes, by far */
#define BATCHES 4
#define REQUESTS 64		/* for each worker */
#define PRODUCERS 4
#define PART 0.97

static const unsigned sizes[SIZES] = { 8, 16, 32 };

struct bench {
	const struct gpu_options *opt;
	struct rnl_pool *pools[SIZES];
	struct gpu_team *teams[SIZES];
	struct rnl_job *jobs;
	struct gpu_request *requests;
};

static atomic_uint ran;

static int run_empty(struct rnl_job *job)
{
	(void)job;
	/* relaxed: looked at when all is done */
	atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
	return 0;
}

/* Return: millions a second. */
static double submits(struct bench *b, struct rnl_pool *pool)
{
	uint64_t ns = 0;

	atomic_store(&ran, 0);
	for (unsigned batch = 0; batch < BATCHES; batch++) {
		const uint64_t start = bench_now();

		for (unsigned i = 0; i < JOBS; i++)
			gpu_rnl(rnl_submit(pool, &b->jobs[i]), "rnl_submit");
		ns += bench_now() - start;
		gpu_rnl(rnl_pool_drain(pool, RNL_FOREVER), "rnl_pool_drain");
	}
	bench_must(atomic_load(&ran) == BATCHES * JOBS, "each job runs once");
	return BATCHES * JOBS * 1e3 / (double)ns;
}

static double j_rate(struct bench *b, unsigned size)
{
	return 1e-3 * gpu_pool_rate(b->pools[size], b->requests, REQUESTS * sizes[SIZES - 1],
				    GPU_CQ, PRODUCERS, b->opt->run_ms);
}

static double hand_rate(struct bench *b, unsigned size)
{
	static const struct gpu_hand_variant usual = { GPU_EVENT, 8, 64 };

	return 1e-3 * gpu_team_rate(b->teams[size], &usual, b->opt->run_ms);
}

/* Fewer workers' figures are a goal for more. */
static void tell(const struct gpu_run *run, struct gpu_row *rows[SIZES],
		 struct gpu_figure *figures[SIZES])
{
	double least = 0;

	for (unsigned i = 0; i < SIZES; i++) {
		const double median = gpu_figure_median(figures[i]);

		if (i) {
			rows[i]->goal = GPU_ABSOLUTE;
			rows[i]->goal_value = PART * least;
		}
		least = median > least ? median : least;
		gpu_row_tell(run, rows[i]);
	}
}

static void line(const struct gpu_run *run)
{
	struct bench b = { .opt = run->opt };
	struct gpu_row *submit_rows[SIZES], *j_rows[SIZES];
	struct gpu_figure *submit_figures[SIZES], *j_figures[SIZES], *hand_figures[SIZES];
	const enum rnl_stream_kind kind = RNL_STREAM_PER_THREAD;

	gpu_setup();
	gpu_begin(run->opt->ordinal);
	b.jobs = bench_alloc(JOBS * sizeof(*b.jobs));
	for (unsigned i = 0; i < JOBS; i++)
		gpu_rnl(gpu_job_init(&b.jobs[i], run_empty), "rnl_job_init");
	b.requests = gpu_requests(REQUESTS * sizes[SIZES - 1]);
	for (unsigned i = 0; i < SIZES; i++) {
		b.pools[i] = gpu_pool(run->opt->device, kind, sizes[i], NULL);
		b.teams[i] = gpu_team_start(run->opt->ordinal, kind, sizes[i], gpu_issue_j, true);
		submit_rows[i] = gpu_row_new("submit", "M/s", true, GPU_NO_GOAL, 0,
					     "submits, %u workers", sizes[i]);
		submit_figures[i] = gpu_row_figure(submit_rows[i], GPU_RUNNEL, "rnl_submit()");
		j_rows[i] = gpu_row_new("submit", "kJ/s", true, GPU_NO_GOAL, 0,
					"J per second, %u workers, 4 producers", sizes[i]);
		j_figures[i] = gpu_row_figure(j_rows[i], GPU_RUNNEL, "cq P4");
		hand_figures[i] = gpu_row_figure(j_rows[i], GPU_HAND, "event/8 d64");
		(void)submits(&b, b.pools[i]);
	}
	for (unsigned turn = 0; turn < run->opt->runs; turn++) {
		for (unsigned i = 0; i < SIZES; i++) {
			gpu_figure_add(submit_figures[i], submits(&b, b.pools[i]));
			gpu_figure_add(j_figures[i], j_rate(&b, i));
			gpu_figure_add(hand_figures[i], hand_rate(&b, i));
		}
	}
	for (unsigned i = 0; i < SIZES; i++)
		rnl_pool_destroy(b.pools[i]);
	tell(run, submit_rows, submit_figures);
	tell(run, j_rows, j_figures);
	free(b.jobs);
}

const struct gpu_line gpu_submit = { .name = "submit", .patience_s = 60, .measure = line };
