/* SPDX-License-Identifier: MIT */
/*
 * runnel bench: measures this machine through a pool, in a few seconds.
 *
 * DESIGN
 * One thread submits and waits, like a simple program.  Empty jobs, one by one and many at
 * a time, show the pool's own cost.  A job called J copies 4 KB to the device, runs a kernel
 * and copies 4 KB back; every word is checked before its memory is used again.  The number
 * of submits is compared with the counts of the job function and of the pool.  `make bench`
 * and `make bench-gpu` in the source tree measure more, and other systems.
 */
#include <stdio.h>

#include <runnel.h>

#include "bench.h"
#include "experiment.h"
#include "json.h"
#include "options.h"
#include "progress.h"
#include "tool.h"

#define WORKERS 8
#define WORKERS_MAX 62
#define RUN_MS 100
#define RUN_MS_MAX 10000
#define LEVELS_MAX 8		/* 1, 2, 4, ... workers, and all */

static const char doc[] =
"Measures this machine through a pool: empty jobs per second, the time from a submit "
"until the wait for its job returns, and how many times per second 4 KB go to the device, "
"through a kernel, and back, with 1, 2, 4, ... workers.  Every result is checked.\v"
"`make bench` and `make bench-gpu` in the source tree also measure other systems. "
"The exit status is 0, or 2 if something failed or a result was wrong.";

struct level {
	unsigned workers;
	struct bench_spread per_second;
};

struct figures {
	struct bench_spread empty_per_second;
	struct bench_times empty, kernel;	/* one job, from submit to end of wait */
	unsigned nr_devices;
	struct level levels[LEVELS_MAX];
	unsigned nr_levels;
};

static struct rnl_pool *bench_make_pool(const struct bench_machine *m, unsigned workers)
{
	return tool_pool((struct rnl_pool_attr){ .device = m->device, .nr_workers = workers });
}

/* Returns the next number of workers to measure, at most @workers. */
static unsigned next_level(unsigned level, unsigned workers)
{
	return 2 * level < workers ? 2 * level : workers;
}

static unsigned nr_levels(unsigned first, unsigned workers)
{
	unsigned nr = 1;

	for (unsigned w = first; w != workers && nr < LEVELS_MAX; w = next_level(w, workers))
		nr++;
	return nr;
}

static void bench_measure(const struct bench_machine *m, unsigned workers, struct figures *f)
{
	struct rnl_pool *pool = bench_make_pool(m, workers);
	const unsigned nr_devices = tool_nr_devices(pool);

	tool_progress_begin(BENCH_RUNS * (3 + nr_levels(nr_devices, workers)));
	f->nr_devices = nr_devices;
	f->empty_per_second = bench_empty(m, pool);
	f->empty = bench_one(m, pool, false);
	f->kernel = bench_one(m, pool, true);
	rnl_pool_destroy(pool);
	/* The first level has one worker on each device. */
	for (unsigned w = nr_devices; f->nr_levels < LEVELS_MAX; w = next_level(w, workers)) {
		pool = bench_make_pool(m, w);
		f->levels[f->nr_levels++] = (struct level){ w, bench_j(m, pool, w) };
		rnl_pool_destroy(pool);
		if (w == workers)
			break;
	}
}

static void bench_print_machine(const struct bench_machine *m)
{
	printf("device:   %s; this process may use %u CPUs\n",
	       m->info.cuda ? m->info.name : "host (no GPU)", tool_cpus());
	printf("times:    medians of %d runs of %u ms, with the lowest and the highest run; every "
	       "result checked\n\n", BENCH_RUNS, m->run_ms);
	fflush(stdout);		/* the measurements take some time */
}

static void print_rate(const struct bench_spread *rate)
{
	printf("%10.0f per second   %.0f to %.0f\n", rate->median, rate->low, rate->high);
}

static void bench_print_times(const struct bench_times *times)
{
	printf("%10.1f us           %.1f to %.1f; p99 %.1f\n", times->p50_us.median,
	       times->p50_us.low, times->p50_us.high, times->p99_us);
}

static void print(unsigned workers, const struct figures *f)
{
	if (f->nr_devices > 1)
		printf("devices                    %10u\n", f->nr_devices);
	printf("empty jobs, %2u worker%s     ", workers, workers == 1 ? " " : "s");
	print_rate(&f->empty_per_second);
	printf("submit to wait, empty job  ");
	bench_print_times(&f->empty);
	printf("submit to wait, a kernel   ");
	bench_print_times(&f->kernel);
	for (unsigned i = 0; i < f->nr_levels; i++) {
		printf("J, %2u worker%s              ", f->levels[i].workers,
		       f->levels[i].workers == 1 ? " " : "s");
		print_rate(&f->levels[i].per_second);
	}
	puts("\nJ: 4 KB to the device, a kernel, 4 KB back, some hundreds at once.  `make bench`\n"
	     "and `make bench-gpu` in the source tree also measure other systems.");
}

/* Prints a spread as three members: the median, the lowest and the highest value. */
static void json_spread(const char *name, const char *low, const char *high,
			const struct bench_spread *spread)
{
	tool_json_number(name, spread->median);
	tool_json_number(low, spread->low);
	tool_json_number(high, spread->high);
}

static void bench_json_times(const char *name, const struct bench_times *times)
{
	tool_json_object(name);
	json_spread("p50_us", "p50_low_us", "p50_high_us", &times->p50_us);
	tool_json_number("p99_us", times->p99_us);
	tool_json_close();
}

static void bench_json(const struct bench_machine *m, unsigned workers, const struct figures *f)
{
	tool_json_object(NULL);
	tool_json_text("device", m->info.cuda ? "cuda" : "host");
	tool_json_text("name", m->info.name);
	tool_json_integer("cpus", tool_cpus());
	tool_json_integer("run_ms", m->run_ms);
	tool_json_integer("runs", BENCH_RUNS);
	tool_json_integer("devices", f->nr_devices);
	tool_json_integer("workers", workers);
	json_spread("empty_jobs_per_second", "empty_jobs_per_second_low",
		    "empty_jobs_per_second_high", &f->empty_per_second);
	bench_json_times("empty_job", &f->empty);
	bench_json_times("kernel", &f->kernel);
	tool_json_array("j");
	for (unsigned i = 0; i < f->nr_levels; i++) {
		tool_json_object(NULL);
		tool_json_integer("workers", f->levels[i].workers);
		json_spread("per_second", "per_second_low", "per_second_high",
			    &f->levels[i].per_second);
		tool_json_close();
	}
	tool_json_close();
	tool_json_close();
}

int tool_bench(int argc, char **argv)
{
	struct bench_machine m = { .device = "auto", .run_ms = RUN_MS };
	struct figures figures = { .nr_levels = 0 };
	unsigned workers = WORKERS;
	bool as_json = false;
	const struct tool_usage usage = {
		.doc = doc, .too_many = "give only options", .nr_options = 4, .options = {
			TOOL_NUMBER("workers", &workers, 1, WORKERS_MAX, "the most, 1 to 62; default 8"),
			TOOL_TEXT("device", "D", &m.device, TOOL_DEVICES),
			TOOL_NUMBER("run-ms", &m.run_ms, 1, RUN_MS_MAX,
				    "milliseconds of a run, 5 runs for each figure; default 100"),
			TOOL_FLAG("json", &as_json, "print the figures as JSON"),
		},
	};
	int status = tool_options(&usage, argc, argv, NULL);

	if (status != TOOL_GO_ON)
		return status;
	status = tool_begin(m.device, &m.info);
	if (status)
		return status;
	if (!as_json)
		bench_print_machine(&m);
	bench_measure(&m, workers, &figures);
	if (as_json)
		bench_json(&m, workers, &figures);
	else
		print(workers, &figures);
	return TOOL_YES;
}
