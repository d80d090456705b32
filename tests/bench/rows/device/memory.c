/* SPDX-License-Identifier: MIT */
/*
 * The rows pinned and scratch: the cost of memory.
 *
 * DESIGN
 *	A line's note has the growth of the pool's count of device calls: 0 if the device did not
 *	allocate, free, or make an event.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>

#include <runnel/memory.h>
#include <runnel/stats.h>

#define PAIRS 200000		/* get and put pairs of each thread per run */
#define QUICK_PART 100
#define THREADS_MAX 16
#define ALONE_NS 100
#define JOBS 2000

enum { NONE, KEPT, ANEW, WAYS };	/* a job's use of rnl_scratch() */

static struct rnl_pool *make_pool(const struct bench_run *run, uint64_t scratch_keep)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;

	attr.device = run->opt->device;
	attr.nr_workers = 1;
	attr.scratch_keep = scratch_keep;
	bench_rnl(rnl_pool_create(&pool, &attr), "rnl_pool_create");
	return pool;
}

static uint64_t device_calls(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	bench_rnl(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats), "rnl_pool_read_stats");
	return stats.device_calls;
}

static void note_calls(struct bench_line *line, uint64_t calls)
{
	snprintf(line->note, sizeof(line->note), "device_calls +%llu", (unsigned long long)calls);
}

/* ---- pinned buffers ------------------------------------------------------ */

struct pinned {
	struct rnl_pool *pool;
	unsigned threads, nr;		/* pairs of each thread */
	uint64_t calls[2];		/* calls of the device, for each size */
	size_t bytes;
	pthread_barrier_t start;
	atomic_ullong ns;
};

static void *get_and_put(void *arg)
{
	struct pinned *p = arg;
	uint64_t start;
	void *buf;

	/* Allocates the thread's buffer before the measurement. */
	bench_rnl(rnl_memory_get(p->pool, RNL_PINNED, p->bytes, &buf, 0), "rnl_memory_get");
	rnl_memory_put(p->pool, buf);
	pthread_barrier_wait(&p->start);
	start = bench_now();
	for (unsigned i = 0; i < p->nr; i++) {
		bench_rnl(rnl_memory_get(p->pool, RNL_PINNED, p->bytes, &buf, 0), "rnl_memory_get");
		rnl_memory_put(p->pool, buf);
	}
	atomic_fetch_add(&p->ns, bench_now() - start);
	return NULL;
}

/* Measures the nanoseconds of a pair, the mean of the threads. */
static void measure_pairs(void *arg, unsigned way, double *values)
{
	static const size_t sizes[] = { 4096, 1 << 20 };
	struct pinned *p = arg;
	const uint64_t calls = device_calls(p->pool);
	pthread_t threads[THREADS_MAX];

	p->bytes = sizes[way];
	atomic_store(&p->ns, 0);
	for (unsigned i = 0; i < p->threads; i++)
		bench_must(!pthread_create(&threads[i], NULL, get_and_put, p), "pthread_create");
	for (unsigned i = 0; i < p->threads; i++)
		pthread_join(threads[i], NULL);
	values[0] = (double)atomic_load(&p->ns) / p->nr / p->threads;
	p->calls[way] += device_calls(p->pool) - calls;
}

static void *open_pinned(struct bench_run *run)
{
	struct pinned *p = bench_alloc(sizeof(*p));
	double warm_up;

	p->nr = run->opt->quick ? PAIRS / QUICK_PART : PAIRS;
	p->threads = run->threads;
	p->pool = make_pool(run, 0);
	pthread_barrier_init(&p->start, NULL, p->threads);
	for (unsigned way = 0; way < 2; way++) {
		measure_pairs(p, way, &warm_up);
		p->calls[way] = 0;
	}
	return p;
}

static void close_pinned(void *arg, struct bench_line **lines)
{
	struct pinned *p = arg;

	for (unsigned i = 0; i < 2; i++) {
		note_calls(lines[i], p->calls[i]);
		if (p->threads == 1)
			lines[i]->goal_value = ALONE_NS;
	}
	rnl_pool_destroy(p->pool);
}

const struct bench_work bench_pinned = { open_pinned, measure_pairs, close_pinned, NULL };

/* ---- scratch ------------------------------------------------------------- */

struct scratch {
	struct rnl_job job;
	struct rnl_pool *pools[WAYS];
	uint64_t calls[WAYS];
	size_t bytes;			/* 0: no scratch */
	uint64_t ns;			/* time in the call */
};

static int ask(struct rnl_job *job)
{
	struct scratch *s = rnl_container_of(job, struct scratch, job);
	uint64_t start = bench_now();
	void *mem = NULL;
	int ret = s->bytes ? rnl_scratch(s->bytes, &mem) : 0;

	s->ns = bench_now() - start;
	return ret;
}

/* Measures the nanoseconds of the call, and of a job from its submit to its end. */
static void measure_jobs(void *arg, unsigned way, double *values)
{
	struct scratch *s = arg;
	struct rnl_pool *pool = s->pools[way];
	const uint64_t calls = device_calls(pool);
	uint64_t sum = 0, start;

	s->bytes = way == NONE ? 0 : 1 << 20;
	bench_rnl(rnl_job_init(&s->job, ask), "rnl_job_init");
	start = bench_now();
	for (int i = 0; i < JOBS; i++) {
		bench_rnl(rnl_submit(pool, &s->job), "rnl_submit");
		bench_rnl(rnl_job_wait(&s->job, RNL_FOREVER), "rnl_job_wait");
		bench_rnl(s->job.result, "a job");
		sum += s->ns;
	}
	values[0] = (double)sum / JOBS;
	values[1] = (double)(bench_now() - start) / JOBS;
	s->calls[way] += device_calls(pool) - calls;
}

static void *open_scratch(struct bench_run *run)
{
	struct scratch *s = bench_alloc(sizeof(*s));
	double warm_up[2];

	for (unsigned way = 0; way < WAYS; way++) {
		s->pools[way] = make_pool(run, way == ANEW);
		measure_jobs(s, way, warm_up);
		s->calls[way] = 0;
	}
	return s;
}

static void close_scratch(void *arg, struct bench_line **lines)
{
	struct scratch *s = arg;

	for (unsigned way = 0; way < WAYS; way++) {
		note_calls(lines[way == NONE ? 0 : 2 * way - 1], s->calls[way]);
		rnl_pool_destroy(s->pools[way]);
	}
}

const struct bench_work bench_scratch = { open_scratch, measure_jobs, close_scratch, NULL };
