/* SPDX-License-Identifier: MIT */
/*
 * The command line of gwc.
 *
 * DESIGN
 * wc's options mean what they mean to wc, in all the abbreviations that wc
 * takes.  Options of our own must not make those ambiguous (--w is --words,
 * though there is --workers), so they are in a table of their own: it is used
 * for an argument that is no abbreviation of an option of wc's.  To see every
 * argument before getopt_long() does, operands are taken in order ("-"), or
 * end the options ("+") where POSIXLY_CORRECT asks for that.
 */
#include "config.h"

#include "gwc.h"
#include "quote.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_DEFAULT (1 << 20)
#define CHUNK_MAX (1 << 30)
#define PRODUCERS_MAX 16
#define GPU_WORKERS 4

enum {
	OPT_FILES0_FROM = 256,
	OPT_TOTAL,
	OPT_HELP,
	OPT_VERSION,
	OPT_DEVICE,
	OPT_WORKERS,
	OPT_PRODUCERS,
	OPT_CHUNK,
	OPT_WORD_RULE,
	OPT_STATS,
};

static const struct option wc_options[] = {
	{ "bytes", no_argument, NULL, 'c' },
	{ "chars", no_argument, NULL, 'm' },
	{ "lines", no_argument, NULL, 'l' },
	{ "words", no_argument, NULL, 'w' },
	{ "files0-from", required_argument, NULL, OPT_FILES0_FROM },
	{ "total", required_argument, NULL, OPT_TOTAL },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const struct option own_options[] = {
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "workers", required_argument, NULL, OPT_WORKERS },
	{ "producers", required_argument, NULL, OPT_PRODUCERS },
	{ "chunk", required_argument, NULL, OPT_CHUNK },
	{ "word-rule", required_argument, NULL, OPT_WORD_RULE },
	{ "stats", no_argument, NULL, OPT_STATS },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: gwc [OPTION]... [FILE]...\n"
"  or:  gwc [OPTION]... --files0-from=F\n"
"Print newline, word and byte counts for each FILE, and a total line if there\n"
"is more than one, as wc(1) does in the C locale.  With no FILE, or when FILE\n"
"is -, read standard input.  There is no -L.\n"
"\n"
"What is printed, always in this order; all but -m if nothing is said:\n"
"  -l, --lines            newlines\n"
"  -w, --words            words\n"
"  -m, --chars            characters, which are bytes in the C locale\n"
"  -c, --bytes            bytes\n"
"      --total=WHEN       the line of totals: auto (if there is more than one\n"
"                         file), always, only (and nothing else), or never\n"
"      --files0-from=F    the names are in file F, each ended by a NUL; if F is\n"
"                         -, they come from standard input\n"
"\n"
"Where and how it is counted:\n"
"      --device=D         auto (a GPU if there is one), cuda, cuda:N, host\n"
"      --workers=N        threads that run jobs, each with its own stream; 4 with a\n"
"                         GPU, else as many as CPUs, up to 8\n"
"      --producers=N      threads that read files\n"
"      --chunk=N[K|M|G]   bytes that one job counts; 1M if nothing is said\n"
"      --word-rule=RULE   printable: a word has a printable byte in it (wc before\n"
"                         9.4); nonspace: all but white space makes words\n"
"      --stats            at the end, tell how it went on standard error\n"
"      --help             print this and exit\n"
"      --version          print the version and exit\n";

static _Noreturn void try_help(void)
{
	fputs("Try 'gwc --help' for more information.\n", stderr);
	exit(gwc_report_end(true));
}

static const struct option *table_for(const char *arg)
{
	size_t length;

	if (!arg || strncmp(arg, "--", 2) != 0)
		return wc_options;
	arg += 2;
	length = strcspn(arg, "=");
	for (const struct option *o = wc_options; o->name; o++)
		if (strncmp(o->name, arg, length) == 0)
			return wc_options;
	for (const struct option *o = own_options; o->name; o++)
		if (strncmp(o->name, arg, length) == 0)
			return own_options;
	return wc_options;
}

static enum gwc_total parse_total(const char *arg)
{
	static const char *const names[] = { "auto", "always", "only", "never" };
	int found = -1;
	unsigned nr_found = 0;

	for (int i = 0; i < 4; i++) {
		if (strcmp(arg, names[i]) == 0)
			return (enum gwc_total)i;
		if (strncmp(arg, names[i], strlen(arg)) == 0) {
			found = i;
			nr_found++;
		}
	}
	if (nr_found == 1)
		return (enum gwc_total)found;
	gwc_report_error(0, "%s argument %s for '--total'", nr_found ? "ambiguous" : "invalid",
			 quote_name(arg, true));
	fputs("Valid arguments are:\n", stderr);
	for (int i = 0; i < 4; i++)
		fprintf(stderr, "  - '%s'\n", names[i]);
	try_help();
}

static uint64_t parse_number(const char *option, const char *arg, uint64_t max, bool units)
{
	unsigned long long number = 0;
	char *end = NULL;

	if (*arg >= '0' && *arg <= '9') {
		errno = 0;
		number = strtoull(arg, &end, 10);
		if (units && !errno && *end && strchr("KkMmG", *end)) {
			const unsigned shift = *end == 'G' ? 30 : *end == 'M' || *end == 'm' ? 20 : 10;

			/* Too large stays too large, and does not wrap. */
			number = number > max ? max + 1 : number << shift;
			end++;
		}
		if (!errno && !*end && number >= 1 && number <= max)
			return number;
	}
	gwc_report_error(0, "%s is not good for --%s: give a number from 1 to %llu%s",
			 quote_name(arg, true), option, (unsigned long long)max,
			 units ? ", or one with K, M or G behind it" : "");
	try_help();
}

static bool parse_word_rule(const char *arg)
{
	if (strcmp(arg, "printable") == 0)
		return true;
	if (strcmp(arg, "nonspace") == 0)
		return false;
	gwc_report_error(0, "%s is not good for --word-rule: give printable or nonspace",
			 quote_name(arg, true));
	try_help();
}

/* Return: whether it is a GPU. */
static bool check_device(const char *arg)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	const int ret = rnl_device_info(arg, &info);

	if (!ret)
		return info.cuda;
	if (ret == -EINVAL) {
		gwc_report_error(0, "%s is not good for --device: give auto, cuda, cuda:N or host",
				 quote_name(arg, true));
		try_help();
	}
	if (ret == -ENODEV)
		gwc_report_error(0, "no GPU answers as %s: use --device=host, or --device=auto to "
				 "take a GPU where there is one", quote_name(arg, true));
	else
		gwc_report_error(0, "device %s: %s", quote_name(arg, true),
				 rnl_strerror(ret));
	exit(gwc_report_end(true));
}

static unsigned default_producers(void)
{
	/* Reading from the page cache is a copy: it takes CPUs to feed a GPU. */
	const long half = sysconf(_SC_NPROCESSORS_ONLN) / 2;

	return half < 2 ? 2 : half > 8 ? 8 : (unsigned)half;
}

void gwc_options_parse(struct gwc_options *opt, int argc, char **argv)
{
	const char *const short_options = getenv("POSIXLY_CORRECT") ? "+clmw" : "-clmw";
	static char name[] = "gwc";

	*opt = (struct gwc_options){
		.device = "auto",
		.chunk = CHUNK_DEFAULT,
		.printable = RNL_WC_WORDS_PRINTABLE,
	};
	opt->names = calloc((size_t)argc + 1, sizeof(*opt->names));
	if (!opt->names) {
		gwc_report_error(ENOMEM, "options");
		exit(gwc_report_end(true));
	}
	if (argc)
		argv[0] = name;	/* what getopt_long() says is wrong is said by gwc */
	for (;;) {
		const struct option *table = table_for(optind < argc ? argv[optind] : NULL);
		const int c = getopt_long(argc, argv, short_options, table, NULL);

		if (c == -1)
			break;
		switch (c) {
		case 1:
			opt->names[opt->nr_names++] = optarg;
			break;
		case 'l':
			opt->lines = true;
			break;
		case 'w':
			opt->words = true;
			break;
		case 'm':
			opt->chars = true;
			break;
		case 'c':
			opt->bytes = true;
			break;
		case OPT_FILES0_FROM:
			opt->files0_from = optarg;
			break;
		case OPT_TOTAL:
			opt->total = parse_total(optarg);
			break;
		case OPT_HELP:
			fputs(help, stdout);
			exit(gwc_report_end(false));
		case OPT_VERSION:
			printf("gwc (runnel) %d.%d.%d\n", RNL_VERSION_MAJOR, RNL_VERSION_MINOR,
			       RNL_VERSION_PATCH);
			exit(gwc_report_end(false));
		case OPT_DEVICE:
			opt->device = optarg;
			break;
		case OPT_WORKERS:
			opt->workers = (unsigned)parse_number("workers", optarg, RNL_WORKERS_MAX,
							      false);
			break;
		case OPT_PRODUCERS:
			opt->producers = (unsigned)parse_number("producers", optarg,
								PRODUCERS_MAX, false);
			break;
		case OPT_CHUNK:
			opt->chunk = (size_t)parse_number("chunk", optarg, CHUNK_MAX, true);
			break;
		case OPT_WORD_RULE:
			opt->printable = parse_word_rule(optarg);
			break;
		case OPT_STATS:
			opt->stats = true;
			break;
		default:
			try_help();
		}
	}
	while (optind < argc)
		opt->names[opt->nr_names++] = argv[optind++];
	if (!opt->lines && !opt->words && !opt->chars && !opt->bytes)
		opt->lines = opt->words = opt->bytes = true;
	if (!opt->producers)
		opt->producers = default_producers();
	if (opt->files0_from && opt->nr_names) {
		gwc_report_error(0, "extra operand %s", quote_name(opt->names[0], true));
		fputs("file operands cannot be combined with --files0-from\n", stderr);
		try_help();
	}
	/* More streams than keep a GPU's copy engine busy take turns at it, and its driver. */
	if (check_device(opt->device) && !opt->workers)
		opt->workers = GPU_WORKERS;
}

bool gwc_options_only_sizes(const struct gwc_options *opt)
{
	return !opt->lines && !opt->words;
}
