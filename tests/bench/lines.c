/* SPDX-License-Identifier: MIT */
/* Figures and medians, each side's best variant, goals, and the printed table. */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_percentile(double *values, size_t nr, double percent)
{
	qsort(values, nr, sizeof(*values), by_value);
	return values[(size_t)((double)nr * percent / 100)];
}

struct bench_summary bench_summary(const struct bench_figure *figure)
{
	double values[BENCH_RUNS_MAX];
	const unsigned nr = figure->nr;

	memcpy(values, figure->runs, sizeof(values));
	qsort(values, nr, sizeof(*values), by_value);
	return (struct bench_summary){
		.median = nr % 2 ? values[nr / 2] : (values[nr / 2 - 1] + values[nr / 2]) / 2,
		.min = values[0],
		.max = values[nr - 1],
	};
}

struct bench_line *bench_line(const struct bench_run *run, unsigned quantity, const char *format,
			      ...)
{
	struct bench_line *line = bench_alloc(sizeof(*line));
	va_list args;
	int nr;

	line->row = run->row;
	line->of = &run->row->lines[quantity];
	line->goal = line->of->goal;
	line->goal_value = line->of->value;
	nr = snprintf(line->what, sizeof(line->what), "%s%s", line->of->what, run->at);
	va_start(args, format);
	vsnprintf(line->what + nr, sizeof(line->what) - (size_t)nr, format, args);
	va_end(args);
	return line;
}

struct bench_figure *bench_figure(struct bench_line *line, enum bench_side side,
				  const char *variant)
{
	struct bench_figure *figure = &line->figures[line->nr];

	bench_must(line->nr < BENCH_FIGURES_MAX, "space for one more figure");
	line->nr++;
	figure->side = side;
	snprintf(figure->variant, sizeof(figure->variant), "%s", variant);
	return figure;
}

void bench_add(struct bench_figure *figure, double value)
{
	if (figure->nr < BENCH_RUNS_MAX && !isnan(value))
		figure->runs[figure->nr++] = value;
}

void bench_line_tell(const struct bench_run *run, struct bench_line *line)
{
	bench_tell(run->out, line, sizeof(*line));
	free(line);
}

/* ---- best figures and goals -------------------------------------------------------- */

static bool counts(const struct bench_figure *figure)
{
	return figure->nr && !figure->screened;
}

const struct bench_figure *bench_best(const struct bench_line *line, enum bench_side side)
{
	const struct bench_figure *best = NULL;
	double median = 0;

	for (unsigned i = 0; i < line->nr; i++) {
		const struct bench_figure *figure = &line->figures[i];
		double value;

		if (figure->side != side || !counts(figure))
			continue;
		value = bench_summary(figure).median;
		if (best && (line->of->more_is_better ? value <= median : value >= median))
			continue;
		best = figure;
		median = value;
	}
	return best;
}

static double best_of(const struct bench_line *line, enum bench_side side)
{
	const struct bench_figure *best = bench_best(line, side);

	return best ? bench_summary(best).median : (double)NAN;
}

double bench_line_goal(const struct bench_line *line)
{
	/* A part of a rate, or the time that corresponds to that part of a rate. */
	const double part = line->of->more_is_better ? line->goal_value : 1 / line->goal_value;

	switch (line->goal) {
	case BENCH_OF_HAND:
		return part * best_of(line, BENCH_HAND);
	case BENCH_OF_PEER:
		return part * best_of(line, BENCH_PEER);
	case BENCH_OF_CEILING:
		return part * best_of(line, BENCH_CEILING);
	case BENCH_HAND_PLUS:
		return line->goal_value + best_of(line, BENCH_HAND);
	case BENCH_ABSOLUTE:
		return line->goal_value;
	default:
		return (double)NAN;
	}
}

int bench_line_met(const struct bench_line *line)
{
	const double goal = bench_line_goal(line), value = best_of(line, BENCH_RUNNEL);

	if (isnan(goal) || isnan(value))
		return -1;
	return line->of->more_is_better ? value >= goal : value <= goal;
}

/* ---- the table ----------------------------------------------------------- */

static int digits(double value)
{
	return fabs(value) < 10 ? 2 : fabs(value) < 1000 ? 1 : 0;
}

static void print_best(const struct bench_figure *best, int width)
{
	char text[96] = "-";

	if (best) {
		const double value = bench_summary(best).median;

		snprintf(text, sizeof(text), "%.*f (%s)", digits(value), value, best->variant);
	}
	printf(" %-*s |", width, text);
}

void bench_print_head(const struct bench_options *opt, double load)
{
	const uint32_t v = rnl_version();

	printf("bench: runnel %u.%u.%u on %s (%s), medians of %u run%s, %ld CPUs, load %.1f at the "
	       "start\n\n",
	       v >> 16 & 255, v >> 8 & 255, v & 255, opt->info.name, opt->device, opt->runs,
	       opt->runs > 1 ? "s" : "", sysconf(_SC_NPROCESSORS_ONLN), load);
	printf("| %-52s | %-7s | %-32s | %-30s | %-32s | ratio | %-9s | met | others |\n", "what",
	       "unit", bench_gpu_begin ? "hand-written, the best of it" : "peers, the best of them",
	       "ceiling", "runnel", "target");
	puts("|---|---|---|---|---|---|---|---|---|");
	fflush(stdout);
}

static const char *const sides[BENCH_SIDES] = {
	"hand-written", "peer", "ceiling", "other", "runnel"
};

static void print_figures(const struct bench_line *line)
{
	for (unsigned i = 0; i < line->nr; i++) {
		const struct bench_figure *figure = &line->figures[i];
		struct bench_summary sum;

		if (!figure->nr)
			continue;
		sum = bench_summary(figure);
		printf("    %-12s %-32s %10.*f", sides[figure->side], figure->variant,
		       digits(sum.median), sum.median);
		if (figure->screened)
			puts("  (screened once)");
		else
			printf("  %.*f to %.*f\n", digits(sum.min), sum.min, digits(sum.max),
			       sum.max);
	}
}

/* Prints how many times better runnel is; "-" if there is nothing to compare, or both are 0. */
static void print_ratio(const struct bench_line *line, const struct bench_figure *beside)
{
	const struct bench_figure *runnel = bench_best(line, BENCH_RUNNEL);
	const double a = runnel ? bench_summary(runnel).median : 0;
	const double b = beside ? bench_summary(beside).median : 0;

	if (!runnel || !beside || (a == 0 && b == 0))
		printf(" %-5s |", "-");
	else
		printf(" %-5.2f |", line->of->more_is_better ? a / b : b / a);
}

/* Prints figures that are not in the columns, except hand-written ones and ceilings. */
static void print_others(const struct bench_line *line, const struct bench_figure *beside)
{
	const struct bench_figure *runnel = bench_best(line, BENCH_RUNNEL);
	const char *comma = "";

	for (unsigned i = 0; i < line->nr; i++) {
		const struct bench_figure *figure = &line->figures[i];
		double value;

		if (figure == beside || figure == runnel || !counts(figure) ||
		    figure->side == BENCH_HAND || figure->side == BENCH_CEILING)
			continue;
		value = bench_summary(figure).median;
		printf("%s %.*f (%s)", comma, digits(value), value, figure->variant);
		comma = ",";
	}
	if (line->note[0])
		printf("%s %s", comma, line->note);
	else if (!comma[0])
		fputs(" -", stdout);
	puts(" |");
}

void bench_line_print(const struct bench_options *opt, const struct bench_line *line)
{
	/* Runnel is compared with a peer if the goal is to be faster than the peers. */
	const struct bench_figure *hand = bench_best(line, BENCH_HAND);
	const struct bench_figure *peer = bench_best(line, BENCH_PEER);
	const struct bench_figure *ceiling = bench_best(line, BENCH_CEILING);
	const struct bench_figure *beside = line->goal == BENCH_OF_PEER || !hand ? peer : hand;
	const double goal = bench_line_goal(line);
	const int met = bench_line_met(line);
	char target[24] = "-";

	if (!isnan(goal))
		snprintf(target, sizeof(target), "%s %.*f", line->of->more_is_better ? ">=" : "<=",
			 digits(goal), goal);
	printf("| %-52s | %-7s |", line->what, line->of->unit);
	print_best(beside, 32);
	print_best(ceiling, 30);
	print_best(bench_best(line, BENCH_RUNNEL), 32);
	print_ratio(line, line->goal == BENCH_OF_CEILING || !beside ? ceiling : beside);
	printf(" %-9s | %-3s |", target, met < 0 ? "-" : met ? "yes" : "no");
	print_others(line, beside);
	if (opt->all)
		print_figures(line);
	fflush(stdout);
}

bool bench_left_out(const struct bench_options *opt, const struct bench_row *row)
{
	return row->gpus > opt->nr_gpus || (row->by & BENCH_BY_GPUS && !opt->nr_by_gpus);
}

/* Prints each name once: rows that share a name are adjacent. */
static void print_left_out(const struct bench_options *opt)
{
	const char *last = "";

	for (unsigned i = 0; bench_rows[i].name; i++) {
		const struct bench_row *row = &bench_rows[i];

		if (!opt->rows[i] || !bench_left_out(opt, row) || !strcmp(row->name, last))
			continue;
		last = row->name;
		printf("%s: left out, it takes more GPUs\n", last);
	}
}

void bench_print_end(const struct bench_options *opt, size_t nr, double seconds, bool good)
{
	putchar('\n');
	print_left_out(opt);
	for (unsigned i = 0; !bench_gpu_begin && bench_pools[i].name; i++) {
		const struct bench_pool *pool = &bench_pools[i];

		if (opt->peers[i] && !pool->peer)
			printf("%s: not built, %s\n", pool->label, pool->missing);
		else if (opt->peers[i] && pool->note)
			printf("%s: %s\n", pool->label, pool->note);
	}
	printf("bench: %zu lines in %.0f s%s\n", nr, seconds,
	       good ? "" : "; something failed, see above");
}

bool bench_flush(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	fprintf(stderr, "bench: standard output: %s\n", strerror(errno));
	return false;
}

/* ---- the list of rows --------------------------------------------- */

static void print_quantity(const struct bench_quantity *of)
{
	static const char *const beside[] = {
		[BENCH_OF_HAND] = " x hand-written", [BENCH_OF_PEER] = " x the best peer",
		[BENCH_OF_CEILING] = " x the ceiling",
		[BENCH_OF_SCALING] = " of the scaling by hand", [BENCH_HAND_PLUS] = " more than hand-written",
		[BENCH_ABSOLUTE] = ""
	};

	printf("    %s", of->what);
	if (of->unit[0])
		printf(", %s", of->unit);
	if (of->goal != BENCH_NO_GOAL)
		printf(": %s %g%s", of->more_is_better ? ">=" : "<=", of->value, beside[of->goal]);
	putchar('\n');
}

bool bench_print_rows(void)
{
	for (const struct bench_row *row = bench_rows; row->name; row++) {
		if (!row->work)
			continue;
		printf("%-11s %s\n", row->name, row->about);
		for (unsigned i = 0; i < BENCH_LINES && row->lines[i].what; i++)
			print_quantity(&row->lines[i]);
		for (unsigned i = 0; i < BENCH_WAYS && row->ways[i].name; i++)
			printf("        %s: %s\n", sides[row->ways[i].side], row->ways[i].name);
	}
	return bench_flush();
}
