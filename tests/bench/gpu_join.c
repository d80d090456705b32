/* SPDX-License-Identifier: MIT */
/*
 * The line join: a stream waits for the work of 16 threads, or workers, on the device.
 *
 * DESIGN
 *	A kernel on each of 16 streams, long enough for the join to be issued when
 *	all of them are there; then, behind the join, another kernel.  Two figures: what the
 *	join costs its caller, and how long after the end of the last of the 16 the one
 *	behind it starts, by the device's own clock.  By hand: an event of each
 *	thread's, and as many waits.
 *	runnel's jobs have keys, one for each worker.
 */
#include "gpu.h"
#include "gpu_work.h"

#include <stdlib.h>

#define NR 16
#define KERNEL_NS 1000000
#define MARKED_US 100		/* after its function a job's end is marked, long before */
#define SAMPLES_PART 16
#define KEYS_MAX 100000

struct bench {
	const struct gpu_options *opt;
	enum rnl_stream_kind kind;
	uint64_t (*stamps)[2];		/* of the 16, and the one behind them */
	double *host_us, *device_us;
	/* Hand-written: */
	pthread_barrier_t start, end;
	atomic_uint next;
	cudaEvent_t events[NR];
	cudaStream_t stream;
	/* runnel: */
	struct rnl_pool *pool;
	atomic_uint ran;		/* functions */
	struct item {
		struct rnl_job job;
		struct bench *b;
		uint64_t key, *stamps;
		int worker;
	} items[NR];
};

static void spin_us(unsigned us)
{
	const uint64_t end = bench_now() + us * 1000ull;

	while (bench_now() < end)
		bench_relax();
}

static double gap_us(const struct bench *b)
{
	uint64_t last = 0, behind = b->stamps[NR][0];

	for (unsigned i = 0; i < NR; i++) {
		bench_must(b->stamps[i][1] != 0, "a kernel's time");
		last = b->stamps[i][1] > last ? b->stamps[i][1] : last;
		b->stamps[i][1] = 0;
	}
	bench_must(behind >= last, "a join: the kernel behind it started before the others ended");
	return (double)(behind - last) * 1e-3;
}

/* ---- hand-written -------------------------------------------------------- */

static void *serve(void *arg)
{
	struct bench *b = arg;
	const unsigned index = atomic_fetch_add(&b->next, 1);
	cudaStream_t stream;

	gpu_enter(b->opt->ordinal);
	stream = gpu_stream(b->kind, false);
	b->events[index] = gpu_event(cudaEventDisableTiming);
	pthread_barrier_wait(&b->end);
	for (;;) {
		pthread_barrier_wait(&b->start);
		gpu_ok(gpu_issue_spin(1, 1, KERNEL_NS, b->stamps[index], stream), "a kernel");
		gpu_ok(cudaEventRecord(b->events[index], stream), "cudaEventRecord");
		pthread_barrier_wait(&b->end);
	}
	return NULL;
}

static double join_by_hand(struct bench *b)
{
	uint64_t start;
	double us;

	pthread_barrier_wait(&b->start);
	pthread_barrier_wait(&b->end);
	start = bench_now();
	for (unsigned i = 0; i < NR; i++)
		gpu_ok(cudaStreamWaitEvent(b->stream, b->events[i], 0), "cudaStreamWaitEvent");
	us = (double)(bench_now() - start) * 1e-3;
	gpu_ok(gpu_issue_spin(1, 1, 1, b->stamps[NR], b->stream), "a kernel");
	gpu_ok(cudaStreamSynchronize(b->stream), "cudaStreamSynchronize");
	return us;
}

/* ---- runnel -------------------------------------------------------------- */

static int run_item(struct rnl_job *job)
{
	struct item *item = rnl_container_of(job, struct item, job);
	const cudaError_t code = gpu_issue_spin(1, 1, KERNEL_NS, item->stamps,
						(cudaStream_t)rnl_stream());

	/* relaxed: a hint; the barrier tells */
	atomic_fetch_add_explicit(&item->b->ran, 1, memory_order_relaxed);
	return code ? -1 : 0;
}

static int tell_worker(struct rnl_job *job)
{
	rnl_container_of(job, struct item, job)->worker = rnl_worker_index();
	return 0;
}

/* A key for each worker, by trying. */
static void find_keys(struct bench *b)
{
	bool has[NR] = { false };
	struct item probe;
	unsigned found = 0;

	gpu_rnl(gpu_job_init(&probe.job, tell_worker), "rnl_job_init");
	for (uint64_t key = 0; found < NR; key++) {
		bench_must(key < KEYS_MAX, "a key for each worker");
		gpu_rnl(rnl_submit_keyed(b->pool, &probe.job, key), "rnl_submit_keyed");
		gpu_rnl(rnl_job_wait(&probe.job, RNL_FOREVER), "rnl_job_wait");
		if (has[probe.worker])
			continue;
		has[probe.worker] = true;
		b->items[found++].key = key;
	}
	for (unsigned i = 0; i < NR; i++) {
		b->items[i].b = b;
		b->items[i].stamps = b->stamps[i];
		gpu_rnl(gpu_job_init(&b->items[i].job, run_item), "rnl_job_init");
	}
}

static double join_by_pool(struct bench *b)
{
	struct rnl_barrier barrier;
	uint64_t start;
	double us;

	atomic_store(&b->ran, 0);
	gpu_rnl(rnl_barrier_init(&barrier, b->pool), "rnl_barrier_init");
	for (unsigned i = 0; i < NR; i++) {
		struct item *item = &b->items[i];

		gpu_rnl(rnl_barrier_add(&barrier, &item->job), "rnl_barrier_add");
		gpu_rnl(rnl_submit_keyed(b->pool, &item->job, item->key), "rnl_submit_keyed");
	}
	while (atomic_load_explicit(&b->ran, memory_order_relaxed) < NR)
		bench_relax();
	spin_us(MARKED_US);
	start = bench_now();
	gpu_rnl(rnl_barrier_join(&barrier), "rnl_barrier_join");
	us = (double)(bench_now() - start) * 1e-3;
	gpu_ok(gpu_issue_spin(1, 1, 1, b->stamps[NR], (cudaStream_t)rnl_stream()), "a kernel");
	gpu_rnl(rnl_stream_wait(RNL_FOREVER), "rnl_stream_wait");
	gpu_rnl(rnl_barrier_wait(&barrier, RNL_FOREVER), "rnl_barrier_wait");
	gpu_rnl(rnl_barrier_result(&barrier), "a kernel");
	return us;
}

/* ---- the line ------------------------------------------------------------ */

static void measure(struct bench *b, double (*join)(struct bench *b), unsigned nr,
		    struct gpu_figure *host, struct gpu_figure *device)
{
	for (unsigned i = 0; i < nr; i++) {
		b->host_us[i] = join(b);
		b->device_us[i] = gap_us(b);
	}
	gpu_figure_add(host, bench_percentile(b->host_us, nr, 50));
	gpu_figure_add(device, bench_percentile(b->device_us, nr, 50));
}

static void start(struct bench *b)
{
	pthread_t thread;

	gpu_begin(b->opt->ordinal);
	b->stamps = gpu_pinned((NR + 1) * sizeof(*b->stamps));
	b->stream = gpu_stream(b->kind, false);
	pthread_barrier_init(&b->start, NULL, NR + 1);
	pthread_barrier_init(&b->end, NULL, NR + 1);
	for (unsigned i = 0; i < NR; i++)
		bench_must(!pthread_create(&thread, NULL, serve, b), "pthread_create");
	pthread_barrier_wait(&b->end);
	b->pool = gpu_pool(b->opt->device, b->kind, NR, NULL);
	find_keys(b);
	(void)join_by_hand(b);
	(void)gap_us(b);
	(void)join_by_pool(b);
	(void)gap_us(b);
}

static void line(const struct gpu_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	struct gpu_row *host = gpu_row_new("join", "us", false, GPU_ABSOLUTE, 10,
					   "join of 16 workers: what it costs its caller");
	struct gpu_row *device = gpu_row_new("join", "us", false, GPU_ABSOLUTE, 10,
					     "the same: last end to next start");
	struct gpu_figure *hands[2] = {
		gpu_row_figure(host, GPU_HAND, "16 event waits"),
		gpu_row_figure(device, GPU_HAND, "16 event waits")
	};
	struct gpu_figure *pools[2] = {
		gpu_row_figure(host, GPU_RUNNEL, "rnl_barrier_join()"),
		gpu_row_figure(device, GPU_RUNNEL, "rnl_barrier_join()")
	};
	const unsigned nr = run->opt->samples / SAMPLES_PART + 1;

	gpu_setup();
	b->opt = run->opt;
	b->kind = RNL_STREAM_PER_THREAD;
	b->host_us = bench_alloc(nr * sizeof(*b->host_us));
	b->device_us = bench_alloc(nr * sizeof(*b->device_us));
	start(b);
	for (unsigned turn = 0; turn < run->opt->runs; turn++) {
		measure(b, join_by_hand, nr, hands[0], hands[1]);
		measure(b, join_by_pool, nr, pools[0], pools[1]);
	}
	rnl_thread_detach();
	rnl_pool_destroy(b->pool);
	gpu_row_tell(run, host);
	gpu_row_tell(run, device);
}

const struct gpu_line gpu_join = { .name = "join", .patience_s = 60, .measure = line };
