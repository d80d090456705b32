/* SPDX-License-Identifier: MIT */
/*
 * The command line: long options only.
 *
 * DESIGN
 *	--wrong is not in the help. With it, all data are compared with wrong values, to test that
 *	errors are found.
 */
#include "torture.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cudart/fake_cudart.h"

#pragma weak fake_plan

#define EXIT_USAGE 2
#define SECONDS_MAX 100000000	/* three years */

struct options options;

enum { OPT_SECONDS = 256, OPT_SEED, OPT_ROUND, OPT_DEVICE, OPT_MAKERS, OPT_WRONG, OPT_HELP };

static const struct option long_options[] = {
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "round", required_argument, NULL, OPT_ROUND },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "makers", required_argument, NULL, OPT_MAKERS },
	{ "wrong", no_argument, NULL, OPT_WRONG },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: torture [OPTION]...\n"
"Has threads do everything at once that runnel can do, in rounds that are drawn, and\n"
"counts what its header promises and did not hold: all of it should be 0.  On the double\n"
"of the CUDA runtime (tests/fake_cudart) calls fail and dawdle, and devices are lost.\n"
"Exit status: 0 nothing was wrong; 1 something was, or the report could not be written;\n"
"2 wrong arguments; 77 there is no GPU.  Ctrl-C ends it after the round that is on.\n"
"\n"
"      --seconds=N          how long; 10\n"
"      --seed=N             of all draws; else by the clock, and printed\n"
"      --round=N            begins with that one; 1\n"
"      --device=NAME        host, cuda or cuda:N; host\n"
"      --help               print this and exit\n"
"\n"
"env: RNL_TEST_SCALE is how many times slower than usual all is (sanitizers, wrappers).\n"
"\n"
"      --makers=NAME,...    only these makers of work, of:";

static _Noreturn void try_help(void)
{
	fprintf(stderr, "Try 'torture --help' for more information.\n");
	exit(EXIT_USAGE);
}

static uint64_t number(const char *option, const char *arg, uint64_t min, uint64_t max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(arg, &end, 10);
	if (*arg >= '0' && *arg <= '9' && !*end && !errno && value >= min && value <= max)
		return value;
	fprintf(stderr, "torture: '%s' is not good for --%s: give a number from %llu to %llu\n",
		arg, option, (unsigned long long)min, (unsigned long long)max);
	try_help();
}

static const char *device(const char *arg)
{
	const char *ordinal = strncmp(arg, "cuda:", 5) ? "" : arg + 5;

	if (!strcmp(arg, "host") || !strcmp(arg, "cuda") ||
	    (*ordinal && !ordinal[strspn(ordinal, "0123456789")]))
		return arg;
	fprintf(stderr, "torture: '%s' is not good for --device: give host, cuda or cuda:N\n", arg);
	try_help();
}

static bool is_maker(const char *name, size_t len)
{
	unsigned i = 0;

	while (maker_name(i) && (strlen(maker_name(i)) != len || strncmp(name, maker_name(i), len)))
		i++;
	return maker_name(i);
}

static const char *makers(const char *arg)
{
	for (const char *name = arg;; name++) {
		const size_t len = strcspn(name, ",");

		if (!is_maker(name, len)) {
			fprintf(stderr, "torture: '%.*s' is not good for --makers: see --help\n",
				(int)len, name);
			try_help();
		}
		name += len;
		if (!*name)
			return arg;
	}
}

static _Noreturn void print_help(void)
{
	fputs(help, stdout);
	for (unsigned i = 0; maker_name(i); i++)
		printf(" %s", maker_name(i));
	printf("\n");
	exit(is_printed() ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void parse(int option, const char *arg)
{
	switch (option) {
	case OPT_SECONDS:
		options.seconds = (double)number("seconds", arg, 1, SECONDS_MAX);
		break;
	case OPT_SEED:
		options.seed = number("seed", arg, 0, UINT64_MAX);
		break;
	case OPT_ROUND:
		options.first_round = number("round", arg, 1, UINT64_MAX);
		break;
	case OPT_DEVICE:
		options.device = device(arg);
		break;
	case OPT_MAKERS:
		options.makers = makers(arg);
		break;
	case OPT_WRONG:
		options.wrong = true;
		break;
	case OPT_HELP:
		print_help();
	default:		/* getopt_long() has printed the error */
		try_help();
	}
}

void options_parse(int argc, char **argv)
{
	static char name[] = "torture";
	const char *scale = getenv("RNL_TEST_SCALE");
	int option;

	options = (struct options){ .device = "host", .seconds = 10, .first_round = 1,
				    .scale = scale && atof(scale) > 0 ? atof(scale) : 1,
				    .seed = seed_choose() };
	if (argc)
		argv[0] = name;	/* getopt_long() prints it */
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse(option, optarg);
	if (optind < argc) {
		fprintf(stderr, "torture: '%s' is unexpected: give only options\n",
			argv[optind]);
		try_help();
	}
	options.fake = !on_host() && fake_plan;
}
