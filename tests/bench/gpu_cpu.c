/* SPDX-License-Identifier: MIT */
/*
 * The line cpu: what an idle pool takes of the CPUs, and one whose workers wait for the
 * device.
 *
 * DESIGN
 *	The process' own CPU time, while this thread sleeps.  A process with a CUDA
 *	context and threads that sleep tells what CUDA itself takes: an idle pool may
 *	take a tenth of a percent more, which is what can be told from nothing.  Waiting: on each of 8
 *	streams a kernel that lasts longer than the measurement; by hand in a sync, or
 *	in an event that blocks; with runnel a barrier is waited for, too.
 */
#include "gpu.h"
#include "gpu_work.h"

#include <stdlib.h>
#include <time.h>

#define NR 8
#define WINDOW_MS 600
#define SETTLE_MS 100		/* until all that will sleep does */
#define QUICK_PART 6

struct bench {
	const struct gpu_options *opt;
	unsigned window_ms, settle_ms;
	uint64_t kernel_ns;
	pthread_barrier_t start, end;
	bool blocking;			/* by hand: an event, else a sync */
	struct rnl_pool *pool;
	struct rnl_job jobs[NR];
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	bench_must(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), "clock_gettime");
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Return: percent of a core, until the window is over. */
static double percent(const struct bench *b)
{
	uint64_t cpu, start;

	gpu_sleep_ms(b->settle_ms);
	cpu = cpu_ns();
	start = bench_now();
	gpu_sleep_ms(b->window_ms);
	return 100 * (double)(cpu_ns() - cpu) / (double)(bench_now() - start);
}

/* ---- waiting by hand ----------------------------------------------------- */

static void *serve(void *arg)
{
	struct bench *b = arg;
	cudaStream_t stream;
	cudaEvent_t event;

	gpu_enter(b->opt->ordinal);
	stream = gpu_stream(RNL_STREAM_PER_THREAD, false);
	event = gpu_event(cudaEventDisableTiming | cudaEventBlockingSync);
	pthread_barrier_wait(&b->end);
	for (;;) {
		pthread_barrier_wait(&b->start);
		gpu_ok(gpu_issue_spin(1, 1, b->kernel_ns, NULL, stream), "a kernel");
		gpu_ok(cudaEventRecord(event, stream), "cudaEventRecord");
		if (b->blocking)
			gpu_ok(gpu_event_sync(event), "cudaEventSynchronize");
		else
			gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
		pthread_barrier_wait(&b->end);
	}
	return NULL;
}

static double wait_by_hand(struct bench *b, bool blocking)
{
	double found;

	b->blocking = blocking;
	pthread_barrier_wait(&b->start);
	found = percent(b);
	pthread_barrier_wait(&b->end);
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
	gpu_rnl(rnl_barrier_wait(barrier, RNL_FOREVER), "rnl_barrier_wait");
	return NULL;
}

static double wait_by_pool(struct bench *b)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_barrier barrier;
	pthread_t waiter;
	double found;

	gpu_rnl(rnl_barrier_init(&barrier, b->pool), "rnl_barrier_init");
	for (unsigned i = 0; i < NR; i++) {
		gpu_rnl(rnl_barrier_add(&barrier, &b->jobs[i]), "rnl_barrier_add");
		gpu_rnl(rnl_submit(b->pool, &b->jobs[i]), "rnl_submit");
	}
	bench_must(!pthread_create(&waiter, NULL, await, &barrier), "pthread_create");
	found = percent(b);
	gpu_rnl(rnl_pool_stats(b->pool, &stats), "rnl_pool_stats");
	bench_must(stats.in_flight == NR, "kernels in flight for as long as it was measured");
	pthread_join(waiter, NULL);
	gpu_rnl(rnl_barrier_result(&barrier), "a kernel");
	return found / NR;
}

/* ---- the line ------------------------------------------------------------ */

static void start(struct bench *b)
{
	pthread_t thread;

	pthread_barrier_init(&b->start, NULL, NR + 1);
	pthread_barrier_init(&b->end, NULL, NR + 1);
	for (unsigned i = 0; i < NR; i++) {
		bench_must(!pthread_create(&thread, NULL, serve, b), "pthread_create");
		gpu_rnl(gpu_job_init(&b->jobs[i], run_spin), "rnl_job_init");
	}
	pthread_barrier_wait(&b->end);
}

static void line(const struct gpu_run *run)
{
	const struct gpu_options *opt = run->opt;
	struct bench *b = bench_alloc(sizeof(*b));
	struct gpu_row *idle = gpu_row_new("cpu", "% core", false, GPU_HAND_PLUS, 0.1,
					   "CPU of an idle pool of 8 workers");
	struct gpu_row *waiting = gpu_row_new("cpu", "% core", false, GPU_ABSOLUTE, 10,
					      "CPU for each of 8 workers that wait");
	struct gpu_figure *none = gpu_row_figure(idle, GPU_HAND, "CUDA alone");
	struct gpu_figure *idle_pool = gpu_row_figure(idle, GPU_RUNNEL, "idle");
	struct gpu_figure *hands[2] = {
		gpu_row_figure(waiting, GPU_HAND, "stream sync"),
		gpu_row_figure(waiting, GPU_HAND, "blocking event"),
	};
	struct gpu_figure *pool = gpu_row_figure(waiting, GPU_RUNNEL, "rnl_barrier_wait()");
	const unsigned runs = opt->runs < 3 ? opt->runs : 3;

	gpu_setup();
	gpu_begin(opt->ordinal);
	b->opt = opt;
	b->settle_ms = SETTLE_MS;
	b->window_ms = opt->quick ? WINDOW_MS / QUICK_PART : WINDOW_MS;
	b->kernel_ns = kernel_ns = (b->settle_ms + b->window_ms) * 1300000ull;
	start(b);
	for (unsigned i = 0; i < runs; i++)
		gpu_figure_add(none, percent(b));
	b->pool = gpu_pool(opt->device, RNL_STREAM_PER_THREAD, NR, NULL);
	for (unsigned i = 0; i < runs; i++) {
		gpu_figure_add(idle_pool, percent(b));
		gpu_figure_add(hands[0], wait_by_hand(b, false));
		gpu_figure_add(hands[1], wait_by_hand(b, true));
		gpu_figure_add(pool, wait_by_pool(b));
	}
	rnl_pool_destroy(b->pool);
	gpu_row_tell(run, idle);
	gpu_row_tell(run, waiting);
}

const struct gpu_line gpu_cpu = { .name = "cpu", .patience_s = 60, .measure = line };
