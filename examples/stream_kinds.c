/* SPDX-License-Identifier: MIT */
/*
 * stream_kinds: the same kernels of several threads on each kind of CUDA's streams, and
 * what ran at the same time.
 *
 * DESIGN
 * Each kernel notes when it began and ended, by the device's clock, so the times are those
 * of the device, whatever the host does.  A way is run several times; the run whose
 * time is the median is told of, and drawn.  The host device has no kinds of streams: there,
 * one stream for all stands beside one for each thread.
 */
#include "stream_kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct kinds_way on_cuda[] = {
	{ .name = "legacy default stream", .by = KINDS_BY_CUDA, .stream = KINDS_LEGACY,
	  .means = "one stream for the whole process: one kernel after the other" },
	{ .name = "per-thread default streams", .by = KINDS_BY_CUDA, .stream = KINDS_PER_THREAD,
	  .means = "each thread has one of its own: its kernels are in order, others' beside them" },
	{ .name = "explicit blocking streams", .by = KINDS_BY_CUDA, .stream = KINDS_BLOCKING,
	  .means = "the same, as long as nobody uses the legacy stream" },
	{ .name = "explicit non-blocking streams", .by = KINDS_BY_CUDA,
	  .stream = KINDS_NON_BLOCKING, .means = "the same, whatever others do" },
	{ .name = "per-thread, one legacy call", .by = KINDS_BY_CUDA, .stream = KINDS_PER_THREAD,
	  .one_legacy = true,
	  .means = "the call waits for all before it, and all behind it wait: alone on the device" },
	{ .name = "non-blocking, one legacy call", .by = KINDS_BY_CUDA,
	  .stream = KINDS_NON_BLOCKING, .one_legacy = true,
	  .means = "these streams are in no order with the legacy one: nobody waits" },
	{ .name = "runnel, a job for each worker", .by = KINDS_BY_POOL,
	  .means = "workers' per-thread streams, without one being named" },
};

static struct kinds_way on_host[] = {
	{ .name = "one stream for all", .by = KINDS_BY_ONE,
	  .means = "one kernel after the other, as on CUDA's legacy default stream" },
	{ .name = "a stream for each thread", .by = KINDS_BY_THREADS,
	  .means = "a thread's kernels are in order, others' beside them" },
	{ .name = "runnel, a job for each worker", .by = KINDS_BY_POOL,
	  .means = "workers' streams, without one being named" },
};

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "stream_kinds: %s: %s\n", what, rnl_strerror(ret));
		exit(EXIT_FAILURE);
	}
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
		for (unsigned j = 0; j < nr; j++)	/* when i began */
			there += spans[j].begin <= spans[i].begin && spans[i].begin < spans[j].end;
		f.at_once = there > f.at_once ? there : f.at_once;
	}
	f.ms = (double)(f.end - f.begin) / 1e6;
	return f;
}

static const struct kinds_options *sorted_of;
static const struct kinds_way *sorted_way;

static int by_time(const void *a, const void *b)
{
	const double x = kinds_figures(sorted_of, sorted_way, *(const unsigned *)a).ms;
	const double y = kinds_figures(sorted_of, sorted_way, *(const unsigned *)b).ms;

	return (x > y) - (x < y);
}

static void find_median(const struct kinds_options *opt, struct kinds_way *way)
{
	unsigned *runs = calloc(opt->repeat, sizeof(*runs));

	if (!runs) {
		fputs("stream_kinds: out of memory\n", stderr);
		exit(EXIT_FAILURE);
	}
	for (unsigned i = 0; i < opt->repeat; i++)
		runs[i] = i + 1;	/* run 0 was to warm up */
	sorted_of = opt;
	sorted_way = way;
	qsort(runs, opt->repeat, sizeof(*runs), by_time);
	way->median = runs[opt->repeat / 2];
	free(runs);
}

/* Every kernel of every run was there, for as long as it should. */
static void look(const struct kinds_options *opt, const struct kinds_way *way)
{
	const unsigned nr = opt->threads * opt->kernels;

	for (unsigned i = nr; i < (opt->repeat + 1) * nr; i++) {
		const struct kinds_span *span = &way->spans[i];

		if (span->begin && span->end - span->begin >= opt->ms * 1000000ull)
			continue;
		fprintf(stderr, "stream_kinds: %s: kernel %u of thread %u did not run\n", way->name,
			i % opt->kernels + 1, i / opt->kernels % opt->threads + 1);
		exit(EXIT_FAILURE);
	}
}

/* ---- the table ----------------------------------------------------------- */

static void print_setup(const struct kinds_options *opt)
{
	const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");

	if (opt->info.cuda)
		printf("device:  %s, CUDA_DEVICE_MAX_CONNECTIONS=%s\n", opt->info.name,
		       queues ? queues : "(not set)");
	else
		puts("device:  host (no GPU)");
	printf("work:    %u threads, each launches %u kernels of %u ms\n", opt->threads,
	       opt->kernels, opt->ms);
	printf("times:   the device's own, of the median of %u run%s\n\n", opt->repeat,
	       opt->repeat == 1 ? "" : "s");
	fflush(stdout);
}

static void print_table(const struct kinds_options *opt, const struct kinds_way *ways, unsigned nr)
{
	printf("%-30s %9s %8s  %s\n", "", "ms", "at once", "what it means");
	for (unsigned i = 0; i < nr; i++) {
		const struct kinds_figures f = kinds_figures(opt, &ways[i], ways[i].median);

		printf("%-30s %9.2f %8u  %s\n", ways[i].name, f.ms, f.at_once, ways[i].means);
	}
	if (!opt->info.cuda)
		puts("\nThe host device has one kind of stream, a thread, and no legacy default stream:\n"
		     "the others are CUDA's, and need a GPU.");
}

/* ---- the program --------------------------------------------------------- */

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct kinds_options opt;
	struct rnl_pool *pool = NULL;
	struct kinds_way *ways;
	size_t bytes;
	unsigned nr;
	void *mem;
	int ret = 0;

	rnl_setup();	/* without it there may be fewer kernels at once, no more */
	kinds_options_parse(&opt, argc, argv);
	ways = opt.info.cuda ? on_cuda : on_host;
	nr = opt.info.cuda ? COUNT(on_cuda) : COUNT(on_host);
	attr.device = opt.device;	/* for memory, and for the host's threads */
	attr.nr_workers = 1;
	must(rnl_pool_create(&pool, &attr), "creating the workers");
	bytes = sizeof(struct kinds_span) * (opt.repeat + 1) * opt.threads * opt.kernels;
	must(rnl_pinned_get(pool, nr * bytes, &mem), "page-locked memory");
	memset(mem, 0, nr * bytes);
	for (unsigned i = 0; i < nr; i++)
		ways[i].spans = (struct kinds_span *)((char *)mem + i * bytes);

	print_setup(&opt);
	kinds_run(&opt, pool, ways, nr);
	for (unsigned i = 0; i < nr; i++) {
		look(&opt, &ways[i]);
		find_median(&opt, &ways[i]);
	}
	print_table(&opt, ways, nr);
	if (opt.svg) {
		ret = kinds_picture(&opt, ways, nr);
		if (ret)
			fprintf(stderr, "stream_kinds: %s: %s\n", opt.svg, strerror(-ret));
		else
			printf("\nThe timeline is in %s.\n", opt.svg);
	}
	rnl_pinned_put(pool, mem);
	rnl_pool_destroy(pool);
	if (fflush(stdout) || ferror(stdout)) {
		fputs("stream_kinds: not all of this could be written to standard output\n", stderr);
		return EXIT_FAILURE;
	}
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
