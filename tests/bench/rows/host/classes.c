/* SPDX-License-Identifier: MIT */
/*
 * The row classes of make bench: what a submit to a class costs.
 *
 * DESIGN
 *	A pool without classes, and one with two, each with four workers. First each worker is held
 *	in a job, so that nothing but the submits happens; then the workers take the jobs meanwhile.
 *	A sample is the mean of one round's submits; the figure is the median of all rounds.
 */
#include "bench.h"

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <runnel/class.h>

#define WORKERS 4
#define JOBS 512		/* of a round */

struct bench {
	struct rnl_pool *pools[2];	/* [1] has classes */
	struct rnl_job jobs[2][JOBS], held[WORKERS];
	double *ns;
	unsigned nr;			/* rounds */
};

static sem_t gate;
static atomic_uint nr_held, ran;

static int run_held(struct rnl_job *job)
{
	(void)job;
	atomic_fetch_add(&nr_held, 1);
	while (sem_wait(&gate))
		;
	return 0;
}

static int run_empty(struct rnl_job *job)
{
	(void)job;
	/* relaxed: read when all jobs are done */
	atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
	return 0;
}

/* Returns the time of a submit, in ns. */
static double submit_round(struct bench *b, unsigned way, bool hold)
{
	struct rnl_pool *pool = b->pools[way];
	uint64_t start, ns;

	atomic_store(&nr_held, 0);
	atomic_store(&ran, 0);
	for (unsigned i = 0; i < WORKERS && hold; i++)
		bench_rnl(rnl_submit(pool, &b->held[i]), "rnl_submit");
	while (hold && atomic_load(&nr_held) < WORKERS)
		sched_yield();
	start = bench_now();
	for (unsigned i = 0; i < JOBS; i++)
		bench_rnl(rnl_submit(pool, &b->jobs[way][i]), "rnl_submit");
	ns = bench_now() - start;
	for (unsigned i = 0; i < WORKERS && hold; i++)
		sem_post(&gate);
	bench_rnl(rnl_pool_drain(pool, RNL_FOREVER), "rnl_pool_drain");
	bench_must(atomic_load(&ran) == JOBS, "each job runs once");
	return (double)ns / JOBS;
}

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;

	for (unsigned hold = 0; hold < 2; hold++) {
		for (unsigned i = 0; i < b->nr; i++)
			b->ns[i] = submit_round(b, way, hold);
		values[!hold] = bench_percentile(b->ns, b->nr, 50);
	}
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_class *classes[2];

	attr.device = "host";
	attr.nr_workers = WORKERS;
	b->nr = run->opt->jobs / JOBS + 1;
	b->ns = bench_alloc(b->nr * sizeof(*b->ns));
	bench_must(!sem_init(&gate, 0, 0), "sem_init");
	for (unsigned i = 0; i < 2; i++)
		bench_rnl(rnl_pool_create(&b->pools[i], &attr), "rnl_pool_create");
	for (unsigned i = 0; i < 2; i++)
		bench_rnl(rnl_class_create(&classes[i], b->pools[1], NULL), "rnl_class_create");
	for (unsigned i = 0; i < 2 * JOBS; i++)
		bench_rnl(rnl_job_init(&b->jobs[i / JOBS][i % JOBS], run_empty), "rnl_job_init");
	for (unsigned i = 0; i < JOBS; i++)
		bench_rnl(rnl_job_set_class(&b->jobs[1][i], classes[0]), "rnl_job_set_class");
	for (unsigned i = 0; i < WORKERS; i++) {
		bench_rnl(rnl_job_init(&b->held[i], run_held), "rnl_job_init");
		bench_rnl(rnl_job_set_key(&b->held[i], RNL_KEY_WORKER(i)), "rnl_job_set_key");
	}
	return b;
}

static void end_row(void *arg, struct bench_line **lines)
{
	struct bench *b = arg;

	(void)lines;
	for (unsigned i = 0; i < 2; i++)
		rnl_pool_destroy(b->pools[i]);
	free(b->ns);
}

const struct bench_work bench_classes_submit = { begin_row, measure, end_row, NULL };
