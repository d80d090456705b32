/* SPDX-License-Identifier: MIT */
/*
 * gwc: counts lines, words and bytes as wc(1) does, on a GPU where there is one.
 *
 * DESIGN
 * Producers read the files into pinned memory and submit jobs.  The workers of a runnel pool
 * copy the text to the device and count it there.  This thread, the consumer, takes the
 * results in the order of the files, adds them up, and prints.  The counts and the format
 * are those of coreutils' wc in the C locale.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "gwc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_MAX (1 << 30)
#define GPU_WORKERS 4		/* more streams would take turns at the GPU's copy engine */

/* ---- options ------------------------------------------------------------- */

static const char doc[] =
	"Print newline, word and byte counts for each FILE, and a total line if there is more than "
	"one, as wc(1) does in the C locale.  With no FILE, or when FILE is -, read standard "
	"input.\vThe columns are always in the order of the options above; without any of the "
	"first three there are all three.";

static void parse_options(struct gwc_options *opt, struct program_operands *files, int argc,
			  char **argv)
{
	/* Reading from the page cache is a copy: it takes CPUs to feed a GPU. */
	const long half = sysconf(_SC_NPROCESSORS_ONLN) / 2;
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	const struct program_option table[] = {
		{ "lines", 'l', NULL, "newlines", OPTION_FLAG(&opt->lines) },
		{ "words", 'w', NULL, "words", OPTION_FLAG(&opt->words) },
		{ "bytes", 'c', NULL, "bytes", OPTION_FLAG(&opt->bytes) },
		{ "files0-from", 0, "F", "the names are in file F, each ended by a NUL",
		  OPTION_TEXT(&opt->files0_from) },
		OPTION_DEVICE(&opt->device),
		{ "workers", 0, "N", "threads that run jobs, each with a stream; 4 with a GPU, else "
		  "as many as CPUs, up to 8", OPTION_NUMBER(&opt->workers, 1, RNL_WORKERS_MAX) },
		{ "producers", 0, "N", "threads that read files; half as many as CPUs, 2 to 8",
		  OPTION_NUMBER(&opt->producers, 1, GWC_PRODUCERS_MAX) },
		{ "chunk", 0, "SIZE", "bytes that one job counts; 1M",
		  OPTION_SIZE(&opt->chunk, 1, CHUNK_MAX) },
		{ "word-rule", 0, "RULE", "printable: a word has a printable byte in it (wc before "
		  "9.4); nonspace: all but white space makes words",
		  OPTION_CHOICE(&opt->nonspace, "printable|nonspace") },
		{ "stats", 0, NULL, "at the end, print figures on standard error",
		  OPTION_FLAG(&opt->stats) },
		{ .name = NULL }
	};

	*opt = (struct gwc_options){
		.device = "auto",
		.producers = half < 2 ? 2 : half > 8 ? 8 : (unsigned)half,
		.chunk = 1 << 20,
		.nonspace = !RNL_WC_WORDS_PRINTABLE,
	};
	program_options(argc, argv, doc, table, files);
	if (!opt->lines && !opt->words && !opt->bytes)
		opt->lines = opt->words = opt->bytes = true;
	if (opt->files0_from && files->nr)
		program_misuse("'%s' is too much: the names are in the file of --files0-from",
			       files->names[0]);
	program_device(opt->device, &info);
	if (info.cuda && !opt->workers)
		opt->workers = GPU_WORKERS;
}

/* ---- the consumer and its output ----------------------------------------- */

struct counts {
	uint64_t lines, words, bytes;
};

struct tally {
	const struct gwc_options *opt;
	int width;
	struct counts total;
	bool failed;
};

static void print_counts(const struct tally *tally, const struct counts *counts, const char *name)
{
	const struct {
		bool wanted;
		uint64_t count;
	} columns[] = {
		{ tally->opt->lines, counts->lines },
		{ tally->opt->words, counts->words },
		{ tally->opt->bytes, counts->bytes },
	};
	const char *space = "";

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		if (!columns[i].wanted)
			continue;
		printf("%s%*" PRIu64, space, tally->width, columns[i].count);
		space = " ";
	}
	printf("%s%s\n", name ? " " : "", name ? name : "");
}

/* Adds a part to its input, and prints the line of the input behind the last part. */
static void consume(void *arg, const struct gwc_part *part)
{
	struct gwc_input *in = part->in;
	struct tally *tally = arg;
	struct counts counts;

	if (!in->failed) {
		in->sum = gwc_join(in->sum, part->sum);
		in->bytes += part->bytes;
		if (part->err) {
			program_warn("%s: %s", in->name ? in->name : "standard input",
				     strerror(part->err));
			in->failed = tally->failed = true;
		}
	}
	if (!part->last || (in->failed && !part->opened))
		return;
	counts = (struct counts){ in->sum.lines, in->sum.words, in->bytes };
	print_counts(tally, &counts, in->name);
	tally->total.lines += counts.lines;
	tally->total.words += counts.words;
	tally->total.bytes += counts.bytes;
}

static void print_stats(struct rnl_pool *pool, const struct tally *tally, unsigned files,
			uint64_t ns)
{
	const struct rnl_pool_stats stats = program_print_pool(pool);
	const double bytes = (double)tally->total.bytes;

	fprintf(stderr,
		"counted:  %.1f MB in %u files, %.3f s, %.0f MB/s\n"
		"jobs:     %" PRIu64 ", fed by %u producers\n",
		bytes / 1e6, files, (double)ns / 1e9, bytes * 1e3 / (double)ns, stats.accepted,
		tally->opt->producers);
}

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct program_operands files = { NULL, 0 };
	struct gwc_inputs inputs;
	struct gwc_options opt;
	struct rnl_pool *pool;
	struct tally tally;
	uint64_t since_ns;

	program_begin();
	parse_options(&opt, &files, argc, argv);
	gwc_inputs_open(&inputs, &opt, files.names, files.nr);
	attr.nr_workers = opt.workers;
	attr.device = opt.device;
	attr.log_arg = opt.stats ? &opt : NULL;
	pool = program_pool(&attr);

	since_ns = program_now_ns();
	tally = (struct tally){ .opt = &opt, .width = inputs.width };
	gwc_count_all(pool, &inputs, &opt, consume, &tally);
	if (inputs.nr > 1)
		print_counts(&tally, &tally.total, "total");
	if (opt.stats)
		print_stats(pool, &tally, inputs.nr, program_now_ns() - since_ns);
	rnl_pool_destroy(pool);
	gwc_inputs_close(&inputs);
	return tally.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
