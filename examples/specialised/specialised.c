/* SPDX-License-Identifier: MIT */
/*
 * specialised: one kernel, plain and warp-specialised, on one stream and on several.
 *
 * DESIGN
 * Copying and computing can overlap in two places: inside a kernel, and between kernels.  The
 * kernel computes, for each word of an array, a fingerprint of the words in a window.  Three
 * kernels do this, on one stream and on all workers' streams: the plain one; one with a producer
 * warp that copies ahead, and consumer warps; and that one in clusters.  The plain one runs twice:
 * with one block per tile, and with as few blocks as the others have, as if a block needed more
 * registers or shared memory.
 *
 * The limit is the time of the slowest part: reading and writing memory, or computing, or, with
 * --copies, the bus.  The same kernels measure each part separately.  With the smallest window they
 * compute almost nothing, which gives the time for memory.  On a few tiles that stay in the cache,
 * they give the time for computing.  The program first chooses the window for which both parts take
 * equally long: then overlap gains the most.
 *
 * Each turn runs all parts and ways, so a disturbance of the machine affects them all.  The first
 * turn warms up.  The output is spoilt before each way, and compared with the serial reference
 * after it, word by word.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "common/progress.h"
#include "specialised.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/device.h>
#include <runnel/thread.h>

#define JOBS_MAX (1 << 20)
#define WINDOW_MIN 4
#define WINDOW_TRIED 64		/* first window, to measure computing */

#define PLAIN .kernel = &specialised_plain
#define RING .kernel = &specialised_ring, .bulk = true
#define CLUSTER .kernel = &specialised_cluster, .bulk = true
static struct specialised_way ways[NR_WAYS] = {
	[MEMORY_COPIES] = { .name = "memory: rnl_copy()" },
	[MEMORY_PLAIN] = { .name = "memory: plain", PLAIN, .window = WINDOW_MIN },
	[MEMORY_BULK] = { .name = "memory: specialised", RING, .window = WINDOW_MIN },
	[COMPUTING_PLAIN] = { .name = "computing: plain", PLAIN, .in_cache = true },
	[COMPUTING_BULK] = { .name = "computing: specialised", RING, .in_cache = true },
	[BUS] = { .name = "bus: copies in and out", .copies = true },
	[FIRST_WAY] = { .name = "plain", PLAIN, .one_stream = true },
	{ .name = "plain, few blocks", PLAIN, .few = true, .one_stream = true },
	{ .name = "specialised", RING, .one_stream = true },
	{ .name = "in clusters", CLUSTER, .one_stream = true },
	{ .name = "plain", PLAIN },
	{ .name = "plain, few blocks", PLAIN, .few = true },
	{ .name = "specialised", RING },
	{ .name = "in clusters", CLUSTER },
};

/* ---- options ------------------------------------------------------------- */

static const char doc[] =
	"Computes a fingerprint of the words in a window, for each word of files or of an array "
	"made by a seed: by a plain kernel, by one with a producer warp and bulk copies, and by "
	"that one in clusters of blocks; each on one stream, and on several workers' streams.  "
	"Checks every word, and compares each with the limit.";

static void check_options(struct specialised *s)
{
	if (s->window % 4)
		program_misuse("'%u' is not good for --window: give a multiple of 4", s->window);
	program_device(s->device, &s->info);
	if (s->info.cuda && !specialised_has_cuda)
		program_die("this program was built without nvcc, and has no kernel for '%s': use "
			    "--device=host", s->device);
	if (!s->bytes)
		s->bytes = s->info.cuda ? 512 << 20 : 16 << 20;
	if (!s->slice_bytes)
		s->slice_bytes = s->info.cuda ? 32 << 20 : 1 << 20;
	if (!s->passes)
		s->passes = s->info.cuda ? 8 : 1;
}

static void parse_options(struct specialised *s, int argc, char **argv)
{
	struct program_operands files = { 0 };
	const uint64_t step = SPECIALISED_CLUSTER * SPECIALISED_TILE_BYTES;
	const struct program_option table[] = {
		{ "bytes", 0, "SIZE", "bytes of the array, if no files are given, a multiple of 4; "
		  "512M on a GPU, else 16M",
		  OPTION_SIZE(&s->bytes, sizeof(uint32_t), SPECIALISED_BYTES_MAX) },
		{ "seed", 0, "N", "seed of the array; 1",
		  OPTION_NUMBER(&s->seed, 0, UINT64_MAX) },
		{ "slice", 0, "SIZE", "bytes of a job, a multiple of 16K; 32M on a GPU, else 1M",
		  OPTION_SIZE(&s->slice_bytes, step, 1 << 30) },
		{ "passes", 0, "N", "times that a run does all of the work; 8 on a GPU, else 1",
		  OPTION_NUMBER(&s->passes, 1, 1000) },
		{ "window", 0, "N", "words of a fingerprint, a multiple of 4 up to 256; chosen so "
		  "that computing takes as long as copying",
		  OPTION_NUMBER(&s->window, WINDOW_MIN, SPECIALISED_WINDOW_MAX) },
		{ "blocks", 0, "N", "blocks per multiprocessor, for kernels with few blocks; 3",
		  OPTION_NUMBER(&s->blocks, 1, 32) },
		{ "copies", 0, NULL, "each job copies its slice from the host, and the result back",
		  OPTION_FLAG(&s->copies) },
		{ "workers", 0, "N", "threads, each with a stream; 4",
		  OPTION_NUMBER(&s->workers, 1, PROGRAM_WORKERS_MAX) },
		{ "stream", 0, "S", "the workers' streams: per-thread (the default), or private",
		  OPTION_CHOICE(&s->stream, "per-thread|private") },
		OPTION_DEVICE(&s->device),
		{ "repeat", 0, "N", "timed runs; the median is printed; 5",
		  OPTION_NUMBER(&s->repeat, 1, SPECIALISED_REPEAT_MAX) },
		{ "svg", 0, "FILE", "write a timeline of one more run of each kernel to FILE",
		  OPTION_TEXT(&s->svg) },
		{ .name = NULL }
	};

	*s = (struct specialised){
		.device = "auto",
		.info = RNL_DEVICE_INFO_INIT,
		.stream = RNL_STREAM_PER_THREAD,
		.workers = 4,
		.repeat = 5,
		.blocks = 3,
		.seed = 1,
	};
	program_options(argc, argv, doc, table, &files);
	s->files = files.names;
	s->nr_files = files.nr;
	check_options(s);
}

/* ---- the pools ----------------------------------------------------------- */

static struct rnl_pool *make_pool(const struct specialised *s, unsigned workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.nr_workers = workers;
	attr.device = s->device;
	attr.stream = s->stream;
	attr.scratch_keep = 2 * s->slice_bytes + (1 << 20);
	attr.pinned_max = s->nr_words * sizeof(uint32_t) * 5 / 2 + (256 << 20);
	return program_pool(&attr);
}

static void begin(struct specialised *s)
{
	uint64_t tiles;

	specialised_words_read(s);
	tiles = s->nr_words / SPECIALISED_TILE;
	s->slice_tiles = (uint32_t)(s->slice_bytes / SPECIALISED_TILE_BYTES);
	if (s->slice_tiles > tiles)
		s->slice_tiles = (uint32_t)tiles;
	s->nr_slices = (unsigned)((tiles + s->slice_tiles - 1) / s->slice_tiles);
	s->nr_jobs = s->nr_slices * s->passes;
	if ((uint64_t)s->nr_slices * s->passes > JOBS_MAX)
		program_die("%u slices, %u times, are too many jobs: try a larger --slice",
			    s->nr_slices, s->passes);
	s->one = make_pool(s, 1);
	s->many = make_pool(s, s->workers);
	program_must(rnl_thread_attach(s->many), "a stream for this thread");
	specialised_words_get(s);
}

static void end(struct specialised *s)
{
	for (int i = 0; i < NR_WAYS; i++)
		free(ways[i].spans);
	specialised_words_put(s);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(s->many);
	rnl_pool_destroy(s->one);
}

/* ---- measuring ----------------------------------------------------------- */

static void choose_ways(const struct specialised *s)
{
	const bool bulk = specialised_bulk(&s->info);

	for (int i = 0; i < NR_WAYS; i++) {
		ways[i].copies = i == BUS || (i >= FIRST_WAY && s->copies);
		ways[i].runs = (i != BUS || s->copies) && (!ways[i].bulk || bulk) &&
			       (!ways[i].few || s->info.cuda);
	}
}

static double fastest(struct specialised *s, int first, int last)
{
	double best = 0;

	for (int i = first; i <= last; i++) {
		double ms;

		if (!ways[i].runs)
			continue;
		specialised_run(s, &ways[i], false);	/* warms up */
		ms = specialised_run(s, &ways[i], false);
		best = !best || ms < best ? ms : best;
	}
	return best;
}

/* Finds the window for which computing takes as long as copying. */
static void calibrate(struct specialised *s)
{
	double window;

	s->window = WINDOW_TRIED;
	window = WINDOW_TRIED * fastest(s, MEMORY_COPIES, MEMORY_BULK) /
		 fastest(s, COMPUTING_PLAIN, COMPUTING_BULK);
	window = window < WINDOW_MIN ? WINDOW_MIN : window;
	window = window > SPECIALISED_WINDOW_MAX ? SPECIALISED_WINDOW_MAX : window;
	s->window = (uint32_t)(window + 2) / 4 * 4;
}

/* Returns milliseconds. */
static double measure(struct specialised *s, struct specialised_way *way)
{
	const bool whole = way - ways >= FIRST_WAY;
	uint64_t wrong;
	double ms;

	if (whole)
		specialised_spoil(s);
	ms = specialised_run(s, way, false);
	wrong = whole ? specialised_wrong(s, way) : 0;
	if (wrong)
		program_die("%s, %s: %" PRIu64 " of %" PRIu64 " words are wrong", way->name,
			    way->one_stream ? "one stream" : "workers", wrong, s->nr_words);
	return ms;
}

static void measure_all(struct specialised *s)
{
	progress_begin("measuring", (uint64_t)(s->repeat + 1) * NR_WAYS, 1, "runs");
	for (unsigned run = 0; run <= s->repeat; run++)	/* run 1 overwrites the warm-up */
		for (unsigned i = 0; i < NR_WAYS; i++) {
			if (ways[i].runs)
				ways[i].ms[run ? run - 1 : 0] = measure(s, &ways[i]);
			progress_show((uint64_t)run * NR_WAYS + i + 1);
		}
	for (int i = 0; i < NR_WAYS; i++) {
		if (!ways[i].runs)
			continue;
		ways[i].median = program_median(ways[i].ms, s->repeat);
		if (i >= FIRST_WAY && s->svg)
			specialised_time(s, &ways[i]);
	}
}

int main(int argc, char **argv)
{
	struct specialised s;
	int ret;

	program_begin();
	parse_options(&s, argc, argv);
	begin(&s);
	choose_ways(&s);
	if (!s.window)
		calibrate(&s);
	specialised_words_want(&s);
	specialised_print_work(&s);
	measure_all(&s);
	specialised_print_all(&s, ways);
	if (s.svg) {
		ret = specialised_picture(&s, ways);
		if (ret)
			program_die("%s: %s", s.svg, strerror(-ret));
		printf("\nThe timeline is in %s.\n", s.svg);
	}
	end(&s);
	return EXIT_SUCCESS;
}
