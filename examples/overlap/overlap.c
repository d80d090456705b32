/* SPDX-License-Identifier: MIT */
/*
 * overlap: the same work on one stream and on many, and the overlap of copies and kernels in time.
 *
 * DESIGN
 * The work is an array in chunks: each chunk is copied in, processed by a kernel, and copied out.
 * First the three stages are timed separately, each on one stream, and then both copies together,
 * because they share the bus.  The longest of the four times is the limit, because a GPU executes
 * one copy in, one kernel and one copy out at a time.  Then the whole work is done in several ways:
 * on one stream; by several threads on the legacy default stream, which CUDA code without streams
 * uses; and with rnl_map_start().
 *
 * At the start, the program makes the kernel take as long as the copy of a chunk: then overlap can
 * gain the most.  Each turn runs all stages and ways, so a disturbance of the machine affects all
 * of them.  The first turn warms up.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "common/progress.h"
#include "overlap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <runnel/device.h>
#include <runnel/map.h>
#include <runnel/thread.h>
#include <runnel/trace.h>

#define ROUNDS_MAX (1 << 24)
#define CHUNK_MAX (1 << 30)
#define SPARSE 1024
#define HOST_KERNEL 4	/* a kernel takes this many times as long as a copy */

enum { DENSE_CALLBACKS, SPARSE_CALLBACKS, NO_CALLBACKS };

static struct overlap_way ways[NR_WAYS] = {
	[COPIES_IN] = { .name = "copies in", .run = overlap_one_stream, .how = OVERLAP_IN },
	[COPIES_BOTH] = { .name = "copies in and out together", .run = overlap_both_copies },
	[KERNELS] = { .name = "kernels", .run = overlap_one_stream, .how = OVERLAP_KERNEL },
	[COPIES_OUT] = { .name = "copies out", .run = overlap_one_stream, .how = OVERLAP_OUT },
	[SERIAL] = { .name = "serial, one stream", .run = overlap_one_stream, .how = OVERLAP_ALL },
	[LEGACY] = { .name = "legacy default stream", .run = overlap_legacy },
	[BY_CHUNK] = { .name = "rnl_map, chunk by chunk", .run = overlap_map },
	[COPIES_FIRST] = { .name = "rnl_map, copies first", .run = overlap_map,
			   .how = RNL_MAP_COPIES_FIRST },
};

/* ---- options ------------------------------------------------------------- */

static const char doc[] =
	"Copies chunks to the device, runs a kernel on each that lasts as long as such a copy (on the "
	"host device four times as long), and copies them back: on one stream, on the legacy default "
	"stream, and with rnl_map_start().  "
	"Checks every word, and compares each way with the limit, which is the longest "
	"of the three stages.";

static void parse_options(struct overlap *o, int argc, char **argv)
{
	int callbacks = NO_CALLBACKS;
	const struct program_option table[] = {
		{ "chunks", 0, "N", "chunks; 96, on the host device 256",
		  OPTION_NUMBER(&o->nr_chunks, 1, 1 << 20) },
		{ "chunk", 0, "SIZE", "bytes of a chunk, a multiple of 4; 8M, on the host device 512K",
		  OPTION_SIZE(&o->chunk_bytes, sizeof(uint32_t), CHUNK_MAX) },
		{ "workers", 0, "N", "threads, each with a stream; 4",
		  OPTION_NUMBER(&o->workers, 1, PROGRAM_WORKERS_MAX) },
		{ "stream", 0, "S", "the workers' streams: per-thread (the default), or private",
		  OPTION_CHOICE(&o->stream, "per-thread|private") },
		OPTION_DEVICES(&o->device),
		{ "order", 0, "O", "only one order of rnl_map_start(): chunk (by chunk), or copies "
		  "(of two chunks first)", OPTION_CHOICE(&o->order, "chunk|copies") },
		{ "pageable", 0, NULL, "use arrays that are not page-locked",
		  OPTION_FLAG(&o->pageable) },
		{ "in-place", 0, NULL, "use one array instead of two", OPTION_FLAG(&o->in_place) },
		{ "halo", 0, "N", "rnl_map_start() adds N words of both neighbours to each chunk",
		  OPTION_NUMBER(&o->halo, 1, CHUNK_MAX / sizeof(uint32_t)) },
		{ "callbacks", 0, "KIND", "callbacks make rnl_map_start()'s input and check its "
		  "output, as if it came from files; sparse: only one word in 1024, which takes "
		  "almost no time; dense (the default): all words",
		  OPTION_MAY_CHOOSE(&callbacks, "dense|sparse") },
		{ "rounds", 0, "N", "rounds of the kernel; chosen to last as long as a copy, on "
		  "the host device as four",
		  OPTION_NUMBER(&o->rounds, 1, ROUNDS_MAX) },
		{ "repeat", 0, "N", "timed runs; the median is printed; 5",
		  OPTION_NUMBER(&o->repeat, 1, OVERLAP_REPEAT_MAX) },
		{ "trace", 0, "FILE", "write a trace of one more run of rnl_map_start() to FILE, "
		  "for runnel report and Perfetto, and print the overlap in the trace",
		  OPTION_TEXT(&o->trace) },
		{ .name = NULL }
	};

	*o = (struct overlap){
		.device = "auto",
		.info = RNL_DEVICE_INFO_INIT,
		.stream = RNL_STREAM_PER_THREAD,
		.order = OVERLAP_BOTH,
		.workers = 4,
		.repeat = 5,
	};
	program_options(argc, argv, doc, table, NULL);
	if (callbacks != NO_CALLBACKS)
		o->callback_step = callbacks == SPARSE_CALLBACKS ? SPARSE : 1;
	program_device(o->device, &o->info);
	/* A GPU's default work would take a few CPUs a minute. */
	if (!o->nr_chunks)
		o->nr_chunks = o->info.cuda ? 96 : 256;
	if (!o->chunk_bytes)
		o->chunk_bytes = o->info.cuda ? 8 << 20 : 512 << 10;
	if (o->halo > o->chunk_bytes / sizeof(uint32_t))
		program_misuse("--halo=%" PRIu64 " is more than a chunk has", o->halo);
	o->chunk = o->chunk_bytes / sizeof(uint32_t);
}

/* ---- measuring ----------------------------------------------------------- */

/* Returns milliseconds. */
static double measure(const struct overlap *o, const struct overlap_way *way)
{
	const bool by_callbacks = way->run == overlap_map && o->callback_step;
	const bool whole = !by_callbacks && way - ways >= SERIAL;
	const uint64_t nr = o->nr_chunks * o->chunk;
	uint64_t start, wrong;
	double ms;

	if (whole)	/* makes the input if in place, else spoils the output */
		overlap_words_make(o->out, 0, nr, 1);
	start = program_now_ns();
	program_must(way->run(o, way->how, NULL), way->name);
	ms = (double)(program_now_ns() - start) / 1e6;
	wrong = whole ? overlap_words_wrong(o, o->out, 0, nr, 1) : 0;
	if (wrong)
		program_die("%s: %" PRIu64 " of %" PRIu64 " words are wrong", way->name, wrong, nr);
	return ms;
}

/*
 * Finds the number of rounds that makes a kernel take as long as its chunk's copy in.  On the host
 * device a kernel takes longer: threads share the memory's bandwidth, so only computing overlaps.
 */
static void calibrate(struct overlap *o)
{
	double wanted;

	measure(o, &ways[SERIAL]);	/* warms up */
	wanted = measure(o, &ways[COPIES_IN]) * (o->info.cuda ? 1 : HOST_KERNEL);
	for (int i = 0; i < 20; i++) {
		const double factor = wanted / measure(o, &ways[KERNELS]);
		double rounds;

		if (factor > 0.95 && factor < 1.05)
			break;
		/* Grow in steps: while the kernel is memory-bound, more rounds cost no time. */
		rounds = o->rounds * (factor < 4 ? factor : 4) + 0.5;
		o->rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : (uint32_t)rounds;
	}
}

/* Traces one more run, and prints the times of its stages. */
static void trace_stages(const struct overlap *o)
{
	const char *file = o->trace;
	const struct overlap_way *way = &ways[ways[BY_CHUNK].run ? BY_CHUNK : COPIES_FIRST];
	struct rnl_map_report own = RNL_MAP_REPORT_INIT;
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	int ret;

	attr.timing = RNL_TRACE_EVERY;
	ret = rnl_trace_start(o->pool, file, &attr);
	if (ret == -EINVAL)	/* all attributes are valid, so the file is not */
		program_die("%s: a trace is written to a regular file", file);
	program_must(ret, file);
	program_must(way->run(o, way->how | RNL_MAP_TIMED, &own), way->name);
	/* The barrier completes before the worker has recorded its last job. */
	program_must(rnl_pool_drain(o->pool, RNL_FOREVER), "waiting for the workers");
	program_must(rnl_trace_stop(o->pool), file);
	overlap_print_trace(o, way, &own);
}

static void measure_all(const struct overlap *o)
{
	progress_begin("measuring", (uint64_t)(o->repeat + 1) * NR_WAYS, 1, "runs");
	for (unsigned run = 0; run <= o->repeat; run++)	/* run 1 overwrites the warm-up */
		for (unsigned i = 0; i < NR_WAYS; i++) {
			if (ways[i].run)
				ways[i].ms[run ? run - 1 : 0] = measure(o, &ways[i]);
			progress_show((uint64_t)run * NR_WAYS + i + 1);
		}
	for (int i = 0; i < NR_WAYS; i++) {
		ways[i].median = program_median(ways[i].ms, o->repeat);
		ways[i].timed = (struct rnl_map_report)RNL_MAP_REPORT_INIT;
		if (i >= BY_CHUNK && ways[i].run)	/* one more run, to time the stages */
			program_must(ways[i].run(o, ways[i].how | RNL_MAP_TIMED, &ways[i].timed),
				     ways[i].name);
	}
}

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct overlap o;

	program_begin();
	parse_options(&o, argc, argv);
	if (!o.info.cuda || !overlap_legacy_share)
		ways[LEGACY].run = NULL;
	if (o.order == OVERLAP_COPIES)
		ways[BY_CHUNK].run = NULL;
	if (o.order == OVERLAP_CHUNK)
		ways[COPIES_FIRST].run = NULL;

	attr.nr_workers = o.workers;
	attr.device = o.device;
	attr.stream = o.stream;
	if (!o.pageable)	/* for both arrays, with rounding */
		attr.pinned_max = o.nr_chunks * o.chunk_bytes * 5 / 2 + (64 << 20);
	attr.scratch_keep = 4 * (o.chunk_bytes + 256);	/* in and out of two chunks */
	o.pool = program_pool(&attr);
	program_must(rnl_thread_attach(o.pool), "a stream for this thread");
	overlap_array_get(&o);
	if (!o.rounds) {
		o.rounds = 1;
		calibrate(&o);
	}
	overlap_print_work(&o);
	measure_all(&o);
	overlap_print_all(&o, ways);
	if (o.trace)
		trace_stages(&o);

	overlap_array_put(&o);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(o.pool);
	return EXIT_SUCCESS;
}
