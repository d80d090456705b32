/* SPDX-License-Identifier: MIT */
/*
 * The line urgent: a kernel of 10 us while background kernels fill the GPU.
 *
 * DESIGN
 *	Eight threads, or workers, keep 64 kernels each in flight, of which every one
 *	is twice what the GPU holds at once.  A millisecond after the last one, an
 *	urgent kernel: by hand from a thread that issues it itself and waits in a sync,
 *	on a stream with the highest priority or with the usual one; with runnel as an
 *	urgent job, from its submit until the waiter has returned.
 */
#include "gpu.h"
#include "gpu_work.h"

#include <stdlib.h>

#define NR_FLOODS 512
#define NR_THREADS 8
#define BLOCK_NS 50000		/* how long a block of the flood holds its place */
#define URGENT_NS 10000
#define SAMPLES_PART 16		/* there are fewer than of other latencies */
#define RAMP_MS 20		/* until the flood is there */

static unsigned flood_blocks;	/* twice what the GPU holds at once */

struct bench {
	const struct gpu_options *opt;
	enum rnl_stream_kind kind;
	unsigned nr;			/* samples */
	double *us;
	struct gpu_team *team;
	bool urgent;			/* by hand: the stream */
	struct rnl_pool *pool;
};

static cudaError_t issue_flood(const struct gpu_slot *slot, cudaStream_t stream)
{
	(void)slot;
	return gpu_issue_spin(flood_blocks, 1024, BLOCK_NS, NULL, stream);
}

/* ---- hand-written -------------------------------------------------------- */

static void *sample_by_hand(void *arg)
{
	struct bench *b = arg;
	cudaStream_t stream;

	gpu_enter(b->opt->ordinal);
	stream = gpu_stream(b->kind, b->urgent);
	for (unsigned i = 0; i < b->nr; i++) {
		uint64_t start;

		gpu_sleep_ms(1);
		start = bench_now();
		gpu_ok(gpu_issue_spin(1, 1, URGENT_NS, NULL, stream), "an urgent kernel");
		gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
		b->us[i] = (double)(bench_now() - start) * 1e-3;
	}
	gpu_stream_end(stream);
	return NULL;
}

static void by_hand(struct bench *b, bool urgent)
{
	static const struct gpu_hand_variant flood = { GPU_EVENT, 8, NR_FLOODS / NR_THREADS };
	pthread_t thread;

	b->urgent = urgent;
	gpu_team_begin(b->team, &flood);
	gpu_sleep_ms(RAMP_MS);
	bench_must(!pthread_create(&thread, NULL, sample_by_hand, b), "pthread_create");
	pthread_join(thread, NULL);
	(void)gpu_team_end(b->team);
}

/* ---- runnel -------------------------------------------------------------- */

static struct rnl_pool *flooded;
static atomic_bool stopping;

static int run_flood(struct rnl_job *job)
{
	(void)job;
	return issue_flood(NULL, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

static int run_urgent(struct rnl_job *job)
{
	(void)job;
	return gpu_issue_spin(1, 1, URGENT_NS, NULL, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

static void flood_again(struct rnl_job *job)
{
	gpu_rnl(rnl_job_result(job), "a background kernel");
	if (!atomic_load(&stopping))
		gpu_rnl(rnl_submit(flooded, job), "rnl_submit");
}

static void by_pool(struct bench *b)
{
	static struct rnl_job floods[NR_FLOODS];
	struct rnl_job job;

	flooded = b->pool;
	atomic_store(&stopping, false);
	for (unsigned i = 0; i < NR_FLOODS; i++) {
		gpu_rnl(gpu_job_init(&floods[i], run_flood), "rnl_job_init");
		gpu_rnl(rnl_job_on_done(&floods[i], flood_again), "rnl_job_on_done");
		gpu_rnl(rnl_submit(b->pool, &floods[i]), "rnl_submit");
	}
	gpu_sleep_ms(RAMP_MS);
	gpu_rnl(gpu_job_init(&job, run_urgent), "rnl_job_init");
	gpu_rnl(rnl_job_urgent(&job, 1), "rnl_job_urgent");
	for (unsigned i = 0; i < b->nr; i++) {
		uint64_t start;

		gpu_sleep_ms(1);
		start = bench_now();
		gpu_rnl(rnl_submit(b->pool, &job), "rnl_submit");
		gpu_rnl(rnl_job_wait(&job, RNL_FOREVER), "rnl_job_wait");
		b->us[i] = (double)(bench_now() - start) * 1e-3;
		gpu_rnl(rnl_job_result(&job), "an urgent kernel");
	}
	atomic_store(&stopping, true);
	gpu_rnl(rnl_pool_drain(b->pool, RNL_FOREVER), "rnl_pool_drain");
}

/* ---- the line ------------------------------------------------------------ */

static void add(const struct bench *b, struct gpu_figure *p50, struct gpu_figure *p99)
{
	gpu_figure_add(p50, bench_percentile(b->us, b->nr, 50));
	gpu_figure_add(p99, bench_percentile(b->us, b->nr, 99));
}

static unsigned parts(const struct gpu_options *opt)
{
	(void)opt;
	return 2;
}

static void line(const struct gpu_run *run)
{
	static const char *const names[] = { "without priority", "priority", "rnl_job_urgent()" };
	struct bench b = { .opt = run->opt };
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct gpu_figure *p50s[3], *p99s[3];
	struct gpu_row *p50, *p99, *usual;

	b.kind = run->part ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD;
	b.nr = run->opt->samples / SAMPLES_PART + 1;
	b.us = bench_alloc(b.nr * sizeof(*b.us));
	flood_blocks = 2 * 2 * run->opt->info.nr_multiprocessors;
	gpu_setup();
	gpu_begin(run->opt->ordinal);
	b.team = gpu_team_start(run->opt->ordinal, b.kind, NR_THREADS, issue_flood, false);
	attr.nr_urgent = 1;
	attr.max_in_flight = NR_FLOODS / NR_THREADS;
	b.pool = gpu_pool(run->opt->device, b.kind, NR_THREADS, &attr);
	p50 = gpu_row_new("urgent", "us", false, GPU_ABSOLUTE, 200,
			  "urgent 10 us under a flood, p50, %s", gpu_kind_name(b.kind));
	p99 = gpu_row_new("urgent", "us", false, GPU_NO_GOAL, 0, "the same, p99, %s",
			  gpu_kind_name(b.kind));
	usual = gpu_row_new("urgent", "us", false, GPU_NO_GOAL, 0, "the same without priority, p50, %s",
			    gpu_kind_name(b.kind));
	for (unsigned i = 0; i < 3; i++) {
		const enum gpu_side side = i == 2 ? GPU_RUNNEL : GPU_HAND;

		p50s[i] = gpu_row_figure(i ? p50 : usual, side, names[i]);
		p99s[i] = gpu_row_figure(p99, side, names[i]);
	}
	for (unsigned turn = 0; turn < run->opt->runs; turn++) {
		for (unsigned i = 0; i < 3; i++) {
			if (i == 2)
				by_pool(&b);
			else
				by_hand(&b, i == 1);
			add(&b, p50s[i], p99s[i]);
		}
	}
	rnl_pool_destroy(b.pool);
	free(b.us);
	gpu_row_tell(run, p50);
	gpu_row_tell(run, p99);
	gpu_row_tell(run, usual);
}

const struct gpu_line gpu_urgent = {
	.name = "urgent", .patience_s = 90, .parts = parts, .measure = line
};
