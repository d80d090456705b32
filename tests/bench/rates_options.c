/* SPDX-License-Identifier: MIT */
/*
 * The command line of rates.
 *
 * DESIGN
 *	Long options alone.  What is wrong is named on standard error, and the
 *	exit status is 2.  --wrong is not in the help: it has a job run twice, or
 *	never, for the test that a wrong count is found.
 */
#include "rates.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_ROUNDS = 256,
	OPT_JOBS,
	OPT_CONFIGS,
	OPT_WORKERS,
	OPT_LATENCY_WORKERS,
	OPT_ONLY,
	OPT_MEASURES,
	OPT_JSON,
	OPT_QUICK,
	OPT_WRONG,
	OPT_HELP,
};

static const struct option long_options[] = {
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "jobs", required_argument, NULL, OPT_JOBS },
	{ "configs", required_argument, NULL, OPT_CONFIGS },
	{ "workers", required_argument, NULL, OPT_WORKERS },
	{ "latency-workers", required_argument, NULL, OPT_LATENCY_WORKERS },
	{ "only", required_argument, NULL, OPT_ONLY },
	{ "measures", required_argument, NULL, OPT_MEASURES },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "quick", no_argument, NULL, OPT_QUICK },
	{ "wrong", required_argument, NULL, OPT_WRONG },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static const char *const measure_names[RATES_MEASURES] = {
	[RATES_THROUGHPUT] = "throughput",
	[RATES_HANDOFF] = "handoff",
	[RATES_RETURN] = "return",
	[RATES_BURST] = "burst",
	[RATES_FORK_JOIN] = "forkjoin",
};

static const char help[] =
"Usage: rates [OPTION]...\n"
"Measures what it costs to submit a job that does nothing, to run it, and to learn\n"
"that it is done: in runnel, on the host device, and in other pools of threads.\n"
"Every measurement has a process of its own; rounds go over all of them in turn.\n"
"\n"
"      --rounds=N           of which the medians are told; 7\n"
"      --jobs=N             of the throughput; 1000000\n"
"      --configs=WxP,...    workers and producers of the throughput;\n"
"                           1, 2 and 4 of each\n"
"      --workers=N          of bursts, and of forks and joins; 2\n"
"      --latency-workers=N  1\n"
"      --only=PEER,...      of: runnel runnel_many mutex glib libuv tbb openmp wfcq\n"
"      --measures=M,...     of: throughput handoff return burst forkjoin\n"
"      --json=FILE          writes all figures there, of each round\n"
"      --quick              few jobs and rounds: to see that it works; options after\n"
"                           this one change that\n"
"      --help               print this and exit\n";

static void parse_configs(struct rates_options *opt, const char *arg)
{
	const char *at = arg;

	opt->nr_configs = 0;
	for (;;) {
		struct rates_config c = { 0, 0 };
		char *end;

		c.workers = (unsigned)bench_number_at(at, RATES_THREADS_MAX, &end);
		if (c.workers && *end == 'x')
			c.producers = (unsigned)bench_number_at(end + 1, RATES_THREADS_MAX, &end);
		if (!c.producers || (*end && *end != ','))
			bench_usage("'%s' is not good for --configs: give workers x producers, from 1 to "
			      "%d each, such as 1x1,4x2",
			      arg, RATES_THREADS_MAX);
		if (opt->nr_configs == RATES_CONFIGS_MAX)
			bench_usage("'%s' is not good for --configs: %d at most", arg, RATES_CONFIGS_MAX);
		opt->configs[opt->nr_configs++] = c;
		if (!*end)
			return;
		at = end + 1;
	}
}

static const char *peer_name(unsigned i)
{
	return rates_peers[i] ? rates_peers[i]->name : NULL;
}

static const char *measure_name(unsigned i)
{
	return i < RATES_MEASURES ? measure_names[i] : NULL;
}

static void be_quick(struct rates_options *opt)
{
	opt->rounds = 3;
	opt->jobs = 20000;
	opt->warm_samples = 500;
	opt->paused_samples = 20;
	opt->bursts = 10;
	opt->forks = 200;
	parse_configs(opt, "1x1,2x2");
}

static void parse(struct rates_options *opt, int option, const char *arg)
{
	switch (option) {
	case OPT_ROUNDS:
		opt->rounds = (unsigned)bench_number("rounds", arg, 1000);
		break;
	case OPT_JOBS:
		/* A producer has one at least. */
		opt->jobs = bench_number("jobs", arg, 100000000);
		break;
	case OPT_CONFIGS:
		parse_configs(opt, arg);
		break;
	case OPT_WORKERS:
		opt->workers = (unsigned)bench_number("workers", arg, RATES_THREADS_MAX);
		break;
	case OPT_LATENCY_WORKERS:
		opt->latency_workers =
			(unsigned)bench_number("latency-workers", arg, RATES_THREADS_MAX);
		break;
	case OPT_ONLY:
		bench_names("only", arg, opt->peers, peer_name);
		break;
	case OPT_MEASURES:
		bench_names("measures", arg, opt->measures, measure_name);
		break;
	case OPT_JSON:
		if (!rates_has_json())
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
		if (strcmp(arg, "twice") && strcmp(arg, "lost"))
			bench_usage("'%s' is not good for --wrong: give twice or lost", arg);
		opt->wrong = strcmp(arg, "twice") ? RATES_LOST : RATES_TWICE;
		break;
	case OPT_HELP:
		bench_help(help);
	default:		/* getopt_long() has said what is wrong */
		bench_try_help();
	}
}

void rates_options_parse(struct rates_options *opt, int argc, char **argv)
{
	static char name[] = "rates";
	int option;

	*opt = (struct rates_options){
		.rounds = 7,
		.jobs = 1000000,
		.warm_samples = 20000,
		.paused_samples = 500,
		.bursts = 200,
		.forks = 10000,
		.latency_workers = 1,
		.workers = 2,
	};
	parse_configs(opt, "1x1,1x2,1x4,2x1,2x2,2x4,4x1,4x2,4x4");
	for (unsigned i = 0; i < RATES_PEERS_MAX; i++)
		opt->peers[i] = true;
	for (unsigned i = 0; i < RATES_MEASURES; i++)
		opt->measures[i] = true;
	if (argc)
		argv[0] = name;	/* for what getopt_long() has to say */
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse(opt, option, optarg);
	if (optind < argc)
		bench_usage("'%s' is too much: all arguments are options", argv[optind]);
	if (opt->jobs < RATES_THREADS_MAX)
		bench_usage("'%zu' is not good for --jobs: give %d at least", opt->jobs,
		      RATES_THREADS_MAX);
}
