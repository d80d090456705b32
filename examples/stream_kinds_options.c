/* SPDX-License-Identifier: MIT */
/*
 * The command line of stream_kinds.
 *
 * DESIGN
 * Long options alone, read by getopt_long().  What is wrong is named on standard
 * error, and the exit status is 2; that there is no such device is no mistake in
 * the command line, and the status is 1.
 */
#include "stream_kinds.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2
#define MS_MAX 1000
#define REPEAT_MAX 99

static const struct option long_options[] = {
	{ "threads", required_argument, NULL, 't' },
	{ "kernels", required_argument, NULL, 'k' },
	{ "ms", required_argument, NULL, 'm' },
	{ "repeat", required_argument, NULL, 'r' },
	{ "device", required_argument, NULL, 'd' },
	{ "svg", required_argument, NULL, 's' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: stream_kinds [OPTION]...\n"
"Several threads launch the same kernels on each kind of CUDA's streams: the legacy\n"
"default stream, per-thread default streams, explicit streams, blocking and not, and with\n"
"one legacy call among the others; and as jobs of runnel.  Prints how long each takes by\n"
"the device's clock, and what that means.\n"
"\n"
"      --threads=N  2 to 32; 8\n"
"      --kernels=N  of each thread, one after the other, 2 to 8; 3\n"
"      --ms=N       how long a kernel lasts; 3\n"
"      --repeat=N   runs, of which the median is told; 5\n"
"      --device=D   auto (a GPU if there is one), cuda, cuda:N, host\n"
"      --svg=FILE   writes the timeline there\n"
"      --help       print this and exit\n";

static _Noreturn void try_help(void)
{
	fputs("Try 'stream_kinds --help' for more information.\n", stderr);
	exit(EXIT_USAGE);
}

static _Noreturn __attribute__((format(printf, 1, 2))) void usage(const char *format, ...)
{
	va_list args;

	fputs("stream_kinds: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	try_help();
}

static unsigned parse_number(const char *name, const char *arg, unsigned min, unsigned max)
{
	unsigned long number = 0;
	char *end = NULL;

	errno = 0;
	if (*arg >= '0' && *arg <= '9')
		number = strtoul(arg, &end, 10);
	if (!end || *end || errno || number < min || number > max)
		usage("'%s' is not good for --%s: give a number from %u to %u", arg, name, min, max);
	return (unsigned)number;
}

static void look_at_device(struct kinds_options *opt)
{
	const int ret = rnl_device_info(opt->device, &opt->info);

	if (ret == -EINVAL)
		usage("'%s' is not good for --device: give auto, cuda, cuda:N or host",
		      opt->device);
	if (ret == -ENODEV)
		fprintf(stderr, "stream_kinds: no GPU answers as '%s': use --device=host, or "
			"--device=auto to take a GPU where there is one\n", opt->device);
	else if (ret)
		fprintf(stderr, "stream_kinds: device '%s': %s\n", opt->device, rnl_strerror(ret));
	else if (opt->info.cuda && !kinds_has_cuda)
		fprintf(stderr, "stream_kinds: this was built without nvcc, and has no kernel for "
			"'%s': use --device=host\n", opt->device);
	else
		return;
	exit(EXIT_FAILURE);
}

static _Noreturn void print_help(void)
{
	fputs(help, stdout);
	if (!fflush(stdout))
		exit(EXIT_SUCCESS);
	fputs("stream_kinds: not all of this could be written to standard output\n", stderr);
	exit(EXIT_FAILURE);
}

static void parse(struct kinds_options *opt, int option, const char *arg)
{
	switch (option) {
	case 't':
		opt->threads = parse_number("threads", arg, 2, KINDS_THREADS_MAX);
		break;
	case 'k':
		opt->kernels = parse_number("kernels", arg, 2, KINDS_KERNELS_MAX);
		break;
	case 'm':
		opt->ms = parse_number("ms", arg, 1, MS_MAX);
		break;
	case 'r':
		opt->repeat = parse_number("repeat", arg, 1, REPEAT_MAX);
		break;
	case 'd':
		opt->device = arg;
		break;
	case 's':
		if (!*arg)
			usage("--svg has no name of a file");
		opt->svg = arg;
		break;
	case 'h':
		print_help();
	default:		/* getopt_long() has said what is wrong */
		try_help();
	}
}

void kinds_options_parse(struct kinds_options *opt, int argc, char **argv)
{
	static char name[] = "stream_kinds";
	int option;

	*opt = (struct kinds_options){
		.device = "auto",
		.info = RNL_DEVICE_INFO_INIT,
		.threads = 8,
		.kernels = 3,
		.ms = 3,
		.repeat = 5,
	};
	if (argc)
		argv[0] = name;	/* for what getopt_long() has to say */
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse(opt, option, optarg);
	if (optind < argc)
		usage("'%s' is too much: all arguments are options", argv[optind]);
	look_at_device(opt);
}
