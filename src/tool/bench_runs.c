/* SPDX-License-Identifier: MIT */
/*
 * What runnel bench measures.
 *
 * DESIGN
 * Jobs are in a ring.  The thread that submits comes back to a job after all others,
 * waits for it, which it need not any more if the pool keeps up, looks at what it
 * did, and submits it again.
 */
#include "bench.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels.h"
#include "options.h"
#include "tool.h"

#define EMPTY_RING 4096
#define J_RING 64		/* for each worker */
#define J_WORDS 1024
#define J_THREADS 256
#define WAIT_NS 20000000000

void bench_must(int ret, const char *what)
{
	if (ret < 0)
		exit(tool_trouble("%s: %s", what, rnl_strerror(ret)));
}

struct rnl_pool *bench_pool(const struct bench_machine *m, unsigned workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	attr.device = m->device;
	attr.nr_workers = workers;
	attr.guard = m->guard;
	attr.log = tool_log;
	bench_must(rnl_pool_create(&pool, &attr), "creating the workers");
	return pool;
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void *get(size_t nr, size_t bytes)
{
	void *mem = calloc(nr, bytes);

	bench_must(mem ? 0 : -ENOMEM, "memory");
	return mem;
}

static void finish(struct rnl_job *job)
{
	bench_must(rnl_job_wait(job, WAIT_NS), "waiting for a job");
	bench_must(rnl_job_result(job), "a job");
}

static void check_count(uint64_t submitted, uint64_t counted, const char *by)
{
	if (submitted != counted)
		exit(tool_trouble("%llu jobs were submitted, and %s counted %llu",
				  (unsigned long long)submitted, by, (unsigned long long)counted));
}

/* Of all that the pool did so far. */
static uint64_t done(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	bench_must(rnl_pool_drain(pool, WAIT_NS), "waiting for the pool");
	bench_must(rnl_pool_stats(pool, &stats), "the pool's counters");
	return stats.done;
}

/* ---- a ring of jobs ------------------------------------------------------ */

struct slot {
	struct rnl_job job;
	bool used;
	uint64_t nr_run;		/* written by its function */
	uint32_t *in, *out, *dev;	/* J */
};

struct ring {
	struct rnl_pool *pool;
	struct slot *slots;
	unsigned nr;
	uint64_t submitted;
	void (*prepare)(struct slot *slot, uint64_t number);
	void (*look)(const struct slot *slot);
};

/* Return: jobs per second, from the first submit until all are done. */
static double run(struct ring *ring, unsigned ms)
{
	const uint64_t start = now(), end = start + ms * 1000000ull, before = ring->submitted;
	unsigned at = 0;

	while (now() < end) {
		for (unsigned i = 0; i < 16; i++) {	/* the clock is not the matter */
			struct slot *slot = &ring->slots[at];

			at = at + 1 < ring->nr ? at + 1 : 0;
			if (slot->used) {
				finish(&slot->job);
				if (ring->look)
					ring->look(slot);
			}
			if (ring->prepare)
				ring->prepare(slot, ring->submitted);
			slot->used = true;
			ring->submitted++;
			bench_must(rnl_submit_wait(ring->pool, &slot->job, WAIT_NS),
				   "submitting a job");
		}
	}
	for (unsigned i = 0; i < ring->nr; i++) {
		struct slot *slot = &ring->slots[i];

		if (!slot->used)
			continue;
		finish(&slot->job);
		if (ring->look)
			ring->look(slot);
		slot->used = false;
	}
	return (double)(ring->submitted - before) * 1e9 / (double)(now() - start);
}

static double runs(struct ring *ring, unsigned ms)
{
	const uint64_t before = done(ring->pool);
	double rates[BENCH_RUNS];
	uint64_t nr_run = 0;

	run(ring, ms / 10 + 1);		/* warms up */
	for (unsigned i = 0; i < BENCH_RUNS; i++)
		rates[i] = run(ring, ms);
	for (unsigned i = 0; i < ring->nr; i++)
		nr_run += ring->slots[i].nr_run;
	check_count(ring->submitted, nr_run, "their function");
	check_count(ring->submitted, done(ring->pool) - before, "the pool");
	qsort(rates, BENCH_RUNS, sizeof(*rates), by_value);
	return rates[BENCH_RUNS / 2];
}

/* ---- empty jobs ---------------------------------------------------------- */

static int nothing(struct rnl_job *job)
{
	rnl_container_of(job, struct slot, job)->nr_run++;
	return 0;
}

double bench_empty(const struct bench_machine *m, struct rnl_pool *pool)
{
	struct ring ring = { .pool = pool, .nr = EMPTY_RING };
	double rate;

	ring.slots = get(ring.nr, sizeof(*ring.slots));
	for (unsigned i = 0; i < ring.nr; i++)
		bench_must(rnl_job_init(&ring.slots[i].job, nothing), "a job");
	rate = runs(&ring, m->run_ms);
	free(ring.slots);
	return rate;
}

/* ---- one job after the other --------------------------------------------- */

#define SAMPLES_MAX 4000

struct one {
	struct rnl_job job;
	uint64_t nr_run;
	uint64_t *stamp;		/* NULL: no kernel */
};

static int do_one(struct rnl_job *job)
{
	const struct rnl_dim dim = { 1, 1, 1 };
	struct one *one = rnl_container_of(job, struct one, job);
	const struct tool_stamp_args args = { one->stamp };

	one->nr_run++;
	return one->stamp ? rnl_launch(&tool_stamp, dim, dim, &args) : 0;
}

struct bench_times bench_one(const struct bench_machine *m, struct rnl_pool *pool, bool kernel)
{
	double *us = get(SAMPLES_MAX, sizeof(*us));
	const uint64_t end = now() + m->run_ms * 1000000ull * BENCH_RUNS;
	struct one one = { .stamp = NULL };
	struct bench_times times;
	unsigned nr = 0;
	void *stamp = NULL;

	if (kernel)
		bench_must(rnl_pinned_get(pool, sizeof(*one.stamp), &stamp), "page-locked memory");
	one.stamp = stamp;
	bench_must(rnl_job_init(&one.job, do_one), "a job");
	bench_must(rnl_submit(pool, &one.job), "submitting a job");	/* warms up */
	finish(&one.job);
	do {
		const uint64_t start = now();

		if (one.stamp)
			*one.stamp = 0;
		bench_must(rnl_submit(pool, &one.job), "submitting a job");
		finish(&one.job);
		us[nr++] = (double)(now() - start) / 1e3;
		if (one.stamp && !*one.stamp)
			exit(tool_trouble("a job was done before its kernel was"));
	} while (nr < SAMPLES_MAX && now() < end);
	check_count(nr + 1, one.nr_run, "their function");
	rnl_pinned_put(pool, stamp);
	qsort(us, nr, sizeof(*us), by_value);
	times = (struct bench_times){ us[nr / 2], us[nr * 99 / 100] };
	free(us);
	return times;
}

/* ---- J ------------------------------------------------------------------- */

static int do_j(struct rnl_job *job)
{
	const struct rnl_dim grid = { J_WORDS / J_THREADS, 1, 1 }, block = { J_THREADS, 1, 1 };
	struct slot *slot = rnl_container_of(job, struct slot, job);
	const struct tool_words_args args = { slot->dev };
	int ret = rnl_copy(slot->dev, slot->in, J_WORDS * sizeof(uint32_t));

	slot->nr_run++;
	if (!ret)
		ret = rnl_launch(&tool_words, grid, block, &args);
	return ret ? ret : rnl_copy(slot->out, slot->dev, J_WORDS * sizeof(uint32_t));
}

/* Other words each time, so that what a job before has left is not taken for a result. */
static void prepare_j(struct slot *slot, uint64_t number)
{
	for (uint32_t i = 0; i < J_WORDS; i++)
		slot->in[i] = (uint32_t)number + i;
}

static void look_j(const struct slot *slot)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < J_WORDS; i++)
		wrong += slot->out[i] != slot->in[i] * TOOL_WORDS_A + TOOL_WORDS_C;
	if (wrong)
		exit(tool_trouble("%u of %d words of a J are wrong", wrong, J_WORDS));
}

double bench_j(const struct bench_machine *m, struct rnl_pool *pool, unsigned workers)
{
	const size_t bytes = J_WORDS * sizeof(uint32_t);
	struct ring ring = {
		.pool = pool, .nr = J_RING * workers, .prepare = prepare_j, .look = look_j,
	};
	void *in, *out, *dev;
	double rate;

	ring.slots = get(ring.nr, sizeof(*ring.slots));
	bench_must(rnl_pinned_get(pool, ring.nr * bytes, &in), "page-locked memory");
	bench_must(rnl_pinned_get(pool, ring.nr * bytes, &out), "page-locked memory");
	bench_must(rnl_device_alloc(pool, ring.nr * bytes, &dev), "the device's memory");
	for (unsigned i = 0; i < ring.nr; i++) {
		struct slot *slot = &ring.slots[i];

		bench_must(rnl_job_init(&slot->job, do_j), "a job");
		slot->in = (uint32_t *)in + (size_t)i * J_WORDS;
		slot->out = (uint32_t *)out + (size_t)i * J_WORDS;
		slot->dev = (uint32_t *)dev + (size_t)i * J_WORDS;
	}
	rate = runs(&ring, m->run_ms);
	free(ring.slots);
	rnl_pinned_put(pool, in);
	rnl_pinned_put(pool, out);
	rnl_device_free(pool, dev);
	return rate;
}
