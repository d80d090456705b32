/* SPDX-License-Identifier: MIT */
/*
 * The row patterns: chains, fans and a stencil of small kernels, issued by one thread or one worker.
 *
 * DESIGN
 *	A round is 64 kernels of 3 us: 8 chains of 8, or 8 fans of 1 + 6 + 1, or 8 cells in 8 steps,
 *	each after the three neighbours of the step before.  Some rounds are under way, which do not
 *	depend on each other.  By hand, one thread issues a round to 8 streams, with an event for each
 *	kernel that another stream waits for, or as a graph whose nodes are set anew.  The kernels
 *	that a kernel comes after have adjacent numbers.
 *	runnel: one worker, so one stream: chained jobs, or a small barrier for each set of kernels
 *	that others come after.
 */
#include "gpu/work.h"

#include <runnel/more.h>

#define KERNEL_NS 3000
#define SAMPLES_PART 4		/* divides the number of samples: rounds */

enum { LANES = 8, STEPS = 8, TASKS = LANES * STEPS, UNDER_WAY = 4, AFTER = 3 };
enum pattern { CHAIN, FAN, STENCIL, PATTERNS };

/* The kernels that a kernel comes after: @nr, from @first on. */
struct before {
	unsigned first, nr;
};

struct round {
	bool busy;
	/* By hand. */
	cudaEvent_t events[TASKS];
	struct gpu_graph graphs[PATTERNS];
	/* By runnel; a kernel is in the barrier with its number, a fan's middle in its second one. */
	struct rnl_job jobs[TASKS];
	struct rnl_job_more more[TASKS];
	struct rnl_after after[TASKS][AFTER];
	struct rnl_barrier barriers[TASKS];
	bool used[TASKS];
};

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned nr;			/* rounds */
	enum pattern pattern;
	cudaStream_t streams[LANES];
	struct round rounds[UNDER_WAY];
};

static struct before before(enum pattern pattern, unsigned task)
{
	const unsigned step = task / LANES, lane = task % LANES;

	if (pattern == FAN) {		/* each row is a fan */
		if (!lane)
			return (struct before){ 0, 0 };
		return lane < LANES - 1 ? (struct before){ task - lane, 1 } :
					  (struct before){ task - lane + 1, LANES - 2 };
	}
	if (!step)
		return (struct before){ 0, 0 };
	if (pattern == CHAIN)
		return (struct before){ task - LANES, 1 };
	return (struct before){ task - LANES - (lane > 0), 1 + (lane > 0) + (lane < LANES - 1) };
}

/* ---- by hand ------------------------------------------------------------- */

static void issue_task(const struct bench *b, struct round *r, unsigned task)
{
	const struct before of = before(b->pattern, task);
	const cudaStream_t stream = b->streams[task % LANES];

	for (unsigned i = of.first; i < of.first + of.nr; i++)
		if (i % LANES != task % LANES)
			gpu_ok(cudaStreamWaitEvent(stream, r->events[i], 0), "cudaStreamWaitEvent");
	gpu_ok(gpu_issue_spin(1, 1, KERNEL_NS, NULL, stream), "a kernel");
	if (b->pattern != CHAIN || task >= TASKS - LANES)
		gpu_ok(cudaEventRecord(r->events[task], stream), "cudaEventRecord");
}

static void by_streams(struct bench *b, struct round *r)
{
	for (unsigned i = 0; i < TASKS; i++)
		issue_task(b, r, i);
}

static void by_graph(struct bench *b, struct round *r)
{
	const unsigned which = (unsigned)(r - b->rounds);
	struct gpu_spin args = { KERNEL_NS, NULL };

	for (unsigned i = 0; i < TASKS; i++) {
		const struct before of = before(b->pattern, i);

		gpu_graph_set(&r->graphs[b->pattern], i, gpu_spinner, 1, 1, &args, of.first, of.nr);
	}
	gpu_graph_launch(&r->graphs[b->pattern], b->streams[which]);
	for (unsigned i = TASKS - LANES; i < TASKS; i++)
		gpu_ok(cudaEventRecord(r->events[i], b->streams[which]), "cudaEventRecord");
}

/* All else has ended if the last kernel of each stream has. */
static void await_events(struct bench *b, struct round *r)
{
	(void)b;
	for (unsigned i = TASKS - LANES; i < TASKS; i++)
		gpu_ok(gpu_event_sync(r->events[i]), "cudaEventSynchronize");
}

/* ---- by runnel ----------------------------------------------------------- */

static int run_task(struct rnl_job *job)
{
	(void)job;
	return gpu_issue_spin(1, 1, KERNEL_NS, NULL, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

/* Returns the barrier that a kernel is in. */
static unsigned barrier_of(enum pattern pattern, unsigned task)
{
	const unsigned lane = task % LANES;

	return pattern == FAN && lane && lane < LANES - 1 ? task - lane + 1 : task;
}

static void add_to_barrier(struct bench *b, struct round *r, unsigned task)
{
	const unsigned own = barrier_of(b->pattern, task);

	if (!r->used[own])
		bench_rnl(rnl_barrier_init(&r->barriers[own], b->pool), "rnl_barrier_init");
	r->used[own] = true;
	bench_rnl(rnl_barrier_add(&r->barriers[own], &r->jobs[task]), "rnl_barrier_add");
}

static void put_after(struct bench *b, struct round *r, unsigned task)
{
	const struct before of = before(b->pattern, task);
	const unsigned nr = b->pattern == STENCIL ? of.nr : of.nr > 0;

	if (nr == 1) {
		const unsigned barrier = barrier_of(b->pattern, of.first);

		bench_rnl(rnl_job_set_after(&r->jobs[task], &r->barriers[barrier]), "rnl_job_set_after");
		return;
	}
	r->more[task] = (struct rnl_job_more)RNL_JOB_MORE_INIT;
	for (unsigned i = 0; i < nr; i++)
		r->after[task][i] = (struct rnl_after){ .barrier = &r->barriers[of.first + i] };
	r->more[task].after = r->after[task];
	r->more[task].nr_after = nr;
	if (nr)
		bench_rnl(rnl_job_set_more(&r->jobs[task], &r->more[task]), "rnl_job_set_more");
}

static void by_chains(struct bench *b, struct round *r)
{
	for (unsigned i = 0; i < TASKS; i++)
		bench_rnl(gpu_job_init(&r->jobs[i], run_task), "rnl_job_init");
	for (unsigned i = LANES; i < TASKS; i++)
		bench_rnl(rnl_job_set_then(&r->jobs[i - LANES], &r->jobs[i]), "rnl_job_set_then");
	for (unsigned i = 0; i < LANES; i++) {
		add_to_barrier(b, r, TASKS - LANES + i);
		bench_rnl(rnl_submit(b->pool, &r->jobs[i]), "rnl_submit");
	}
}

static void by_barriers(struct bench *b, struct round *r)
{
	for (unsigned i = 0; i < TASKS; i++) {
		bench_rnl(gpu_job_init(&r->jobs[i], run_task), "rnl_job_init");
		add_to_barrier(b, r, i);
		put_after(b, r, i);
		bench_rnl(rnl_submit(b->pool, &r->jobs[i]), "rnl_submit");
	}
}

static void by_pool(struct bench *b, struct round *r)
{
	if (b->pattern == CHAIN)
		by_chains(b, r);
	else
		by_barriers(b, r);
}

static void await_barriers(struct bench *b, struct round *r)
{
	(void)b;
	for (unsigned i = 0; i < TASKS; i++) {
		if (!r->used[i])
			continue;
		bench_rnl(rnl_barrier_wait(&r->barriers[i], RNL_FOREVER), "rnl_barrier_wait");
		bench_rnl(r->barriers[i].result, "a task");
		r->used[i] = false;
	}
}

/* ---- the row ------------------------------------------------------------- */

/* The order of the table, for each pattern. */
static const struct {
	void (*issue)(struct bench *b, struct round *r);
	void (*wait)(struct bench *b, struct round *r);
} ways[] = {
	{ by_streams, await_events }, { by_graph, await_events }, { by_pool, await_barriers },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void measure(void *arg, unsigned which, double *values)
{
	struct bench *b = arg;
	const unsigned way = which % WAYS;
	const uint64_t start = bench_now();

	b->pattern = which / WAYS;
	for (unsigned n = 0; n < b->nr + UNDER_WAY; n++) {
		struct round *r = &b->rounds[n % UNDER_WAY];

		if (r->busy)
			ways[way].wait(b, r);
		r->busy = n < b->nr;
		if (r->busy)
			ways[way].issue(b, r);
	}
	values[0] = 1e-3 * (double)(bench_now() - start) / (b->nr * TASKS);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	double values[BENCH_VALUES];

	b->nr = run->opt->samples / SAMPLES_PART + UNDER_WAY;
	for (unsigned i = 0; i < LANES; i++)
		b->streams[i] = gpu_stream(RNL_STREAM_PRIVATE, false);
	for (unsigned i = 0; i < UNDER_WAY * TASKS; i++)
		b->rounds[i / TASKS].events[i % TASKS] = gpu_event(cudaEventDisableTiming);
	b->pool = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, 1, NULL);
	for (unsigned i = 0; i < PATTERNS * WAYS; i++)
		measure(b, i, values);
	return b;
}

const struct bench_work bench_patterns = { begin_row, measure, gpu_row_end, NULL };
