/* SPDX-License-Identifier: MIT */
/*
 * The row join: a stream waits for the work of 16 threads, or workers, on the device.
 *
 * DESIGN
 *	A kernel runs on each of 16 streams, long enough to issue the join meanwhile; another kernel
 *	comes after the join. Two figures: the join's cost for its caller, and the time from the end
 *	of the last of the 16 kernels to the start of the kernel after the join, by the device's
 *	clock. By hand: an event of each thread, and a wait for each event.
 *	runnel's jobs have keys, one for each worker. The second figure varies by 3 us with the
 *	position, in the join's order, of the kernel that ends last. By hand the threads start in
 *	any order, so each sample begins with another job.
 *	With two GPUs, half of the 16 are on each, and the stream that joins them is on the first.
 *	The clocks of GPUs differ, so there the host's clock gives the second figure: from when the
 *	host sees the last end time of the 16 kernels until it sees the end time of the kernel after
 *	the join. The host sees both with a delay, for hand-written code and runnel alike. Kernels
 *	of the second GPU end last, so the wait for another GPU is measured.
 */
#include <runnel/thread.h>

#include "gpu/work.h"

#define NR 16
#define KERNEL_NS 1000000
#define LATER_NS 200000		/* longer kernels on the second GPU */
#define MARKED_US 100		/* a job's end is marked well within this time after its function */
#define SAMPLES_PART 16
#define KEYS_MAX 100000

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned nr;			/* samples */
	unsigned nr_gpus;
	uint64_t (*stamps)[2];		/* of the 16, and of the one after them */
	double *host_us, *device_us, seen_us;
	/* Hand-written: */
	struct gpu_crew crews[2];	/* one per GPU */
	cudaEvent_t events[NR];
	cudaStream_t stream;
	/* runnel: */
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

/* acquire: earlier words of the stream are visible, too */
static bool is_written(const uint64_t *stamp)
{
	return __atomic_load_n(stamp, __ATOMIC_ACQUIRE) != 0;
}

static bool all_ended(const struct bench *b)
{
	for (unsigned i = 0; i < NR; i++)
		if (!is_written(&b->stamps[i][1]))
			return false;
	return true;
}

/* Measures the gap on the host, while the kernels run. */
static double seen_gap_us(const struct bench *b)
{
	uint64_t ended = 0;
	bool behind;

	do {
		behind = is_written(&b->stamps[NR][1]);
		if (!ended && all_ended(b))
			ended = bench_now();
	} while (!behind);
	bench_must(ended != 0, "a join: the kernel behind it ended before the others");
	return (double)(bench_now() - ended) * 1e-3;
}

static void issue_behind(struct bench *b, cudaStream_t stream)
{
	gpu_ok(gpu_issue_spin(1, 1, 1, b->stamps[NR], stream), "a kernel");
	if (b->nr_gpus > 1)
		b->seen_us = seen_gap_us(b);
}

/* Computes the gap after all kernels have ended. */
static double gap_us(const struct bench *b)
{
	uint64_t last = 0, behind = b->stamps[NR][0];

	for (unsigned i = 0; i < NR; i++) {
		bench_must(b->stamps[i][1] != 0, "a kernel's time");
		last = b->stamps[i][1] > last ? b->stamps[i][1] : last;
		b->stamps[i][1] = 0;
	}
	b->stamps[NR][1] = 0;
	if (b->nr_gpus > 1)
		return b->seen_us;
	bench_must(behind >= last, "a join: the kernel behind it started before the others ended");
	return (double)(behind - last) * 1e-3;
}

/* ---- hand-written -------------------------------------------------------- */

static void issue_one(void *arg, unsigned index, cudaStream_t stream)
{
	struct bench *b = arg;
	const unsigned gpu = index * b->nr_gpus / NR;

	gpu_ok(gpu_issue_spin(1, 1, KERNEL_NS + gpu * LATER_NS, b->stamps[index], stream),
	       "a kernel");
	gpu_ok(cudaEventRecord(b->events[index], stream), "cudaEventRecord");
}

static double join_by_hand(struct bench *b)
{
	uint64_t start;
	double us;

	for (unsigned i = 0; i < b->nr_gpus; i++)
		gpu_crew_begin(&b->crews[i]);
	for (unsigned i = 0; i < b->nr_gpus; i++)
		gpu_crew_end(&b->crews[i]);
	start = bench_now();
	for (unsigned i = 0; i < NR; i++)
		gpu_ok(cudaStreamWaitEvent(b->stream, b->events[i], 0), "cudaStreamWaitEvent");
	us = (double)(bench_now() - start) * 1e-3;
	issue_behind(b, b->stream);
	gpu_ok(cudaStreamSynchronize(b->stream), "cudaStreamSynchronize");
	return us;
}

/* ---- runnel -------------------------------------------------------------- */

static int run_item(struct rnl_job *job)
{
	struct item *item = rnl_container_of(job, struct item, job);
	const uint64_t ns = KERNEL_NS + (unsigned)rnl_worker().device * LATER_NS;
	const cudaError_t code = gpu_issue_spin(1, 1, ns, item->stamps,
						(cudaStream_t)rnl_stream());

	/* relaxed: a hint; the barrier decides */
	atomic_fetch_add_explicit(&item->b->ran, 1, memory_order_relaxed);
	return code ? -1 : 0;
}

static int tell_worker(struct rnl_job *job)
{
	rnl_container_of(job, struct item, job)->worker = rnl_worker().index;
	return 0;
}

/* Finds a key for each worker by trying keys. */
static void find_keys(struct bench *b)
{
	bool has[NR] = { false };
	struct item probe;
	unsigned found = 0;

	bench_rnl(gpu_job_init(&probe.job, tell_worker), "rnl_job_init");
	for (uint64_t key = 0; found < NR; key++) {
		bench_must(key < KEYS_MAX, "a key for each worker");
		bench_rnl(submit_by_key(b->pool, &probe.job, key), "rnl_submit");
		bench_rnl(rnl_job_wait(&probe.job, RNL_FOREVER), "rnl_job_wait");
		if (has[probe.worker])
			continue;
		has[probe.worker] = true;
		b->items[found++].key = key;
	}
	for (unsigned i = 0; i < NR; i++) {
		b->items[i].b = b;
		b->items[i].stamps = b->stamps[i];
		bench_rnl(gpu_job_init(&b->items[i].job, run_item), "rnl_job_init");
	}
}

static double join_by_pool(struct bench *b, unsigned first)
{
	struct rnl_barrier barrier;
	uint64_t start;
	double us;

	atomic_store(&b->ran, 0);
	bench_rnl(rnl_barrier_init(&barrier, b->pool), "rnl_barrier_init");
	for (unsigned i = 0; i < NR; i++) {
		struct item *item = &b->items[(first + i) % NR];

		bench_rnl(rnl_barrier_add(&barrier, &item->job), "rnl_barrier_add");
		bench_rnl(submit_by_key(b->pool, &item->job, item->key), "rnl_submit");
	}
	while (atomic_load_explicit(&b->ran, memory_order_relaxed) < NR)
		bench_relax();
	spin_us(MARKED_US);
	start = bench_now();
	bench_rnl(rnl_barrier_join(&barrier), "rnl_barrier_join");
	us = (double)(bench_now() - start) * 1e-3;
	issue_behind(b, (cudaStream_t)rnl_stream());
	bench_rnl(rnl_stream_wait(RNL_FOREVER), "rnl_stream_wait");
	bench_rnl(rnl_barrier_wait(&barrier, RNL_FOREVER), "rnl_barrier_wait");
	bench_rnl(barrier.result, "a kernel");
	return us;
}

/* ---- the row ------------------------------------------------------------- */

static void measure(void *arg, unsigned by_pool, double *values)
{
	struct bench *b = arg;

	for (unsigned i = 0; i < b->nr; i++) {
		b->host_us[i] = by_pool ? join_by_pool(b, i) : join_by_hand(b);
		b->device_us[i] = gap_us(b);
	}
	values[0] = bench_percentile(b->host_us, b->nr, 50);
	values[1] = bench_percentile(b->device_us, b->nr, 50);
}

/* Makes the hand-written threads of a GPU, and their events. */
static void begin_crew(struct bench *b, const struct bench_run *run, unsigned gpu)
{
	const unsigned nr = NR / b->nr_gpus, first = gpu * nr;

	gpu_enter(run->opt->gpus[gpu]);
	for (unsigned i = first; i < first + nr; i++)
		b->events[i] = gpu_event(cudaEventDisableTiming);
	gpu_enter(run->opt->gpus[0]);
	atomic_init(&b->crews[gpu].next, first);
	gpu_crew_start(&b->crews[gpu], run->opt->gpus[gpu], run->kind, nr, issue_one, b);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	b->nr_gpus = run->nr_gpus;
	b->nr = run->opt->samples / SAMPLES_PART + 1;
	b->host_us = bench_alloc(b->nr * sizeof(*b->host_us));
	b->device_us = bench_alloc(b->nr * sizeof(*b->device_us));
	b->stamps = gpu_pinned((NR + 1) * sizeof(*b->stamps));
	b->stream = gpu_stream(run->kind, false);
	for (unsigned i = 0; i < b->nr_gpus; i++)
		begin_crew(b, run, i);
	b->pool = gpu_pool(gpu_names(run->opt, 0, b->nr_gpus), run->kind, NR, NULL);
	find_keys(b);
	(void)join_by_hand(b);
	(void)gap_us(b);
	(void)join_by_pool(b, 0);
	(void)gap_us(b);
	return b;
}

const struct bench_work bench_join = { begin_row, measure, gpu_row_end, NULL };
