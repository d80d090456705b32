/* SPDX-License-Identifier: MIT */
/* What rates measures, and of whom: the peers, the cells, and where figures are kept. */
#include "rates.h"

#include <stdlib.h>

#define NOT_BUILT(var, n, l, why) \
	static const struct rates_peer var = { .name = n, .label = l, .missing = why }
#ifdef BENCH_TSAN
#define WITHOUT_TSAN(why) "ThreadSanitizer cannot follow its runtime"
#else
#define WITHOUT_TSAN(why) why
#endif
#ifndef HAVE_GLIB
NOT_BUILT(no_glib, "glib", "GLib GThreadPool", "install libglib2.0-dev");
#define rates_glib no_glib
#endif
#ifndef HAVE_LIBUV
NOT_BUILT(no_uv, "libuv", "libuv uv_queue_work", "install libuv1-dev");
#define rates_uv no_uv
#endif
#ifndef HAVE_TBB
NOT_BUILT(no_tbb, "tbb", "oneTBB task_group",
	  WITHOUT_TSAN("install libtbb-dev and g++ (or see config.log)"));
#define rates_tbb no_tbb
#endif
#ifndef HAVE_OPENMP
NOT_BUILT(no_openmp, "openmp", "OpenMP task",
	  WITHOUT_TSAN("install what -fopenmp needs (clang: libomp-dev)"));
#define rates_openmp no_openmp
#endif

const struct rates_peer *const rates_peers[RATES_PEERS_MAX + 1] = {
	&rates_runnel, &rates_runnel_many, &rates_mutex, &rates_glib, &rates_uv, &rates_tbb,
	&rates_openmp, &rates_wfcq, NULL,
};

static void add(struct rates_results *res, const struct rates_options *opt,
		enum rates_measure measure, struct rates_config config, bool paused, size_t nr)
{
	if (opt->measures[measure])
		res->cells[res->nr_cells++] = (struct rates_cell){ measure, config, paused, nr };
}

struct rates_results *rates_plan(const struct rates_options *opt)
{
	const struct rates_config one = { opt->latency_workers, 1 }, some = { opt->workers, 1 };
	const size_t nr_values =
		(size_t)RATES_CELLS_MAX * RATES_PEERS_MAX * opt->rounds * RATES_FIGURES;
	struct rates_results *res = calloc(1, sizeof(*res) + nr_values * sizeof(res->values[0]));

	bench_must(res != NULL, "calloc");
	res->rounds = opt->rounds;
	for (unsigned i = 0; rates_peers[i]; i++)
		if (opt->peers[i] && !rates_peers[i]->missing)
			res->peers[res->nr_peers++] = rates_peers[i];
	for (unsigned i = 0; i < opt->nr_configs; i++)
		add(res, opt, RATES_THROUGHPUT, opt->configs[i], false, opt->jobs);
	add(res, opt, RATES_HANDOFF, one, false, opt->warm_samples);
	add(res, opt, RATES_HANDOFF, one, true, opt->paused_samples);
	add(res, opt, RATES_RETURN, one, false, opt->warm_samples);
	add(res, opt, RATES_RETURN, one, true, opt->paused_samples);
	add(res, opt, RATES_BURST, some, true, opt->bursts);
	add(res, opt, RATES_FORK_JOIN, some, false, opt->forks);
	return res;
}

double *rates_value(struct rates_results *res, unsigned cell, unsigned peer, unsigned round)
{
	return &res->values[(((size_t)cell * RATES_PEERS_MAX + peer) * res->rounds + round) *
			    RATES_FIGURES];
}

struct bench_summary rates_summary(struct rates_results *res, unsigned cell, unsigned peer,
				   unsigned figure)
{
	struct bench_summary sum = { RATES_NONE, RATES_NONE, RATES_NONE };
	double *values = bench_alloc(res->rounds * sizeof(*values));

	for (unsigned round = 0; round < res->rounds; round++)
		values[round] = rates_value(res, cell, peer, round)[figure];
	if (!isnan(values[0]))
		sum = bench_summary(values, res->rounds);
	free(values);
	return sum;
}
