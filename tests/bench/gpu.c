/* SPDX-License-Identifier: MIT */
/*
 * make bench-gpu: runnel on a GPU beside hand-written code, and what the hardware lets
 * one do.
 *
 *	tests/bench/gpu [OPTION]...		--help names them
 *
 * DESIGN
 *	This process never touches CUDA.  Each part of a line has a process of its
 *	own, in which hand-written variants and runnel's take turns, run by run, on
 *	threads and streams that all are there from the beginning to the end.  They
 *	issue J with the same function; every return code is looked at, every job's
 *	result too, and a wrong one ends the part: it is never a figure.
 *	A row is printed when it comes, so what is measured is not lost by what
 *	fails later.  A part that hangs is ended by its alarm.
 */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#define ROWS_MAX 128

const char *const bench_name = "gpu";

const struct gpu_line *const gpu_lines[GPU_LINES + 1] = {
	&gpu_jobs, &gpu_batch, &gpu_latency, &gpu_inflight, &gpu_urgent, &gpu_join, &gpu_submit, &gpu_cpu,
	&gpu_chunks, &gpu_trace, NULL,
};

struct table {
	const struct gpu_options *opt;
	uint64_t start;
	const struct gpu_line *line;
	unsigned part;
	double load;
	struct gpu_row *rows;
	size_t nr;
	bool good;
};

static void taken(void *arg, void *piece)
{
	struct table *table = arg;
	const struct gpu_row *row = piece;

	gpu_row_print(table->opt, row);
	if (table->nr == ROWS_MAX)
		return;
	table->rows[table->nr++] = *row;
	if (!table->opt->json || gpu_json(table->opt, table->load, table->rows, table->nr))
		return;
	fprintf(stderr, "gpu: %s could not be written\n", table->opt->json);
	table->good = false;
}

static void measure(void *arg, int out)
{
	const struct table *table = arg;
	const struct gpu_run run = { table->opt, table->part, out };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	table->line->measure(&run);
	fflush(NULL);
	_exit(EXIT_SUCCESS);	/* CUDA is not to be taken down in order */
}

static double seconds(const struct table *table)
{
	return (double)(bench_now() - table->start) * 1e-9;
}

static void run_line(struct table *table, const struct gpu_line *line)
{
	const unsigned parts = line->parts ? line->parts(table->opt) : 1;

	table->line = line;
	for (table->part = 0; table->part < parts; table->part++) {
		const double left = fmax(table->opt->seconds - seconds(table), 0);
		const unsigned patience_s = left < line->patience_s ? (unsigned)left + 1 :
								      line->patience_s;
		int nr = 0;
		const char *what = "not begun, its seconds are over:";

		if (left > 0)
			what = bench_child(measure, taken, table, sizeof(struct gpu_row),
					   patience_s, &nr);
		if (!what)
			continue;
		fprintf(stderr, "gpu: %s, part %u of %u: %s %d\n", line->name, table->part + 1,
			parts, what, nr);
		table->good = false;
	}
}

/* ---- the device ---------------------------------------------------------- */

struct answer {
	struct rnl_device_info info;
	int ret;
};

static void ask(void *arg, int out)
{
	const struct gpu_options *opt = arg;
	struct answer answer = { .info = RNL_DEVICE_INFO_INIT };

	answer.ret = rnl_device_info(opt->device, &answer.info);
	bench_tell(out, &answer, sizeof(answer));
	_exit(EXIT_SUCCESS);
}

static void answered(void *arg, void *piece)
{
	struct gpu_options *opt = arg;
	const struct answer *answer = piece;

	if (answer->ret) {
		fprintf(stderr, "gpu: there is no device \"%s\" here: %s\n", opt->device,
			rnl_strerror(answer->ret));
		exit(GPU_EXIT_SKIP);
	}
	opt->info = answer->info;
	opt->ordinal = answer->info.ordinal;
}

static void find_device(struct gpu_options *opt)
{
	int nr = 0;
	const char *what = bench_child(ask, answered, opt, sizeof(struct answer), 60, &nr);

	if (!what)
		return;
	fprintf(stderr, "gpu: the device \"%s\": %s %d\n", opt->device, what, nr);
	exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	struct gpu_options opt;
	struct table table = { .opt = &opt, .start = bench_now(), .good = true };

	gpu_options_parse(&opt, argc, argv);
	find_device(&opt);
	/* What is measured sets it, or leaves it alone, by itself. */
	unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
	table.rows = bench_alloc(ROWS_MAX * sizeof(*table.rows));
	if (getloadavg(&table.load, 1) != 1)
		table.load = 0;
	if (opt.json && !gpu_json(&opt, table.load, NULL, 0)) {
		fprintf(stderr, "gpu: %s could not be written\n", opt.json);
		return EXIT_FAILURE;
	}
	gpu_rows_head(&opt, table.load);
	for (unsigned i = 0; gpu_lines[i]; i++)
		if (opt.lines[i])
			run_line(&table, gpu_lines[i]);
	printf("\ngpu: %zu rows in %.0f s%s\n", table.nr, seconds(&table),
	       table.good ? "" : "; something failed, see above");
	free(table.rows);
	if (fflush(stdout) || ferror(stdout)) {
		fputs("gpu: standard output could not be written\n", stderr);
		return EXIT_FAILURE;
	}
	return table.good ? EXIT_SUCCESS : EXIT_FAILURE;
}
