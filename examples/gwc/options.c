/* SPDX-License-Identifier: MIT */
/* The command line of gwc and of gwc_mpi. */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "gwc.h"

#include <unistd.h>

#include <runnel/device.h>

#define CHUNK_MAX (1 << 30)
#define GPU_WORKERS 4		/* more streams would only share the GPU's copy engine */

static const char doc[] =
	"Print newline, word and byte counts for each FILE, and a total line if there is more than "
	"one, like wc(1) in the C locale.  With no FILE, or when FILE is -, read standard input."
	"\vThe columns are always in the order of the options above; without any of the first "
	"three options, all three columns are printed.";

void gwc_options_parse(struct gwc_options *opt, struct program_operands *files, int argc,
		       char **argv)
{
	/* Reading from the page cache is a copy, so feeding a GPU takes several CPUs. */
	const long half = sysconf(_SC_NPROCESSORS_ONLN) / 2;
	const struct program_option table[] = {
		{ "lines", 'l', NULL, "print newlines", OPTION_FLAG(&opt->lines) },
		{ "words", 'w', NULL, "print words", OPTION_FLAG(&opt->words) },
		{ "bytes", 'c', NULL, "print bytes", OPTION_FLAG(&opt->bytes) },
		{ "files0-from", 0, "F", "read NUL-ended names from file F; - is standard input",
		  OPTION_TEXT(&opt->files0_from) },
		OPTION_DEVICES(&opt->device),
		{ "workers", 0, "N", "threads that run jobs, each with a stream; 4 with a GPU, else "
		  "one per CPU, up to 8", OPTION_NUMBER(&opt->workers, 1, PROGRAM_WORKERS_MAX) },
		{ "producers", 0, "N", "threads that read files; half the number of CPUs, 2 to 8",
		  OPTION_NUMBER(&opt->producers, 1, GWC_PRODUCERS_MAX) },
		{ "chunk", 0, "SIZE", "bytes per job; 1M",
		  OPTION_SIZE(&opt->chunk, 1, CHUNK_MAX) },
		{ "word-rule", 0, "RULE", "printable: a word contains a printable byte (wc before "
		  "9.4); nonspace: any byte but white space makes a word",
		  OPTION_CHOICE(&opt->nonspace, "printable|nonspace") },
		{ "mpi", 0, NULL, "under mpirun: all ranks count, each on its own device",
		  OPTION_FLAG(&opt->mpi) },
		{ "shard", 0, "SIZE", "with --mpi, bytes of a shard, which a rank takes at a time; "
		  "1/16 of a rank's share, 1M to 256M", OPTION_SIZE(&opt->shard, 1, CHUNK_MAX) },
		{ "stats", 0, NULL, "at the end, print statistics on standard error",
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
		program_misuse("'%s' is unexpected: the names are in the file of --files0-from",
			       files->names[0]);
}

struct rnl_pool *gwc_pool(struct gwc_options *opt)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	program_device(opt->device, &info);
	attr.nr_workers = info.cuda && !opt->workers ? GPU_WORKERS : opt->workers;
	attr.device = opt->device;
	attr.log_arg = opt->stats ? opt : NULL;
	return program_pool(&attr);
}
