/* SPDX-License-Identifier: MIT */
/*
 * small_jobs: many small requests, each of which copies bytes to the device, runs a small kernel
 * and copies bytes back, by every way that runnel has for them: ways.c.
 *
 * DESIGN
 * All ways do the same work in one pool, one after the other, and every answer is checked.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "common/progress.h"
#include "small_jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <runnel/device.h>
#include <runnel/memory.h>

#define BYTES_MAX (64 << 10)
#define BAR 19				/* columns of the longest bar */
#define EXIT_INTERRUPTED 130

/* ---- options ------------------------------------------------------------- */

static const char doc[] =
	"Small requests, each bytes to the device, a kernel, bytes back: as single jobs, gathered, "
	"replayed, batched, and by a resident kernel.  Prints the rate of each way with many requests under way, and the "
	"latency of a lone request, and checks every answer.";

static const char *parse_way(void *to, const char *arg)
{
	static char text[256];

	snprintf(text, sizeof(text), "give one of");
	for (const struct small_way *way = small_ways; way->name; way++) {
		if (!strcmp(arg, way->name)) {
			*(const struct small_way **)to = way;
			return NULL;
		}
		strncat(text, way == small_ways ? " " : ", ", sizeof(text) - strlen(text) - 1);
		strncat(text, way->name, sizeof(text) - strlen(text) - 1);
	}
	return text;
}

static void parse_options(struct small *s, int argc, char **argv)
{
	const struct program_option table[] = {
		{ "bytes", 0, "SIZE", "bytes of a request, and of its answer, a multiple of 64 up to "
		  "64K; 4K", OPTION_SIZE(&s->bytes, SMALL_STEP * sizeof(uint32_t), BYTES_MAX) },
		{ "workers", 0, "N", "workers, each with a stream; 4",
		  OPTION_NUMBER(&s->workers, 1, PROGRAM_WORKERS_MAX) },
		{ "stream", 0, "S", "the workers' streams: per-thread (the default), or private",
		  OPTION_CHOICE(&s->stream, "per-thread|private") },
		{ "producers", 0, "N", "threads that send requests, for the rate; 2",
		  OPTION_NUMBER(&s->producers, 1, PROGRAM_WORKERS_MAX) },
		{ "under-way", 0, "N", "requests under way, of all producers together; 512",
		  OPTION_NUMBER(&s->under_way, 1, SMALL_UNDER_WAY_MAX) },
		{ "ms", 0, "N", "duration of each measurement, in milliseconds; 300",
		  OPTION_NUMBER(&s->ms, 1, 60000) },
		{ "only", 0, "WAY", "measure only this way", OPTION_PARSED(&s->only, parse_way) },
		OPTION_DEVICE(&s->device),
		{ "picture", 0, "FILE", "write a bar chart to FILE, as SVG",
		  OPTION_TEXT(&s->picture) },
		{ .name = NULL }
	};

	*s = (struct small){
		.device = "auto",
		.info = RNL_DEVICE_INFO_INIT,
		.stream = RNL_STREAM_PER_THREAD,
		.workers = 4,
		.producers = 2,
		.under_way = 512,
		.ms = 300,
		.bytes = 4096,
	};
	program_options(argc, argv, doc, table, NULL);
	if (s->producers > s->under_way)
		program_misuse("--producers=%u are more than --under-way=%u requests", s->producers,
			       s->under_way);
	program_device(s->device, &s->info);
	if (s->info.cuda && !small_kernel.cuda)
		program_die("this program was built without nvcc, and has no kernel for '%s': use "
			    "--device=host", s->device);
}

/* ---- the table ----------------------------------------------------------- */

static void print_setup(const struct small *s)
{
	printf("device:  %s, %u workers, %s streams\n", program_device_name(&s->info), s->workers,
	       s->stream == RNL_STREAM_PRIVATE ? "private" : "per-thread");
	printf("work:    %zu bytes to the device, a kernel, %zu bytes back; every answer checked\n",
	       s->bytes, s->bytes);
	printf("rate:    %u producers keep %u requests under way, for %u ms\n", s->producers,
	       s->under_way, s->ms);
	printf("latency: of one request at a time, for %u ms\n\n", s->ms);
	program_flush();
}

struct small_figures small_most(const struct small_figures *figures, unsigned nr)
{
	struct small_figures most = figures[0];

	for (unsigned i = 1; i < nr; i++) {
		most.per_s = figures[i].per_s > most.per_s ? figures[i].per_s : most.per_s;
		most.p50_us = figures[i].p50_us > most.p50_us ? figures[i].p50_us : most.p50_us;
		most.p99_us = figures[i].p99_us > most.p99_us ? figures[i].p99_us : most.p99_us;
	}
	return most;
}

/* Prints a bar: `#` up to @first, `-` up to @second; @most has BAR columns. */
static void print_bar(double first, double second, double most)
{
	for (int i = 0; i < BAR; i++)
		putchar(i < first / most * BAR ? '#' : i < second / most * BAR ? '-' : '.');
}

static void print_table(const struct small_figures *figures, unsigned nr)
{
	const struct small_figures most = small_most(figures, nr);

	printf("%-9s %10s %*s %8s %8s\n", "way", "thousand/s", BAR, "", "p50, us", "p99, us");
	for (unsigned i = 0; i < nr; i++) {
		const struct small_figures *f = &figures[i];

		printf("%-9s %10.1f ", f->way->name, f->per_s / 1e3);
		print_bar(f->per_s, 0, most.per_s);
		printf(" %8.1f %8.1f ", f->p50_us, f->p99_us);
		print_bar(f->p50_us, f->p99_us, most.p99_us);
		putchar('\n');
	}
	putchar('\n');
	for (unsigned i = 0; i < nr; i++)
		printf("%-9s %s%s\n", figures[i].way->name, figures[i].way->means, figures[i].note);
}

static void print_results(const struct small *s, const struct small_figures *figures, unsigned nr)
{
	const int ret = s->picture ? small_picture(s, figures, nr) : 0;

	print_table(figures, nr);
	if (ret)
		program_die("%s: %s", s->picture, strerror(-ret));
	if (s->picture)
		printf("\nThe picture is in %s.\n", s->picture);
}

/* ---- the program --------------------------------------------------------- */

/* Measures all ways that are wanted.  Returns their number, or 0 after a signal. */
static unsigned measure_all(struct small *s, struct small_figures *figures)
{
	unsigned nr = 0, nr_ways = 0;

	for (const struct small_way *way = small_ways; way->name; way++)
		nr_ways += !s->only || s->only == way;
	progress_begin("measuring", nr_ways, 1, "ways");
	for (const struct small_way *way = small_ways; way->name; way++) {
		if (s->only && s->only != way)
			continue;
		if (!small_measure(s, way, &figures[nr])) {
			program_warn("interrupted after %u of %u ways", nr, nr_ways);
			return 0;
		}
		progress_show(++nr);
	}
	return nr;
}

static void open_pool(struct small *s)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	void *mem = NULL;

	attr.nr_workers = s->workers;
	attr.device = s->device;
	attr.stream = s->stream;
	s->pool = program_pool(&attr);
	program_must(rnl_memory_get(s->pool, RNL_PINNED, 2 * s->bytes * s->under_way, &mem, 0),
		     "page-locked memory for all requests (try fewer --under-way)");
	s->memory = mem;
	s->requests = calloc(s->under_way, sizeof(*s->requests));
	program_must(s->requests ? 0 : -ENOMEM, "requests");
}

static void close_pool(struct small *s)
{
	rnl_memory_put(s->pool, s->memory);
	rnl_pool_destroy(s->pool);
	free(s->requests);
}

int main(int argc, char **argv)
{
	struct small_figures figures[SMALL_WAYS_MAX];
	struct small s;
	unsigned nr;

	program_begin();
	parse_options(&s, argc, argv);
	small_catch_signals();
	open_pool(&s);
	print_setup(&s);
	nr = measure_all(&s, figures);
	if (nr)
		print_results(&s, figures, nr);
	close_pool(&s);
	return nr ? EXIT_SUCCESS : EXIT_INTERRUPTED;
}
