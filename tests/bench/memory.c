/* SPDX-License-Identifier: MIT */
/*
 * What memory costs: pinned buffers by 1 to 16 threads, and a job's scratch.
 *
 *	tests/bench/memory [DEVICE [RUNS]]		auto, 5
 *
 * Prints medians of RUNS runs.  device_calls grew by 0 where nothing had the
 * device allocate, free, or make an event.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <runnel.h>

#define RUNS_MAX 99
#define PAIRS 200000		/* get and put, of each thread in a run */
#define JOBS 2000

static const char *device = "auto";
static unsigned runs = 5;

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "memory: %s: %s\n", what, rnl_strerror(ret));
		exit(EXIT_FAILURE);
	}
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, runs, sizeof(*values), by_value);
	return values[runs / 2];
}

static struct rnl_pool *make_pool(uint64_t scratch_keep)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;

	attr.device = device;
	attr.nr_workers = 1;
	attr.scratch_keep = scratch_keep;
	must(rnl_pool_create(&pool, &attr), device);
	return pool;
}

static uint64_t device_calls(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	must(rnl_pool_stats(pool, &stats), "rnl_pool_stats");
	return stats.device_calls;
}

/* ---- pinned buffers ------------------------------------------------------ */

struct pairs {
	struct rnl_pool *pool;
	size_t bytes;
	pthread_barrier_t *start;
	uint64_t ns;
};

static void *get_and_put(void *arg)
{
	struct pairs *p = arg;
	uint64_t start;
	void *buf;

	/* Its own buffer is there before the time counts. */
	must(rnl_pinned_get(p->pool, p->bytes, &buf), "rnl_pinned_get");
	rnl_pinned_put(p->pool, buf);
	pthread_barrier_wait(p->start);
	start = now();
	for (int i = 0; i < PAIRS; i++) {
		must(rnl_pinned_get(p->pool, p->bytes, &buf), "rnl_pinned_get");
		rnl_pinned_put(p->pool, buf);
	}
	p->ns = now() - start;
	return NULL;
}

/* Nanoseconds for a pair, the mean of the threads. */
static double pairs_of(struct rnl_pool *pool, size_t bytes, unsigned nr)
{
	struct pairs pairs[16];
	pthread_t threads[16];
	pthread_barrier_t start;
	double sum = 0;

	pthread_barrier_init(&start, NULL, nr);
	for (unsigned i = 0; i < nr; i++) {
		pairs[i] = (struct pairs){ .pool = pool, .bytes = bytes, .start = &start };
		must(-pthread_create(&threads[i], NULL, get_and_put, &pairs[i]), "a thread");
	}
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(threads[i], NULL);
		sum += (double)pairs[i].ns / PAIRS;
	}
	pthread_barrier_destroy(&start);
	return sum / nr;
}

static void bench_pinned(void)
{
	static const size_t sizes[] = { 4096, 1 << 20 };
	struct rnl_pool *pool = make_pool(0);

	printf("rnl_pinned_get + rnl_pinned_put\n");
	for (unsigned s = 0; s < 2; s++) {
		for (unsigned nr = 1; nr <= 16; nr *= 2) {
			double ns[RUNS_MAX];
			uint64_t calls;

			(void)pairs_of(pool, sizes[s], nr);
			calls = device_calls(pool);
			for (unsigned run = 0; run < runs; run++)
				ns[run] = pairs_of(pool, sizes[s], nr);
			printf("  %7zu bytes  %2u threads  %7.1f ns  device_calls +%llu\n",
			       sizes[s], nr, median(ns),
			       (unsigned long long)(device_calls(pool) - calls));
		}
	}
	rnl_pool_destroy(pool);
}

/* ---- scratch ------------------------------------------------------------- */

struct asking {
	struct rnl_job job;
	size_t bytes;		/* 0: does not ask */
	uint64_t ns;
};

static int ask(struct rnl_job *job)
{
	struct asking *a = rnl_container_of(job, struct asking, job);
	uint64_t start = now();
	void *mem = NULL;
	int ret = a->bytes ? rnl_scratch(a->bytes, &mem) : 0;

	a->ns = now() - start;
	return ret;
}

/* Nanoseconds in the call, and of a job from its submit to its end. */
static void jobs_of(struct rnl_pool *pool, size_t bytes, double *in_call, double *whole)
{
	struct asking a = { .bytes = bytes };
	uint64_t sum = 0, start;

	must(rnl_job_init(&a.job, ask), "rnl_job_init");
	start = now();
	for (int i = 0; i < JOBS; i++) {
		must(rnl_submit(pool, &a.job), "rnl_submit");
		must(rnl_job_wait(&a.job, RNL_FOREVER), "rnl_job_wait");
		must(rnl_job_result(&a.job), "a job");
		sum += a.ns;
	}
	*in_call = (double)sum / JOBS;
	*whole = (double)(now() - start) / JOBS;
}

static void bench_scratch(const char *what, uint64_t keep, size_t bytes)
{
	struct rnl_pool *pool = make_pool(keep);
	double call[RUNS_MAX], whole[RUNS_MAX];
	uint64_t calls;

	jobs_of(pool, bytes, &call[0], &whole[0]);
	calls = device_calls(pool);
	for (unsigned run = 0; run < runs; run++)
		jobs_of(pool, bytes, &call[run], &whole[run]);
	printf("  %-34s  %7.1f ns in the call  %8.1f ns a job  device_calls +%llu\n", what,
	       median(call), median(whole), (unsigned long long)(device_calls(pool) - calls));
	rnl_pool_destroy(pool);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		device = argv[1];
	if (argc > 2)
		runs = (unsigned)atoi(argv[2]);
	if (argc > 3 || !runs || runs > RUNS_MAX) {
		fprintf(stderr, "usage: memory [DEVICE [RUNS]], 1 to %d runs\n", RUNS_MAX);
		return 2;
	}
	bench_pinned();
	printf("rnl_scratch, one job after the other\n");
	bench_scratch("none (an empty job)", 0, 0);
	bench_scratch("1 MB that the worker keeps", 0, 1 << 20);
	bench_scratch("1 MB anew, in stream order", 1, 1 << 20);
	return EXIT_SUCCESS;
}
