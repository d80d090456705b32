/* SPDX-License-Identifier: MIT */
/*
 * The row lone: one request at a time, in bursts, compared with one thread that issues the same work
 * by hand.
 *
 * DESIGN
 *	A burst is some requests with a gap between an answer and the next request, in which the
 *	thread spins. It sleeps between bursts, so the first request of a burst finds the pool asleep;
 *	this request counts apart. The kernel reads each word once, and writes it once.
 *	By hand: a resident kernel, without an end or with leases (gpu/resident.c); a launch for each
 *	request, of a kernel that accesses page-locked memory, or between copies: then the thread
 *	polls a word that the stream writes. runnel: a batcher, and a job whose kernel accesses the
 *	page-locked memory.
 *	A time begins before the input is written, all of it, and ends when the thread knows that
 *	the output is complete; the words of a resident kernel are then in plain memory.
 */
#include "gpu/work.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/batch.h>

#define WARM_UPS 50
#define WORKERS 4
#define SAMPLES_PART 8		/* divides the number of samples: bursts */
#define BURST_MAX 1024		/* requests */
#define PAUSE_MS 3		/* between bursts */
#define LEASE_NS 200000
#define LARGEST 4096u
#define WORDS_MAX (LARGEST / sizeof(uint32_t) + GPU_PIECE_WORDS)

static const struct {
	const char *name;
	size_t bytes;
	double p50_us, p99_us;		/* goals, with the first gap */
} sizes[] = {
	{ "64 B", 64, 3, 7 }, { "1 KB", 1024, 3.5, 8 }, { "4 KB", LARGEST, 4.5, 9 },
};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static const struct {
	const char *name;
	uint64_t ns;
	unsigned burst;			/* requests */
} gaps[] = {
	{ "5 us", 5000, BURST_MAX }, { "100 us", 100000, 32 }, { "1 ms", 1000000, 22 },
};
#define GAPS (sizeof(gaps) / sizeof(gaps[0]))

struct job {
	struct rnl_job job;
	const uint32_t *in;
	uint32_t *out;
	uint64_t words;
};

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned size, gap;
	unsigned nr;			/* bursts */
	double *first_us, *us;
	uint32_t words[WORDS_MAX], answer[WORDS_MAX];
	const uint32_t *out;		/* the answer's words */
	/* By hand. */
	cudaStream_t stream;
	uint32_t *pinned_in, *pinned_out, *dev;
	uint32_t *flag, written;
	struct gpu_resident residents[SIZES];
	/* By runnel. */
	struct rnl_batcher *batchers[SIZES][2]; /* without and with a resident kernel */
	struct rnl_request request;
	struct job job;
};

/* ---- by hand ------------------------------------------------------------- */

static void ask_resident(struct bench *b)
{
	gpu_resident_ask(&b->residents[b->size], b->words, b->answer);
	b->out = b->answer;
}

/* Waits for the stream's work. */
static void await_stream(struct bench *b)
{
	gpu_stream_write(b->stream, b->flag, ++b->written);
	gpu_await_word(b->flag, b->written);
	b->out = b->pinned_out;
}

static void ask_reaching(struct bench *b)
{
	const size_t bytes = sizes[b->size].bytes;

	memcpy(b->pinned_in, b->words, bytes);
	gpu_ok(gpu_issue_rounds(b->pinned_in, b->pinned_out, bytes / sizeof(uint32_t), 1, b->stream),
	       "a kernel");
	await_stream(b);
}

static void ask_copying(struct bench *b)
{
	const size_t bytes = sizes[b->size].bytes;

	memcpy(b->pinned_in, b->words, bytes);
	gpu_ok(cudaMemcpyAsync(b->dev, b->pinned_in, bytes, cudaMemcpyHostToDevice, b->stream),
	       "a copy");
	gpu_ok(gpu_issue_rounds(b->dev, b->dev, bytes / sizeof(uint32_t), 1, b->stream), "a kernel");
	gpu_ok(cudaMemcpyAsync(b->pinned_out, b->dev, bytes, cudaMemcpyDeviceToHost, b->stream),
	       "a copy");
	await_stream(b);
}

/* ---- by runnel ----------------------------------------------------------- */

static int run_batch(const struct rnl_batch *batch)
{
	return gpu_issue_rounds(batch->in, batch->out, batch->in_bytes / sizeof(uint32_t), 1,
				(cudaStream_t)rnl_stream()) == cudaSuccess ? 0 : -1;
}

static void ask(struct bench *b, struct rnl_batcher *batcher)
{
	const size_t bytes = sizes[b->size].bytes;

	bench_rnl(rnl_batcher_reserve(batcher, &b->request, bytes, 0), "rnl_batcher_reserve");
	memcpy(b->request.in, b->words, bytes);
	bench_rnl(rnl_request_commit(&b->request), "rnl_request_commit");
	bench_rnl(rnl_job_wait(&b->request.job, RNL_FOREVER), "rnl_job_wait");
	b->out = b->request.out;
}

static void ask_batcher(struct bench *b)
{
	ask(b, b->batchers[b->size][0]);
}

static void ask_runnel_resident(struct bench *b)
{
	ask(b, b->batchers[b->size][1]);
}

static void release(struct bench *b)
{
	bench_rnl(b->request.job.result, "a request");
	bench_rnl(rnl_request_release(&b->request), "rnl_request_release");
}

static int run_job(struct rnl_job *job)
{
	const struct job *j = rnl_container_of(job, struct job, job);

	return gpu_issue_rounds(j->in, j->out, j->words, 1, (cudaStream_t)rnl_stream()) ==
	       cudaSuccess ? 0 : -1;
}

static void ask_job(struct bench *b)
{
	memcpy(b->pinned_in, b->words, sizes[b->size].bytes);
	b->job.words = sizes[b->size].bytes / sizeof(uint32_t);
	bench_rnl(rnl_submit(b->pool, &b->job.job), "rnl_submit");
	bench_rnl(rnl_job_wait(&b->job.job, RNL_FOREVER), "rnl_job_wait");
	bench_rnl(b->job.job.result, "a job");
	b->out = b->pinned_out;
}

/* ---- a burst ------------------------------------------------------------- */

static const struct way {
	enum bench_side side;
	const char *name;
	void (*ask)(struct bench *b);
	void (*after)(struct bench *b);
	bool resident;
	uint64_t lease_ns;
} ways[] = {
	{ BENCH_HAND, "resident kernel", ask_resident, NULL, true, 0 },
	{ BENCH_HAND, "resident, leases of 200 us", ask_resident, NULL, true, LEASE_NS },
	{ BENCH_HAND, "launch, on pinned memory", ask_reaching, NULL, false, 0 },
	{ BENCH_HAND, "copy, kernel, copy", ask_copying, NULL, false, 0 },
	{ BENCH_RUNNEL, "rnl_batcher, resident", ask_runnel_resident, release, false, 0 },
	{ BENCH_RUNNEL, "rnl_batcher", ask_batcher, release, false, 0 },
	{ BENCH_RUNNEL, "a job on pinned memory", ask_job, NULL, false, 0 },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static double sample_us(struct bench *b, const struct way *way)
{
	const size_t nr = sizes[b->size].bytes / sizeof(uint32_t);
	uint64_t start;

	b->words[0]++;
	b->words[nr - 1] = ~b->words[0];
	start = bench_now();
	way->ask(b);
	start = bench_now() - start;
	for (size_t i = 0; i < nr; i++)
		bench_must(b->out[i] == gpu_word(GPU_ROUND, b->words[i] + bench_wrong_result, 0),
			   "what the kernel was to make");
	if (way->after)
		way->after(b);
	return 1e-3 * (double)start;
}

static void spin_ns(uint64_t ns)
{
	const uint64_t end = bench_now() + ns;

	while (bench_now() < end)
		bench_relax();
}

static void burst(struct bench *b, const struct way *way, unsigned n)
{
	const unsigned others = gaps[b->gap].burst - 1;
	double *us = b->us + n * others;

	bench_sleep_ms(PAUSE_MS);
	b->first_us[n] = sample_us(b, way);
	for (unsigned i = 0; i < others; i++) {
		spin_ns(gaps[b->gap].ns);
		us[i] = sample_us(b, way);
	}
}

static void measure(void *arg, unsigned which, double *values)
{
	const struct way *way = &ways[which];
	struct bench *b = arg;
	const size_t nr = (size_t)b->nr * (gaps[b->gap].burst - 1);

	if (way->resident)
		gpu_resident_begin(&b->residents[b->size], way->lease_ns);
	for (unsigned i = 0; i < WARM_UPS; i++)
		(void)sample_us(b, way);
	for (unsigned i = 0; i < b->nr; i++)
		burst(b, way, i);
	if (way->resident)
		gpu_resident_end(&b->residents[b->size]);
	values[0] = bench_percentile(b->us, nr, 50);
	values[1] = bench_percentile(b->us, nr, 99);
	values[2] = bench_percentile(b->us, nr, 99.9);
	values[3] = bench_percentile(b->first_us, b->nr, 50);
	values[4] = bench_percentile(b->first_us, b->nr, 99);
}

/* ---- the row ------------------------------------------------------------- */

static void run_lines(const struct bench_run *run, struct bench *b)
{
	const double goals[BENCH_VALUES] = { sizes[b->size].p50_us, sizes[b->size].p99_us };
	struct bench_line *lines[BENCH_VALUES];
	struct bench_way turns[WAYS];

	for (unsigned i = 0; i < BENCH_VALUES; i++) {
		lines[i] = bench_line(run, i, "; %s, %s apart", sizes[b->size].name,
				      gaps[b->gap].name);
		lines[i]->goal_value = goals[i];
		if (b->gap)
			lines[i]->goal = BENCH_NO_GOAL;
	}
	for (unsigned i = 0; i < WAYS; i++) {
		turns[i] = (struct bench_way){ .measure = measure, .which = i };
		for (unsigned k = 0; k < BENCH_VALUES; k++)
			turns[i].figures[k] = bench_figure(lines[k], ways[i].side, ways[i].name);
	}
	bench_turns(run, turns, WAYS, b);
	for (unsigned i = 0; i < BENCH_VALUES; i++)
		bench_line_tell(run, lines[i]);
}

/* The only place where a batcher is made. */
static struct rnl_batcher *batcher_of(struct rnl_pool *pool, size_t bytes, bool resident)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_batcher *batcher;

	attr.fn = resident ? NULL : run_batch;
	attr.kernel = resident ? &gpu_round_each : NULL;
	/* Shared: on the double a busy machine makes leases as long as other processes do on a GPU. */
	attr.flags = resident ? RNL_BATCHER_RESIDENT | RNL_BATCHER_SHARED : 0;
	attr.in_bytes = attr.out_bytes = bytes;
	bench_rnl(rnl_batcher_create(&batcher, pool, &attr), "rnl_batcher_create");
	return batcher;
}

/* CUDA loads a kernel at its first launch, and could then wait for a resident kernel. */
static void warm_up(struct bench *b)
{
	double values[BENCH_VALUES];

	b->nr = 1;
	for (b->size = 0; b->size < SIZES; b->size++)
		for (unsigned i = 0; i < WAYS; i++)
			measure(b, i, values);
}

static void begin(struct bench *b, const struct bench_run *run)
{
	const unsigned nr = run->opt->samples / SAMPLES_PART + 1;

	b->first_us = bench_alloc(nr * sizeof(*b->first_us));
	b->us = bench_alloc((size_t)nr * (BURST_MAX - 1) * sizeof(*b->us));
	for (unsigned i = 0; i < WORDS_MAX; i++)
		b->words[i] = i * GPU_A;
	b->stream = gpu_stream(RNL_STREAM_PRIVATE, false);
	b->pinned_in = gpu_pinned(LARGEST);
	b->pinned_out = gpu_pinned(LARGEST);
	b->dev = gpu_memory(LARGEST);
	b->flag = gpu_pinned(128);
	b->pool = gpu_pool(run->opt->device, run->kind, WORKERS, NULL);
	for (unsigned i = 0; i < SIZES; i++) {
		for (unsigned k = 0; k < 2; k++)
			b->batchers[i][k] = batcher_of(b->pool, sizes[i].bytes, k);
		gpu_resident_open(&b->residents[i], run->opt->info.ordinal, sizes[i].bytes);
	}
	bench_rnl(rnl_job_init(&b->request.job, NULL), "rnl_job_init");
	bench_rnl(gpu_job_init(&b->job.job, run_job), "rnl_job_init");
	b->job.in = b->pinned_in;
	b->job.out = b->pinned_out;
	warm_up(b);
	b->nr = nr;
}

static void run_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	begin(b, run);
	for (b->size = 0; b->size < SIZES; b->size++)
		for (b->gap = 0; b->gap < GAPS; b->gap++)
			run_lines(run, b);
	for (unsigned i = 0; i < SIZES; i++)
		for (unsigned k = 0; k < 2; k++)
			rnl_batcher_destroy(b->batchers[i][k]);
	gpu_row_end(b, NULL);
}

const struct bench_work bench_lone = { .run = run_row };
