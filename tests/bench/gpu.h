/* SPDX-License-Identifier: MIT */
/*
 * make bench-gpu: what is asked for, what is measured, and what came of it.
 *
 *	gpu.c, gpu_options.c	main(); the command line
 *	gpu_rows.c, gpu_json.c	what a row says; the table; JSON
 *	gpu_jobs.c		line: J, many of them (the work is in gpu_work.h)
 *	gpu_batch.c		line: small requests through a batcher
 *	gpu_latency.c		line: J, one at a time
 *	gpu_inflight.c		line: kernels in flight
 *	gpu_urgent.c		line: an urgent kernel under a flood
 *	gpu_join.c		line: a join on the device
 *	gpu_submit.c		line: submits with many workers
 *	gpu_cpu.c		line: what waiting costs
 *	gpu_chunks.c		line: a large array in chunks
 *	gpu_trace.c		line: what a trace costs
 *
 * DESIGN
 *	A line is one or several rows of the table, and a process of its own for
 *	each part of it.  A row has figures: a variant of hand-written code, of
 *	other pools, of a ceiling or of runnel, measured so often as there were
 *	runs.  Of each side the variant with the best median counts.  Many variants
 *	are screened in one short run, and only the best of these are measured.
 */
#ifndef GPU_H
#define GPU_H

#include <math.h>
#include <stdio.h>

#include <runnel.h>

#include "bench.h"

#define GPU_EXIT_SKIP 77
#define GPU_RUNS_MAX 15
#define GPU_FIGURES_MAX 96
#define GPU_THREADS_MAX 32
#define GPU_LINES 10

enum gpu_side {
	GPU_HAND,			/* hand-written */
	GPU_PEER,			/* a pool as most programs have one */
	GPU_CEILING,			/* what the hardware lets one do */
	GPU_RUNNEL,
	GPU_SIDES
};

enum gpu_goal {				/* of runnel's best; goal_value is ... */
	GPU_NO_GOAL,
	GPU_OF_HAND,			/* ... that part of the hand-written best */
	GPU_OF_PEER,			/* ... that part of the peers' best */
	GPU_OF_CEILING,			/* ... that part of the ceiling */
	GPU_HAND_PLUS,			/* ... so much above the hand-written best, at most */
	GPU_ABSOLUTE			/* ... the goal itself */
};

struct gpu_figure {
	char variant[40];
	uint32_t side;			/* enum gpu_side */
	uint32_t screened;		/* it was not among the best, and counts for nothing */
	uint32_t nr;
	uint32_t unused;
	double runs[GPU_RUNS_MAX];
};

/* As it goes through the pipe. */
struct gpu_row {
	char line[16];
	char what[64];
	char unit[12];
	uint32_t more_is_better;
	uint32_t goal;			/* enum gpu_goal */
	uint32_t nr;
	double goal_value;
	struct gpu_figure figures[GPU_FIGURES_MAX];
};

struct gpu_options {
	char device[32];
	int ordinal;			/* of it */
	struct rnl_device_info info;	/* of it, once main() has asked */
	unsigned runs;
	unsigned run_ms, screen_ms;	/* of a line that goes for some time */
	unsigned samples;		/* of a latency, in a run */
	unsigned seconds;		/* after which no part begins any more */
	unsigned threads[8], nr_threads; /* of the line jobs */
	bool lines[GPU_LINES];
	bool quick, all;
	const char *json;		/* a file, or NULL */
};

/* In the line's process. */
struct gpu_run {
	const struct gpu_options *opt;
	unsigned part;
	int out;
};

struct gpu_line {
	const char *name;		/* as --lines has it */
	unsigned patience_s;		/* of a part; it takes less by far */
	unsigned (*parts)(const struct gpu_options *opt); /* NULL: one */
	void (*measure)(const struct gpu_run *run);
};

/* Ends with a NULL, in the order of the table. */
extern const struct gpu_line *const gpu_lines[GPU_LINES + 1];
extern const struct gpu_line gpu_jobs, gpu_batch, gpu_latency, gpu_inflight, gpu_urgent, gpu_join,
	gpu_submit, gpu_cpu, gpu_chunks, gpu_trace;

/* Ends the process when the command line is wrong, or asks for help. */
void gpu_options_parse(struct gpu_options *opt, int argc, char **argv);

/* ---- gpu_rows.c ---------------------------------------------------------- */

/* A row of the heap, without figures. */
struct gpu_row *gpu_row_new(const char *line, const char *unit, bool more_is_better,
			    enum gpu_goal goal, double goal_value, const char *format, ...)
	__attribute__((format(printf, 6, 7)));

/* A figure of it, without a run. */
struct gpu_figure *gpu_row_figure(struct gpu_row *row, enum gpu_side side, const char *variant);

static inline void gpu_figure_add(struct gpu_figure *figure, double value)
{
	if (figure->nr < GPU_RUNS_MAX)
		figure->runs[figure->nr++] = value;
}

/* To the parent, which prints it; frees it. */
void gpu_row_tell(const struct gpu_run *run, struct gpu_row *row);

double gpu_figure_median(const struct gpu_figure *figure);

/* The best of a side by its median; NULL if it has none. */
const struct gpu_figure *gpu_row_best(const struct gpu_row *row, enum gpu_side side);

/* What runnel's best is to reach; NAN if nothing. */
double gpu_row_goal(const struct gpu_row *row);

/* 1, 0; -1 there is nothing to be met, or nobody to meet it. */
int gpu_row_met(const struct gpu_row *row);

/* In Markdown, so that it can go into docs/measurements.md as it is. */
void gpu_rows_head(const struct gpu_options *opt, double load);
void gpu_row_print(const struct gpu_options *opt, const struct gpu_row *row);

/* ---- gpu_json.c ---------------------------------------------------------- */

bool gpu_has_json(void);

/* Writes the file anew with all rows so far.  Return: whether it could be written. */
bool gpu_json(const struct gpu_options *opt, double load, const struct gpu_row *rows, size_t nr);

#endif
