/* SPDX-License-Identifier: MIT */
/*
 * The command line.
 *
 * DESIGN
 *	--wrong is not in the help: it compares results with wrong values, or makes a job run twice
 *	or never, to test that errors are found.
 */
#include "bench.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/device.h>

enum {
	KEY_ROWS = 256,
	KEY_ONLY,
	KEY_THREADS,
	KEY_GPUS,
	KEY_CONFIGS,
	KEY_DEVICE,
	KEY_ALL,
	KEY_JSON,
	KEY_LIST,
	KEY_QUICK,
	KEY_WRONG,
	KEY_NUMBERS		/* plus the index in numbers[] */
};

static const struct {
	const char *name;
	unsigned min, max;
	size_t at;
} numbers[] = {
#define NUMBER(option, field, min, max) { option, min, max, offsetof(struct bench_options, field) }
	NUMBER("runs", runs, 1, BENCH_RUNS_MAX),
	NUMBER("run-ms", run_ms, 1, 10000),
	NUMBER("seconds", seconds, 1, 86400),
	NUMBER("jobs", jobs, BENCH_THREADS_MAX, 100000000),
	NUMBER("workers", workers, 1, BENCH_THREADS_MAX),
	NUMBER("latency-workers", latency_workers, 1, BENCH_THREADS_MAX),
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static const struct argp_option options[] = {
	{ "list", KEY_LIST, NULL, 0, "Print the rows, with sides and targets, and exit", 0 },
	{ "rows", KEY_ROWS, "ROW,...", 0, "Only these rows", 0 },
	{ "runs", KEY_NUMBERS + 0, "N", 0, "The medians are of N runs; 7, on a GPU 5", 0 },
	{ "run-ms", KEY_NUMBERS + 1, "N", 0, "Of a measurement that goes on for some time; 120", 0 },
	{ "seconds", KEY_NUMBERS + 2, "N", 0, "Of all rows together; 7200, on a GPU 450", 0 },
	{ "device", KEY_DEVICE, "NAME", 0, "host, cuda or cuda:N; on a GPU cuda, else host", 0 },
	{ "threads", KEY_THREADS, "N,...", 0, "Threads and workers of jobs and trace; 1,4,8,16", 0 },
	{ "gpus", KEY_GPUS, "N,...", 0, "How many GPUs in devices, beside one; 2,4,8", 0 },
	{ "configs", KEY_CONFIGS, "WxP,...", 0, "Workers and producers; 1, 2 and 4 of each", 0 },
	{ "jobs", KEY_NUMBERS + 3, "N", 0, "Of throughput; 1000000", 0 },
	{ "workers", KEY_NUMBERS + 4, "N", 0, "Of burst and forkjoin, 2; of each GPU in devices, 8", 0 },
	{ "latency-workers", KEY_NUMBERS + 5, "N", 0, "Of handoff and return; 1", 0 },
	{ "only", KEY_ONLY, "PEER,...", 0, "Of runnel runnel_many mutex glib libuv tbb openmp wfcq", 0 },
	{ "all", KEY_ALL, NULL, 0, "Print every variant, not only the best", 0 },
	{ "json", KEY_JSON, "FILE", 0, "Write all runs of all variants to FILE", 0 },
	{ "quick", KEY_QUICK, NULL, 0, "Little of everything, to see that it works; options after "
	  "this one change that", 0 },
	{ "wrong", KEY_WRONG, "HOW", OPTION_HIDDEN, NULL, 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

uint32_t bench_wrong_result;

/* Returns the number that arg begins with, from 1 to max, or 0; *end is the end of the number. */
static unsigned number_at(const char *arg, unsigned long max, char **end)
{
	unsigned long number;

	*end = (char *)arg;
	if (*arg < '0' || *arg > '9')
		return 0;
	errno = 0;
	number = strtoul(arg, end, 10);
	return errno || number > max ? 0 : (unsigned)number;
}

static void parse_number(struct argp_state *state, unsigned i, const char *arg)
{
	char *end;
	const unsigned number = number_at(arg, numbers[i].max, &end);

	if (number < numbers[i].min || *end)
		argp_error(state, "'%s' is not good for --%s: give a number from %u to %u", arg,
			   numbers[i].name, numbers[i].min, numbers[i].max);
	memcpy((char *)state->input + numbers[i].at, &number, sizeof(number));
}

/* Sets the names in the list, which may repeat names.  @name returns NULL after the last name. */
static void parse_names(struct argp_state *state, const char *option, const char *arg, bool *set,
			const char *(*name)(unsigned))
{
	for (unsigned i = 0; name(i); i++)
		set[i] = false;
	for (const char *at = arg;; at++) {
		const size_t length = strcspn(at, ",");
		bool known = false;

		for (unsigned i = 0; name(i); i++) {
			if (strlen(name(i)) != length || memcmp(name(i), at, length))
				continue;
			known = set[i] = true;
		}
		if (!known)
			argp_error(state, "'%.*s' is not good for --%s: see --list and --help for its names",
				   (int)length, at, option);
		at += length;
		if (!*at)
			return;
	}
}

/* Rows of the other program get a name that no list can have. */
static const char *row_name(unsigned i)
{
	return bench_rows[i].name && !bench_rows[i].work ? "," : bench_rows[i].name;
}

static const char *peer_name(unsigned i)
{
	return bench_pools[i].name;
}

/* Reads "4,8", or "1x2,4x4" with @x.  Returns the number of values, or 0 if the list is wrong. */
static unsigned parse_list(const char *arg, bool x, struct bench_config *list)
{
	unsigned nr = 0;

	for (const char *at = arg; nr < BENCH_LIST_MAX; at++) {
		struct bench_config *one = &list[nr];
		char *end;

		one->workers = one->producers = number_at(at, BENCH_THREADS_MAX, &end);
		if (x && one->workers)
			one->producers = *end == 'x' ? number_at(end + 1, BENCH_THREADS_MAX, &end) : 0;
		if (!one->producers || (*end && *end != ','))
			return 0;
		nr++;
		at = end;
		if (!*end)
			return nr;
	}
	return 0;
}

static void parse_configs(struct bench_options *opt, struct argp_state *state, const char *arg)
{
	opt->nr_configs = parse_list(arg, true, opt->configs);
	if (!opt->nr_configs)
		argp_error(state, "'%s' is not good for --configs: give workers x producers, from 1 "
			   "to %d each, such as 1x1,4x2, %d at most", arg, BENCH_THREADS_MAX,
			   BENCH_LIST_MAX);
}

/* Returns the number of counts. */
static unsigned parse_counts(struct argp_state *state, const char *option, const char *arg,
			     unsigned *found)
{
	struct bench_config list[BENCH_LIST_MAX];
	const unsigned nr = parse_list(arg, false, list);

	if (!nr)
		argp_error(state, "'%s' is not good for --%s: give up to %d numbers from 1 to %d, "
			   "such as 1,4,16", arg, option, BENCH_LIST_MAX, BENCH_THREADS_MAX);
	for (unsigned i = 0; i < nr; i++)
		found[i] = list[i].workers;
	return nr;
}

static void parse_device(struct bench_options *opt, struct argp_state *state, const char *arg)
{
	char *end = (char *)"";
	const bool numbered = !strncmp(arg, "cuda:", 5);

	if (numbered)
		(void)number_at(arg + 5, 999, &end);
	if ((!numbered && strcmp(arg, "cuda") && (bench_gpu_begin || strcmp(arg, "host"))) || *end ||
	    end == arg + 5 || strlen(arg) >= sizeof(opt->device))
		argp_error(state, "'%s' is not good for --device: give %scuda or cuda:N", arg,
			   bench_gpu_begin ? "" : "host, ");
	snprintf(opt->device, sizeof(opt->device), "%s", arg);
}

static void be_quick(struct bench_options *opt)
{
	opt->quick = true;
	opt->runs = 2;
	opt->run_ms = 20;
	opt->samples = 20;
	opt->jobs = 20000;
	opt->warm_samples = 500;
	opt->paused_samples = 20;
	opt->bursts = 10;
	opt->forks = 200;
	opt->workers = 2;
	opt->nr_threads = parse_counts(NULL, "threads", "1,2", opt->threads);
	parse_configs(opt, NULL, "1x1,2x2");
}

static void parse_wrong(struct bench_options *opt, struct argp_state *state, const char *arg)
{
	static const char *const ways[] = { "", "result", "twice", "lost" };

	opt->wrong = BENCH_RESULT;
	while (opt->wrong <= BENCH_LOST && strcmp(arg, ways[opt->wrong]))
		opt->wrong++;
	if (opt->wrong > BENCH_LOST)
		argp_error(state, "'%s' is not good for --wrong: give result, twice or lost", arg);
	bench_wrong_result = opt->wrong == BENCH_RESULT;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct bench_options *opt = state->input;

	switch (key) {
	case KEY_ROWS:
		parse_names(state, "rows", arg, opt->rows, row_name);
		return 0;
	case KEY_ONLY:
		parse_names(state, "only", arg, opt->peers, peer_name);
		return 0;
	case KEY_THREADS:
		opt->nr_threads = parse_counts(state, "threads", arg, opt->threads);
		return 0;
	case KEY_GPUS:
		opt->nr_by_gpus = parse_counts(state, "gpus", arg, opt->by_gpus);
		return 0;
	case KEY_CONFIGS:
		parse_configs(opt, state, arg);
		return 0;
	case KEY_DEVICE:
		parse_device(opt, state, arg);
		return 0;
	case KEY_ALL:
		opt->all = true;
		return 0;
	case KEY_JSON:
		if (!bench_json)
			argp_error(state, "--json needs jansson, and this was built without: install "
				   "libjansson-dev, then ./configure again");
		if (!*arg)
			argp_error(state, "--json has no name of a file");
		opt->json = arg;
		return 0;
	case KEY_LIST:
		exit(bench_print_rows() ? EXIT_SUCCESS : EXIT_FAILURE);
	case KEY_QUICK:
		be_quick(opt);
		return 0;
	case KEY_WRONG:
		parse_wrong(opt, state, arg);
		return 0;
	case ARGP_KEY_ARGS:
		opt->files = state->argv + state->next;
		opt->nr_files = state->argc - state->next;
		return 0;
	default:
		if (key < KEY_NUMBERS || key >= KEY_NUMBERS + (int)NUMBERS)
			return ARGP_ERR_UNKNOWN;
		parse_number(state, (unsigned)(key - KEY_NUMBERS), arg);
		return 0;
	}
}

void bench_options_parse(struct bench_options *opt, int argc, char **argv)
{
	static const struct argp argp = {
		options, parse, "[FILE...]",
		"Measures runnel beside hand-written code and other pools, and tells which targets "
		"it meets; docs/measurements.md says what the figures were.\v"
		"FILEs are for the row feed, whose first --threads read them.\n\n"
		"Exit status: 0 all was measured, met or not; 1 something failed; 2 the command "
		"line is wrong; 77 there is no such device.",
		NULL, NULL, NULL
	};
	static char name[] = "bench";

	*opt = (struct bench_options){
		.info = RNL_DEVICE_INFO_INIT,
		.runs = bench_gpu_begin ? 5 : 7,
		.seconds = bench_gpu_begin ? 450 : 7200,
		.run_ms = 120,
		.samples = 400,
		.jobs = 1000000,
		.warm_samples = 20000,
		.paused_samples = 500,
		.bursts = 200,
		.forks = 10000,
		.workers = bench_gpu_begin ? 8 : 2,
		.latency_workers = 1,
	};
	parse_device(opt, NULL, bench_gpu_begin ? "cuda" : "host");
	opt->nr_threads = parse_counts(NULL, "threads", "1,4,8,16", opt->threads);
	opt->nr_by_gpus = parse_counts(NULL, "gpus", "2,4,8", opt->by_gpus);
	parse_configs(opt, NULL, "1x1,1x2,1x4,2x1,2x2,2x4,4x1,4x2,4x4");
	for (unsigned i = 0; bench_rows[i].name; i++)
		opt->rows[i] = bench_rows[i].work;
	for (unsigned i = 0; bench_pools[i].name; i++)
		opt->peers[i] = true;
	if (argc)
		argv[0] = name;		/* the start of argp's messages */
	argp_err_exit_status = BENCH_EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, opt);
	opt->screen_ms = opt->run_ms / 3 + 1;
}
