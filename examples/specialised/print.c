/* SPDX-License-Identifier: MIT */
/*
 * specialised's output: the table and the picture.
 *
 * DESIGN
 * A panel of the picture is a kernel on one stream, or on all workers' streams, with one row per
 * worker and one bar per job's kernel.  All panels are on the same time scale, so the length of a
 * panel is the cost of its way.
 */
#include "config.h"

#include "common/program.h"
#include "common/timeline.h"
#include "specialised.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t slice_kb(const struct specialised *s)
{
	return (uint64_t)s->slice_tiles * SPECIALISED_TILE_BYTES >> 10;
}

void specialised_print_work(const struct specialised *s)
{
	printf("device:  %s, %u workers, %s streams\n", program_device_name(&s->info), s->workers,
	       s->stream == RNL_STREAM_PRIVATE ? "private" : "per-thread");
	printf("work:    %" PRIu64 " words ", s->nr_words);
	if (s->nr_files)
		printf("from %u file%s", s->nr_files, s->nr_files > 1 ? "s" : "");
	else
		printf("made by seed %" PRIu64, s->seed);
	printf(", fingerprints of %u words; %u slice%s of %" PRIu64 " KB, %u time%s%s\n", s->window,
	       s->nr_slices, s->nr_slices > 1 ? "s" : "", slice_kb(s), s->passes,
	       s->passes > 1 ? "s" : "", s->copies ? ", from the host and back" : "");
	printf("times:   medians of %u run%s, every word checked; GB/s of input\n\n", s->repeat,
	       s->repeat > 1 ? "s" : "");
	program_flush();
}

/* ---- the table ----------------------------------------------------------- */

static void print_row(const struct specialised *s, const char *name, const char *streams,
		      double ms)
{
	const double bytes = (double)s->nr_words * sizeof(uint32_t) * s->passes;

	printf("%-24s %-12s %9.3f %8.1f", name, streams, ms, bytes / ms / 1e6);
}

/* Prints some rows.  Returns the fastest time, or 0. */
static double print_alone(const struct specialised *s, const struct specialised_way *ways,
			  int first, int last)
{
	double best = 0;

	for (int i = first; i <= last; i++) {
		if (!ways[i].runs)
			continue;
		if (!best || ways[i].median < best)
			best = ways[i].median;
		print_row(s, ways[i].name, "workers'", ways[i].median);
		putchar('\n');
	}
	return best;
}

static void print_nearest(const struct specialised_way *ways, double limit, const char *part)
{
	const struct specialised_way *best = &ways[FIRST_WAY];

	for (int i = FIRST_WAY; i < NR_WAYS; i++)
		if (ways[i].runs && ways[i].median < best->median)
			best = &ways[i];
	printf("\nThe limit is the %s.  Nearest to it comes \"%s\" on %s, at %.1f %% of it.\n",
	       part, best->name, best->one_stream ? "one stream" : "the workers' streams",
	       100 * limit / best->median);
}

void specialised_print_all(const struct specialised *s, const struct specialised_way *ways)
{
	double memory, computing, bus, limit;

	printf("%-24s %-12s %9s %8s\n", "alone", "streams", "ms", "GB/s");
	memory = print_alone(s, ways, MEMORY_COPIES, MEMORY_BULK);
	computing = print_alone(s, ways, COMPUTING_PLAIN, COMPUTING_BULK);
	bus = print_alone(s, ways, BUS, BUS);
	limit = memory > computing ? memory : computing;
	limit = bus > limit ? bus : limit;
	printf("\n%-24s %-12s %9s %8s %14s\n", "kernel", "streams", "ms", "GB/s", "of the limit");
	print_row(s, "limit, the longest part", "", limit);
	printf(" %12.1f %%\n", 100.0);
	for (int i = FIRST_WAY; i < NR_WAYS; i++) {
		const char *streams = ways[i].one_stream ? "one" : "workers'";

		if (!ways[i].runs) {
			printf("%-24s %-12s %9s %8s %14s\n", ways[i].name, streams, "-", "-", "-");
			continue;
		}
		print_row(s, ways[i].name, streams, ways[i].median);
		printf(" %12.1f %%\n", 100 * limit / ways[i].median);
	}
	print_nearest(ways, limit, limit == bus ? "bus" : limit == memory ? "memory" : "computing");
	if (!s->info.cuda)
		puts("The host device runs the plain kernel alone.  Its streams are threads: CPUs\n"
		     "and caches decide their gain or loss.");
	else if (!ways[FIRST_WAY + 2].runs)
		puts("This GPU, or the code for it in this program, has no bulk copies (sm_90):\n"
		     "only the plain kernel runs.");
}

/* ---- the picture --------------------------------------------------------- */

static const struct timeline_colour colours[] = {
	{ "#2f6fb7", "a kernel" },
};

static int earlier(const void *a, const void *b)
{
	const struct timeline_bar *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

static void fill_panel(const struct specialised *s, const struct specialised_way *way,
		       unsigned row, struct timeline_bar *bars)
{
	uint64_t origin = UINT64_MAX;

	for (unsigned i = 0; i < s->nr_jobs; i++)
		origin = way->spans[i].begin < origin ? way->spans[i].begin : origin;
	for (unsigned i = 0; i < s->nr_jobs; i++) {
		const struct specialised_span *span = &way->spans[i];

		bars[i] = (struct timeline_bar){
			.row = row + (unsigned)span->worker,
			.begin = span->begin - origin,
			.end = span->end - origin,
		};
		snprintf(bars[i].title, sizeof(bars[i].title), "worker %d, job %u", span->worker,
			 i);
	}
	qsort(bars, s->nr_jobs, sizeof(*bars), earlier);
}

static void fill(const struct specialised *s, const struct specialised_way *ways,
		 struct timeline *t, struct timeline_row *rows, struct timeline_bar *bars,
		 char (*texts)[2][48])
{
	unsigned nr = 0;

	for (int i = FIRST_WAY; i < NR_WAYS; i++) {
		struct timeline_row *row = &rows[t->nr_rows];

		if (!ways[i].runs)
			continue;
		snprintf(texts[nr][0], sizeof(texts[nr][0]), "%s, %s", ways[i].name,
			 ways[i].one_stream ? "one stream" : "the workers' streams");
		snprintf(texts[nr][1], sizeof(texts[nr][1]), "%.2f ms", ways[i].median);
		row->heading = texts[nr][0];
		row->figure = texts[nr][1];
		fill_panel(s, &ways[i], t->nr_rows, &bars[t->nr_bars]);
		t->nr_rows += ways[i].one_stream ? 1 : s->workers;
		t->nr_bars += s->nr_jobs;
		nr++;
	}
}

int specialised_picture(const struct specialised *s, const struct specialised_way *ways)
{
	const size_t panels = NR_WAYS - FIRST_WAY;
	struct timeline_row *rows = calloc(panels * s->workers, sizeof(*rows));
	struct timeline_bar *bars = calloc(panels * s->nr_jobs, sizeof(*bars));
	char title[96], subtitle[160], texts[NR_WAYS - FIRST_WAY][2][48];
	struct timeline t = { title, subtitle, colours, rows, bars, 1, 0, 0 };
	int ret = -ENOMEM;

	snprintf(title, sizeof(title), "Fingerprints of %u words: %u kernels, each for %" PRIu64
		 " KB", s->window, s->nr_jobs, slice_kb(s));
	snprintf(subtitle, sizeof(subtitle), "%s, times of the device's own clock; a row is a "
		 "worker's stream, a bar a kernel", program_device_name(&s->info));
	if (rows && bars) {
		fill(s, ways, &t, rows, bars, texts);
		ret = timeline_write(s->svg, &t);
	}
	free(bars);
	free(rows);
	return ret;
}
