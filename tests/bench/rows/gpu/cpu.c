/* SPDX-License-Identifier: MIT */
/*
 * The row cpu: the CPU time of an idle pool, and of a pool with workers that wait for the device.
 *
 * DESIGN
 *	The process's CPU time, while this thread sleeps. A process with a CUDA context and sleeping
 *	threads shows CUDA's own CPU time. An idle pool may take a tenth of a percent more, the
 *	least measurable amount. Waiting: each of 8 streams has a kernel that lasts longer than the
 *	measurement; threads wait for it in a sync, in an event that blocks, or, with runnel, in a
 *	barrier.
 */
#include "gpu/work.h"

#include <time.h>

#include <runnel/stats.h>

#define NR 8
#define WINDOW_MS 600
#define SETTLE_MS 100		/* until all idle threads sleep */
#define QUICK_PART 6
#define RUNS_MAX 3
#define KERNEL_PARTS 16		/* limit of a kernel's time, in planned times */

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned window_ms, settle_ms, nr_alone;
	double alone[RUNS_MAX];
	uint64_t kernel_ns;
	struct gpu_crew crew;
	cudaEvent_t events[NR];
	bool blocking;			/* by hand: waits in an event, else in a sync */
	struct rnl_job jobs[NR];
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	bench_must(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), "clock_gettime");
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Returns the percent of a core that is used during the window. */
static double percent(const struct bench *b)
{
	uint64_t cpu, start;

	bench_sleep_ms(b->settle_ms);
	cpu = cpu_ns();
	start = bench_now();
	bench_sleep_ms(b->window_ms);
	return 100 * (double)(cpu_ns() - cpu) / (double)(bench_now() - start);
}

/* ---- waiting by hand ----------------------------------------------------- */

static void wait_one(void *arg, unsigned index, cudaStream_t stream)
{
	struct bench *b = arg;

	gpu_ok(gpu_issue_spin(1, 1, b->kernel_ns, NULL, stream), "a kernel");
	gpu_ok(cudaEventRecord(b->events[index], stream), "cudaEventRecord");
	if (b->blocking)
		gpu_ok(gpu_event_sync(b->events[index]), "cudaEventSynchronize");
	else
		gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static double wait_by_hand(struct bench *b, bool blocking)
{
	double found;

	b->blocking = blocking;
	gpu_crew_begin(&b->crew);
	found = percent(b);
	gpu_crew_end(&b->crew);
	return found / NR;
}

/* ---- waiting with runnel ------------------------------------------------- */

static uint64_t kernel_ns;

static int run_spin(struct rnl_job *job)
{
	(void)job;
	return gpu_issue_spin(1, 1, kernel_ns, NULL, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

static void *await(void *barrier)
{
	bench_rnl(rnl_barrier_wait(barrier, RNL_FOREVER), "rnl_barrier_wait");
	return NULL;
}

/* Returns true if the kernels lasted for the whole measurement. */
static bool wait_once(struct bench *b, double *found)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_barrier barrier;
	pthread_t waiter;

	bench_rnl(rnl_barrier_init(&barrier, b->pool), "rnl_barrier_init");
	for (unsigned i = 0; i < NR; i++) {
		bench_rnl(rnl_barrier_add(&barrier, &b->jobs[i]), "rnl_barrier_add");
		bench_rnl(rnl_submit(b->pool, &b->jobs[i]), "rnl_submit");
	}
	bench_must(!pthread_create(&waiter, NULL, await, &barrier), "pthread_create");
	*found = percent(b);
	bench_rnl(rnl_pool_read_stats(b->pool, RNL_ALL_WORKERS, &stats), "rnl_pool_read_stats");
	pthread_join(waiter, NULL);
	bench_rnl(barrier.result, "a kernel");
	return stats.in_flight == NR;
}

static double wait_by_pool(struct bench *b)
{
	double found;

	/* A busy machine is slower, so its kernels must last longer. */
	while (!wait_once(b, &found)) {
		bench_must(kernel_ns < KERNEL_PARTS * b->kernel_ns, "kernels that last");
		kernel_ns *= 2;
	}
	return found / NR;
}

/* ---- the row ------------------------------------------------------------- */

enum { ALONE, IDLE, SYNC, BLOCKING, POOL };

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;

	if (way == POOL)
		values[0] = wait_by_pool(b);
	else if (way == IDLE)
		values[0] = percent(b);
	else if (way == ALONE)
		values[0] = b->alone[b->nr_alone++];
	else
		values[0] = wait_by_hand(b, way == BLOCKING);
}

static void *begin_row(struct bench_run *run)
{
	const struct bench_options *opt = run->opt;
	struct bench *b = bench_alloc(sizeof(*b));

	run->runs = opt->runs < RUNS_MAX ? opt->runs : RUNS_MAX;
	b->settle_ms = SETTLE_MS;
	b->window_ms = opt->quick ? WINDOW_MS / QUICK_PART : WINDOW_MS;
	b->kernel_ns = kernel_ns = (b->settle_ms + b->window_ms) * 1300000ull;
	for (unsigned i = 0; i < NR; i++) {
		b->events[i] = gpu_event(cudaEventDisableTiming | cudaEventBlockingSync);
		bench_rnl(gpu_job_init(&b->jobs[i], run_spin), "rnl_job_init");
	}
	gpu_crew_start(&b->crew, opt->info.ordinal, run->kind, NR, wait_one, b);
	/* Measured while there is no pool. */
	for (unsigned i = 0; i < run->runs; i++)
		b->alone[i] = percent(b);
	b->pool = gpu_pool(opt->device, run->kind, NR, NULL);
	return b;
}

const struct bench_work bench_cpu = { begin_row, measure, gpu_row_end, NULL };
