/* SPDX-License-Identifier: MIT */
/*
 * make bench: what is asked for, what is measured, and what came of it.
 *
 * DESIGN
 *	A cell is one measurement in one configuration; each peer does it in a
 *	process of its own, once in a round.  It gives up to two figures, of
 *	which RATES_NONE is none: that peer cannot do it.
 */
#ifndef RATES_H
#define RATES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "rates_peer.h"

#define RATES_THREADS_MAX 64	/* workers, and producers; runnel has no more */
#define RATES_CONFIGS_MAX 16
#define RATES_CELLS_MAX (RATES_CONFIGS_MAX + 6)
#define RATES_PEERS_MAX 8
#define RATES_FIGURES 2
#define RATES_NONE ((double)NAN)

#define RATES_PAUSE_NS 1000000	/* before a sample from an idle pool */
#define RATES_WORK_NS 2000	/* of CPU, of a job in a burst */
#define RATES_BURST_JOBS 64
#define RATES_FORK_JOBS 16

enum rates_measure {
	RATES_THROUGHPUT,		/* ns a job; voluntary context switches for 1000 jobs */
	RATES_HANDOFF,			/* ns from the submit to the function: p50, p99 */
	RATES_RETURN,			/* ns from the submit to the wait's return: p50, p99 */
	RATES_BURST,			/* ns of a burst, p50; that by the ideal */
	RATES_FORK_JOIN,		/* ns a round, the mean; and for each job */
	RATES_MEASURES
};

enum rates_wrong {			/* --wrong, for tests: a job of the throughput ... */
	RATES_RIGHT,
	RATES_TWICE,			/* ... is submitted once more */
	RATES_LOST			/* ... is not submitted */
};

struct rates_config {
	unsigned workers, producers;
};

struct rates_options {
	unsigned rounds;
	size_t jobs;			/* of the throughput */
	size_t warm_samples, paused_samples; /* of the latencies */
	size_t bursts, forks;
	struct rates_config configs[RATES_CONFIGS_MAX];
	unsigned nr_configs;
	unsigned latency_workers, workers;
	bool measures[RATES_MEASURES];
	bool peers[RATES_PEERS_MAX];	/* as in rates_peers */
	const char *json;		/* a file, or NULL */
	enum rates_wrong wrong;
};

struct rates_cell {
	enum rates_measure measure;
	struct rates_config config;
	bool paused;			/* 1 ms before each sample */
	size_t nr;			/* jobs, samples, bursts, rounds */
};

struct rates_results {
	struct rates_cell cells[RATES_CELLS_MAX];
	unsigned nr_cells, rounds;
	const struct rates_peer *peers[RATES_PEERS_MAX];
	unsigned nr_peers;
	/* By rates_value(). */
	double values[];
};

/* Ends with a NULL; in the order of the table. */
extern const struct rates_peer *const rates_peers[RATES_PEERS_MAX + 1];

/* Ends the process when the command line is wrong, or asks for help. */
void rates_options_parse(struct rates_options *opt, int argc, char **argv);

/* Which cells, and of whom: peers that are not built are left out. */
struct rates_results *rates_plan(const struct rates_options *opt);
double *rates_value(struct rates_results *res, unsigned cell, unsigned peer, unsigned round);
struct bench_summary rates_summary(struct rates_results *res, unsigned cell, unsigned peer,
				   unsigned figure);

/* How many rounds of rates_work() take RATES_WORK_NS. */
uint64_t rates_calibrate(void);

/* Measures, in this process; ends it if a job did not run exactly as often as it was to. */
void rates_measure(const struct rates_peer *peer, const struct rates_cell *cell,
		   enum rates_wrong wrong, double *figures);

/* The same in a process of its own.  Return: whether it came to a good end. */
bool rates_child(const struct rates_peer *peer, const struct rates_cell *cell,
		 enum rates_wrong wrong, double *figures);

void rates_table(struct rates_results *res, const struct rates_options *opt, double load);

/* Return: whether it could be written. */
bool rates_json(struct rates_results *res, const struct rates_options *opt, double load, FILE *out);
bool rates_has_json(void);

#endif
