/* SPDX-License-Identifier: MIT */
/*
 * The framework of make bench and make bench-gpu.
 *
 *	main.c		the runner: a process for each part of a row
 *	table.c		the table of rows, and of peers
 *	options.c	the command line
 *	lines.c		figures, medians, printed lines
 *	json.c		the lines as JSON
 *	child.c		a process that sends its figures through a pipe
 *	rows/		measurements of rows: on the host, on any device, on a GPU
 *	peers/		other pools of threads
 *	gpu/		work on a GPU, by hand and by pools
 *
 * DESIGN
 *	A row of the table has quantities. A part of a row is one value of each parameter, and gives
 *	a line for each quantity. A line has figures: a variant of one side, measured once in each
 *	run. Each side's best median counts. In a run the variants take turns.
 *	A row is in a program if its work is linked.
 *
 * For C and C++.
 */
#ifndef BENCH_H
#define BENCH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <runnel.h>
#include <runnel/device.h>

#include "submits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_EXIT_USAGE 2
#define BENCH_EXIT_SKIP 77
#define BENCH_RUNS_MAX 99
#define BENCH_FIGURES_MAX 96
#define BENCH_VALUES 5		/* limit of values of one measurement */
#define BENCH_LINES 8		/* limit of quantities of a row */
#define BENCH_WAYS 13		/* limit of a row's variants in the table */
#define BENCH_THREADS_MAX 64
#define BENCH_LIST_MAX 16	/* values of a list option */
#define BENCH_ROWS_MAX 64
#define BENCH_PEERS_MAX 8
#define BENCH_GPUS_MAX 8

#if defined(__SANITIZE_THREAD__)
#define BENCH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BENCH_TSAN 1
#endif
#endif

enum bench_side {
	BENCH_HAND,		/* hand-written code that does the same work */
	BENCH_PEER,		/* another pool of threads */
	BENCH_CEILING,		/* limit of the hardware */
	BENCH_OTHER,		/* other work, or fewer GPUs: printed, no goal refers to it */
	BENCH_RUNNEL,
	BENCH_SIDES
};

enum bench_goal {		/* of runnel's best variant; the value is ... */
	BENCH_NO_GOAL,
	BENCH_OF_HAND,		/* ... a part of the best hand-written figure */
	BENCH_OF_PEER,		/* ... a part of the peers' best */
	BENCH_OF_CEILING,	/* ... a part of the ceiling */
	BENCH_OF_SCALING,	/* ... a part of the scaling by hand, over one GPU: gpu_scales() */
	BENCH_HAND_PLUS,	/* ... the largest excess over the hand-written best */
	BENCH_ABSOLUTE		/* ... the goal itself */
};

/* A row's parts: one for each value of these options, or of these lists. */
enum bench_by {
	BENCH_BY_THREADS = 1,		/* --threads */
	BENCH_BY_DOUBLING = 2,		/* 1, 2, 4, 8 and 16 threads */
	BENCH_BY_CONFIG = 4,		/* --configs */
	BENCH_BY_KIND = 8,		/* streams: per-thread, then private */
	BENCH_BY_PAUSE = 16,		/* immediately, then 1 ms later; own quantities */
	BENCH_BY_GPUS = 32		/* --gpus */
};

struct bench_run;
struct bench_line;

/* How a row is measured. */
struct bench_work {
	/* Returns the others' argument, from bench_alloc(), freed after close; NULL: no row. */
	void *(*open)(struct bench_run *run);
	/* Measures a way of the row once; values[i] is for the quantity named by its .of[i]. */
	void (*measure)(void *arg, unsigned way, double *values);
	/* Called before the lines are printed; may set their goals and notes. */
	void (*close)(void *arg, struct bench_line **lines);
	/* Replaces the functions above if the ways are not in the table. */
	void (*run)(struct bench_run *run);
};

struct bench_quantity {
	const char *what, *unit;
	enum bench_goal goal;
	double value;			/* of the goal */
	bool more_is_better;
};

struct bench_side_of {
	enum bench_side side;
	const char *name;
	const char *of;			/* "02": the values are of quantities 0 and 2 */
};

struct bench_row {
	const char *name;		/* as in --rows; adjacent rows may share it */
	const char *about;		/* what it measures */
	const struct bench_work *work;	/* NULL: not in this program */
	unsigned by;			/* enum bench_by */
	unsigned patience_s;		/* limit of a part, which takes much less */
	unsigned shift;			/* the way that the next run begins with */
	bool gpu;			/* the part's process uses CUDA itself, from its begin on */
	bool apart;			/* each measurement has its own process */
	unsigned gpus;			/* GPUs needed, else skipped; 0: one, or BENCH_BY_GPUS */
	struct bench_quantity lines[BENCH_LINES];
	struct bench_side_of ways[BENCH_WAYS];
};

struct bench_figure {
	char variant[40];
	enum bench_side side;
	bool screened;			/* measured once, not among the best: does not count */
	unsigned nr;
	double runs[BENCH_RUNS_MAX];
};

/* A line as sent through the pipe: both processes have the table at the same address. */
struct bench_line {
	const struct bench_row *row;
	const struct bench_quantity *of;
	char what[80];			/* with the values of its parameters */
	char note[80];
	enum bench_goal goal;
	double goal_value;
	unsigned nr;
	struct bench_figure figures[BENCH_FIGURES_MAX];
};

struct bench_config {
	unsigned workers, producers;
};

enum bench_wrong {			/* --wrong, for tests */
	BENCH_RIGHT,
	BENCH_RESULT,			/* results are compared with wrong values */
	BENCH_TWICE,			/* throughput: a job is submitted once more ... */
	BENCH_LOST			/* ... is not submitted */
};

struct bench_options {
	char device[32];
	struct rnl_device_info info;
	int gpus[BENCH_GPUS_MAX];	/* the chosen GPU, and the others that respond */
	unsigned nr_gpus;
	unsigned by_gpus[BENCH_LIST_MAX], nr_by_gpus;
	unsigned runs, seconds;
	unsigned run_ms, screen_ms;	/* of a measurement with a duration */
	unsigned samples;		/* of a latency on a GPU, per run */
	unsigned jobs, warm_samples, paused_samples, bursts, forks; /* of empty jobs */
	unsigned workers, latency_workers;
	unsigned threads[BENCH_LIST_MAX], nr_threads;
	struct bench_config configs[BENCH_LIST_MAX];
	unsigned nr_configs;
	bool rows[BENCH_ROWS_MAX], peers[BENCH_PEERS_MAX];
	bool quick, all;
	enum bench_wrong wrong;
	const char *json;		/* a file, or NULL */
	char **files;			/* for the row feed */
	int nr_files;
};

/* A part of a row, in its process. */
struct bench_run {
	const struct bench_options *opt;
	const struct bench_row *row;
	int out;
	unsigned runs;
	char at[40];			/* the part's parameters, appended to a line's "what" */
	unsigned nr_gpus;
	/* The row's parameters; others are 0. */
	unsigned threads;
	enum rnl_stream_kind kind;
	struct bench_config config;
	bool paused;
};

static inline const char *bench_kind_name(enum rnl_stream_kind kind)
{
	return kind == RNL_STREAM_PRIVATE ? "private" : "per-thread";
}

/* ---- table.c ------------------------------------------------------------- */

extern const struct bench_row bench_rows[];	/* ends with a NULL name */

struct bench_peer;
struct bench_pool {
	enum bench_side side;
	const char *name, *label;
	const char *missing;		/* how to get it built */
	const struct bench_peer *peer;	/* NULL: not built */
	const char *note;		/* remark on its figures, or NULL */
};
extern const struct bench_pool bench_pools[];	/* ends with a NULL name */

/* ---- rows/: measurements of rows; NULL: not in this program ---------------- */

extern const struct bench_work bench_throughput __attribute__((weak)),
	bench_handoff __attribute__((weak)), bench_return __attribute__((weak)),
	bench_burst __attribute__((weak)), bench_forkjoin __attribute__((weak)),
	bench_workers __attribute__((weak)),
	bench_jobs __attribute__((weak)), bench_gather __attribute__((weak)),
	bench_replay __attribute__((weak)),
	bench_batch __attribute__((weak)), bench_batch_512 __attribute__((weak)),
	bench_lone __attribute__((weak)), bench_preload __attribute__((weak)),
	bench_beside __attribute__((weak)), bench_beside_jobs __attribute__((weak)),
	bench_beside_copies __attribute__((weak)),
	bench_latency __attribute__((weak)), bench_inflight __attribute__((weak)),
	bench_urgent __attribute__((weak)), bench_join __attribute__((weak)),
	bench_stages __attribute__((weak)), bench_pipeline __attribute__((weak)),
	bench_hold __attribute__((weak)), bench_patterns __attribute__((weak)),
	bench_fan __attribute__((weak)),
	bench_submit __attribute__((weak)), bench_cpu __attribute__((weak)),
	bench_chunks __attribute__((weak)), bench_trace __attribute__((weak)),
	bench_devices __attribute__((weak)), bench_devices_map __attribute__((weak)),
	bench_devices_batch __attribute__((weak)), bench_peers __attribute__((weak)),
	bench_pinned __attribute__((weak)), bench_scratch __attribute__((weak)),
	bench_promises __attribute__((weak)), bench_feed __attribute__((weak)),
	bench_classes __attribute__((weak)), bench_classes_tail __attribute__((weak)),
	bench_classes_submit __attribute__((weak)), bench_copies __attribute__((weak)),
	bench_classes_memory __attribute__((weak)),
	bench_classes_takers __attribute__((weak)),
	bench_foreground __attribute__((weak)), bench_foreground_kept __attribute__((weak)),
	bench_overload __attribute__((weak)), bench_processes __attribute__((weak));

/* ---- gpu/gpu.c ----------------------------------------------------------- */

/*
 * Begins a part on @nr GPUs; the first one is current. NULL in the program of make bench, which
 * uses no GPU.
 */
void bench_gpu_begin(const int *gpus, unsigned nr) __attribute__((weak));

/* ---- options.c ----------------------------------------------------------- */

extern uint32_t bench_wrong_result;	/* 1: makes expected values wrong by 1 */

/* Ends the process if the command line is wrong, or asks for help. */
void bench_options_parse(struct bench_options *opt, int argc, char **argv);

/* ---- lines.c ------------------------------------------------------------- */

struct bench_summary {
	double median, min, max;
};
struct bench_summary bench_summary(const struct bench_figure *figure);

/* Sorts the values.  Returns the @percent-th percentile. */
double bench_percentile(double *values, size_t nr, double percent);

/* Makes a line of the row's quantity, on the heap; @format: text after run->at. */
struct bench_line *bench_line(const struct bench_run *run, unsigned quantity, const char *format,
			      ...) __attribute__((format(printf, 3, 4)));
struct bench_figure *bench_figure(struct bench_line *line, enum bench_side side,
				  const char *variant);
void bench_add(struct bench_figure *figure, double value);

/* Sends the line to the parent, which prints it; frees it. */
void bench_line_tell(const struct bench_run *run, struct bench_line *line);

/* Returns the figure of a side with the best median, or NULL. */
const struct bench_figure *bench_best(const struct bench_line *line, enum bench_side side);
double bench_line_goal(const struct bench_line *line);	/* NAN: none */
int bench_line_met(const struct bench_line *line);	/* 1, 0; -1: no goal, or no figure */

/* Prints Markdown, which can be copied to docs/measurements.md. */
void bench_print_head(const struct bench_options *opt, double load);
void bench_line_print(const struct bench_options *opt, const struct bench_line *line);
bool bench_print_rows(void);
bool bench_flush(void);			/* standard output; reports a write error */
bool bench_left_out(const struct bench_options *opt, const struct bench_row *row);
void bench_print_end(const struct bench_options *opt, size_t nr, double seconds, bool good);

/* ---- child.c ------------------------------------------------------------- */

/* A variant, which is measured in each run.  Value i goes to figure i. */
struct bench_way {
	void (*measure)(void *arg, unsigned which, double *values);
	unsigned which;
	struct bench_figure *figures[BENCH_VALUES];
	bool off;
};

/* Does all runs of all ways, which take turns. */
void bench_turns(const struct bench_run *run, const struct bench_way *ways, unsigned nr, void *arg);

/* Ends the process if a call failed. */
void bench_must(int good, const char *what);
void bench_rnl(int ret, const char *what);

/* Returns zeroed memory that begins on a cache line; free() frees it. */
void *bench_alloc(size_t bytes);

/*
 * Runs fn() in a separate process, which sends its results through the pipe @out. The parent has no
 * other thread, so fork() is enough. @taken: receives the pieces from the pipe, @bytes each.
 * @patience_s: the time limit; then the child is killed.
 * Returns NULL if the child succeeded; else its way of failing, and sets @nr.
 */
const char *bench_child(void (*fn)(void *arg, int out), void (*taken)(void *arg, void *piece),
			void *arg, size_t bytes, unsigned patience_s, int *nr);
void bench_tell(int out, const void *piece, size_t bytes);

void bench_sleep_ms(unsigned ms);

static inline uint64_t bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Pauses in a loop that polls a word. */
static inline void bench_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#endif
}

/* ---- json.c -------------------------------------------------------------- */

/*
 * Rewrites the file with all lines so far. Returns false if it could not be written. NULL if built
 * without jansson.
 */
bool bench_json(const struct bench_options *opt, double load, struct bench_line *const *lines,
		size_t nr) __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif
