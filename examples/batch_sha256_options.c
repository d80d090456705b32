/* SPDX-License-Identifier: MIT */
/*
 * The command line of batch_sha256.
 *
 * DESIGN
 * Long options alone, read by getopt_long().  What is wrong is named on standard
 * error, and the exit status is 2; that there is no such device is no mistake in
 * the command line, and the status is 1.
 */
#include "config.h"

#include "batch_sha256.h"
#include "quote.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2
#define PART_DEFAULT (64 << 10)
#define PART_MAX (1 << 20)

enum {
	OPT_LINES = 256,
	OPT_ONE_BY_ONE,
	OPT_PART,
	OPT_DEVICE,
	OPT_WORKERS,
	OPT_STATS,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{ "lines", no_argument, NULL, OPT_LINES },
	{ "one-by-one", no_argument, NULL, OPT_ONE_BY_ONE },
	{ "part", required_argument, NULL, OPT_PART },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "workers", required_argument, NULL, OPT_WORKERS },
	{ "stats", no_argument, NULL, OPT_STATS },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: batch_sha256 [OPTION]... [FILE]...\n"
"Print the SHA-256 of each FILE, as sha256sum(1) does.  With no FILE, or when FILE\n"
"is -, read standard input.\n"
"\n"
"      --lines            of each line of each FILE, without its newline; names are\n"
"                         followed by a colon and the line's number, from 1 on\n"
"      --one-by-one       without the batcher: a job, copies and a launch for each\n"
"                         part, for comparison\n"
"      --part=SIZE[K|M]   bytes of a message that one request has, a multiple of 64\n"
"                         up to 1M; 64K\n"
"      --device=D         auto (a GPU if there is one), cuda, cuda:N, host\n"
"      --workers=N        threads that run batches, each with its own stream\n"
"      --stats            at the end, tell how it went on standard error\n"
"      --help             print this and exit\n"
"      --version          print the version and exit\n";

static _Noreturn void try_help(void)
{
	fputs("Try 'batch_sha256 --help' for more information.\n", stderr);
	exit(EXIT_USAGE);
}

/* @of: what is counted has to be a multiple of that; if not 1, K or M may follow. */
static uint64_t parse_number(const char *option, const char *arg, uint64_t max, unsigned of)
{
	unsigned long long number = 0;
	char *end = NULL;

	if (*arg >= '0' && *arg <= '9') {
		errno = 0;
		number = strtoull(arg, &end, 10);
		if (of > 1 && !errno && *end && strchr("KkMm", *end)) {
			/* Too large stays too large, and does not wrap. */
			number = number > max ? number :
				number << (*end == 'M' || *end == 'm' ? 20 : 10);
			end++;
		}
		if (!errno && !*end && number >= 1 && number <= max && number % of == 0)
			return number;
	}
	if (of > 1)
		sha256_report_error(0, "%s is not good for --%s: give a multiple of %u up to %llu, "
				    "or one with K or M behind it", quote_name(arg, true), option,
				    of, (unsigned long long)max);
	else
		sha256_report_error(0, "%s is not good for --%s: give a number from 1 to %llu",
				    quote_name(arg, true), option, (unsigned long long)max);
	try_help();
}

static void check_device(const char *arg)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	const int ret = rnl_device_info(arg, &info);

	if (!ret)
		return;
	if (ret == -EINVAL) {
		sha256_report_error(0, "%s is not good for --device: give auto, cuda, cuda:N or "
				    "host", quote_name(arg, true));
		try_help();
	}
	if (ret == -ENODEV)
		sha256_report_error(0, "no GPU answers as %s: use --device=host, or --device=auto "
				    "to take a GPU where there is one", quote_name(arg, true));
	else
		sha256_report_error(0, "device %s: %s", quote_name(arg, true), rnl_strerror(ret));
	exit(sha256_report_end(true));
}

static void parse(struct sha256_options *opt, int option, const char *arg)
{
	switch (option) {
	case OPT_LINES:
		opt->lines = true;
		break;
	case OPT_ONE_BY_ONE:
		opt->one_by_one = true;
		break;
	case OPT_PART:
		opt->part = (size_t)parse_number("part", arg, PART_MAX, SHA256_BLOCK);
		break;
	case OPT_DEVICE:
		opt->device = arg;
		break;
	case OPT_WORKERS:
		opt->workers = (unsigned)parse_number("workers", arg, RNL_WORKERS_MAX, 1);
		break;
	case OPT_STATS:
		opt->stats = true;
		break;
	case OPT_HELP:
		fputs(help, stdout);
		exit(sha256_report_end(false));
	case OPT_VERSION:
		printf("batch_sha256 (runnel) %d.%d.%d\n", RNL_VERSION_MAJOR, RNL_VERSION_MINOR,
		       RNL_VERSION_PATCH);
		exit(sha256_report_end(false));
	default:		/* getopt_long() has said what is wrong */
		try_help();
	}
}

void sha256_options_parse(struct sha256_options *opt, int argc, char **argv)
{
	static char program[] = "batch_sha256", dash[] = "-";
	static char *standard_input[] = { dash };
	int option;

	*opt = (struct sha256_options){ .device = "auto", .part = PART_DEFAULT };
	if (argc)
		argv[0] = program;	/* for what getopt_long() has to say */
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse(opt, option, optarg);
	opt->names = argv + optind;
	opt->nr_names = (unsigned)(argc - optind);
	if (!opt->nr_names) {
		opt->names = standard_input;
		opt->nr_names = 1;
	}
	check_device(opt->device);
}
