/* SPDX-License-Identifier: MIT */
/*
 * The line inflight: kernels of 5 ms, one on each of 32 threads or workers.
 *
 * DESIGN
 *	Each kernel writes down the device's time at its start and its end.  How many
 *	were in flight is what they took, all together, by what it took until all of
 *	them were done, from the first one's start; and how many were at the most.
 *	How many connections there are is decided when the context is created, and
 *	streams share them in the order in which they were made: so each side, and
 *	each run, has a process of its own.
 */
#include "gpu.h"
#include "gpu_work.h"

#include <stdlib.h>
#include <unistd.h>

#define NR 32
#define KERNEL_NS 5000000

struct bench {
	const struct gpu_options *opt;
	uint64_t (*stamps)[2];		/* of each kernel */
	/* Hand-written: */
	pthread_barrier_t start, end;
	atomic_uint next;
	/* runnel: */
	struct rnl_pool *pool;
	struct item {
		struct rnl_job job;
		uint64_t *stamps;
	} items[NR];
};

struct found {
	double mean, most;
};

static int ascending(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static struct found find(const struct bench *b)
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
	return (struct found){ (double)sum / (double)(ends[NR - 1] - starts[0]), most };
}

/* ---- hand-written -------------------------------------------------------- */

static void *serve(void *arg)
{
	struct bench *b = arg;
	const unsigned index = atomic_fetch_add(&b->next, 1);
	cudaStream_t stream;
	cudaEvent_t event;

	gpu_enter(b->opt->ordinal);
	stream = gpu_stream(RNL_STREAM_PER_THREAD, false);
	event = gpu_event(cudaEventDisableTiming);
	pthread_barrier_wait(&b->end);
	for (;;) {
		pthread_barrier_wait(&b->start);
		gpu_ok(gpu_issue_spin(1, 1, KERNEL_NS, b->stamps[index], stream), "a kernel");
		gpu_ok(cudaEventRecord(event, stream), "cudaEventRecord");
		gpu_sleep_ms(4);	/* others launch meanwhile */
		gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
		pthread_barrier_wait(&b->end);
	}
	return NULL;
}

static void start_hands(struct bench *b)
{
	pthread_t thread;

	pthread_barrier_init(&b->start, NULL, NR + 1);
	pthread_barrier_init(&b->end, NULL, NR + 1);
	for (unsigned i = 0; i < NR; i++)
		bench_must(!pthread_create(&thread, NULL, serve, b), "pthread_create");
	pthread_barrier_wait(&b->end);
}

static struct found by_hand(struct bench *b)
{
	pthread_barrier_wait(&b->start);
	pthread_barrier_wait(&b->end);
	return find(b);
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
		gpu_rnl(gpu_job_init(&b->items[i].job, run_spin), "rnl_job_init");
	}
}

static struct found by_pool(struct bench *b)
{
	struct rnl_job *jobs[NR];
	struct rnl_barrier barrier;

	gpu_rnl(rnl_barrier_init(&barrier, b->pool), "rnl_barrier_init");
	for (unsigned i = 0; i < NR; i++) {
		jobs[i] = &b->items[i].job;
		gpu_rnl(rnl_barrier_add(&barrier, jobs[i]), "rnl_barrier_add");
	}
	bench_must(rnl_submit_many(b->pool, jobs, NR) == NR, "rnl_submit_many");
	gpu_rnl(rnl_barrier_wait(&barrier, RNL_FOREVER), "rnl_barrier_wait");
	gpu_rnl(rnl_barrier_result(&barrier), "a kernel of 5 ms");
	return find(b);
}

/* ---- the line ------------------------------------------------------------ */

/* A side, alone in its process. */
struct side {
	struct bench *bench;
	bool setup, pool;
	struct gpu_figure *mean, *most;
};

static void measure(void *arg, int out)
{
	const struct side *side = arg;
	struct bench *b = side->bench;
	struct found found;

	if (side->setup)
		gpu_setup();
	gpu_begin(b->opt->ordinal);
	b->stamps = gpu_pinned(NR * sizeof(*b->stamps));
	if (side->pool) {
		b->pool = gpu_pool(b->opt->device, RNL_STREAM_PER_THREAD, NR, NULL);
		make_items(b);
	} else {
		start_hands(b);
	}
	(void)(side->pool ? by_pool(b) : by_hand(b));
	found = side->pool ? by_pool(b) : by_hand(b);
	bench_tell(out, &found, sizeof(found));
	fflush(NULL);
	_exit(EXIT_SUCCESS);
}

static void found(void *arg, void *piece)
{
	const struct side *to = arg;
	const struct found *one = piece;

	gpu_figure_add(to->mean, one->mean);
	gpu_figure_add(to->most, one->most);
}

static void run_side(struct side *side, const char *what)
{
	int nr = 0;
	const char *error = bench_child(measure, found, side, sizeof(struct found), 30, &nr);

	if (error)
		fprintf(stderr, "gpu: inflight, %s: %s %d\n", what, error, nr);
	bench_must(!error, "kernels in flight");
}

static void line(const struct gpu_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	struct gpu_row *mean = gpu_row_new("inflight", "kernels", true, GPU_ABSOLUTE, 27,
					   "kernels of 5 ms in flight, 32 workers, mean");
	struct gpu_row *most = gpu_row_new("inflight", "kernels", true, GPU_ABSOLUTE, 27,
					   "the same, at the most");
	struct gpu_row *alone = gpu_row_new("inflight", "kernels", true, GPU_NO_GOAL, 0,
					    "the same as CUDA is by default, mean");
	struct {
		const char *name;
		struct side side;
	} sides[] = {
		{ "8 connections", { b, false, false,
				     gpu_row_figure(alone, GPU_HAND, "8 connections"),
				     gpu_row_figure(most, GPU_HAND, "8 connections") } },
		{ "32 connections", { b, true, false,
				      gpu_row_figure(mean, GPU_HAND, "32 connections"),
				      gpu_row_figure(most, GPU_HAND, "32 connections") } },
		{ "rnl_setup()", { b, true, true,
				   gpu_row_figure(mean, GPU_RUNNEL, "rnl_setup()"),
				   gpu_row_figure(most, GPU_RUNNEL, "rnl_setup()") } },
	};

	b->opt = run->opt;
	for (unsigned i = 0; i < run->opt->runs; i++)
		for (unsigned j = 0; j < sizeof(sides) / sizeof(sides[0]); j++)
			run_side(&sides[j].side, sides[j].name);
	gpu_figure_add(gpu_row_figure(mean, GPU_CEILING, "one each"), NR);
	gpu_figure_add(gpu_row_figure(most, GPU_CEILING, "one each"), NR);
	gpu_row_tell(run, mean);
	gpu_row_tell(run, alone);
	gpu_row_tell(run, most);
}

const struct gpu_line gpu_inflight = { .name = "inflight", .patience_s = 60, .measure = line };
