/* SPDX-License-Identifier: MIT */
/*
 * The row pipeline: three stages on three streams; item n is in one stage while items n - 1 and
 * n - 2 are in the next ones.
 *
 * DESIGN
 *	A stage is a kernel of 50 us, 0.2 ms or 1 ms. By hand: a thread issues all items to three
 *	streams, with an event after each stage; or each of three threads issues to its stream,
 *	after the thread of the stage before has recorded the event. runnel: a worker for each
 *	stage; a stage of an item comes after a barrier of its previous stage; one thread submits
 *	all jobs, and only waits for the last stages. The time is from the first kernel's start to
 *	the last one's end, by the device's clock.
 */
#include "gpu/work.h"

#include <sched.h>

#define LOOKS 1024		/* looks before a yield: there may be fewer CPUs than threads */
#define NR 32
#define SAMPLES_PART 50

enum { STAGES = 3, LENGTHS = 3 };

static const uint64_t lengths[LENGTHS] = { 50000, 200000, 1000000 };

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned nr;			/* samples */
	uint64_t (*stamps)[NR][2];	/* times of each stage's kernels */
	double *ms;
	uint64_t ns;
	/* Hand-written: */
	cudaStream_t streams[STAGES];
	cudaEvent_t events[STAGES][NR];
	struct gpu_crew crew;
	atomic_uint recorded[STAGES];	/* items whose events were recorded, by the crew */
	/* runnel: */
	struct rnl_barrier passed[STAGES - 1][NR];
	struct rnl_barrier all;
	struct stage {
		struct rnl_job job;
		struct bench *bench;
		uint64_t *stamps;
	} stages[STAGES][NR];
};

/* Returns the ms from the first start to the last end. */
static double time_of(struct bench *b)
{
	const uint64_t began = b->stamps[0][0][0], ended = b->stamps[STAGES - 1][NR - 1][1];

	for (unsigned s = 1; s < STAGES; s++) {
		for (unsigned i = 0; i < NR; i++)
			bench_must(b->stamps[s - 1][i][1] != 0 &&
				   b->stamps[s][i][0] >= b->stamps[s - 1][i][1],
				   "an order: a stage began before the one before it had ended");
	}
	for (unsigned s = 0; s < STAGES; s++) {
		for (unsigned i = 0; i < NR; i++)
			b->stamps[s][i][0] = b->stamps[s][i][1] = 0;
	}
	return (double)(ended - began) * 1e-6;
}

static void issue_stage(struct bench *b, unsigned s, unsigned i)
{
	if (s)
		gpu_ok(cudaStreamWaitEvent(b->streams[s], b->events[s - 1][i], 0),
		       "cudaStreamWaitEvent");
	gpu_ok(gpu_issue_spin(1, 1, b->ns, b->stamps[s][i], b->streams[s]), "a kernel");
	if (s < STAGES - 1)
		gpu_ok(cudaEventRecord(b->events[s][i], b->streams[s]), "cudaEventRecord");
}

static void run_by_hand(struct bench *b)
{
	for (unsigned i = 0; i < NR; i++) {
		for (unsigned s = 0; s < STAGES; s++)
			issue_stage(b, s, i);
	}
	gpu_ok(cudaStreamSynchronize(b->streams[STAGES - 1]), "cudaStreamSynchronize");
}

/* Waits for the record of an event: a stream does not wait for an unrecorded event. */
static void await_record(struct bench *b, unsigned s, unsigned i)
{
	unsigned looks = 0;

	/* acquire: the event; pairs with the other thread's release */
	while (atomic_load_explicit(&b->recorded[s], memory_order_acquire) <= i) {
		bench_relax();
		if (++looks % LOOKS == 0)
			sched_yield();
	}
}

static void by_thread(void *arg, unsigned s, cudaStream_t own)
{
	struct bench *b = arg;

	(void)own;
	for (unsigned i = 0; i < NR; i++) {
		if (s)
			await_record(b, s - 1, i);
		issue_stage(b, s, i);
		/* release: the event; pairs with the next thread's acquire */
		atomic_store_explicit(&b->recorded[s], i + 1, memory_order_release);
	}
}

static void run_by_threads(struct bench *b)
{
	for (unsigned s = 0; s < STAGES; s++)
		atomic_store(&b->recorded[s], 0);
	gpu_crew_begin(&b->crew);
	gpu_crew_end(&b->crew);
	gpu_ok(cudaStreamSynchronize(b->streams[STAGES - 1]), "cudaStreamSynchronize");
}

static int run_stage(struct rnl_job *job)
{
	struct stage *stage = rnl_container_of(job, struct stage, job);

	return gpu_issue_spin(1, 1, stage->bench->ns, stage->stamps,
			      (cudaStream_t)rnl_stream()) ? -1 : 0;
}

static void run_by_pool(struct bench *b)
{
	bench_rnl(rnl_barrier_init(&b->all, b->pool), "rnl_barrier_init");
	for (unsigned i = 0; i < NR; i++) {
		for (unsigned s = 0; s < STAGES; s++) {
			struct rnl_job *job = &b->stages[s][i].job;
			struct rnl_barrier *own = &b->all;

			if (s < STAGES - 1) {
				bench_rnl(rnl_barrier_init(&b->passed[s][i], b->pool),
					  "rnl_barrier_init");
				own = &b->passed[s][i];
			}
			bench_rnl(rnl_barrier_add(own, job), "rnl_barrier_add");
			if (s)
				bench_rnl(rnl_job_set_after(job, &b->passed[s - 1][i]),
					  "rnl_job_set_after");
			bench_rnl(submit_by_key(b->pool, job, RNL_KEY_WORKER(s)),
				  "rnl_submit");
		}
	}
	/* The last stages are done after the others. */
	bench_rnl(rnl_barrier_wait(&b->all, RNL_FOREVER), "rnl_barrier_wait");
	bench_rnl(b->all.result, "a stage");
}

/* ---- the row ------------------------------------------------------------- */

/* The order of the table. */
static void (*const ways[])(struct bench *b) = { run_by_hand, run_by_threads, run_by_pool };

static double sample(struct bench *b, unsigned way)
{
	ways[way](b);
	return time_of(b);
}

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;

	for (unsigned length = 0; length < LENGTHS; length++) {
		b->ns = lengths[length];
		for (unsigned i = 0; i < b->nr; i++)
			b->ms[i] = sample(b, way);
		values[length] = bench_percentile(b->ms, b->nr, 50);
	}
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	b->nr = run->opt->samples / SAMPLES_PART + 1;
	b->ms = bench_alloc(b->nr * sizeof(*b->ms));
	b->stamps = gpu_pinned(STAGES * sizeof(*b->stamps));
	b->pool = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, STAGES, NULL);
	for (unsigned s = 0; s < STAGES; s++) {
		b->streams[s] = gpu_stream(RNL_STREAM_PRIVATE, false);
		for (unsigned i = 0; i < NR; i++) {
			b->events[s][i] = gpu_event(cudaEventDisableTiming);
			b->stages[s][i].bench = b;
			b->stages[s][i].stamps = b->stamps[s][i];
			bench_rnl(gpu_job_init(&b->stages[s][i].job, run_stage), "rnl_job_init");
		}
	}
	gpu_crew_start(&b->crew, run->opt->info.ordinal, RNL_STREAM_PRIVATE, STAGES, by_thread, b);
	b->ns = lengths[0];
	for (unsigned way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
		(void)sample(b, way);
	return b;
}

const struct bench_work bench_pipeline = { begin_row, measure, gpu_row_end, NULL };
