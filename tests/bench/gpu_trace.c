/* SPDX-License-Identifier: MIT */
/*
 * The line trace: J per second while a trace runs, and while none does.
 *
 * DESIGN
 *	The same pool and the same requests take turns, run by run: without a trace, with
 *	one of what the host does, with one that times some jobs on the device, and with
 *	one that times all.  Each run has a trace of its own, begun and ended outside
 *	of its time; the file is removed.  What a trace dropped is named beside it: a
 *	figure with drops is that of a disk, or of a CPU that was missing.
 */
#include "gpu.h"
#include "gpu_work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define REQUESTS 128		/* for each worker */

enum { UNTRACED, HOST, SOME, EVERY, WAYS };

static const struct {
	const char *name, *what;
	uint32_t timing;
	double goal;		/* of the untraced rate; 0: none */
} ways[WAYS] = {
	[UNTRACED] = { "no trace", "", 0, 0 },
	[HOST] = { "host alone", "traced, timing off", RNL_TRACE_HOST, 0.97 },
	[SOME] = { "some timed", "traced, timing on", RNL_TRACE_SOME, 0.9 },
	[EVERY] = { "every job timed", "traced, every job timed", RNL_TRACE_EVERY, 0 },
};

struct bench {
	const struct gpu_options *opt;
	struct rnl_pool *pool;
	struct gpu_request *requests;
	unsigned threads;
	char file[64];
};

static uint64_t untraced(const struct bench *b)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	gpu_rnl(rnl_pool_stats(b->pool, &stats), "rnl_pool_stats");
	return stats.untraced;
}

static double measure(const struct bench *b, unsigned way, unsigned ms)
{
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	const uint64_t before = untraced(b);
	double rate;

	attr.timing = ways[way].timing;
	attr.file_max = (uint64_t)4 << 30;	/* all of a run: the writer is part of the cost */
	if (way != UNTRACED)
		gpu_rnl(rnl_trace_start(b->pool, b->file, &attr), "rnl_trace_start");
	rate = gpu_pool_rate(b->pool, b->requests, REQUESTS * b->threads, GPU_CQ,
			     b->threads < 4 ? 1 : 4, ms);
	if (way != UNTRACED) {
		gpu_rnl(rnl_trace_stop(b->pool), "rnl_trace_stop");
		unlink(b->file);
	}
	if (untraced(b) != before)
		fprintf(stderr, "gpu: trace, %u workers, %s: %" PRIu64 " records were dropped\n",
			b->threads, ways[way].name, untraced(b) - before);
	return rate * 1e-3;
}

static unsigned parts(const struct gpu_options *opt)
{
	return opt->nr_threads;
}

static void line(const struct gpu_run *run)
{
	const struct gpu_options *opt = run->opt;
	struct bench b = { .opt = opt, .threads = opt->threads[run->part] };
	struct gpu_row *rows[WAYS];
	struct gpu_figure *ceilings[WAYS], *figures[WAYS];
	const char *tmp = getenv("TMPDIR");

	snprintf(b.file, sizeof(b.file), "%.40s/gpu_trace.%d.json", tmp ? tmp : "/tmp", (int)getpid());
	gpu_setup();
	gpu_begin(opt->ordinal);
	b.pool = gpu_pool(opt->device, RNL_STREAM_PER_THREAD, b.threads, NULL);
	b.requests = gpu_requests(REQUESTS * b.threads);
	for (unsigned way = HOST; way < WAYS; way++) {
		rows[way] = gpu_row_new("trace", "kJ/s", true,
					ways[way].goal > 0 ? GPU_OF_CEILING : GPU_NO_GOAL,
					ways[way].goal, "J per second, %u, %s", b.threads,
					ways[way].what);
		ceilings[way] = gpu_row_figure(rows[way], GPU_CEILING, ways[UNTRACED].name);
		figures[way] = gpu_row_figure(rows[way], GPU_RUNNEL, ways[way].name);
	}
	for (unsigned way = 0; way < WAYS; way++)
		(void)measure(&b, way, opt->screen_ms);
	for (unsigned i = 0; i < opt->runs; i++) {
		for (unsigned n = 0; n < WAYS; n++) {
			const unsigned way = (n + i) % WAYS;
			const double rate = measure(&b, way, opt->run_ms);

			for (unsigned row = HOST; row < WAYS; row++) {
				if (way == UNTRACED)
					gpu_figure_add(ceilings[row], rate);
				else if (way == row)
					gpu_figure_add(figures[row], rate);
			}
		}
	}
	rnl_pool_destroy(b.pool);
	for (unsigned way = HOST; way < WAYS; way++)
		gpu_row_tell(run, rows[way]);
}

const struct gpu_line gpu_trace = {
	.name = "trace", .patience_s = 90, .parts = parts, .measure = line
};
