/* SPDX-License-Identifier: MIT */
/*
 * make bench: the cost of an empty job, in runnel and in other pools; the cost of memory. make
 * bench-gpu: runnel on a GPU, compared with hand-written code and the hardware's limits.
 *
 *	tests/bench/bench [OPTION]...		--help names options and rows
 *	tests/bench/bench_gpu [OPTION]...
 *
 * DESIGN
 *	This process never uses CUDA and has one thread. Each part of a row has a process, in which
 *	the variants take turns, so other load on the machine affects all of them. Every return code
 *	is checked, and every job's result or count of runs: a wrong one ends the part and never
 *	gives a figure. A line is printed when it arrives, so a later failure does not lose it. A
 *	part that hangs is ended by its alarm.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel/device.h>

#define TABLE_LINES_MAX 320

struct table {
	const struct bench_options *opt;
	uint64_t start;
	const struct bench_row *row;
	unsigned part;
	double load;
	struct bench_line *lines[TABLE_LINES_MAX];
	size_t nr;
	bool good;
};

static void cannot_write(struct table *table)
{
	fprintf(stderr, "bench: %s could not be written\n", table->opt->json);
	table->good = false;
}

static void taken(void *arg, void *piece)
{
	struct table *table = arg;

	bench_line_print(table->opt, piece);
	if (table->nr == TABLE_LINES_MAX)
		return;
	table->lines[table->nr] = bench_alloc(sizeof(struct bench_line));
	memcpy(table->lines[table->nr++], piece, sizeof(struct bench_line));
	if (table->opt->json && !bench_json(table->opt, table->load, table->lines, table->nr))
		cannot_write(table);
}

/* ---- parts --------------------------------------------------------------- */

static const unsigned doubling[] = { 1, 2, 4, 8, 16 };
#define DOUBLINGS (sizeof(doubling) / sizeof(doubling[0]))

static unsigned parts(const struct bench_row *row, const struct bench_options *opt)
{
	return (row->by & BENCH_BY_THREADS ? opt->nr_threads : 1) *
	       (row->by & BENCH_BY_DOUBLING ? DOUBLINGS : 1) *
	       (row->by & BENCH_BY_CONFIG ? opt->nr_configs : 1) *
	       (row->by & BENCH_BY_GPUS ? opt->nr_by_gpus : 1) *
	       (row->by & BENCH_BY_KIND ? 2 : 1) * (row->by & BENCH_BY_PAUSE ? 2 : 1);
}

/* Returns the index of the part's value of a parameter, which has @nr values. */
static unsigned index_of(unsigned *part, unsigned nr)
{
	const unsigned index = *part % nr;

	*part /= nr;
	return index;
}

static void set_parameters(struct bench_run *run, unsigned part)
{
	const unsigned by = run->row->by;
	char *at = run->at;
	size_t room = sizeof(run->at);

	run->nr_gpus = run->row->gpus ? run->row->gpus : 1;
	if (by & BENCH_BY_GPUS) {
		run->nr_gpus = run->opt->by_gpus[index_of(&part, run->opt->nr_by_gpus)];
		at += snprintf(at, room, ", %u GPUs", run->nr_gpus);
		room -= (size_t)(at - run->at);
	}
	if (by & BENCH_BY_THREADS)
		run->threads = run->opt->threads[index_of(&part, run->opt->nr_threads)];
	if (by & BENCH_BY_DOUBLING)
		run->threads = doubling[index_of(&part, DOUBLINGS)];
	if (by & BENCH_BY_CONFIG)
		run->config = run->opt->configs[index_of(&part, run->opt->nr_configs)];
	if (by & BENCH_BY_PAUSE)
		run->paused = index_of(&part, 2);
	run->kind = part ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD;
	if (run->config.workers)
		snprintf(at, room, ", %u x %u", run->config.workers, run->config.producers);
	else if (by & BENCH_BY_KIND && run->threads)
		snprintf(at, room, ", %u, %s", run->threads, bench_kind_name(run->kind));
	else if (by & BENCH_BY_KIND)
		snprintf(at, room, ", %s", bench_kind_name(run->kind));
	else if (run->threads)
		snprintf(at, room, ", %u", run->threads);
}

/* Runs the row's ways from the table. */
static void run_ways(struct bench_run *run)
{
	const struct bench_row *row = run->row;
	struct bench_line *lines[BENCH_LINES];
	struct bench_way ways[BENCH_WAYS];
	unsigned nr_lines = 0, nr = 0;
	void *arg = row->work->open(run);

	if (!arg)
		return;
	while (nr_lines < BENCH_LINES && row->lines[nr_lines].what)
		nr_lines++;
	nr_lines /= row->by & BENCH_BY_PAUSE ? 2 : 1;
	for (unsigned i = 0; i < nr_lines; i++)
		lines[i] = bench_line(run, i + (run->paused ? nr_lines : 0), "%s", "");
	for (; nr < BENCH_WAYS && row->ways[nr].name; nr++) {
		const struct bench_side_of *way = &row->ways[nr];

		ways[nr] = (struct bench_way){ .measure = row->work->measure, .which = nr };
		for (unsigned i = 0; way->of[i]; i++)
			ways[nr].figures[i] = bench_figure(lines[way->of[i] - '0'], way->side,
							   way->name);
	}
	bench_turns(run, ways, nr, arg);
	if (row->work->close)
		row->work->close(arg, lines);
	for (unsigned i = 0; i < nr_lines; i++)
		bench_line_tell(run, lines[i]);
	/* Threads of a row on a GPU use it until the process ends. */
	if (!run->row->gpu)
		free(arg);
}

static void measure(void *arg, int out)
{
	const struct table *table = arg;
	struct bench_run run = { .opt = table->opt, .row = table->row, .out = out,
				 .runs = table->opt->runs };

	set_parameters(&run, table->part);
	if (run.row->gpu)
		bench_gpu_begin(run.opt->gpus, run.nr_gpus);
	if (run.row->work->run)
		run.row->work->run(&run);
	else
		run_ways(&run);
}

static double seconds(const struct table *table)
{
	return (double)(bench_now() - table->start) * 1e-9;
}

static void run_row(struct table *table, const struct bench_row *row)
{
	const unsigned nr_parts = parts(row, table->opt);

	table->row = row;
	for (table->part = 0; table->part < nr_parts; table->part++) {
		const double left = fmax(table->opt->seconds - seconds(table), 0);
		const unsigned patience_s = left < row->patience_s ? (unsigned)left + 1 :
								     row->patience_s;
		int nr = 0;
		const char *what = "not begun, its seconds are over:";

		if (left > 0)
			what = bench_child(measure, taken, table, sizeof(struct bench_line),
					   patience_s, &nr);
		if (!what)
			continue;
		fprintf(stderr, "bench: %s, part %u of %u: %s %d\n", row->name, table->part + 1,
			nr_parts, what, nr);
		table->good = false;
	}
}

/* ---- the device ---------------------------------------------------------- */

struct answer {
	struct rnl_device_info info;
	int ret, gpus[BENCH_GPUS_MAX];
	unsigned nr_gpus;
};

/* Finds the other GPUs that respond. */
static void find_gpus(struct answer *answer)
{
	struct rnl_device_info unused = RNL_DEVICE_INFO_INIT;
	const int first = answer->info.ordinal;
	char name[16];

	answer->gpus[answer->nr_gpus++] = first;
	for (int gpu = 0; answer->nr_gpus < BENCH_GPUS_MAX; gpu++) {
		snprintf(name, sizeof(name), "cuda:%d", gpu);
		if (gpu != first && rnl_device_describe(NULL, name, 0, &unused))
			break;
		if (gpu != first)
			answer->gpus[answer->nr_gpus++] = gpu;
	}
}

static void ask(void *arg, int out)
{
	const struct bench_options *opt = arg;
	struct answer answer = { .info = RNL_DEVICE_INFO_INIT };

	answer.ret = rnl_device_describe(NULL, opt->device, 0, &answer.info);
	if (!answer.ret && answer.info.cuda)
		find_gpus(&answer);
	bench_tell(out, &answer, sizeof(answer));
}

static void answered(void *arg, void *piece)
{
	struct bench_options *opt = arg;
	const struct answer *answer = piece;
	unsigned nr = 0;

	if (answer->ret) {
		fprintf(stderr, "bench: there is no device \"%s\" here: %s\n", opt->device,
			rnl_strerror(answer->ret));
		exit(BENCH_EXIT_SKIP);
	}
	opt->info = answer->info;
	opt->nr_gpus = answer->nr_gpus;
	memcpy(opt->gpus, answer->gpus, sizeof(opt->gpus));
	for (unsigned i = 0; i < opt->nr_by_gpus; i++)
		if (opt->by_gpus[i] > 1 && opt->by_gpus[i] <= opt->nr_gpus)
			opt->by_gpus[nr++] = opt->by_gpus[i];
	opt->nr_by_gpus = nr;
}

static void find_device(struct bench_options *opt)
{
	int nr = 0;
	const char *what = bench_child(ask, answered, opt, sizeof(struct answer), 60, &nr);

	if (!what)
		return;
	fprintf(stderr, "bench: the device \"%s\": %s %d\n", opt->device, what, nr);
	exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	static struct bench_options opt;
	static struct table table = { .opt = &opt, .good = true };

	table.start = bench_now();
	bench_options_parse(&opt, argc, argv);
	find_device(&opt);
	/* A part may set it. */
	unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
	if (getloadavg(&table.load, 1) != 1)
		table.load = 0;
	if (opt.json && !bench_json(&opt, table.load, NULL, 0)) {
		cannot_write(&table);
		return EXIT_FAILURE;
	}
	bench_print_head(&opt, table.load);
	for (unsigned i = 0; bench_rows[i].name; i++)
		if (opt.rows[i] && !bench_left_out(&opt, &bench_rows[i]))
			run_row(&table, &bench_rows[i]);
	bench_print_end(&opt, table.nr, seconds(&table), table.good);
	return bench_flush() && table.good ? EXIT_SUCCESS : EXIT_FAILURE;
}
