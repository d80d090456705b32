/* SPDX-License-Identifier: MIT */
/*
 * The row stages: two streams; stage k of the second stream comes after stage k of the first, like
 * results that go to a second device or a network while the first device goes on.
 *
 * DESIGN
 *	A stage is a kernel of 0.2 ms on either stream. At best the second stream ends one stage
 *	later than the first. By hand: a thread issues all work to two streams, with an event for
 *	each stage. runnel: two workers, each with a key; a barrier for each stage of the first
 *	stream, and jobs after it. The time is from the first kernel's start to the last one's end,
 *	by the device's clock.
 */
#include "gpu/work.h"

#define NR 16
#define STAGE_NS 200000
#define SAMPLES_PART 16

enum { FIRST, SECOND, STREAMS };

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned nr;			/* samples */
	uint64_t (*stamps)[NR][2];	/* times of each stream's stages */
	double *ms;
	/* Hand-written: */
	cudaStream_t streams[STREAMS];
	cudaEvent_t events[NR];
	/* runnel: */
	struct rnl_barrier barriers[NR], all;
	struct stage {
		struct rnl_job job;
		uint64_t *stamps;
	} stages[STREAMS][NR];
};

/* Returns the ms from the first start to the last end. */
static double time_of(struct bench *b)
{
	const uint64_t began = b->stamps[FIRST][0][0], ended = b->stamps[SECOND][NR - 1][1];

	for (unsigned i = 0; i < NR; i++) {
		bench_must(b->stamps[SECOND][i][0] >= b->stamps[FIRST][i][1],
			   "an order: a stage began before the one that it comes after had ended");
		bench_must(b->stamps[FIRST][i][1] != 0, "a kernel's time");
	}
	for (unsigned i = 0; i < NR; i++)
		b->stamps[FIRST][i][1] = b->stamps[SECOND][i][0] = 0;
	return (double)(ended - began) * 1e-6;
}

static void run_by_hand(struct bench *b)
{
	for (unsigned i = 0; i < NR; i++) {
		gpu_ok(gpu_issue_spin(1, 1, STAGE_NS, b->stamps[FIRST][i], b->streams[FIRST]),
		       "a kernel");
		gpu_ok(cudaEventRecord(b->events[i], b->streams[FIRST]), "cudaEventRecord");
		gpu_ok(cudaStreamWaitEvent(b->streams[SECOND], b->events[i], 0),
		       "cudaStreamWaitEvent");
		gpu_ok(gpu_issue_spin(1, 1, STAGE_NS, b->stamps[SECOND][i], b->streams[SECOND]),
		       "a kernel");
	}
	gpu_ok(cudaStreamSynchronize(b->streams[SECOND]), "cudaStreamSynchronize");
}

static int run_stage(struct rnl_job *job)
{
	struct stage *stage = rnl_container_of(job, struct stage, job);

	return gpu_issue_spin(1, 1, STAGE_NS, stage->stamps, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

static void run_by_pool(struct bench *b)
{
	bench_rnl(rnl_barrier_init(&b->all, b->pool), "rnl_barrier_init");
	for (unsigned i = 0; i < NR; i++) {
		struct rnl_job *first = &b->stages[FIRST][i].job;
		struct rnl_job *second = &b->stages[SECOND][i].job;

		bench_rnl(rnl_barrier_init(&b->barriers[i], b->pool), "rnl_barrier_init");
		bench_rnl(rnl_barrier_add(&b->barriers[i], first), "rnl_barrier_add");
		bench_rnl(rnl_job_set_after(second, &b->barriers[i]), "rnl_job_set_after");
		bench_rnl(rnl_barrier_add(&b->all, second), "rnl_barrier_add");
		bench_rnl(submit_by_key(b->pool, first, RNL_KEY_WORKER(0)), "rnl_submit");
		bench_rnl(submit_by_key(b->pool, second, RNL_KEY_WORKER(1)), "rnl_submit");
	}
	bench_rnl(rnl_barrier_wait(&b->all, RNL_FOREVER), "rnl_barrier_wait");
	bench_rnl(b->all.result, "a stage");
	for (unsigned i = 0; i < NR; i++)
		bench_rnl(rnl_barrier_wait(&b->barriers[i], RNL_FOREVER), "rnl_barrier_wait");
}

/* ---- the row ------------------------------------------------------------- */

static void measure(void *arg, unsigned by_pool, double *values)
{
	struct bench *b = arg;

	for (unsigned i = 0; i < b->nr; i++) {
		if (by_pool)
			run_by_pool(b);
		else
			run_by_hand(b);
		b->ms[i] = time_of(b);
	}
	values[0] = bench_percentile(b->ms, b->nr, 50);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));

	b->nr = run->opt->samples / SAMPLES_PART + 1;
	b->ms = bench_alloc(b->nr * sizeof(*b->ms));
	b->stamps = gpu_pinned(STREAMS * sizeof(*b->stamps));
	for (unsigned i = 0; i < STREAMS; i++)
		b->streams[i] = gpu_stream(RNL_STREAM_PRIVATE, false);
	for (unsigned i = 0; i < NR; i++)
		b->events[i] = gpu_event(cudaEventDisableTiming);
	b->pool = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, STREAMS, NULL);
	for (unsigned i = 0; i < STREAMS; i++) {
		for (unsigned k = 0; k < NR; k++) {
			b->stages[i][k].stamps = b->stamps[i][k];
			bench_rnl(gpu_job_init(&b->stages[i][k].job, run_stage), "rnl_job_init");
		}
	}
	run_by_hand(b);
	(void)time_of(b);
	run_by_pool(b);
	(void)time_of(b);
	return b;
}

const struct bench_work bench_stages = { begin_row, measure, gpu_row_end, NULL };
