/* SPDX-License-Identifier: MIT */
/*
 * The lines as JSON: every run of every variant. The file is rewritten with each new line, so it
 * has all figures measured before a failure.
 */
#include "bench.h"

#include <jansson.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *const sides[BENCH_SIDES] = {
	[BENCH_HAND] = "hand",
	[BENCH_PEER] = "peer",
	[BENCH_CEILING] = "ceiling",
	[BENCH_OTHER] = "other",
	[BENCH_RUNNEL] = "runnel",
};

static json_t *figure_of(const struct bench_figure *figure)
{
	const struct bench_summary sum = bench_summary(figure);
	json_t *runs = json_array();

	for (unsigned i = 0; i < figure->nr; i++)
		json_array_append_new(runs, json_real(figure->runs[i]));
	return json_pack("{s:s, s:s, s:b, s:f, s:f, s:f, s:o}", "side", sides[figure->side],
			 "variant", figure->variant, "screened", figure->screened, "median",
			 sum.median, "min", sum.min, "max", sum.max, "runs", runs);
}

static json_t *line_of(const struct bench_line *line)
{
	const double goal = bench_line_goal(line);
	const int met = bench_line_met(line);
	json_t *figures = json_array();
	json_t *one = json_pack("{s:s, s:s, s:s, s:b, s:s}", "row", line->row->name, "what",
				line->what, "unit", line->of->unit, "more_is_better",
				line->of->more_is_better, "note", line->note);

	for (unsigned i = 0; i < line->nr; i++)
		if (line->figures[i].nr)
			json_array_append_new(figures, figure_of(&line->figures[i]));
	for (unsigned side = 0; side < BENCH_SIDES; side++) {
		const struct bench_figure *best = bench_best(line, (enum bench_side)side);

		if (best)
			json_object_set_new(one, sides[side],
					    json_pack("{s:s, s:f}", "variant", best->variant,
						      "median", bench_summary(best).median));
	}
	if (!isnan(goal))
		json_object_set_new(one, "target", json_real(goal));
	if (met >= 0)
		json_object_set_new(one, "met", json_boolean(met));
	json_object_set_new(one, "figures", figures);
	return one;
}

static json_t *all_of(const struct bench_options *opt, double load, json_t *lines)
{
	const uint32_t v = rnl_version();
	const time_t now = time(NULL);
	struct utsname name;
	char version[16], date[16];
	struct tm day;

	snprintf(version, sizeof(version), "%u.%u.%u", v >> 16 & 255, v >> 8 & 255, v & 255);
	strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &day));
	uname(&name);
	return json_pack("{s:i, s:s, s:s, s:{s:s, s:s, s:I, s:f}, s:s, s:s, s:i, s:b, s:o}",
			 "version", 2, "runnel", version, "date", date, "machine", "machine",
			 name.machine, "kernel", name.release, "cpus",
			 (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "load", load, "device",
			 opt->info.name, "device_name", opt->device, "runs", (int)opt->runs,
			 "quick", opt->quick, "lines", lines);
}

bool bench_json(const struct bench_options *opt, double load, struct bench_line *const *lines,
		size_t nr)
{
	FILE *out = fopen(opt->json, "w");
	json_t *array = json_array(), *all;
	bool good;

	if (!out) {
		json_decref(array);
		return false;
	}
	for (size_t i = 0; i < nr; i++)
		json_array_append_new(array, line_of(lines[i]));
	all = all_of(opt, load, array);
	good = all && !json_dumpf(all, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) &&
	       fputc('\n', out) != EOF;
	json_decref(all);
	return !fclose(out) && good;
}
