/* SPDX-License-Identifier: MIT */
/*
 * The row copies: what a small copy waits for large ones, and how fast those are.
 *
 * DESIGN
 *	Four threads, or workers, copy 256 MiB each, again and again, with two such copies under way
 *	on each stream. A millisecond after the last one's end, a copy of 64 KiB in the same
 *	direction is made: by hand issued on a stream of the highest priority and synced, else it is
 *	a job of a class with a worker of its own, from its submit until the waiter has returned.
 *	By hand the large copies are whole, or the threads issue pieces of 8 MiB, one at a time of all
 *	threads, each when the last one has ended. The pool does so, because their class is lower.
 *	Next to whole copies a small one may starve: after the time of a measurement it waits until
 *	the large ones have ended, and is the last sample.
 */
#include "gpu/work.h"

#include <runnel/class.h>

#define STREAMS 4
#define UNDER_WAY 2
#define SMALL ((size_t)64 << 10)
#define PIECE ((size_t)8 << 20)
#define RAMP_MS 20

enum { WHOLE, CUT, POOL, WAYS };	/* of each direction */

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	size_t large;			/* bytes */
	unsigned run_ms;
	double *us;
	bool out, cut;
	atomic_bool stop;
	atomic_uint done;		/* large copies */
	char *host[STREAMS + 1], *dev[STREAMS + 1]; /* the last ones are small */
	uint64_t end_ns;		/* of the measurement */
	cudaStream_t stream;		/* of the highest priority */
	struct gpu_crew crew;
	cudaEvent_t ends[STREAMS][UNDER_WAY];
	pthread_mutex_t turn;		/* held while a piece is under way */
	struct rnl_class *low, *high;
	struct item {
		struct rnl_job job;
		struct bench *bench;
		unsigned place;
	} items[STREAMS * UNDER_WAY], sample;
};

/* ---- by hand ------------------------------------------------------------- */

static void issue(const struct bench *b, unsigned place, size_t from, size_t bytes, cudaStream_t stream)
{
	char *host = b->host[place] + from, *dev = b->dev[place] + from;

	gpu_ok(cudaMemcpyAsync(b->out ? host : dev, b->out ? dev : host, bytes, cudaMemcpyDefault, stream),
	       "a copy");
}

static void copy_cut(struct bench *b, unsigned place, cudaStream_t stream)
{
	for (size_t from = 0; from < b->large; from += PIECE) {
		pthread_mutex_lock(&b->turn);
		issue(b, place, from, PIECE, stream);
		gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
		pthread_mutex_unlock(&b->turn);
	}
}

static void by_stream(void *arg, unsigned index, cudaStream_t stream)
{
	struct bench *b = arg;

	for (unsigned n = 0; !atomic_load(&b->stop); n++) {
		if (n >= UNDER_WAY)
			gpu_ok(gpu_event_sync(b->ends[index][n % UNDER_WAY]), "cudaEventSynchronize");
		if (b->cut)
			copy_cut(b, index, stream);
		else
			issue(b, index, 0, b->large, stream);
		gpu_ok(cudaEventRecord(b->ends[index][n % UNDER_WAY], stream), "cudaEventRecord");
		atomic_fetch_add(&b->done, 1);
	}
	gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static void sample_by_hand(struct bench *b)
{
	cudaError_t code;

	issue(b, STREAMS, 0, SMALL, b->stream);
	while ((code = cudaStreamQuery(b->stream)) == cudaErrorNotReady)
		if (bench_now() > b->end_ns)
			atomic_store(&b->stop, true);
	gpu_ok(code, "cudaStreamQuery");
}

/* ---- runnel -------------------------------------------------------------- */

static int run_copy(struct rnl_job *job)
{
	const struct item *item = rnl_container_of(job, struct item, job);
	const struct bench *b = item->bench;
	char *host = b->host[item->place], *dev = b->dev[item->place];

	return rnl_copy(b->out ? host : dev, b->out ? dev : host, item->place < STREAMS ? b->large : SMALL);
}

/* A pool estimates by function, so the small copies have their own. */
static int run_small(struct rnl_job *job)
{
	return run_copy(job);
}

static void copy_again(struct rnl_job *job)
{
	struct bench *b = rnl_container_of(job, struct item, job)->bench;

	bench_rnl(job->result, "a large copy");
	atomic_fetch_add(&b->done, 1);
	if (!atomic_load(&b->stop))
		bench_rnl(rnl_submit(b->pool, job), "rnl_submit");
}

static void init_item(struct bench *b, struct item *item, unsigned place)
{
	const bool small = place == STREAMS;

	item->bench = b;
	item->place = place;
	bench_rnl(gpu_job_init(&item->job, small ? run_small : run_copy), "rnl_job_init");
	bench_rnl(rnl_job_set_class(&item->job, small ? b->high : b->low), "rnl_job_set_class");
	if (!small)
		bench_rnl(rnl_job_set_on_done(&item->job, copy_again), "rnl_job_set_on_done");
}

static void begin_jobs(struct bench *b)
{
	init_item(b, &b->sample, STREAMS);
	for (unsigned i = 0; i < STREAMS * UNDER_WAY; i++) {
		init_item(b, &b->items[i], i % STREAMS);
		bench_rnl(rnl_submit(b->pool, &b->items[i].job), "rnl_submit");
	}
}

static void sample_by_job(struct bench *b)
{
	bench_rnl(rnl_submit(b->pool, &b->sample.job), "rnl_submit");
	if (rnl_job_wait(&b->sample.job, (int64_t)b->run_ms * 1000000)) {
		atomic_store(&b->stop, true);
		bench_rnl(rnl_job_wait(&b->sample.job, RNL_FOREVER), "rnl_job_wait");
	}
	bench_rnl(b->sample.job.result, "a small copy");
}

/* ---- the row ------------------------------------------------------------- */

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const uint64_t begin = bench_now();
	const bool by_pool = way % WAYS == POOL;
	size_t nr = 0;

	b->out = way / WAYS;
	b->cut = way % WAYS == CUT;
	b->end_ns = begin + (uint64_t)(RAMP_MS + b->run_ms) * 1000000;
	atomic_store(&b->stop, false);
	atomic_store(&b->done, 0);
	if (by_pool)
		begin_jobs(b);
	else
		gpu_crew_begin(&b->crew);
	bench_sleep_ms(RAMP_MS);
	do {
		uint64_t start;

		bench_sleep_ms(1);
		start = bench_now();
		if (by_pool)
			sample_by_job(b);
		else
			sample_by_hand(b);
		b->us[nr++] = (double)(bench_now() - start) * 1e-3;
	} while (bench_now() < b->end_ns && !atomic_load(&b->stop));
	atomic_store(&b->stop, true);
	if (by_pool)
		bench_rnl(rnl_pool_drain(b->pool, RNL_FOREVER), "rnl_pool_drain");
	else
		gpu_crew_end(&b->crew);
	values[2] = (double)atomic_load(&b->done) * (double)b->large / (double)(bench_now() - begin);
	values[0] = bench_percentile(b->us, nr, 50);
	values[1] = bench_percentile(b->us, nr, 99);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_class_attr low = RNL_CLASS_ATTR_INIT, high = RNL_CLASS_ATTR_INIT;

	b->run_ms = run->opt->quick ? run->opt->run_ms : 4 * run->opt->run_ms;
	b->us = bench_alloc((b->run_ms + 2) * sizeof(*b->us));
	b->large = run->opt->quick ? 2 * PIECE : 32 * PIECE;
	for (unsigned i = 0; i <= STREAMS; i++) {
		b->host[i] = gpu_pinned(i < STREAMS ? b->large : SMALL);
		b->dev[i] = gpu_memory(i < STREAMS ? b->large : SMALL);
	}
	b->stream = gpu_stream(RNL_STREAM_PRIVATE, true);
	for (unsigned i = 0; i < STREAMS * UNDER_WAY; i++)
		b->ends[i / UNDER_WAY][i % UNDER_WAY] = gpu_event(cudaEventDisableTiming);
	pthread_mutex_init(&b->turn, NULL);
	gpu_crew_start(&b->crew, run->opt->info.ordinal, RNL_STREAM_PRIVATE, STREAMS, by_stream, b);
	attr.nr_class_workers = 1;
	attr.max_in_flight = UNDER_WAY;
	b->pool = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, STREAMS, &attr);
	low.priority = 3;
	high.priority = -4;
	high.nr_workers = 1;
	high.spin_us = 2000;	/* a sample begins 1 ms after the last one */
	bench_rnl(rnl_class_create(&b->low, b->pool, &low), "rnl_class_create");
	bench_rnl(rnl_class_create(&b->high, b->pool, &high), "rnl_class_create");
	return b;
}

const struct bench_work bench_copies = { begin_row, measure, gpu_row_end, NULL };
