/* SPDX-License-Identifier: MIT */
/*
 * The rows of gpu as JSON: every run of every variant.
 *
 * DESIGN
 *	The file is written anew whenever a row has come: what was measured before
 *	something went wrong is there.
 */
#include "gpu.h"

#ifndef HAVE_JANSSON
bool gpu_has_json(void)
{
	return false;
}

bool gpu_json(const struct gpu_options *opt, double load, const struct gpu_row *rows, size_t nr)
{
	(void)opt;
	(void)load;
	(void)rows;
	(void)nr;
	return false;
}
#else
#include "bench_json.h"

static const char *const sides[GPU_SIDES] = {
	[GPU_HAND] = "hand",
	[GPU_PEER] = "peer",
	[GPU_CEILING] = "ceiling",
	[GPU_RUNNEL] = "runnel",
};

bool gpu_has_json(void)
{
	return true;
}

static json_t *figure_of(const struct gpu_figure *figure)
{
	json_t *one = bench_json_values(figure->runs, figure->nr);

	json_object_set_new(one, "variant", json_string(figure->variant));
	json_object_set_new(one, "side", json_string(sides[figure->side]));
	json_object_set_new(one, "screened", json_boolean(figure->screened));
	return one;
}

static void set_best(json_t *one, const struct gpu_row *row, enum gpu_side side)
{
	const struct gpu_figure *best = gpu_row_best(row, side);

	if (best)
		json_object_set_new(one, sides[side],
				    json_pack("{s:s, s:f}", "variant", best->variant, "median",
					      gpu_figure_median(best)));
}

static json_t *row_of(const struct gpu_row *row)
{
	json_t *figures = json_array(), *one;
	const double goal = gpu_row_goal(row);
	const int met = gpu_row_met(row);

	for (unsigned i = 0; i < row->nr; i++)
		if (row->figures[i].nr)
			json_array_append_new(figures, figure_of(&row->figures[i]));
	one = json_pack("{s:s, s:s, s:s, s:b}", "line", row->line, "what", row->what, "unit",
			row->unit, "more_is_better", row->more_is_better);
	for (unsigned side = 0; side < GPU_SIDES; side++)
		set_best(one, row, (enum gpu_side)side);
	if (!isnan(goal))
		json_object_set_new(one, "target", json_real(goal));
	if (met >= 0)
		json_object_set_new(one, "met", json_boolean(met));
	json_object_set_new(one, "figures", figures);
	return one;
}

bool gpu_json(const struct gpu_options *opt, double load, const struct gpu_row *rows, size_t nr)
{
	json_t *all = json_array();
	FILE *out = fopen(opt->json, "w");
	bool good;

	if (!out)
		return false;
	for (size_t i = 0; i < nr; i++)
		json_array_append_new(all, row_of(&rows[i]));
	good = bench_json_write(
		json_pack("{s:i, s:o, s:o, s:s, s:s, s:i, s:b, s:o}", "version", 1, "runnel",
			  bench_json_runnel(), "machine", bench_json_machine(load), "device",
			  opt->info.name, "device_name", opt->device, "runs", (int)opt->runs,
			  "quick", opt->quick, "rows", all), out);
	return !fclose(out) && good;
}
#endif
