/* SPDX-License-Identifier: MIT */
/*
 * The rows beside: lone requests by a resident kernel at the same time as other work, and what that
 * work loses.
 *
 * DESIGN
 *	One thread asks requests, each 5 us after the last answer, and spins meanwhile. The kernel reads
 *	each word once, and writes it once. A time begins before the input is written, and ends when the
 *	thread knows that the output is complete.
 *	Under a flood (gpu/flood.h) the batcher has a class with a worker of its own, and the flood's
 *	class is lower. By hand a kernel on page-locked memory is launched for each request, on a stream
 *	of the highest priority or in a green context, and the thread polls a word that the stream
 *	writes. Each measurement is first the flood alone, then with the requests.
 *	J and copies are measured alone, with a thread that only spins, which takes a CPU too, and with
 *	the requests. Copies alternate between two streams, so one is always under way.
 */
#include "gpu/flood.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/batch.h>

#define WARM_UPS 50
#define GAP_NS 5000
#define LARGEST 4096u
#define WORDS (LARGEST / sizeof(uint32_t))
#define WORKERS 4
#define IN_FLIGHT 2		/* of a worker, in the flood */
#define J_REQUESTS 64		/* for each worker */
#define J_PRODUCERS 4
#define COPY ((size_t)64 << 20)
#define QUICK_COPY ((size_t)1 << 20)

static const unsigned workers[] = { 8, 16, 32 }, mailboxes[] = { 1, 16 };

/* ---- requests ------------------------------------------------------------- */

struct asker {
	struct rnl_batcher *batcher;	/* NULL: by hand */
	struct rnl_request request;
	size_t bytes;
	uint32_t words[WORDS];
	struct rnl_batcher_stats before; /* after the warm-up */
	/* By hand. */
	cudaStream_t stream;
	uint32_t *in, *out, *flag, written;
	/* A thread. */
	bool spins;			/* and asks nothing */
	atomic_bool stop;
	pthread_t thread;
};

static const uint32_t *ask_by_hand(struct asker *a)
{
	memcpy(a->in, a->words, a->bytes);
	gpu_ok(gpu_issue_rounds(a->in, a->out, a->bytes / sizeof(uint32_t), 1, a->stream), "a kernel");
	gpu_stream_write(a->stream, a->flag, ++a->written);
	gpu_await_word(a->flag, a->written);
	return a->out;
}

static const uint32_t *ask_batcher(struct asker *a)
{
	bench_rnl(rnl_batcher_reserve(a->batcher, &a->request, a->bytes, 0), "rnl_batcher_reserve");
	memcpy(a->request.in, a->words, a->bytes);
	bench_rnl(rnl_request_commit(&a->request), "rnl_request_commit");
	bench_rnl(rnl_job_wait(&a->request.job, RNL_FOREVER), "rnl_job_wait");
	bench_rnl(a->request.job.result, "a request");
	return a->request.out;
}

static double ask_us(struct asker *a)
{
	const size_t nr = a->bytes / sizeof(uint32_t);
	const uint32_t *out;
	uint64_t start;

	a->words[0]++;
	a->words[nr - 1] = ~a->words[0];
	start = bench_now();
	out = a->batcher ? ask_batcher(a) : ask_by_hand(a);
	start = bench_now() - start;
	for (size_t i = 0; i < nr; i++)
		bench_must(out[i] == gpu_word(GPU_ROUND, a->words[i] + bench_wrong_result, 0),
			   "what the kernel was to make");
	if (a->batcher)
		bench_rnl(rnl_request_release(&a->request), "rnl_request_release");
	return 1e-3 * (double)start;
}

static void spin_gap(void)
{
	const uint64_t end = bench_now() + GAP_NS;

	while (bench_now() < end)
		bench_relax();
}

/* CUDA loads a kernel at its first launch, which could wait for the flood. */
static void warm_up(struct asker *a)
{
	for (unsigned i = 0; i < WARM_UPS; i++)
		(void)ask_us(a);
}

/* Creates a batcher with a resident kernel. */
static void open_batcher(struct asker *a, struct rnl_pool *pool, size_t bytes, uint32_t flags,
			 unsigned nr_mailboxes, struct rnl_class *class)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;

	attr.kernel = &gpu_round_each;
	attr.flags = RNL_BATCHER_RESIDENT | flags;
	attr.in_bytes = attr.out_bytes = a->bytes = bytes;
	attr.nr_mailboxes = nr_mailboxes;
	attr.cls = class;
	bench_rnl(rnl_job_init(&a->request.job, NULL), "rnl_job_init");
	bench_rnl(rnl_batcher_create(&a->batcher, pool, &attr), "rnl_batcher_create");
	warm_up(a);
	a->before = (struct rnl_batcher_stats)RNL_BATCHER_STATS_INIT;
	bench_rnl(rnl_batcher_read_stats(a->batcher, &a->before), "rnl_batcher_read_stats");
}

/* Returns how many percent of the requests the resident kernel answered. */
static double close_batcher(struct asker *a)
{
	struct rnl_batcher_stats after = RNL_BATCHER_STATS_INIT;

	bench_rnl(rnl_batcher_read_stats(a->batcher, &after), "rnl_batcher_read_stats");
	rnl_batcher_destroy(a->batcher);
	a->batcher = NULL;
	return 100 * (double)(after.resident - a->before.resident) /
	       (double)(after.requests - a->before.requests);
}

/* ---- under a flood -------------------------------------------------------- */

enum { BY_HAND, RESIDENT, SHARED, FLOOD_WAYS };

static const struct {
	enum bench_side side;
	const char *name;
} flood_ways[FLOOD_WAYS] = {
	{ BENCH_HAND, "launch, on pinned memory" },
	{ BENCH_RUNNEL, "resident" },
	{ BENCH_RUNNEL, "resident, RNL_BATCHER_SHARED" },
};

static const struct {
	const char *name;
	size_t bytes;
} sizes[] = { { "64 B", 64 }, { "4 KB", LARGEST } };

static const struct {
	const char *name;
	struct gpu_flood_of of;
} floods[] = { { "0.5 ms", { 1, { 4 }, { 500000 } } }, { "5 ms", { 1, { 4 }, { 5000000 } } } };

struct flooded {
	struct gpu_flood f;		/* the first, and in it the pool: gpu_row_end() */
	unsigned group, all_blocks;
	struct rnl_pool *pools[2];	/* without and with kept SMs */
	struct rnl_class *classes[2];
	cudaStream_t streams[2];	/* by hand */
	struct asker asker;
	double *us;
	unsigned size, length, keeps;
};

/* Asks for the time of a measurement.  Returns the number of samples. */
static size_t sample(struct flooded *b)
{
	const uint64_t end = bench_now() + (uint64_t)b->f.run_ms * 1000000;
	size_t nr = 0;

	while (bench_now() < end) {
		b->us[nr++] = ask_us(&b->asker);
		spin_gap();
	}
	return nr;
}

static void begin_flood(struct flooded *b, bool by_hand)
{
	struct rnl_class_attr low = RNL_CLASS_ATTR_INIT;

	low.priority = 3;
	gpu_flood_begin(&b->f, &floods[b->length].of, by_hand, &low);
}

static void measure_flooded(void *arg, unsigned way, double *values)
{
	struct flooded *b = arg;
	struct asker *a = &b->asker;
	double alone;
	size_t nr;

	b->f.pool = b->pools[b->keeps];
	b->f.green = way == BY_HAND && b->keeps;
	b->f.blocks = b->all_blocks - (b->keeps ? 2 * b->group : 0); /* it fills the other SMs */
	a->bytes = sizes[b->size].bytes;
	a->stream = b->streams[b->keeps];
	if (way == BY_HAND)
		warm_up(a);
	else
		open_batcher(a, b->f.pool, a->bytes, way == SHARED ? RNL_BATCHER_SHARED : 0, 0,
			     b->classes[b->keeps]);
	begin_flood(b, way == BY_HAND);
	bench_sleep_ms(b->f.run_ms);
	gpu_flood_end(&b->f);
	alone = gpu_flood_busy(&b->f);
	begin_flood(b, way == BY_HAND);
	nr = sample(b);
	gpu_flood_end(&b->f);
	values[0] = bench_percentile(b->us, nr, 50);
	values[1] = bench_percentile(b->us, nr, 99);
	values[2] = 100 * gpu_flood_busy(&b->f) / alone;
	values[3] = way == BY_HAND ? (double)NAN : close_batcher(a);
}

static void flooded_lines(const struct bench_run *run, struct flooded *b)
{
	struct bench_line *lines[4];
	struct bench_way turns[FLOOD_WAYS];

	for (unsigned i = 0; i < 4; i++)
		lines[i] = bench_line(run, i, "; %s, %s%s", sizes[b->size].name, floods[b->length].name,
				      b->keeps ? ", kept SMs" : "");
	for (unsigned i = 0; i < FLOOD_WAYS; i++) {
		turns[i] = (struct bench_way){ .measure = measure_flooded, .which = i };
		for (unsigned k = 0; k < 4; k++)
			turns[i].figures[k] = bench_figure(lines[k], flood_ways[i].side,
							   flood_ways[i].name);
	}
	bench_turns(run, turns, FLOOD_WAYS, b);
	for (unsigned i = 0; i < 4; i++)
		bench_line_tell(run, lines[i]);
}

/* @sms: to keep. */
static void open_pool(struct flooded *b, const char *device, unsigned sms)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_class_attr high = RNL_CLASS_ATTR_INIT;
	const unsigned keeps = sms > 0;

	attr.max_in_flight = IN_FLIGHT;
	attr.nr_class_workers = 1;
	attr.kept_sms = sms;
	high.priority = -4;
	high.nr_workers = 1;
	high.flags = keeps ? RNL_CLASS_KEPT_SMS : 0;
	b->f.pool = b->pools[keeps] = gpu_pool(device, RNL_STREAM_PRIVATE, WORKERS, &attr);
	b->classes[keeps] = gpu_flood_class(&b->f, &high);
}

/* Without RNL_BATCHER_SHARED a lease that waits for SMs looks like one among other processes. */
static void log_errors(void *arg, enum rnl_log_level level, const char *text)
{
	(void)arg;
	if (level == RNL_LOG_ERROR)
		fprintf(stderr, "bench: %s\n", text);
}

static struct flooded *open_flooded(const struct bench_run *run)
{
	struct flooded *b = bench_alloc(sizeof(*b));

	rnl_set_log(log_errors, NULL);
	gpu_flood_open(&b->f, run, 1);
	b->all_blocks = b->f.blocks;
	b->group = run->opt->info.sm_group;
	b->us = bench_alloc(((size_t)b->f.run_ms * 1000000 / GAP_NS + 1) * sizeof(*b->us));
	b->asker.in = gpu_pinned(LARGEST);
	b->asker.out = gpu_pinned(LARGEST);
	b->asker.flag = gpu_pinned(128);
	b->streams[0] = gpu_stream(RNL_STREAM_PRIVATE, true);
	open_pool(b, run->opt->device, 0);
	if (!b->group)
		return b;
	open_pool(b, run->opt->device, b->group);
	gpu_green_streams(run->opt->info.ordinal, b->group, &b->streams[1], b->f.rest,
			  GPU_FLOOD_CLASSES);
	return b;
}

static void run_flooded(struct bench_run *run)
{
	struct flooded *b = open_flooded(run);

	for (b->keeps = 0; b->keeps < (b->group ? 2 : 1); b->keeps++)
		for (b->length = 0; b->length < 2; b->length++)
			for (b->size = 0; b->size < 2; b->size++)
				flooded_lines(run, b);
	rnl_pool_destroy(b->pools[1]);
	b->f.pool = b->pools[0];
	gpu_row_end(b, NULL);
}

/* ---- what J and copies lose ----------------------------------------------- */

enum { ALONE, SPINNING, ASKING, OTHER_WAYS };

struct other {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned run_ms;
	struct asker asker;
	double (*rate)(struct other *b);
	struct gpu_request *requests;	/* J */
	unsigned nr_requests;
	/* Copies. */
	size_t bytes;
	cudaStream_t streams[2];
	void *host[2], *dev[2];
};

static double rate_of_j(struct other *b)
{
	return 1e-3 * gpu_pool_rate(b->pool, b->requests, b->nr_requests, GPU_CQ, J_PRODUCERS,
				    b->run_ms);
}

/* Returns GB per second. */
static double rate_of_copies(struct other *b)
{
	const uint64_t start = bench_now(), end = start + (uint64_t)b->run_ms * 1000000;
	unsigned nr = 0;

	for (; nr < 2 || bench_now() < end; nr++) {
		gpu_ok(cudaStreamSynchronize(b->streams[nr % 2]), "cudaStreamSynchronize");
		gpu_ok(cudaMemcpyAsync(b->dev[nr % 2], b->host[nr % 2], b->bytes, cudaMemcpyHostToDevice,
				       b->streams[nr % 2]), "a copy");
	}
	for (unsigned i = 0; i < 2; i++)
		gpu_ok(cudaStreamSynchronize(b->streams[i]), "cudaStreamSynchronize");
	return (double)nr * (double)b->bytes / (double)(bench_now() - start);
}

static void *go_on(void *arg)
{
	struct asker *a = arg;

	/* relaxed: publishes no data */
	while (!atomic_load_explicit(&a->stop, memory_order_relaxed)) {
		if (!a->spins)
			(void)ask_us(a);
		spin_gap();
	}
	return NULL;
}

static void measure_other(void *arg, unsigned way, double *values)
{
	struct other *b = arg;
	struct asker *a = &b->asker;

	a->spins = way == SPINNING;
	atomic_store(&a->stop, false);
	if (way != ALONE)
		bench_must(!pthread_create(&a->thread, NULL, go_on, a), "pthread_create");
	values[0] = b->rate(b);
	atomic_store(&a->stop, true);
	if (way != ALONE)
		pthread_join(a->thread, NULL);
}

/* Measures a line of the row, with its pool and a batcher of so many mailboxes. */
static void other_line(const struct bench_run *run, struct other *b, unsigned nr_mailboxes,
		       struct bench_line *line)
{
	const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	struct bench_way turns[OTHER_WAYS] = {
		{ measure_other, ALONE, { bench_figure(line, BENCH_CEILING, "alone") },
		  false },
		{ measure_other, SPINNING, { bench_figure(line, BENCH_OTHER, "a thread spins") },
		  false },
		{ measure_other, ASKING, { bench_figure(line, BENCH_RUNNEL, "lone requests") },
		  false },
	};

	open_batcher(&b->asker, b->pool, LARGEST, RNL_BATCHER_SHARED, nr_mailboxes, NULL);
	(void)b->rate(b);
	bench_turns(run, turns, OTHER_WAYS, b);
	snprintf(line->note, sizeof(line->note), "%.0f %% resident, CUDA_DEVICE_MAX_CONNECTIONS=%s",
		 close_batcher(&b->asker), connections ? connections : "");
	bench_line_tell(run, line);
}

static void run_jobs(struct bench_run *run)
{
	struct other *b = bench_alloc(sizeof(*b));

	b->run_ms = run->opt->run_ms;
	b->rate = rate_of_j;
	b->requests = gpu_requests(J_REQUESTS * 32);
	for (unsigned i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
		b->nr_requests = J_REQUESTS * workers[i];
		b->pool = gpu_pool(run->opt->device, RNL_STREAM_PER_THREAD, workers[i], NULL);
		other_line(run, b, 0, bench_line(run, 0, "; %u workers", workers[i]));
		gpu_row_end(b, NULL);
	}
}

static void run_copies(struct bench_run *run)
{
	struct other *b = bench_alloc(sizeof(*b));

	b->run_ms = run->opt->run_ms;
	b->rate = rate_of_copies;
	b->bytes = run->opt->quick ? QUICK_COPY : COPY;
	for (unsigned i = 0; i < 2; i++) {
		b->streams[i] = gpu_stream(RNL_STREAM_PRIVATE, false);
		b->host[i] = gpu_pinned(b->bytes);
		b->dev[i] = gpu_memory(b->bytes);
	}
	b->pool = gpu_pool(run->opt->device, RNL_STREAM_PER_THREAD, WORKERS, NULL);
	for (unsigned i = 0; i < sizeof(mailboxes) / sizeof(mailboxes[0]); i++)
		other_line(run, b, mailboxes[i], bench_line(run, 0, "; mailboxes: %u", mailboxes[i]));
	gpu_row_end(b, NULL);
}

const struct bench_work bench_beside = { .run = run_flooded };
const struct bench_work bench_beside_jobs = { .run = run_jobs };
const struct bench_work bench_beside_copies = { .run = run_copies };
