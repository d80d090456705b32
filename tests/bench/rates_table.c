/* SPDX-License-Identifier: MIT */
/*
 * The table: a row for each peer, a column for each configuration.
 *
 * DESIGN
 *	Too wide for one line, so it comes in sections, with the same rows.  Every
 *	figure is the median of the rounds; less is better in all of them, and
 *	the least has a star.  A peer without a wait is no pool, and has none.
 */
#include "rates.h"

#include <string.h>
#include <unistd.h>

#define COLUMNS_MAX RATES_CONFIGS_MAX
#define LABEL 24

struct column {
	unsigned cell, figure;
	double unit;			/* by which its figures are divided */
	char head[16];
};

struct section {
	char title[128];
	struct column columns[COLUMNS_MAX];
	unsigned nr;
};

static double median_of(struct rates_results *res, const struct column *c, unsigned peer)
{
	return rates_summary(res, c->cell, peer, c->figure).median / c->unit;
}

/* The least of the pools' figures; RATES_NONE if there are not two. */
static double best_of(struct rates_results *res, const struct column *c)
{
	double best = RATES_NONE;
	unsigned nr = 0;

	for (unsigned peer = 0; peer < res->nr_peers; peer++) {
		const double value = median_of(res, c, peer);

		if (!res->peers[peer]->wait || isnan(value))
			continue;
		best = nr++ && best < value ? best : value;
	}
	return nr > 1 ? best : RATES_NONE;
}

static void print_figure(double value, bool best)
{
	const int digits = value < 10 ? 2 : value < 1000 ? 1 : 0;

	if (isnan(value))
		printf(" %10s ", "-");
	else
		printf(" %10.*f%c", digits, value, best ? '*' : ' ');
}

static void print_section(struct rates_results *res, const struct section *s)
{
	if (!s->nr)
		return;
	printf("\n%s\n%-*s", s->title, LABEL, "");
	for (unsigned i = 0; i < s->nr; i++)
		printf(" %10s ", s->columns[i].head);
	putchar('\n');
	for (unsigned peer = 0; peer < res->nr_peers; peer++) {
		printf("%-*s", LABEL, res->peers[peer]->label);
		for (unsigned i = 0; i < s->nr; i++) {
			const double value = median_of(res, &s->columns[i], peer);

			print_figure(value, res->peers[peer]->wait &&
				     value <= best_of(res, &s->columns[i]));
		}
		putchar('\n');
	}
}

static void add_column(struct section *s, unsigned cell, unsigned figure, double unit,
		       const char *head)
{
	struct column *c = &s->columns[s->nr++];

	c->cell = cell;
	c->figure = figure;
	c->unit = unit;
	snprintf(c->head, sizeof(c->head), "%s", head);
}

static void throughput(struct rates_results *res, unsigned figure, const char *title)
{
	struct section s = { .nr = 0 };

	snprintf(s.title, sizeof(s.title), "%s; workers x producers", title);
	for (unsigned i = 0; i < res->nr_cells; i++) {
		const struct rates_cell *cell = &res->cells[i];
		char head[16];

		if (cell->measure != RATES_THROUGHPUT)
			continue;
		snprintf(head, sizeof(head), "%ux%u", cell->config.workers, cell->config.producers);
		add_column(&s, i, figure, 1, head);
	}
	print_section(res, &s);
}

static void latency(struct rates_results *res, enum rates_measure measure, const char *title)
{
	struct section s = { .nr = 0 };

	for (unsigned i = 0; i < res->nr_cells; i++) {
		const struct rates_cell *cell = &res->cells[i];

		if (cell->measure != measure)
			continue;
		snprintf(s.title, sizeof(s.title),
			 "%s, us; %u worker%s; job right after job, or 1 ms later",
			 title, cell->config.workers, cell->config.workers > 1 ? "s" : "");
		add_column(&s, i, 0, 1000, cell->paused ? "later p50" : "p50");
		add_column(&s, i, 1, 1000, cell->paused ? "later p99" : "p99");
	}
	print_section(res, &s);
}

static void bursts(struct rates_results *res)
{
	struct section s = { .nr = 0 };

	for (unsigned i = 0; i < res->nr_cells; i++) {
		const unsigned workers = res->cells[i].config.workers;

		if (res->cells[i].measure != RATES_BURST)
			continue;
		snprintf(s.title, sizeof(s.title),
			 "burst of %d jobs of %.1f us on %u worker%s, 1 ms after the last one; "
			 "ideal %.1f us",
			 RATES_BURST_JOBS, RATES_WORK_NS / 1000.0, workers, workers > 1 ? "s" : "",
			 RATES_BURST_JOBS * RATES_WORK_NS / 1000.0 / workers);
		add_column(&s, i, 0, 1000, "us, p50");
		add_column(&s, i, 1, 1, "x ideal");
	}
	print_section(res, &s);
}

static void forks(struct rates_results *res)
{
	struct section s = { .nr = 0 };

	for (unsigned i = 0; i < res->nr_cells; i++) {
		const unsigned workers = res->cells[i].config.workers;

		if (res->cells[i].measure != RATES_FORK_JOIN)
			continue;
		snprintf(s.title, sizeof(s.title), "fork and join of %d empty jobs on %u worker%s",
			 RATES_FORK_JOBS, workers, workers > 1 ? "s" : "");
		add_column(&s, i, 0, 1000, "us a round");
		add_column(&s, i, 1, 1, "ns a job");
	}
	print_section(res, &s);
}

/* What is not built, and what to know of the rest. */
static void notes(const struct rates_options *opt)
{
	for (unsigned i = 0; rates_peers[i]; i++) {
		const struct rates_peer *peer = rates_peers[i];

		if (opt->peers[i] && peer->missing)
			printf("%s: not built, %s\n", peer->label, peer->missing);
		else if (opt->peers[i] && peer->note)
			printf("%s: %s\n", peer->label, peer->note);
	}
}

void rates_table(struct rates_results *res, const struct rates_options *opt, double load)
{
	if (!res->nr_peers) {
		notes(opt);
		return;
	}
	printf("rates: medians of %u round%s, %ld CPUs, load %.1f at the start; %zu jobs of "
	       "throughput, each run exactly once\n",
	       res->rounds, res->rounds > 1 ? "s" : "", sysconf(_SC_NPROCESSORS_ONLN), load,
	       opt->jobs);
	throughput(res, 0, "throughput, ns a job");
	throughput(res, 1, "voluntary context switches for 1000 jobs, all threads");
	latency(res, RATES_HANDOFF, "from the submit to the function's start");
	latency(res, RATES_RETURN, "from the submit to the wait's return");
	bursts(res);
	forks(res);
	if (res->nr_peers > 1)
		printf("\n* the least%s\n", res->peers[res->nr_peers - 1]->wait ? "" :
		       " of the pools, which the last row is none of");
	notes(opt);
}
