/* SPDX-License-Identifier: MIT */
/* All figures of rates as JSON: what was measured, the median, and every round. */
#include "rates.h"

#include <sys/utsname.h>
#include <unistd.h>

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
#include <jansson.h>
#include <runnel.h>

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

static json_t *machine(double load)
{
	struct utsname name;

	if (uname(&name))
		return NULL;
	return json_pack("{s:s, s:s, s:I, s:f}", "machine", name.machine, "kernel", name.release,
			 "cpus", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "load", load);
}

/* Of the library that runs. */
static const char *version(char *text, size_t bytes)
{
	const uint32_t v = rnl_version();

	snprintf(text, bytes, "%u.%u.%u", v >> 16 & 255, v >> 8 & 255, v & 255);
	return text;
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
	const struct rates_summary sum = rates_summary(res, cell, peer, nr);
	json_t *rounds = json_array();

	for (unsigned i = 0; i < res->rounds; i++)
		json_array_append_new(rounds, json_real(rates_value(res, cell, peer, i)[nr]));
	return json_pack("{s:f, s:f, s:f, s:o}", "median", sum.median, "min", sum.min, "max",
			 sum.max, "rounds", rounds);
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
	json_t *results = json_array(), *all;
	char text[16];
	bool good;

	for (unsigned cell = 0; cell < res->nr_cells; cell++)
		for (unsigned peer = 0; peer < res->nr_peers; peer++)
			if (!isnan(rates_value(res, cell, peer, 0)[0]))
				json_array_append_new(results, result(res, cell, peer));
	all = json_pack("{s:i, s:s, s:o, s:i, s:I, s:o, s:o}", "version", 1, "runnel",
			version(text, sizeof(text)), "machine", machine(load), "rounds",
			(int)res->rounds, "jobs", (json_int_t)opt->jobs, "peers", peers(opt),
			"results", results);
	good = all && !json_dumpf(all, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) &&
	       fputc('\n', out) != EOF;
	json_decref(all);
	return good;
}
#endif
