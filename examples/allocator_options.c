/* SPDX-License-Identifier: MIT */
/*
 * The command line of allocator.
 *
 * DESIGN
 * Long options alone, read by getopt_long().  What is wrong is named on standard
 * error, and the exit status is 2; that there is no such device is no mistake in
 * the command line, and the status is 1.
 */
#include "allocator.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2
#define REQUESTS_MAX 1000000000
#define BYTES_MAX (1 << 30)
#define REPEAT_MAX 1000

enum {
	OPT_REQUESTS = 256,
	OPT_WORKERS,
	OPT_MIN,
	OPT_MAX,
	OPT_SEED,
	OPT_DEVICE,
	OPT_REPEAT,
	OPT_HELP,
};

static const struct option long_options[] = {
	{ "requests", required_argument, NULL, OPT_REQUESTS },
	{ "workers", required_argument, NULL, OPT_WORKERS },
	{ "min", required_argument, NULL, OPT_MIN },
	{ "max", required_argument, NULL, OPT_MAX },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "repeat", required_argument, NULL, OPT_REPEAT },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: allocator [OPTION]...\n"
"Runs requests that each get device memory of a random size, fill it, and copy\n"
"4 KB of it back; with cudaMalloc(), with cudaMallocAsync(), and with\n"
"rnl_scratch(); on the host device with malloc() and rnl_scratch().  Checks every\n"
"reply, and tells what a request takes in each way.\n"
"\n"
"      --requests=N       requests in each run; 4000\n"
"      --workers=N        threads with a stream each; 4\n"
"      --min=SIZE[K|M]    bytes of device memory for a request, at least; 4K\n"
"      --max=SIZE[K|M]    the same, at most; 4M\n"
"      --seed=N           of the sizes; 1\n"
"      --device=D         auto (a GPU if there is one), cuda, cuda:N, host\n"
"      --repeat=N         timed runs, of which the median is told; 5\n"
"      --help             print this and exit\n";

static _Noreturn void try_help(void)
{
	fputs("Try 'allocator --help' for more information.\n", stderr);
	exit(EXIT_USAGE);
}

static _Noreturn __attribute__((format(printf, 1, 2))) void usage(const char *format, ...)
{
	va_list args;

	fputs("allocator: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	try_help();
}

/* @units: K or M may follow. */
static uint64_t parse_number(const char *name, const char *arg, uint64_t min, uint64_t max,
			     bool units)
{
	unsigned long long number = 0;
	char *end = NULL;

	if (*arg >= '0' && *arg <= '9') {
		errno = 0;
		number = strtoull(arg, &end, 10);
		if (units && !errno && *end && strchr("KkMm", *end)) {
			/* Too large stays too large, and does not wrap. */
			number = number > max ? number :
				number << (*end == 'M' || *end == 'm' ? 20 : 10);
			end++;
		}
		if (!errno && !*end && number >= min && number <= max)
			return number;
	}
	usage("'%s' is not good for --%s: give a number from %llu to %llu%s", arg, name,
	      (unsigned long long)min, (unsigned long long)max,
	      units ? ", or one with K or M behind it" : "");
}

static void look_at_device(struct allocator_options *opt)
{
	const int ret = rnl_device_info(opt->device, &opt->info);

	if (!ret)
		return;
	if (ret == -EINVAL)
		usage("'%s' is not good for --device: give auto, cuda, cuda:N or host",
		      opt->device);
	if (ret == -ENODEV)
		fprintf(stderr, "allocator: no GPU answers as '%s': use --device=host, or "
			"--device=auto to take a GPU where there is one\n", opt->device);
	else
		fprintf(stderr, "allocator: device '%s': %s\n", opt->device, rnl_strerror(ret));
	exit(EXIT_FAILURE);
}

static _Noreturn void print_help(void)
{
	fputs(help, stdout);
	if (!fflush(stdout))
		exit(EXIT_SUCCESS);
	fputs("allocator: not all of this could be written to standard output\n", stderr);
	exit(EXIT_FAILURE);
}

static void parse(struct allocator_options *opt, int option, const char *arg)
{
	switch (option) {
	case OPT_REQUESTS:
		opt->requests = parse_number("requests", arg, 1, REQUESTS_MAX, false);
		break;
	case OPT_WORKERS:
		opt->workers = (unsigned)parse_number("workers", arg, 1, RNL_WORKERS_MAX, false);
		break;
	case OPT_MIN:
		opt->min = parse_number("min", arg, 1, BYTES_MAX, true);
		break;
	case OPT_MAX:
		opt->max = parse_number("max", arg, 1, BYTES_MAX, true);
		break;
	case OPT_SEED:
		opt->seed = parse_number("seed", arg, 0, UINT64_MAX, false);
		break;
	case OPT_DEVICE:
		opt->device = arg;
		break;
	case OPT_REPEAT:
		opt->repeat = (unsigned)parse_number("repeat", arg, 1, REPEAT_MAX, false);
		break;
	case OPT_HELP:
		print_help();
	default:		/* getopt_long() has said what is wrong */
		try_help();
	}
}

void allocator_options_parse(struct allocator_options *opt, int argc, char **argv)
{
	static char name[] = "allocator";
	int option;

	*opt = (struct allocator_options){
		.device = "auto",
		.info = RNL_DEVICE_INFO_INIT,
		.workers = 4,
		.repeat = 5,
		.requests = 4000,
		.min = 4 << 10,
		.max = 4 << 20,
		.seed = 1,
	};
	if (argc)
		argv[0] = name;	/* for what getopt_long() has to say */
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse(opt, option, optarg);
	if (optind < argc)
		usage("'%s' is too much: all arguments are options", argv[optind]);
	if (opt->min > opt->max)
		usage("--min=%zu is more than --max=%zu", opt->min, opt->max);
	look_at_device(opt);
}
