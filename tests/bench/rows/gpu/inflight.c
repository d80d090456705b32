/* SPDX-License-Identifier: MIT */
/*
 * The row inflight: kernels of 5 ms, one on each of 32 threads or workers.
 *
 * DESIGN
 *	Each kernel stores the device's time at its start and its end. The mean number in flight is
 *	the sum of the durations, divided by the time from the first start to the last end; the
 *	second figure is the maximum. The number of connections is fixed when the context is
 *	created, and streams share them in the order of their creation. So each side, and each run,
 *	has its own process.
 */
#include "gpu/work.h"

#include <stdlib.h>

#define NR 32
#define KERNEL_NS 5000000

struct bench {
	const struct bench_options *opt;
	uint64_t (*stamps)[2];		/* times of each kernel */
	/* Hand-written: */
	struct gpu_crew crew;
	cudaEvent_t events[NR];
	/* runnel: */
	struct rnl_pool *pool;
	struct item {
		struct rnl_job job;
		uint64_t *stamps;
	} items[NR];
};

static int ascending(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Computes the mean and the maximum in flight. */
static void find(const struct bench *b, double *values)
{
	uint64_t starts[NR], ends[NR], sum = 0;
	unsigned over = 0, most = 0;

	for (unsigned i = 0; i < NR; i++) {
		starts[i] = b->stamps[i][0];
		ends[i] = b->stamps[i][1];
		bench_must(ends[i] >= starts[i] + KERNEL_NS * 9 / 10, "a kernel of 5 ms");
		sum += ends[i] - starts[i];
		b->stamps[i][0] = b->stamps[i][1] = 0;
	}
	qsort(starts, NR, sizeof(starts[0]), ascending);
	qsort(ends, NR, sizeof(ends[0]), ascending);
	for (unsigned begun = 0; begun < NR; begun++) {
		while (ends[over] <= starts[begun])
			over++;
		most = begun + 1 - over > most ? begun + 1 - over : most;
	}
	values[0] = (double)sum / (double)(ends[NR - 1] - starts[0]);
	values[1] = most;
}

/* ---- hand-written -------------------------------------------------------- */

static void issue_one(void *arg, unsigned index, cudaStream_t stream)
{
	struct bench *b = arg;

	gpu_ok(gpu_issue_spin(1, 1, KERNEL_NS, b->stamps[index], stream), "a kernel");
	gpu_ok(cudaEventRecord(b->events[index], stream), "cudaEventRecord");
	bench_sleep_ms(4);	/* other threads launch meanwhile */
	gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static void by_hand(struct bench *b, double *values)
{
	gpu_crew_begin(&b->crew);
	gpu_crew_end(&b->crew);
	find(b, values);
}

/* ---- runnel -------------------------------------------------------------- */

static int run_spin(struct rnl_job *job)
{
	uint64_t *stamps = rnl_container_of(job, struct item, job)->stamps;

	return gpu_issue_spin(1, 1, KERNEL_NS, stamps, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

static void make_items(struct bench *b)
{
	for (unsigned i = 0; i < NR; i++) {
		b->items[i].stamps = b->stamps[i];
		bench_rnl(gpu_job_init(&b->items[i].job, run_spin), "rnl_job_init");
	}
}

static void by_pool(struct bench *b, double *values)
{
	struct rnl_job *jobs[NR];
	struct rnl_barrier barrier;

	bench_rnl(rnl_barrier_init(&barrier, b->pool), "rnl_barrier_init");
	for (unsigned i = 0; i < NR; i++) {
		jobs[i] = &b->items[i].job;
		bench_rnl(rnl_barrier_add(&barrier, jobs[i]), "rnl_barrier_add");
	}
	bench_must(rnl_submit_many(b->pool, jobs, NR) == NR, "rnl_submit_many");
	bench_rnl(rnl_barrier_wait(&barrier, RNL_FOREVER), "rnl_barrier_wait");
	bench_rnl(barrier.result, "a kernel of 5 ms");
	find(b, values);
}

/* ---- the row ------------------------------------------------------------- */

enum { EIGHT, MANY, POOL, CEILING };

/* Measures a side in a separate process. */
static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;

	values[0] = values[1] = NR;
	if (way == CEILING)
		return;
	if (way != EIGHT)
		gpu_setup();
	gpu_begin(b->opt->info.ordinal);
	b->stamps = gpu_pinned(NR * sizeof(*b->stamps));
	if (way == POOL) {
		b->pool = gpu_pool(b->opt->device, RNL_STREAM_PER_THREAD, NR, NULL);
		make_items(b);
		by_pool(b, values);
		by_pool(b, values);
	} else {
		for (unsigned i = 0; i < NR; i++)
			b->events[i] = gpu_event(cudaEventDisableTiming);
		gpu_crew_start(&b->crew, b->opt->info.ordinal, RNL_STREAM_PER_THREAD, NR,
			       issue_one, b);
		by_hand(b, values);
		by_hand(b, values);
	}
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	b->opt = run->opt;
	return b;
}

const struct bench_work bench_inflight = { begin_row, measure, NULL, NULL };
