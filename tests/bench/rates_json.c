/* SPDX-License-Identifier: MIT */
/* All figures of rates as JSON: what was measured, the median, and every round. */
#include "rates.h"

#include <stdlib.h>

#ifndef HAVE_JANSSON
bool rates_has_json(void)
{
	return false;
}

bool rates_json(struct rates_results *res, const struct rates_options *opt, double load, FILE *out)
{
	(void)res;
	(void)opt;
	(void)load;
	(void)out;
	return false;
}
#else
#include "bench_json.h"

static const struct {
	const char *measure, *figures[RATES_FIGURES];
} names[RATES_MEASURES] = {
	[RATES_THROUGHPUT] = { "throughput", { "ns_per_job", "voluntary_switches_per_1000_jobs" } },
	[RATES_HANDOFF] = { "handoff", { "p50_ns", "p99_ns" } },
	[RATES_RETURN] = { "return", { "p50_ns", "p99_ns" } },
	[RATES_BURST] = { "burst", { "p50_ns", "of_ideal" } },
	[RATES_FORK_JOIN] = { "forkjoin", { "ns_per_round", "ns_per_job" } },
};

bool rates_has_json(void)
{
	return true;
}

static json_t *peers(const struct rates_options *opt)
{
	json_t *all = json_array();

	for (unsigned i = 0; rates_peers[i]; i++) {
		const struct rates_peer *peer = rates_peers[i];

		if (opt->peers[i])
			json_array_append_new(all,
					      json_pack("{s:s, s:s, s:b, s:s?}", "name", peer->name,
							"label", peer->label, "measured",
							!peer->missing, "note", peer->note));
	}
	return all;
}

static json_t *figure(struct rates_results *res, unsigned cell, unsigned peer, unsigned nr)
{
	double *values = bench_alloc(res->rounds * sizeof(*values));
	json_t *one;

	for (unsigned i = 0; i < res->rounds; i++)
		values[i] = rates_value(res, cell, peer, i)[nr];
	one = bench_json_values(values, res->rounds);
	free(values);
	return one;
}

static json_t *result(struct rates_results *res, unsigned nr, unsigned peer)
{
	const struct rates_cell *cell = &res->cells[nr];
	json_t *one = json_pack("{s:s, s:s, s:i, s:i, s:b, s:I}", "peer", res->peers[peer]->name,
				"measure", names[cell->measure].measure,
				"workers", (int)cell->config.workers,
				"producers", (int)cell->config.producers, "paused", cell->paused,
				"count", (json_int_t)cell->nr);

	for (unsigned i = 0; i < RATES_FIGURES; i++)
		if (json_object_set_new(one, names[cell->measure].figures[i],
					figure(res, nr, peer, i)))
			break;
	return one;
}

bool rates_json(struct rates_results *res, const struct rates_options *opt, double load, FILE *out)
{
	json_t *results = json_array();

	for (unsigned cell = 0; cell < res->nr_cells; cell++)
		for (unsigned peer = 0; peer < res->nr_peers; peer++)
			if (!isnan(rates_value(res, cell, peer, 0)[0]))
				json_array_append_new(results, result(res, cell, peer));
	return bench_json_write(
		json_pack("{s:i, s:o, s:o, s:i, s:I, s:o, s:o}", "version", 1, "runnel",
			  bench_json_runnel(), "machine", bench_json_machine(load), "rounds",
			  (int)res->rounds, "jobs", (json_int_t)opt->jobs, "peers", peers(opt),
			  "results", results), out);
}
#endif
