/* SPDX-License-Identifier: MIT */
/*
 * The command line of overlap.
 *
 * DESIGN
 * Long options alone, read by getopt_long().  What is wrong is named on standard
 * error, and the exit status is 2; that there is no such device is no mistake in
 * the command line, and the status is 1.
 */
#include "overlap.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2
#define CHUNKS_MAX (1 << 20)
#define CHUNK_MAX (1 << 30)
#define REPEAT_MAX 1000

enum {
	OPT_CHUNKS = 256,
	OPT_CHUNK,
	OPT_WORKERS,
	OPT_STREAM,
	OPT_DEVICE,
	OPT_ORDER,
	OPT_PAGEABLE,
	OPT_IN_PLACE,
	OPT_HALO,
	OPT_CALLBACKS,
	OPT_ROUNDS,
	OPT_REPEAT,
	OPT_TRACE,
	OPT_HELP,
};

static const struct option long_options[] = {
	{ "chunks", required_argument, NULL, OPT_CHUNKS },
	{ "chunk", required_argument, NULL, OPT_CHUNK },
	{ "workers", required_argument, NULL, OPT_WORKERS },
	{ "stream", required_argument, NULL, OPT_STREAM },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "order", required_argument, NULL, OPT_ORDER },
	{ "pageable", no_argument, NULL, OPT_PAGEABLE },
	{ "in-place", no_argument, NULL, OPT_IN_PLACE },
	{ "halo", required_argument, NULL, OPT_HALO },
	{ "callbacks", optional_argument, NULL, OPT_CALLBACKS },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "repeat", required_argument, NULL, OPT_REPEAT },
	{ "trace", required_argument, NULL, OPT_TRACE },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: overlap [OPTION]...\n"
"Copies chunks to the device, runs a kernel on each that lasts as long as such a\n"
"copy, and copies them back: on one stream, on the legacy default stream, and\n"
"with rnl_map(); checks every word, and tells how near each comes to the limit,\n"
"which is the longest of the three stages.\n"
"\n"
"      --chunks=N         chunks; 96\n"
"      --chunk=SIZE[K|M]  bytes of a chunk, a multiple of 4; 8M\n"
"      --workers=N        threads with a stream each; 4\n"
"      --stream=S         the workers' streams: per-thread (if nothing is said), private\n"
"      --device=D         auto (a GPU if there is one), cuda, cuda:N, host\n"
"      --order=O          rnl_map() in one order alone: chunk (by chunk), or copies (of\n"
"                         two chunks first)\n"
"      --pageable         arrays that are not page-locked\n"
"      --in-place         one array, not two\n"
"      --halo=N           rnl_map() gives each chunk N words of both its neighbours, too\n"
"      --callbacks[=sparse]  rnl_map() has its input made, and its output checked, by\n"
"                         callbacks, as if it came from files; sparse: one word in 1024,\n"
"                         which takes them no time\n"
"      --rounds=N         of the kernel, not so many as last as long as a copy\n"
"      --repeat=N         timed runs, of which the median is told; 5\n"
"      --trace=FILE       a trace of one run more of rnl_map(), for runnel report and\n"
"                         Perfetto; and how much of its overlap the trace sees\n"
"      --help             print this and exit\n";

static _Noreturn void try_help(void)
{
	fputs("Try 'overlap --help' for more information.\n", stderr);
	exit(EXIT_USAGE);
}

static _Noreturn __attribute__((format(printf, 1, 2))) void usage(const char *format, ...)
{
	va_list args;

	fputs("overlap: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	try_help();
}

/* @of: what is counted has to be a multiple of that; if not 1, K or M may follow. */
static uint64_t parse_number(const char *name, const char *arg, uint64_t max, unsigned of)
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
		usage("'%s' is not good for --%s: give a multiple of %u up to %llu, or one with K "
		      "or M behind it", arg, name, of, (unsigned long long)max);
	usage("'%s' is not good for --%s: give a number from 1 to %llu", arg, name,
	      (unsigned long long)max);
}

/* Return: whether it is the second of the two. */
static bool parse_choice(const char *name, const char *arg, const char *first, const char *second)
{
	if (strcmp(arg, first) && strcmp(arg, second))
		usage("'%s' is not good for --%s: give %s or %s", arg, name, first, second);
	return strcmp(arg, second) == 0;
}

static void look_at_device(struct overlap_options *opt)
{
	const int ret = rnl_device_info(opt->device, &opt->info);

	if (!ret)
		return;
	if (ret == -EINVAL)
		usage("'%s' is not good for --device: give auto, cuda, cuda:N or host",
		      opt->device);
	if (ret == -ENODEV)
		fprintf(stderr, "overlap: no GPU answers as '%s': use --device=host, or "
			"--device=auto to take a GPU where there is one\n", opt->device);
	else
		fprintf(stderr, "overlap: device '%s': %s\n", opt->device, rnl_strerror(ret));
	exit(EXIT_FAILURE);
}

static _Noreturn void print_help(void)
{
	fputs(help, stdout);
	if (!fflush(stdout))
		exit(EXIT_SUCCESS);
	fputs("overlap: not all of this could be written to standard output\n", stderr);
	exit(EXIT_FAILURE);
}

static void parse(struct overlap_options *opt, int option, const char *arg)
{
	switch (option) {
	case OPT_CHUNKS:
		opt->nr_chunks = parse_number("chunks", arg, CHUNKS_MAX, 1);
		break;
	case OPT_CHUNK:
		opt->chunk_bytes = parse_number("chunk", arg, CHUNK_MAX, sizeof(uint32_t));
		break;
	case OPT_WORKERS:
		opt->workers = (unsigned)parse_number("workers", arg, RNL_WORKERS_MAX, 1);
		break;
	case OPT_STREAM:
		opt->stream = parse_choice("stream", arg, "per-thread", "private") ?
			      RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD;
		break;
	case OPT_DEVICE:
		opt->device = arg;
		break;
	case OPT_ORDER:
		opt->orders = parse_choice("order", arg, "chunk", "copies") ? OVERLAP_COPIES :
									      OVERLAP_CHUNK;
		break;
	case OPT_PAGEABLE:
		opt->pageable = true;
		break;
	case OPT_IN_PLACE:
		opt->in_place = true;
		break;
	case OPT_HALO:
		opt->halo = parse_number("halo", arg, CHUNK_MAX / sizeof(uint32_t), 1);
		break;
	case OPT_CALLBACKS:
		if (arg && strcmp(arg, "sparse"))
			usage("'%s' is not good for --callbacks: give sparse, or nothing", arg);
		opt->callbacks = true;
		opt->callback_step = arg ? OVERLAP_SPARSE : 1;
		break;
	case OPT_ROUNDS:
		opt->rounds = (uint32_t)parse_number("rounds", arg, OVERLAP_ROUNDS_MAX, 1);
		break;
	case OPT_REPEAT:
		opt->repeat = (unsigned)parse_number("repeat", arg, REPEAT_MAX, 1);
		break;
	case OPT_TRACE:
		if (!*arg)
			usage("--trace has no name of a file");
		opt->trace = arg;
		break;
	case OPT_HELP:
		print_help();
	default:		/* getopt_long() has said what is wrong */
		try_help();
	}
}

void overlap_options_parse(struct overlap_options *opt, int argc, char **argv)
{
	static char name[] = "overlap";
	int option;

	*opt = (struct overlap_options){
		.device = "auto",
		.info = RNL_DEVICE_INFO_INIT,
		.stream = RNL_STREAM_PER_THREAD,
		.workers = 4,
		.orders = OVERLAP_CHUNK | OVERLAP_COPIES,
		.repeat = 5,
		.nr_chunks = 96,
		.chunk_bytes = 8 << 20,
	};
	if (argc)
		argv[0] = name;	/* for what getopt_long() has to say */
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse(opt, option, optarg);
	if (optind < argc)
		usage("'%s' is too much: all arguments are options", argv[optind]);
	if (opt->halo > opt->chunk_bytes / sizeof(uint32_t))
		usage("--halo=%" PRIu64 " is more than a chunk has", opt->halo);
	look_at_device(opt);
}
