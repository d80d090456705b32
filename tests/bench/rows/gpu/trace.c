/* SPDX-License-Identifier: MIT */
/*
 * The row trace: J per second with and without a trace.
 *
 * DESIGN
 *	All ways use one pool and its requests, and take turns after each run: without a trace, with
 *	a trace of the host only, with a trace that times some jobs on the device, and with one that
 *	times all. Each run has its own trace, begun and ended outside of the measured time; the
 *	file is removed. The line shows a trace's drops: a figure with drops shows a slow disk, or
 *	too little CPU time.
 *	The ceiling is the same pool without a trace: no variant by hand could record for less than
 *	nothing. What the untraced pool is worth by hand is the row jobs.
 */
#include "gpu/work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include <runnel/stats.h>
#include <runnel/trace.h>

#define REQUESTS 128		/* for each worker */

enum { UNTRACED, HOST, SOME, EVERY, WAYS };

static const uint32_t timings[WAYS] = {
	[HOST] = RNL_TRACE_HOST, [SOME] = RNL_TRACE_SOME, [EVERY] = RNL_TRACE_EVERY
};

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	const struct bench_options *opt;
	struct gpu_request *requests;
	unsigned threads;
	char file[64];
};

static uint64_t untraced(const struct bench *b)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	bench_rnl(rnl_pool_read_stats(b->pool, RNL_ALL_WORKERS, &stats), "rnl_pool_read_stats");
	return stats.untraced;
}

static double rate(const struct bench *b, unsigned way, unsigned ms)
{
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	const uint64_t before = untraced(b);
	double found;

	attr.timing = timings[way];
	attr.file_max = (uint64_t)4 << 30;	/* fits a run: the writer is part of the cost */
	if (way != UNTRACED)
		bench_rnl(rnl_trace_start(b->pool, b->file, &attr), "rnl_trace_start");
	found = gpu_pool_rate(b->pool, b->requests, REQUESTS * b->threads, GPU_CQ,
			     b->threads < 4 ? 1 : 4, ms);
	if (way != UNTRACED) {
		bench_rnl(rnl_trace_stop(b->pool), "rnl_trace_stop");
		unlink(b->file);
	}
	if (untraced(b) != before)
		fprintf(stderr, "bench: trace, %u workers, way %u: %" PRIu64 " records were dropped\n",
			b->threads, way, untraced(b) - before);
	return found * 1e-3;
}

static void measure(void *arg, unsigned way, double *values)
{
	const struct bench *b = arg;

	values[0] = values[1] = values[2] = rate(b, way, b->opt->run_ms);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	const char *tmp = getenv("TMPDIR");

	b->opt = run->opt;
	b->threads = run->threads;
	snprintf(b->file, sizeof(b->file), "%.40s/bench_trace.%d.json", tmp ? tmp : "/tmp",
		 (int)getpid());
	b->pool = gpu_pool(run->opt->device, RNL_STREAM_PER_THREAD, b->threads, NULL);
	b->requests = gpu_requests(REQUESTS * b->threads);
	for (unsigned way = UNTRACED; way < WAYS; way++)
		(void)rate(b, way, run->opt->screen_ms);
	return b;
}

const struct bench_work bench_trace = { begin_row, measure, gpu_row_end, NULL };
