/* SPDX-License-Identifier: MIT */
/*
 * overlap: the same work on one stream and on many, and how much of the copies and
 * the kernels is done at the same time.
 *
 * DESIGN
 * The work is an array in chunks: each is copied in, goes through a kernel, and is
 * copied out.  The three stages are timed alone, each on one stream, and both
 * copies at the same time, since they share the bus: the longest of these is the
 * limit, for a GPU does one of each at a time.  Then all of the work is done: on one stream; on the legacy default stream by several threads,
 * which is what CUDA code uses that names none; and with rnl_map().
 *
 * First of all the kernel is made to last as long as a chunk's copy in, so that
 * there is as much to be won as can be.  Stages and ways take turns, run by run:
 * whatever else the machine does meets all of them.  A first turn warms up.
 */
#include "guard.h"
#include "overlap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct sample {
	double ms;
	struct rnl_map_report report;
};

enum { COPIES_IN, COPIES_OUT, COPIES_BOTH, KERNELS, SERIAL, LEGACY, BY_CHUNK, COPIES_FIRST, NR_WAYS };

static struct way {
	const char *name;
	overlap_way_fn *run;		/* NULL: not there on this device, or not wanted */
	unsigned how;
	struct sample *samples;		/* of each run; in the end the fastest first */
	struct rnl_map_report timed;	/* of one more, which is slower for that */
} ways[NR_WAYS] = {
	[COPIES_IN] = { "copies in", overlap_one_stream, OVERLAP_IN, NULL, { 0 } },
	[COPIES_BOTH] = { "copies in and out at once", overlap_both_copies, 0, NULL, { 0 } },
	[KERNELS] = { "kernels", overlap_one_stream, OVERLAP_KERNEL, NULL, { 0 } },
	[COPIES_OUT] = { "copies out", overlap_one_stream, OVERLAP_OUT, NULL, { 0 } },
	[SERIAL] = { "serial, one stream", overlap_one_stream, OVERLAP_ALL, NULL, { 0 } },
	[LEGACY] = { "legacy default stream", overlap_legacy, 0, NULL, { 0 } },
	[BY_CHUNK] = { "rnl_map, chunk by chunk", overlap_map, 0, NULL, { 0 } },
	[COPIES_FIRST] = { "rnl_map, copies first", overlap_map, RNL_MAP_COPIES_FIRST, NULL, { 0 } },
};

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "overlap: %s: %s\n", what, rnl_strerror(ret));
		exit(EXIT_FAILURE);
	}
}

static void log_error(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	if (guard_shows(level))
		fprintf(stderr, "overlap: %s\n", msg);
}

static struct rnl_pool *create_pool(const struct overlap_options *opt)
{
	const uint64_t bytes = opt->nr_chunks * opt->chunk_bytes;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	attr.nr_workers = opt->workers;
	attr.device = opt->device;
	attr.stream = opt->stream;
	attr.guard = guard_wanted();
	attr.log = log_error;
	if (!opt->pageable)	/* both arrays, and what they are rounded up by */
		attr.pinned_max = 2 * bytes + bytes / 2 + (64 << 20);
	attr.scratch_keep = 4 * (opt->chunk_bytes + 256);	/* in and out of two chunks */
	must(rnl_pool_create(&pool, &attr), "creating the workers");
	return pool;
}

/* ---- measuring ----------------------------------------------------------- */

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void measure(const struct way *way, const struct overlap_work *work, struct sample *sample)
{
	const bool elsewhere = way->run == overlap_map && work->callbacks;
	const bool whole = !elsewhere && way - ways >= SERIAL;
	uint64_t wrong;
	double start;
	int ret;

	if (whole)
		overlap_array_begin(work);
	sample->report = (struct rnl_map_report)RNL_MAP_REPORT_INIT;
	start = now_ms();
	ret = way->run(work, way->how, &sample->report);
	sample->ms = now_ms() - start;
	must(ret, way->name);
	wrong = whole ? overlap_array_wrong(work) : 0;
	if (!wrong)
		return;
	fprintf(stderr, "overlap: %s: %" PRIu64 " of %" PRIu64 " words are wrong\n", way->name,
		wrong, work->nr_chunks * work->chunk);
	exit(EXIT_FAILURE);
}

/* Finds how many rounds make a kernel last as long as its chunk's copy in. */
static void calibrate(struct overlap_work *work)
{
	struct sample copies, kernels;

	measure(&ways[SERIAL], work, &copies);		/* warms up */
	measure(&ways[COPIES_IN], work, &copies);
	for (int i = 0; i < 20; i++) {
		double factor, rounds;

		measure(&ways[KERNELS], work, &kernels);
		factor = copies.ms / kernels.ms;
		if (factor > 0.95 && factor < 1.05)
			break;
		/* In steps: the first rounds take no time, while memory is what it waits for. */
		rounds = work->rounds * (factor < 4 ? factor : 4) + 0.5;
		work->rounds = rounds < 1 ? 1 : rounds > OVERLAP_ROUNDS_MAX ? OVERLAP_ROUNDS_MAX : (uint32_t)rounds;
	}
}

static int compare_ms(const void *a, const void *b)
{
	const double x = ((const struct sample *)a)->ms, y = ((const struct sample *)b)->ms;

	return (x > y) - (x < y);
}

/* One run more of rnl_map(), with the times of its stages. */
static void time_stages(const struct overlap_work *work)
{
	for (int i = BY_CHUNK; i < NR_WAYS; i++) {
		ways[i].timed = (struct rnl_map_report)RNL_MAP_REPORT_INIT;
		if (ways[i].run)
			must(ways[i].run(work, ways[i].how | RNL_MAP_TIMED, &ways[i].timed),
			     ways[i].name);
	}
}

/* Once more, traced: the same stages, as rnl_map() has timed them and as the trace has. */
static void trace_stages(const struct overlap_work *work, const char *file)
{
	const struct way *way = &ways[ways[BY_CHUNK].run ? BY_CHUNK : COPIES_FIRST];
	struct rnl_map_report own = RNL_MAP_REPORT_INIT;
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	struct rnl_overlap seen = RNL_OVERLAP_INIT;
	double wall;
	int ret;

	attr.timing = RNL_TRACE_EVERY;
	ret = rnl_trace_start(work->pool, file, &attr);
	if (ret == -EINVAL) {	/* the attributes are in their range */
		fprintf(stderr, "overlap: %s: a trace is written to a regular file\n", file);
		exit(EXIT_FAILURE);
	}
	must(ret, file);
	must(way->run(work, way->how | RNL_MAP_TIMED, &own), way->name);
	/* The barrier is told before the worker's last job is. */
	must(rnl_pool_drain(work->pool, RNL_FOREVER), "waiting for the workers");
	must(rnl_trace_overlap(work->pool, &seen), "the trace's overlap");
	must(rnl_trace_stop(work->pool), file);
	wall = (double)own.wall_ns;
	printf("\n%s, traced to %s:\n", way->name, file);
	printf("    by rnl_map: in %.2f ms, kernels %.2f ms, out %.2f ms: together %.1f %% of the time\n",
	       (double)own.in_ns / 1e6, (double)own.kernel_ns / 1e6, (double)own.out_ns / 1e6,
	       100 * (double)(own.in_ns + own.kernel_ns + own.out_ns) / wall);
	printf("    by the trace: in %.2f ms, kernels %.2f ms, out %.2f ms: together %.1f %% of the time\n",
	       (double)seen.in_ns / 1e6, (double)seen.kernel_ns / 1e6, (double)seen.out_ns / 1e6,
	       100 * (double)(seen.in_ns + seen.kernel_ns + seen.out_ns) / wall);
	printf("    all three at once for %.2f ms, %.2f times as fast as one job after another\n",
	       (double)seen.all_ns / 1e6, seen.speedup_percent / 100.0);
}

static void measure_all(const struct overlap_work *work, unsigned repeat)
{
	for (int i = 0; i < NR_WAYS; i++) {
		ways[i].samples = calloc(repeat, sizeof(*ways[i].samples));
		must(ways[i].samples ? 0 : -ENOMEM, "the times");
	}
	for (unsigned run = 0; run <= repeat; run++)	/* run 1 goes over run 0's samples */
		for (int i = 0; i < NR_WAYS; i++)
			if (ways[i].run)
				measure(&ways[i], work, &ways[i].samples[run ? run - 1 : 0]);
	for (int i = 0; i < NR_WAYS; i++)
		qsort(ways[i].samples, repeat, sizeof(*ways[i].samples), compare_ms);
}

/* ---- printing ------------------------------------------------------------ */

static void print_work(const struct overlap_work *work, const struct overlap_options *opt)
{
	const bool whole_mb = opt->chunk_bytes % (1 << 20) == 0;

	printf("device:  %s, %u workers, %s streams\n",
	       opt->info.cuda ? opt->info.name : "host (no GPU)", opt->workers,
	       opt->stream == RNL_STREAM_PRIVATE ? "private" : "per-thread");
	printf("work:    %" PRIu64 " chunks of %zu %s, %s%s%s; kernel of %" PRIu32 " rounds\n",
	       opt->nr_chunks, whole_mb ? opt->chunk_bytes >> 20 : opt->chunk_bytes,
	       whole_mb ? "MB" : "bytes", opt->pageable ? "pageable" : "page-locked",
	       opt->in_place ? ", in place" : "",
	       !opt->callbacks ? "" :
	       opt->callback_step > 1 ? ", by sparse callbacks" : ", by callbacks",
	       work->rounds);
	printf("times:   medians of %u runs, every result checked; GB/s in each direction\n\n",
	       opt->repeat);
}

static void print_row(const char *name, double ms, double bytes)
{
	printf("%-26s %10.2f %8.2f", name, ms, bytes / ms / 1e6);
}

static void print_report(const char *name, const struct rnl_map_report *r)
{
	printf("%s, timed: %.1f MB in, %.1f MB out, %" PRIu64 " chunks, %" PRIu32 " jobs;\n"
	       "    in %.2f ms, kernels %.2f ms, out %.2f ms: together %" PRIu32
	       " %% of the time, the longest %" PRIu32 " %%\n",
	       name, (double)r->bytes_in / 1e6, (double)r->bytes_out / 1e6, r->chunks, r->nr_jobs,
	       (double)r->in_ns / 1e6, (double)r->kernel_ns / 1e6, (double)r->out_ns / 1e6,
	       r->overlap_percent, r->limit_percent);
	if (r->read_ns || r->write_ns)
		printf("    CPUs took %.2f ms to fill page-locked memory, %.2f ms to empty it\n",
		       (double)r->read_ns / 1e6, (double)r->write_ns / 1e6);
}

static void print_all(const struct overlap_options *opt)
{
	const double bytes = (double)opt->nr_chunks * (double)opt->chunk_bytes;
	const struct sample *median[NR_WAYS];
	double limit = 0;

	for (int i = 0; i < NR_WAYS; i++)
		median[i] = &ways[i].samples[opt->repeat / 2];
	printf("%-26s %10s %8s\n", "each stage alone", "ms", "GB/s");
	for (int i = COPIES_IN; i <= KERNELS; i++) {
		limit = median[i]->ms > limit ? median[i]->ms : limit;
		print_row(ways[i].name, median[i]->ms, bytes);
		putchar('\n');
	}
	printf("\n%-26s %10s %8s %12s %10s\n", "all of the work", "ms", "GB/s", "of the limit",
	       "x serial");
	print_row("limit, the longest stage", limit, bytes);
	printf(" %10.1f %% %10.2f\n", 100.0, median[SERIAL]->ms / limit);
	for (int i = SERIAL; i < NR_WAYS; i++) {
		if (!ways[i].run) {
			printf("%-26s %10s %8s %12s %10s\n", ways[i].name, "-", "-", "-", "-");
			continue;
		}
		print_row(ways[i].name, median[i]->ms, bytes);
		printf(" %10.1f %% %10.2f\n", 100 * limit / median[i]->ms,
		       median[SERIAL]->ms / median[i]->ms);
	}
	putchar('\n');
	for (int i = BY_CHUNK; i < NR_WAYS; i++)
		if (ways[i].run)
			print_report(ways[i].name, &ways[i].timed);
	if (!opt->info.cuda)
		puts("\nThe host device's streams are threads: what they gain or lose is a matter\n"
		     "of CPUs and caches, and several may pass the limit, which is that of one.");
}

int main(int argc, char **argv)
{
	struct overlap_options opt;
	struct overlap_work work;
	struct rnl_pool *pool;

	rnl_setup();	/* without it there may be fewer streams at once, no more */
	overlap_options_parse(&opt, argc, argv);
	if (!opt.info.cuda)
		ways[LEGACY].run = NULL;
	if (!(opt.orders & OVERLAP_CHUNK))
		ways[BY_CHUNK].run = NULL;
	if (!(opt.orders & OVERLAP_COPIES))
		ways[COPIES_FIRST].run = NULL;

	pool = create_pool(&opt);
	must(rnl_thread_attach(pool), "a stream for this thread");
	overlap_array_get(&work, &opt, pool);
	if (!opt.rounds)
		calibrate(&work);
	print_work(&work, &opt);
	fflush(stdout);
	measure_all(&work, opt.repeat);
	time_stages(&work);
	print_all(&opt);
	if (opt.trace)
		trace_stages(&work, opt.trace);

	for (int i = 0; i < NR_WAYS; i++)
		free(ways[i].samples);
	overlap_array_put(&work, &opt);
	rnl_thread_detach();
	rnl_pool_destroy(pool);
	if (fflush(stdout) || ferror(stdout)) {
		fputs("overlap: not all of this could be written to standard output\n", stderr);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
