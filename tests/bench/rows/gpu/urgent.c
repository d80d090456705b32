/* SPDX-License-Identifier: MIT */
/*
 * The row urgent: a kernel of 10 us while background kernels fill the GPU.
 *
 * DESIGN
 *	Eight threads, or workers, keep 64 kernels each in flight; each kernel has twice the blocks
 *	that the GPU holds at once. A millisecond after the end of an urgent kernel, the next one is
 *	issued: by hand a thread issues it and waits in a sync, on a stream with the highest or the
 *	usual priority; with runnel it is a job of a class with a worker of its own, measured from
 *	its submit until the waiter has returned.
 *	Both may also keep a group of SMs for it, and the flood then fills the others. That takes
 *	private streams: a green context has no per-thread one. The pool that keeps SMs exists only
 *	while it is measured, so its streams take no hardware queue from the others.
 */
#include "gpu/work.h"

#include <runnel/class.h>

#define NR_FLOODS 512
#define NR_THREADS 8
#define BLOCK_NS 50000		/* duration of a block of the flood */
#define URGENT_NS 10000
#define SAMPLES_PART 16		/* divides the number of samples */
#define RAMP_MS 20		/* until the flood has filled the GPU */

static unsigned flood_blocks;	/* twice the blocks that the flood's SMs hold at once */

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	const struct bench_options *opt;
	enum rnl_stream_kind kind;
	unsigned nr;			/* samples */
	double *us;
	struct gpu_team *team;
	struct rnl_class *class;	/* with a worker of its own */
	unsigned group;			/* SMs that may be kept; 0: none */
	unsigned way;
	cudaStream_t kept, rest[NR_THREADS];	/* by hand, in green contexts */
};

enum { WITHOUT, PRIORITY, KEPT, POOL, KEPT_BY_POOL };

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

	gpu_enter(b->opt->info.ordinal);
	stream = b->way == KEPT ? b->kept : gpu_stream(b->kind, b->way == PRIORITY);
	for (unsigned i = 0; i < b->nr; i++) {
		uint64_t start;

		bench_sleep_ms(1);
		start = bench_now();
		gpu_ok(gpu_issue_spin(1, 1, URGENT_NS, NULL, stream), "an urgent kernel");
		gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
		b->us[i] = (double)(bench_now() - start) * 1e-3;
	}
	if (stream != b->kept)
		gpu_stream_end(stream);
	return NULL;
}

static void by_hand(struct bench *b)
{
	static const struct gpu_hand_variant flood = { GPU_EVENT, 8, NR_FLOODS / NR_THREADS, 0 };
	pthread_t thread;

	gpu_team_streams(b->team, b->way == KEPT ? b->rest : NULL);
	gpu_team_begin(b->team, &flood);
	bench_sleep_ms(RAMP_MS);
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
	bench_rnl(job->result, "a background kernel");
	if (!atomic_load(&stopping))
		bench_rnl(rnl_submit(flooded, job), "rnl_submit");
}

static struct rnl_pool *pool_of(const struct bench *b, unsigned kept_sms, struct rnl_class **class)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_class_attr own = RNL_CLASS_ATTR_INIT;
	struct rnl_pool *pool;

	attr.nr_class_workers = own.nr_workers = 1;
	attr.max_in_flight = NR_FLOODS / NR_THREADS;
	attr.kept_sms = kept_sms;
	if (kept_sms) {
		own.flags = RNL_CLASS_KEPT_SMS;
		own.spin_us = 2000;	/* an urgent kernel follows 1 ms after the last one */
	}
	pool = gpu_pool(b->opt->device, b->kind, NR_THREADS, &attr);
	bench_rnl(rnl_class_create(class, pool, &own), "rnl_class_create");
	return pool;
}

static void by_pool(struct bench *b, struct rnl_pool *pool, struct rnl_class *class)
{
	static struct rnl_job floods[NR_FLOODS];
	struct rnl_job job;

	flooded = pool;
	atomic_store(&stopping, false);
	for (unsigned i = 0; i < NR_FLOODS; i++) {
		bench_rnl(gpu_job_init(&floods[i], run_flood), "rnl_job_init");
		bench_rnl(rnl_job_set_on_done(&floods[i], flood_again), "rnl_job_set_on_done");
		bench_rnl(rnl_submit(pool, &floods[i]), "rnl_submit");
	}
	bench_sleep_ms(RAMP_MS);
	bench_rnl(gpu_job_init(&job, run_urgent), "rnl_job_init");
	bench_rnl(rnl_job_set_class(&job, class), "rnl_job_set_class");
	for (unsigned i = 0; i < b->nr; i++) {
		uint64_t start;

		bench_sleep_ms(1);
		start = bench_now();
		bench_rnl(rnl_submit(pool, &job), "rnl_submit");
		bench_rnl(rnl_job_wait(&job, RNL_FOREVER), "rnl_job_wait");
		b->us[i] = (double)(bench_now() - start) * 1e-3;
		bench_rnl(job.result, "an urgent kernel");
	}
	atomic_store(&stopping, true);
	bench_rnl(rnl_pool_drain(pool, RNL_FOREVER), "rnl_pool_drain");
}

static void by_keeping_pool(struct bench *b)
{
	struct rnl_class *class;
	struct rnl_pool *pool = pool_of(b, b->group, &class);

	by_pool(b, pool, class);
	rnl_pool_destroy(pool);
}

/* ---- the row ------------------------------------------------------------- */

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const bool keeps = way == KEPT || way == KEPT_BY_POOL;

	values[0] = values[1] = (double)NAN;
	if (keeps && !b->group)
		return;
	b->way = way;
	flood_blocks = 2 * 2 * (b->opt->info.nr_multiprocessors - (keeps ? b->group : 0));
	if (way == KEPT_BY_POOL)
		by_keeping_pool(b);
	else if (way == POOL)
		by_pool(b, b->pool, b->class);
	else
		by_hand(b);
	values[0] = bench_percentile(b->us, b->nr, 50);
	values[1] = bench_percentile(b->us, b->nr, 99);
}

static void *begin_row(struct bench_run *run)
{
	const struct rnl_device_info *info = &run->opt->info;
	struct bench *b = bench_alloc(sizeof(*b));

	b->opt = run->opt;
	b->kind = run->kind;
	b->nr = run->opt->samples / SAMPLES_PART + 1;
	b->us = bench_alloc(b->nr * sizeof(*b->us));
	b->team = gpu_team_start(info->ordinal, b->kind, NR_THREADS, issue_flood, false);
	b->pool = pool_of(b, 0, &b->class);
	b->group = b->kind == RNL_STREAM_PRIVATE ? info->sm_group : 0;
	if (b->group)
		gpu_green_streams(info->ordinal, b->group, &b->kept, b->rest, NR_THREADS);
	return b;
}

const struct bench_work bench_urgent = { begin_row, measure, gpu_row_end, NULL };
