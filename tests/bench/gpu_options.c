/* SPDX-License-Identifier: MIT */
/*
 * The command line of gpu.
 *
 * DESIGN
 *	--wrong is not in the help: it has every J work on something else than its
 *	result is compared with, for the test that a wrong result is found.
 */
#include "gpu.h"
#include "gpu_cuda.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define RUN_MS_MAX 10000
#define SECONDS_MAX 86400

enum {
	OPT_LINES = 256,
	OPT_RUNS,
	OPT_RUN_MS,
	OPT_SECONDS,
	OPT_THREADS,
	OPT_DEVICE,
	OPT_ALL,
	OPT_JSON,
	OPT_QUICK,
	OPT_WRONG,
	OPT_HELP,
};

static const struct option long_options[] = {
	{ "lines", required_argument, NULL, OPT_LINES },
	{ "runs", required_argument, NULL, OPT_RUNS },
	{ "run-ms", required_argument, NULL, OPT_RUN_MS },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "all", no_argument, NULL, OPT_ALL },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "quick", no_argument, NULL, OPT_QUICK },
	{ "wrong", no_argument, NULL, OPT_WRONG },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: gpu [OPTION]...\n"
"Measures runnel on a GPU beside hand-written code, and beside what the hardware lets\n"
"one do, and tells which targets it meets; docs/measurements.md says what is in a row.\n"
"J is a job of 4 KB to the device, a kernel, and 4 KB back; its result is looked at\n"
"before its memory is used again.\n"
"Exit status: 0 all was measured, met or not; 1 something failed; 77 there is no GPU.\n"
"\n"
"      --lines=LINE,...     of: jobs batch latency inflight urgent join submit cpu\n"
"                           chunks trace\n"
"      --runs=N             of which the medians are told; 5, at most 15\n"
"      --run-ms=N           of a run that goes for some time; 120\n"
"      --seconds=N          ends what goes on for longer, all together; 300\n"
"      --threads=N,...      threads and workers of the line jobs; 1,4,8,16\n"
"      --device=NAME        cuda or cuda:N; cuda\n"
"      --all                prints every variant, not only the best\n"
"      --json=FILE          writes all runs of all variants there\n"
"      --quick              little of everything: to see that it works; options after\n"
"                           this one change that\n"
"      --help               print this and exit\n";

static const char *line_name(unsigned i)
{
	return gpu_lines[i] ? gpu_lines[i]->name : NULL;
}

static void parse_threads(struct gpu_options *opt, const char *arg)
{
	const char *at = arg;

	opt->nr_threads = 0;
	for (;;) {
		char *end;
		const unsigned long nr = bench_number_at(at, GPU_THREADS_MAX, &end);

		if (!nr || (*end && *end != ',') ||
		    opt->nr_threads == sizeof(opt->threads) / sizeof(opt->threads[0]))
			bench_usage("'%s' is not good for --threads: give up to %zu numbers from 1 "
				    "to %d, such as 1,4,16",
				    arg, sizeof(opt->threads) / sizeof(opt->threads[0]),
				    GPU_THREADS_MAX);
		opt->threads[opt->nr_threads++] = (unsigned)nr;
		if (!*end)
			return;
		at = end + 1;
	}
}

static void parse_device(struct gpu_options *opt, const char *arg)
{
	char *end = (char *)"";

	opt->ordinal = 0;
	if (!strncmp(arg, "cuda:", 5))
		opt->ordinal = (int)bench_number_at(arg + 5, 999, &end);
	if ((strcmp(arg, "cuda") && strncmp(arg, "cuda:", 5)) || *end || end == arg + 5 ||
	    strlen(arg) >= sizeof(opt->device))
		bench_usage("'%s' is not good for --device: give cuda or cuda:N", arg);
	snprintf(opt->device, sizeof(opt->device), "%s", arg);
}

static void be_quick(struct gpu_options *opt)
{
	opt->quick = true;
	opt->runs = 2;
	opt->run_ms = 20;
	opt->screen_ms = 3;
	opt->samples = 20;
	parse_threads(opt, "1,2");
}

static void parse(struct gpu_options *opt, int option, const char *arg)
{
	switch (option) {
	case OPT_LINES:
		bench_names("lines", arg, opt->lines, line_name);
		break;
	case OPT_RUNS:
		opt->runs = (unsigned)bench_number("runs", arg, GPU_RUNS_MAX);
		break;
	case OPT_RUN_MS:
		opt->run_ms = (unsigned)bench_number("run-ms", arg, RUN_MS_MAX);
		break;
	case OPT_SECONDS:
		opt->seconds = (unsigned)bench_number("seconds", arg, SECONDS_MAX);
		break;
	case OPT_THREADS:
		parse_threads(opt, arg);
		break;
	case OPT_DEVICE:
		parse_device(opt, arg);
		break;
	case OPT_ALL:
		opt->all = true;
		break;
	case OPT_JSON:
		if (!gpu_has_json())
			bench_usage("--json needs jansson, and this was built without: install "
				    "libjansson-dev, then ./configure again");
		if (!*arg)
			bench_usage("--json has no name of a file");
		opt->json = arg;
		break;
	case OPT_QUICK:
		be_quick(opt);
		break;
	case OPT_WRONG:
		gpu_wrong = 1;
		break;
	case OPT_HELP:
		bench_help(help);
	default:		/* getopt_long() has said what is wrong */
		bench_try_help();
	}
}

void gpu_options_parse(struct gpu_options *opt, int argc, char **argv)
{
	static char name[] = "gpu";
	int option;

	*opt = (struct gpu_options){
		.device = "cuda",
		.info = RNL_DEVICE_INFO_INIT,
		.runs = 5,
		.run_ms = 120,
		.screen_ms = 40,
		.samples = 400,
		.seconds = 300,
	};
	parse_threads(opt, "1,4,8,16");
	for (unsigned i = 0; i < GPU_LINES; i++)
		opt->lines[i] = true;
	if (argc)
		argv[0] = name;	/* for what getopt_long() has to say */
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse(opt, option, optarg);
	if (optind < argc)
		bench_usage("'%s' is too much: all arguments are options", argv[optind]);
}
