/* SPDX-License-Identifier: MIT */
/*
 * make bench: what a job costs that does nothing, in runnel and in other pools.
 *
 *	tests/bench/rates [OPTION]...		--help names them
 *
 * DESIGN
 *	Submit, run, complete: the path that every job goes, without a device.
 *	Rounds go over all cells and all peers, never one peer's runs in a row,
 *	and begin with another peer each, so that what else goes on in the
 *	machine falls on all of them.  Every job counts its own runs, and a wrong
 *	count ends it all: it is never a figure.
 */
#include "rates.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const bench_name = "rates";
uint64_t rates_work_rounds;

/* One line that comes and goes, for who sits and waits. */
static void progress(unsigned round, unsigned rounds, const char *peer)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (peer)
		fprintf(stderr, "\r\033[Kround %u of %u: %s ", round + 1, rounds, peer);
	else
		fputs("\r\033[K", stderr);
}

static void measure_all(struct rates_results *res, const struct rates_options *opt)
{
	for (unsigned round = 0; round < res->rounds; round++) {
		for (unsigned cell = 0; cell < res->nr_cells; cell++) {
			for (unsigned i = 0; i < res->nr_peers; i++) {
				const unsigned peer = (i + round) % res->nr_peers;

				progress(round, res->rounds, res->peers[peer]->name);
				if (!rates_child(res->peers[peer], &res->cells[cell], opt->wrong,
						 rates_value(res, cell, peer, round)))
					exit(EXIT_FAILURE);
			}
		}
	}
	progress(0, 0, NULL);
}

int main(int argc, char **argv)
{
	struct rates_options opt;
	struct rates_results *res;
	FILE *json = NULL;
	double load = 0;
	bool good = true;

	rates_options_parse(&opt, argc, argv);
	res = rates_plan(&opt);
	if (!res->nr_peers) {
		rates_table(res, &opt, load);
		fflush(stdout);
		fputs("rates: there is nothing to measure\n", stderr);
		free(res);
		return EXIT_FAILURE;
	}
	if (opt.json && !(json = fopen(opt.json, "w"))) {
		fprintf(stderr, "rates: %s: %s\n", opt.json, strerror(errno));
		return EXIT_FAILURE;
	}
	if (getloadavg(&load, 1) != 1)
		load = 0;
	rates_work_rounds = rates_calibrate();
	measure_all(res, &opt);
	rates_table(res, &opt, load);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "rates: standard output: %s\n", strerror(errno));
		good = false;
	}
	if (json) {
		bool written = rates_json(res, &opt, load, json);

		if (fclose(json) || !written) {
			fprintf(stderr, "rates: %s could not be written\n", opt.json);
			good = false;
		}
	}
	free(res);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
