/* SPDX-License-Identifier: MIT */
/*
 * stream_kinds: several threads launch the same kernels on each kind of CUDA's streams; shows which
 * kernels ran concurrently.
 *
 * DESIGN
 * Each kernel records its start and end with the device's clock, so the times do not depend on the
 * host.  Each way is run several times, and the run with the median time is printed and drawn.  The
 * host device has no kinds of streams: there the program compares three ways: a pool with one
 * worker (one stream), threads without a pool, and a pool with one worker per job.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "stream_kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/device.h>
#include <runnel/memory.h>

#define REPEAT_MAX 99
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct kinds_way on_cuda[] = {
	{ .name = "legacy default stream", .stream = KINDS_LEGACY,
	  .means = "one stream for the whole process: one kernel after another" },
	{ .name = "per-thread default streams", .stream = KINDS_PER_THREAD,
	  .means = "a stream per thread: in order within it, concurrent with other streams" },
	{ .name = "explicit blocking streams", .stream = KINDS_BLOCKING,
	  .means = "like per-thread streams, as long as no thread uses the legacy stream" },
	{ .name = "explicit non-blocking streams", .stream = KINDS_NON_BLOCKING,
	  .means = "like per-thread streams, even if a thread uses the legacy stream" },
	{ .name = "per-thread, one legacy call", .stream = KINDS_PER_THREAD,
	  .one_legacy = true,
	  .means = "the legacy call waits for all earlier work, and all later work waits for it" },
	{ .name = "non-blocking, one legacy call", .stream = KINDS_NON_BLOCKING,
	  .one_legacy = true,
	  .means = "these streams are not ordered with the legacy stream: no waits" },
	{ .name = "runnel, a pool of workers", .pool = true,
	  .means = "workers' per-thread streams; the code names no stream" },
};

static struct kinds_way on_host[] = {
	{ .name = "one stream for all", .pool = true, .one_worker = true,
	  .means = "one kernel after another, like on CUDA's legacy default stream" },
	{ .name = "plain threads, without a pool", .plain = true,
	  .means = "each thread calls its kernels: the best possible time" },
	{ .name = "runnel, a pool of workers", .pool = true,
	  .means = "in order on a worker, concurrent with other workers" },
};

static const char doc[] =
	"Several threads launch the same kernels on each kind of CUDA's streams: the legacy default "
	"stream, per-thread default streams, explicit streams, blocking and non-blocking, and with "
	"one legacy call in between; and as jobs of runnel.  Prints the time of each way by the "
	"device's clock, and the meaning.";

static void parse_options(struct kinds_options *opt, int argc, char **argv)
{
	const struct program_option table[] = {
		{ "threads", 0, "N", "threads, 2 to 32; 8",
		  OPTION_NUMBER(&opt->threads, 2, KINDS_THREADS_MAX) },
		{ "kernels", 0, "N", "kernels of each thread, in order, 2 to 8; 3",
		  OPTION_NUMBER(&opt->kernels, 2, KINDS_KERNELS_MAX) },
		{ "ms", 0, "N", "duration of a kernel; 3", OPTION_NUMBER(&opt->ms, 1, 1000) },
		{ "repeat", 0, "N", "runs; the median is shown; 5",
		  OPTION_NUMBER(&opt->repeat, 1, REPEAT_MAX) },
		OPTION_DEVICE(&opt->device),
		{ "svg", 0, "FILE", "write the timeline to FILE", OPTION_TEXT(&opt->svg) },
		{ .name = NULL }
	};

	*opt = (struct kinds_options){
		.device = "auto",
		.info = RNL_DEVICE_INFO_INIT,
		.threads = 8,
		.kernels = 3,
		.ms = 3,
		.repeat = 5,
	};
	program_options(argc, argv, doc, table, NULL);
	program_device(opt->device, &opt->info);
	if (opt->info.cuda && !kinds_cuda)
		program_die("this program was built without nvcc, and has no kernel for '%s': use "
			    "--device=host", opt->device);
}

/* ---- figures ------------------------------------------------------------- */

struct kinds_figures kinds_figures(const struct kinds_options *opt, const struct kinds_way *way,
				   unsigned run)
{
	const struct kinds_span *spans = kinds_spans(way, opt, run);
	const unsigned nr = opt->threads * opt->kernels;
	struct kinds_figures f = { .begin = UINT64_MAX };

	for (unsigned i = 0; i < nr; i++) {
		unsigned there = 0;

		f.begin = spans[i].begin < f.begin ? spans[i].begin : f.begin;
		f.end = spans[i].end > f.end ? spans[i].end : f.end;
		for (unsigned j = 0; j < nr; j++)	/* at the start of i */
			there += spans[j].begin <= spans[i].begin && spans[i].begin < spans[j].end;
		f.at_once = there > f.at_once ? there : f.at_once;
	}
	f.ms = (double)(f.end - f.begin) / 1e6;
	return f;
}

/* Finds the run with the median time; run 0 warmed up. */
static void find_median(const struct kinds_options *opt, struct kinds_way *way)
{
	double ms[REPEAT_MAX], median;

	for (unsigned run = 1; run <= opt->repeat; run++)
		ms[run - 1] = kinds_figures(opt, way, run).ms;
	median = program_median(ms, opt->repeat);
	for (unsigned run = 1; run <= opt->repeat; run++)
		if (kinds_figures(opt, way, run).ms == median)
			way->median = run;
}

/* Dies unless every kernel of every run took at least its time. */
static void check(const struct kinds_options *opt, const struct kinds_way *way)
{
	const unsigned nr = opt->threads * opt->kernels;

	for (unsigned i = nr; i < (opt->repeat + 1) * nr; i++) {
		const struct kinds_span *span = &way->spans[i];

		if (span->begin && span->end - span->begin >= opt->ms * 1000000ull)
			continue;
		program_die("%s: kernel %u of thread %u did not run", way->name,
			    i % opt->kernels + 1, i / opt->kernels % opt->threads + 1);
	}
}

/* ---- the table ----------------------------------------------------------- */

static void print_setup(const struct kinds_options *opt)
{
	const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");

	printf("device:  %s", program_device_name(&opt->info));
	if (opt->info.cuda)
		printf(", CUDA_DEVICE_MAX_CONNECTIONS=%s", queues ? queues : "(not set)");
	printf("\nwork:    %u threads, each launches %u kernels of %u ms\n", opt->threads,
	       opt->kernels, opt->ms);
	printf("times:   the device's own, of the median of %u run%s\n\n", opt->repeat,
	       opt->repeat == 1 ? "" : "s");
	program_flush();
}

static void print_table(const struct kinds_options *opt, const struct kinds_way *ways, unsigned nr)
{
	printf("%-30s %9s %8s  %s\n", "", "ms", "at once", "meaning");
	for (unsigned i = 0; i < nr; i++) {
		const struct kinds_figures f = kinds_figures(opt, &ways[i], ways[i].median);

		printf("%-30s %9.2f %8u  %s\n", ways[i].name, f.ms, f.at_once, ways[i].means);
	}
	if (!opt->info.cuda)
		puts("\nThe host device has one kind of stream, a thread, and no legacy default stream:\n"
		     "the other kinds are CUDA's, and need a GPU.");
}

/* ---- the program --------------------------------------------------------- */

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct kinds_options opt;
	struct kinds_way *ways;
	struct rnl_pool *pool;
	size_t bytes;
	unsigned nr;
	void *mem;
	int ret;

	program_begin();
	parse_options(&opt, argc, argv);
	ways = opt.info.cuda ? on_cuda : on_host;
	nr = opt.info.cuda ? COUNT(on_cuda) : COUNT(on_host);
	attr.device = opt.device;	/* only for memory */
	attr.nr_workers = 1;
	pool = program_pool(&attr);
	bytes = sizeof(struct kinds_span) * (opt.repeat + 1) * opt.threads * opt.kernels;
	program_must(rnl_memory_get(pool, RNL_PINNED, nr * bytes, &mem, 0), "page-locked memory");
	memset(mem, 0, nr * bytes);
	for (unsigned i = 0; i < nr; i++)
		ways[i].spans = (struct kinds_span *)((char *)mem + i * bytes);

	print_setup(&opt);
	kinds_run(&opt, ways, nr);
	for (unsigned i = 0; i < nr; i++) {
		check(&opt, &ways[i]);
		find_median(&opt, &ways[i]);
	}
	print_table(&opt, ways, nr);
	if (opt.svg) {
		ret = kinds_picture(&opt, ways, nr);
		if (ret)
			program_die("%s: %s", opt.svg, strerror(-ret));
		printf("\nThe timeline is in %s.\n", opt.svg);
	}
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
	return EXIT_SUCCESS;
}
