/* SPDX-License-Identifier: MIT */
/*
 * gwc: counts lines, words and bytes like wc(1), on a GPU if there is one.
 *
 * DESIGN
 * Producers read the files into pinned memory and submit jobs.  The workers of a runnel pool
 * copy the text to the device and count it there.  The main thread is the consumer: it takes the
 * results in the order of the files, adds them up, and prints.  The counts and the format are
 * those of coreutils' wc in the C locale.
 *
 * With --mpi gwc executes gwc_mpi from its own directory, so gwc itself does not need MPI.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "gwc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel/stats.h>

static _Noreturn void become_gwc_mpi(char **argv)
{
	char path[4096];
	const ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - sizeof("_mpi"));

	if (bytes <= 0)
		program_die("/proc/self/exe: %s", bytes ? strerror(errno) : "it is empty");
	memcpy(path + bytes, "_mpi", sizeof("_mpi"));
	execv(path, argv);
	program_warn("--mpi needs %s, which is built where configure finds MPI: %s", path,
		     strerror(errno));
	exit(EXIT_USAGE);
}

static void print_stats(struct rnl_pool *pool, const struct gwc_tally *tally, unsigned files,
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
	struct program_operands files = { NULL, 0 };
	struct gwc_inputs inputs;
	struct gwc_options opt;
	struct gwc_tally tally;
	struct rnl_pool *pool;
	uint64_t since_ns;

	program_begin();
	gwc_options_parse(&opt, &files, argc, argv);
	if (opt.mpi)
		become_gwc_mpi(argv);
	if (opt.shard)
		program_misuse("--shard is for --mpi");
	pool = gwc_pool(&opt);
	gwc_inputs_open(&inputs, &opt, files.names, files.nr);

	since_ns = program_now_ns();
	tally = (struct gwc_tally){ .opt = &opt };
	gwc_tally_begin(&tally, &inputs);
	gwc_count_all(pool, &inputs, &opt, gwc_tally_add, &tally);
	gwc_tally_end(&tally, &inputs);
	if (opt.stats)
		print_stats(pool, &tally, inputs.nr, program_now_ns() - since_ns);
	rnl_pool_destroy(pool);
	gwc_inputs_close(&inputs);
	return tally.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
