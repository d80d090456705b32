/* SPDX-License-Identifier: MIT */
/*
 * The measurements of runnel bench.
 *
 * DESIGN
 * The jobs of a run form a ring.  The submitting thread goes round it: it waits for the next
 * job, which is done already if the pool keeps up, checks the result, and submits the job
 * again.  A ring has more jobs than all streams can hold, so the queues are never empty.  With
 * fewer jobs each worker would wait for the submitting thread after each job, and the run would
 * measure the latency of single jobs.
 */
#include "bench.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>

#include "experiment.h"
#include "kernels.h"
#include "progress.h"
#include "tool.h"

#define EMPTY_RING 4096
#define J_RING 512		/* the least; J_RING_WORKER for each worker if that is more */
#define J_RING_WORKER 64
#define J_WORDS 1024
#define J_THREADS 256

static void *runs_get(size_t nr, size_t bytes)
{
	void *mem = calloc(nr, bytes);

	tool_must(mem ? 0 : -ENOMEM, "memory");
	return mem;
}

static void check_count(uint64_t submitted, uint64_t counted, const char *by)
{
	if (submitted != counted)
		exit(tool_trouble("%llu jobs were submitted, and %s counted %llu",
				  (unsigned long long)submitted, by, (unsigned long long)counted));
}

/* Returns the number of jobs that the pool has done since it was created. */
static uint64_t done(struct rnl_pool *pool)
{
	tool_must(rnl_pool_drain(pool, TOOL_WAIT_NS), "waiting for the pool");
	return tool_stats(pool).done;
}

/* ---- a ring of jobs ------------------------------------------------------ */

struct run_slot {
	struct rnl_job job;
	bool used;
	uint64_t nr_run;		/* number of calls, counted by the job's function */
	uint32_t *in, *out, *dev;	/* buffers of a J */
};

struct ring {
	struct rnl_pool *pool;
	struct run_slot *slots;
	unsigned nr;
	uint64_t submitted;
	void (*prepare)(struct run_slot *slot, uint64_t number);
	void (*look)(const struct run_slot *slot);
};

/* Returns jobs per second, from the first submit until all jobs are done. */
static double runs_run(struct ring *ring, unsigned ms)
{
	const uint64_t start = tool_now(), end = start + ms * 1000000ull, before = ring->submitted;
	unsigned at = 0;

	while (tool_now() < end) {
		for (unsigned i = 0; i < 16; i++) {	/* amortises reading the clock */
			struct run_slot *slot = &ring->slots[at];

			at = at + 1 < ring->nr ? at + 1 : 0;
			if (slot->used) {
				tool_wait(&slot->job, "a job");
				if (ring->look)
					ring->look(slot);
			}
			if (ring->prepare)
				ring->prepare(slot, ring->submitted);
			slot->used = true;
			ring->submitted++;
			tool_must(rnl_submit_wait(ring->pool, &slot->job, TOOL_WAIT_NS),
				   "submitting a job");
		}
	}
	for (unsigned i = 0; i < ring->nr; i++) {
		struct run_slot *slot = &ring->slots[i];

		if (!slot->used)
			continue;
		tool_wait(&slot->job, "a job");
		if (ring->look)
			ring->look(slot);
		slot->used = false;
	}
	return (double)(ring->submitted - before) * 1e9 / (double)(tool_now() - start);
}

static struct bench_spread spread_of(double values[BENCH_RUNS])
{
	tool_sort(values, BENCH_RUNS);
	return (struct bench_spread){
		values[BENCH_RUNS / 2], values[0], values[BENCH_RUNS - 1],
	};
}

static struct bench_spread runs(struct ring *ring, unsigned ms)
{
	const uint64_t before = done(ring->pool);
	double rates[BENCH_RUNS];
	uint64_t nr_run = 0;

	runs_run(ring, ms / 10 + 1);		/* warms up */
	for (unsigned i = 0; i < BENCH_RUNS; i++) {
		rates[i] = runs_run(ring, ms);
		tool_progress_step();
	}
	for (unsigned i = 0; i < ring->nr; i++)
		nr_run += ring->slots[i].nr_run;
	check_count(ring->submitted, nr_run, "their function");
	check_count(ring->submitted, done(ring->pool) - before, "the pool");
	return spread_of(rates);
}

/* ---- empty jobs ---------------------------------------------------------- */

static int nothing(struct rnl_job *job)
{
	rnl_container_of(job, struct run_slot, job)->nr_run++;
	return 0;
}

struct bench_spread bench_empty(const struct bench_machine *m, struct rnl_pool *pool)
{
	struct ring ring = { .pool = pool, .nr = EMPTY_RING };
	struct bench_spread rate;

	ring.slots = runs_get(ring.nr, sizeof(*ring.slots));
	for (unsigned i = 0; i < ring.nr; i++)
		tool_must(rnl_job_init(&ring.slots[i].job, nothing), "a job");
	rate = runs(&ring, m->run_ms);
	free(ring.slots);
	return rate;
}

/* ---- one job after the other --------------------------------------------- */

#define SAMPLES_MAX 1000		/* of one run */

struct one {
	struct rnl_job job;
	uint64_t nr_run;
	uint64_t *stamp;		/* word that the kernel sets; NULL if there is no kernel */
};

static int do_one(struct rnl_job *job)
{
	const struct rnl_dim dim = { 1, 1, 1 };
	struct one *one = rnl_container_of(job, struct one, job);
	const struct tool_stamp_args args = { one->stamp };

	one->nr_run++;
	return one->stamp ? rnl_launch(&tool_stamp, dim, dim, &args) : 0;
}

/* Writes each job's duration in microseconds to @us.  Returns the number of jobs. */
static unsigned one_run(const struct bench_machine *m, struct rnl_pool *pool, struct one *one,
			double us[SAMPLES_MAX])
{
	const uint64_t end = tool_now() + m->run_ms * 1000000ull;
	unsigned nr = 0;

	do {
		const uint64_t start = tool_now();

		if (one->stamp)
			*one->stamp = 0;
		tool_submit(pool, &one->job);
		tool_wait(&one->job, "a job");
		us[nr++] = (double)(tool_now() - start) / 1e3;
		if (one->stamp && !*one->stamp)
			exit(tool_trouble("a job was done before its kernel was"));
	} while (nr < SAMPLES_MAX && tool_now() < end);
	return nr;
}

struct bench_times bench_one(const struct bench_machine *m, struct rnl_pool *pool, bool kernel)
{
	double *us = runs_get((size_t)SAMPLES_MAX * BENCH_RUNS, sizeof(*us)), medians[BENCH_RUNS];
	struct one one = { .stamp = NULL };
	struct bench_times times;
	unsigned nr = 0;

	if (kernel)
		one.stamp = tool_pinned(pool, sizeof(*one.stamp));
	tool_must(rnl_job_init(&one.job, do_one), "a job");
	tool_submit(pool, &one.job);	/* warms up */
	tool_wait(&one.job, "a job");
	for (unsigned i = 0; i < BENCH_RUNS; i++) {
		const unsigned more = one_run(m, pool, &one, us + nr);

		tool_sort(us + nr, more);
		medians[i] = us[nr + more / 2];
		nr += more;
		tool_progress_step();
	}
	check_count(nr + 1, one.nr_run, "their function");
	rnl_memory_put(pool, one.stamp);
	tool_sort(us, nr);
	times = (struct bench_times){ spread_of(medians), us[nr * 99 / 100] };
	free(us);
	return times;
}

/* ---- J ------------------------------------------------------------------- */

static int do_j(struct rnl_job *job)
{
	const struct rnl_dim grid = { J_WORDS / J_THREADS, 1, 1 }, block = { J_THREADS, 1, 1 };
	struct run_slot *slot = rnl_container_of(job, struct run_slot, job);
	const struct tool_words_args args = { slot->dev };
	int ret = rnl_copy(slot->dev, slot->in, J_WORDS * sizeof(uint32_t));

	slot->nr_run++;
	if (!ret)
		ret = rnl_launch(&tool_words, grid, block, &args);
	return ret ? ret : rnl_copy(slot->out, slot->dev, J_WORDS * sizeof(uint32_t));
}

/* Writes different words for each submit, so that an earlier submit's result fails the check. */
static void prepare_j(struct run_slot *slot, uint64_t number)
{
	for (uint32_t i = 0; i < J_WORDS; i++)
		slot->in[i] = (uint32_t)number + i;
}

static void look_j(const struct run_slot *slot)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < J_WORDS; i++)
		wrong += slot->out[i] != slot->in[i] * TOOL_WORDS_A + TOOL_WORDS_C;
	if (wrong)
		exit(tool_trouble("%u of %d words of a J are wrong", wrong, J_WORDS));
}

struct bench_spread bench_j(const struct bench_machine *m, struct rnl_pool *pool, unsigned workers)
{
	const size_t bytes = J_WORDS * sizeof(uint32_t);
	struct ring ring = {
		.pool = pool, .nr = J_RING > J_RING_WORKER * workers ? J_RING : J_RING_WORKER * workers,
		.prepare = prepare_j, .look = look_j,
	};
	uint32_t *in = tool_pinned(pool, ring.nr * bytes), *out = tool_pinned(pool, ring.nr * bytes);
	const unsigned nr_devices = tool_nr_devices(pool);
	uint32_t *dev[RNL_DEVICES_MAX];
	struct bench_spread rate;

	ring.slots = runs_get(ring.nr, sizeof(*ring.slots));
	for (unsigned i = 0; i < nr_devices; i++)
		dev[i] = tool_device_memory(pool, i, (ring.nr / nr_devices + 1) * bytes);
	for (unsigned i = 0; i < ring.nr; i++) {
		struct run_slot *slot = &ring.slots[i];

		tool_must(rnl_job_init(&slot->job, do_j), "a job");
		if (nr_devices > 1)
			tool_must(rnl_job_set_device(&slot->job, (int)(i % nr_devices)), "a job");
		slot->in = in + (size_t)i * J_WORDS;
		slot->out = out + (size_t)i * J_WORDS;
		slot->dev = dev[i % nr_devices] + (size_t)(i / nr_devices) * J_WORDS;
	}
	rate = runs(&ring, m->run_ms);
	free(ring.slots);
	rnl_memory_put(pool, in);
	rnl_memory_put(pool, out);
	for (unsigned i = 0; i < nr_devices; i++)
		rnl_memory_put(pool, dev[i]);
	return rate;
}
