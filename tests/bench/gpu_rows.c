/* SPDX-License-Identifier: MIT */
/* Rows of the table: who is the best of a side, whether a goal was met, how it is printed. */
#include "gpu.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gpu_row *gpu_row_new(const char *line, const char *unit, bool more_is_better,
			    enum gpu_goal goal, double goal_value, const char *format, ...)
{
	struct gpu_row *row = bench_alloc(sizeof(*row));
	va_list args;

	snprintf(row->line, sizeof(row->line), "%s", line);
	snprintf(row->unit, sizeof(row->unit), "%s", unit);
	va_start(args, format);
	vsnprintf(row->what, sizeof(row->what), format, args);
	va_end(args);
	row->more_is_better = more_is_better;
	row->goal = goal;
	row->goal_value = goal_value;
	return row;
}

struct gpu_figure *gpu_row_figure(struct gpu_row *row, enum gpu_side side, const char *variant)
{
	struct gpu_figure *figure = &row->figures[row->nr];

	bench_must(row->nr < GPU_FIGURES_MAX, "room for one more figure");
	row->nr++;
	figure->side = side;
	snprintf(figure->variant, sizeof(figure->variant), "%s", variant);
	return figure;
}

void gpu_row_tell(const struct gpu_run *run, struct gpu_row *row)
{
	bench_tell(run->out, row, sizeof(*row));
	free(row);
}

/* ---- what it says -------------------------------------------------------- */

static struct bench_summary summary(const struct gpu_figure *figure)
{
	double values[GPU_RUNS_MAX];

	memcpy(values, figure->runs, sizeof(values));
	return bench_summary(values, figure->nr);
}

double gpu_figure_median(const struct gpu_figure *figure)
{
	return summary(figure).median;
}

const struct gpu_figure *gpu_row_best(const struct gpu_row *row, enum gpu_side side)
{
	const struct gpu_figure *best = NULL;
	double median = 0;

	for (unsigned i = 0; i < row->nr; i++) {
		const struct gpu_figure *figure = &row->figures[i];
		double value;

		if (figure->side != side || figure->screened || !figure->nr)
			continue;
		value = gpu_figure_median(figure);
		if (best && (row->more_is_better ? value <= median : value >= median))
			continue;
		best = figure;
		median = value;
	}
	return best;
}

static double best_of(const struct gpu_row *row, enum gpu_side side)
{
	const struct gpu_figure *best = gpu_row_best(row, side);

	return best ? gpu_figure_median(best) : (double)NAN;
}

double gpu_row_goal(const struct gpu_row *row)
{
	/* 97 % as many, or so long that it would be 97 % as many. */
	const double part = row->more_is_better ? row->goal_value : 1 / row->goal_value;

	switch (row->goal) {
	case GPU_OF_HAND:
		return part * best_of(row, GPU_HAND);
	case GPU_OF_PEER:
		return part * best_of(row, GPU_PEER);
	case GPU_OF_CEILING:
		return part * best_of(row, GPU_CEILING);
	case GPU_HAND_PLUS:
		return row->goal_value + best_of(row, GPU_HAND);
	case GPU_ABSOLUTE:
		return row->goal_value;
	default:
		return (double)NAN;
	}
}

int gpu_row_met(const struct gpu_row *row)
{
	const double goal = gpu_row_goal(row), value = best_of(row, GPU_RUNNEL);

	if (isnan(goal) || isnan(value))
		return -1;
	return row->more_is_better ? value >= goal : value <= goal;
}

/* ---- the table ----------------------------------------------------------- */

static int digits(double value)
{
	return value < 10 ? 2 : value < 1000 ? 1 : 0;
}

/* The figure and whose it is, so wide that most rows stand below each other. */
static void print_best(const struct gpu_row *row, enum gpu_side side, int width)
{
	const struct gpu_figure *best = gpu_row_best(row, side);
	char text[96] = "-";

	if (best) {
		const double value = gpu_figure_median(best);

		snprintf(text, sizeof(text), "%.*f (%s)", digits(value), value, best->variant);
	}
	printf(" %-*s |", width, text);
}

void gpu_rows_head(const struct gpu_options *opt, double load)
{
	const uint32_t v = rnl_version();

	printf("gpu: runnel %u.%u.%u on %s (%s), medians of %u runs, %ld CPUs, load %.1f at the "
	       "start\n\n",
	       v >> 16 & 255, v >> 8 & 255, v & 255, opt->info.name, opt->device, opt->runs,
	       sysconf(_SC_NPROCESSORS_ONLN), load);
	printf("| %-47s | %-8s | %-32s | %-26s | %-32s | %-9s | met |\n", "what", "unit",
	       "hand-written, the best of it", "ceiling", "runnel", "target");
	puts("|---|---|---|---|---|---|---|");
	fflush(stdout);
}

static void print_figures(const struct gpu_row *row)
{
	static const char *const sides[GPU_SIDES] = { "hand-written", "peer", "ceiling", "runnel" };

	for (unsigned i = 0; i < row->nr; i++) {
		const struct gpu_figure *figure = &row->figures[i];
		struct bench_summary sum;

		if (!figure->nr)
			continue;
		sum = summary(figure);
		printf("    %-12s %-32s %10.*f", sides[figure->side], figure->variant,
		       digits(sum.median), sum.median);
		if (figure->screened)
			puts("  (screened once)");
		else
			printf("  %.*f to %.*f\n", digits(sum.min), sum.min, digits(sum.max),
			       sum.max);
	}
}

void gpu_row_print(const struct gpu_options *opt, const struct gpu_row *row)
{
	/* Peers are beside hand-written code where the goal is to be ahead of them. */
	const enum gpu_side beside = row->goal == GPU_OF_PEER ? GPU_PEER : GPU_HAND;
	const double goal = gpu_row_goal(row);
	const int met = gpu_row_met(row);
	char target[24] = "-";

	if (!isnan(goal))
		snprintf(target, sizeof(target), "%s %.*f", row->more_is_better ? ">=" : "<=",
			 digits(goal), goal);
	printf("| %-47s | %-8s |", row->what, row->unit);
	print_best(row, beside, 32);
	print_best(row, GPU_CEILING, 26);
	print_best(row, GPU_RUNNEL, 32);
	printf(" %-9s | %-3s |\n", target, met < 0 ? "-" : met ? "yes" : "no");
	if (opt->all)
		print_figures(row);
	fflush(stdout);
}
