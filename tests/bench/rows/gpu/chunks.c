/* SPDX-License-Identifier: MIT */
/*
 * The row chunks: 96 chunks of 8 MB to the device, through a kernel, and back.
 *
 * DESIGN
 *	The ceiling is the longer time of all kernels and of all copies. The kernels take a twelfth
 *	longer than concurrent copies in and out. By hand: one stream; chunks in turn on streams of
 *	one thread; a thread for each stream, which issues all its chunks before it waits; a stream
 *	for each stage, with events between them and for buffers that are used again; no copies, but
 *	kernels that access the page-locked arrays, each word once. The output is checked in every
 *	page after each run, and overwritten before it.
 *	With several GPUs: the map by a pool with one GPU, and by a pool with all GPUs, which has
 *	the same number of workers and chunks per GPU. The ceiling is the copies without kernels.
 *	All GPUs share one host's memory, so N GPUs need not be N times as fast as one.
 */
#include "gpu/work.h"

#include <string.h>

#include <runnel/map.h>
#include <runnel/memory.h>

#define CHUNKS 96
#define CHUNK_BYTES (8u << 20)
#define QUICK_CHUNKS 12
#define QUICK_CHUNK_BYTES (64u << 10)
#define STREAMS 4
#define PAGE_WORDS 1024
#define ROUNDS_MAX (1u << 20)
#define KERNELS 1.08

enum stages {
	IN = 1,
	KERNEL = 2,
	OUT = 4,
	ALL = IN | KERNEL | OUT
};
#define STAGES 3

struct bench {
	const struct bench_options *opt;
	unsigned nr_chunks;		/* chunks of the current copies or map */
	size_t bytes;			/* of a chunk */
	uint64_t words;			/* of a chunk */
	uint32_t *in, *out;		/* the arrays, page-locked */
	uint32_t *dev_in[STREAMS], *dev_out[STREAMS];
	cudaStream_t streams[STREAMS];	/* this thread's */
	cudaEvent_t ends[STREAMS][STAGES];	/* of a buffer's stages */
	uint32_t rounds;
	uint32_t a, c;			/* effect of these rounds on a word */
	struct rnl_pool *pool, *all;	/* with one GPU; with all */
	struct rnl_pool *mapper;	/* the pool that maps: `pool` or `all` */
	unsigned nr_gpus;
	struct gpu_crew crew;
	struct gpu_copies copies;
	double one_ms;			/* time of one stream in this turn */
};

static void issue(const struct bench *b, unsigned chunk, unsigned on, cudaStream_t stream,
		  unsigned stages)
{
	const uint64_t first = chunk * b->words;

	if (stages & IN)
		gpu_ok(cudaMemcpyAsync(b->dev_in[on], b->in + first, b->bytes,
				       cudaMemcpyHostToDevice, stream), "a copy in");
	if (stages & KERNEL)
		gpu_ok(gpu_issue_rounds(b->dev_in[on], b->dev_out[on], b->words, b->rounds, stream),
		       "a kernel");
	if (stages & OUT)
		gpu_ok(cudaMemcpyAsync(b->out + first, b->dev_out[on], b->bytes,
				       cudaMemcpyDeviceToHost, stream), "a copy out");
}

/* ---- input and output ----------------------------------- */

static void set_rounds(struct bench *b, uint32_t rounds)
{
	b->rounds = rounds;
	b->a = 1;
	b->c = 0;
	for (uint32_t i = 0; i < rounds; i++) {
		b->a *= GPU_A;
		b->c = b->c * GPU_A + GPU_C;
	}
}

static void spoil(const struct bench *b)
{
	for (uint64_t i = 0; i < b->nr_chunks * b->words; i += PAGE_WORDS)
		b->out[i + i / PAGE_WORDS % PAGE_WORDS] = ~(b->in[i] * b->a + b->c);
}

static void look(const struct bench *b)
{
	for (uint64_t page = 0; page < b->nr_chunks * b->words; page += PAGE_WORDS) {
		const uint64_t i = page + page / PAGE_WORDS % PAGE_WORDS;

		bench_must(b->out[i] == b->in[i] * b->a + b->c + bench_wrong_result,
			   "chunks: the right words");
	}
}

/* ---- the ways ------------------------------------------------------------ */

static void sync_streams(const struct bench *b, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		gpu_ok(cudaStreamSynchronize(b->streams[i]), "cudaStreamSynchronize");
}

static void on_streams(const struct bench *b, unsigned nr_streams, unsigned stages)
{
	for (unsigned i = 0; i < b->nr_chunks; i++)
		issue(b, i, i % nr_streams, b->streams[i % nr_streams], stages);
	sync_streams(b, nr_streams);
}

static void one_stream(struct bench *b)
{
	on_streams(b, 1, ALL);
}

static void kernels(struct bench *b)
{
	on_streams(b, 1, KERNEL);
}

static void both_copies(struct bench *b)
{
	for (unsigned i = 0; i < b->nr_chunks; i++) {
		issue(b, i, 0, b->streams[0], IN);
		issue(b, i, 1, b->streams[1], OUT);
	}
	sync_streams(b, 2);
}

static void in_turn(struct bench *b)
{
	on_streams(b, STREAMS, ALL);
}

static void wait_for(const struct bench *b, unsigned stage, unsigned on, unsigned other)
{
	gpu_ok(cudaStreamWaitEvent(b->streams[stage], b->ends[on][other], 0), "cudaStreamWaitEvent");
}

/* A stage comes after the chunk's last one, and after the next stage of the buffer's last chunk. */
static void issue_stage(const struct bench *b, unsigned chunk, unsigned stage)
{
	const unsigned on = chunk % STREAMS;

	if (stage > 0)
		wait_for(b, stage, on, stage - 1);
	if (stage < STAGES - 1 && chunk >= STREAMS)
		wait_for(b, stage, on, stage + 1);
	issue(b, chunk, on, b->streams[stage], 1u << stage);
	gpu_ok(cudaEventRecord(b->ends[on][stage], b->streams[stage]), "cudaEventRecord");
}

static void by_stage(struct bench *b)
{
	for (unsigned i = 0; i < b->nr_chunks * STAGES; i++)
		issue_stage(b, i / STAGES, i % STAGES);
	sync_streams(b, STAGES);
}

static void reaching(struct bench *b)
{
	for (unsigned i = 0; i < b->nr_chunks; i++)
		gpu_ok(gpu_issue_rounds(b->in + i * b->words, b->out + i * b->words, b->words,
					b->rounds, b->streams[i % STREAMS]), "a kernel");
	sync_streams(b, STREAMS);
}

static void issue_some(void *arg, unsigned index, cudaStream_t stream)
{
	struct bench *b = arg;

	for (unsigned i = index; i < b->nr_chunks; i += STREAMS)
		issue(b, i, index, stream, ALL);
	gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static void threads(struct bench *b)
{
	gpu_crew_begin(&b->crew);
	gpu_crew_end(&b->crew);
}

static int do_chunk(const struct rnl_chunk *chunk)
{
	const struct bench *b = chunk->arg;

	return gpu_issue_rounds(chunk->in, chunk->out, chunk->nr, b->rounds,
				(cudaStream_t)rnl_stream()) ? -1 : 0;
}

static void map(struct bench *b)
{
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_barrier done;

	map.fn = do_chunk;
	map.arg = b;
	map.nr = b->nr_chunks * b->words;
	map.chunk = b->words;
	map.in_bytes = map.out_bytes = sizeof(uint32_t);
	map.in = b->in;
	map.out = b->out;
	bench_rnl(rnl_barrier_init(&done, b->mapper), "rnl_barrier_init");
	bench_rnl(rnl_map_start(b->mapper, &map, &done), "rnl_map_start");
	bench_rnl(rnl_barrier_wait(&done, RNL_FOREVER), "rnl_barrier_wait");
	bench_rnl(done.result, "rnl_map_start");
}

/* ---- the line ------------------------------------------------------------ */

static double ms_of(struct bench *b, void (*way)(struct bench *b))
{
	const uint64_t start = bench_now();

	way(b);
	return (double)(bench_now() - start) * 1e-6;
}

static double checked_ms(struct bench *b, void (*way)(struct bench *b))
{
	double ms;

	spoil(b);
	ms = ms_of(b, way);
	look(b);
	return ms;
}

/* Sets the rounds so that all kernels take a little longer than concurrent copies in and out. */
static void calibrate(struct bench *b)
{
	double copies, rounds = 64;

	(void)ms_of(b, both_copies);
	copies = ms_of(b, both_copies);
	for (int i = 0; i < 4; i++) {
		b->rounds = (uint32_t)rounds;
		rounds *= copies * KERNELS / ms_of(b, kernels);
		rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	}
	set_rounds(b, (uint32_t)rounds);
}

static void (*const ways[])(struct bench *b) = {
	one_stream, in_turn, threads, by_stage, reaching, map
};
enum { ONE, CEILING = sizeof(ways) / sizeof(ways[0]) };

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;

	if (way == CEILING) {
		values[0] = fmax(ms_of(b, kernels), ms_of(b, both_copies));
		return;
	}
	values[0] = checked_ms(b, ways[way]);
	if (way == ONE)
		b->one_ms = values[0];
	values[1] = b->one_ms / values[0];
}

static struct bench *begin(const struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	void *mem;

	b->opt = run->opt;
	b->nr_gpus = run->nr_gpus;
	b->nr_chunks = b->nr_gpus * (b->opt->quick ? QUICK_CHUNKS : CHUNKS);
	b->bytes = b->opt->quick ? QUICK_CHUNK_BYTES : CHUNK_BYTES;
	b->words = b->bytes / sizeof(uint32_t);
	b->pool = b->mapper = gpu_pool(b->opt->device, RNL_STREAM_PER_THREAD, STREAMS, NULL);
	bench_rnl(rnl_memory_get(b->pool, RNL_PINNED, b->nr_chunks * b->bytes, &mem, 0),
		  "rnl_memory_get");
	b->in = mem;
	bench_rnl(rnl_memory_get(b->pool, RNL_PINNED, b->nr_chunks * b->bytes, &mem, 0),
		  "rnl_memory_get");
	b->out = mem;
	for (uint64_t i = 0; i < b->nr_chunks * b->words; i++)
		b->in[i] = (uint32_t)i * 2654435761u;
	memset(b->out, 0, b->nr_chunks * b->bytes);
	for (unsigned i = 0; i < STREAMS; i++) {
		b->dev_in[i] = gpu_memory(b->bytes);
		b->dev_out[i] = gpu_memory(b->bytes);
		b->streams[i] = gpu_stream(RNL_STREAM_PRIVATE, false);
		for (unsigned k = 0; k < STAGES; k++)
			b->ends[i][k] = gpu_event(cudaEventDisableTiming);
	}
	b->nr_chunks /= b->nr_gpus;
	calibrate(b);
	return b;
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = begin(run);

	gpu_crew_start(&b->crew, b->opt->info.ordinal, RNL_STREAM_PER_THREAD, STREAMS, issue_some, b);
	for (unsigned i = 0; i < CEILING; i++)
		(void)checked_ms(b, ways[i]);
	return b;
}

static void end_row(void *arg, struct bench_line **lines)
{
	struct bench *b = arg;

	snprintf(lines[0]->note, sizeof(lines[0]->note), "%u of %zu KB", b->nr_chunks,
		 b->bytes >> 10);
	rnl_memory_put(b->pool, b->in);
	rnl_memory_put(b->pool, b->out);
	rnl_pool_destroy(b->all);
	rnl_pool_destroy(b->pool);
}

const struct bench_work bench_chunks = { begin_row, measure, end_row, NULL };

/* ---- with several GPUs ---------------------------------------------------- */

/* Ways: by one GPU, by all; only copies by one, by all.  GB per second, in plus out. */
static void measure_map(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const unsigned nr_gpus = way % 2 ? b->nr_gpus : 1;

	b->nr_chunks = nr_gpus * b->copies.nr;
	b->mapper = way % 2 ? b->all : b->pool;
	values[0] = way > 1 ? gpu_copies_rate(&b->copies, nr_gpus) :
		    2e-6 * (double)b->bytes * b->nr_chunks / checked_ms(b, map);
}

static void *begin_maps(struct bench_run *run)
{
	struct bench *b = begin(run);
	double unused;

	b->all = gpu_pool(gpu_names(b->opt, 0, b->nr_gpus), RNL_STREAM_PER_THREAD,
			  b->nr_gpus * STREAMS, NULL);
	b->copies = (struct gpu_copies){
		.in = b->in, .out = b->out, .bytes = b->bytes, .nr = b->nr_chunks,
		.nr_chunks = b->nr_gpus * b->nr_chunks,
	};
	gpu_copies_start(&b->copies, b->opt, b->nr_gpus);
	for (unsigned way = 0; way < 2; way++)
		measure_map(b, way, &unused);
	return b;
}

static void end_maps(void *arg, struct bench_line **lines)
{
	struct bench *b = arg;

	end_row(arg, lines);
	gpu_scales(lines[0], b->nr_gpus, "one GPU", BENCH_CEILING, "copies alone, one GPU");
}

const struct bench_work bench_devices_map = { begin_maps, measure_map, end_maps, NULL };
