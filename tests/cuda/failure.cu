/* SPDX-License-Identifier: MIT */
/*
 * An error that the GPU does not survive: every job completes within two watchdog periods, never
 * with a wrong result; the process still responds, and exits. (Check runs each test in its own
 * process, and checks that it exits cleanly.)
 */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "spin.h"
#include "suite.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>
#include <runnel/device.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

SUITE_FORKS

#define NR 4000
#define NR_WORKERS 8
#define NR_BEHIND 1000
#define NOWHERE ((uint32_t *)16)
#define DEFINITE_MS (1e3 * seconds_allowed(0.2))

/* Writes after a while. */
static __global__ void spin(uint64_t ns, uint32_t *out, uint32_t value)
{
	spin_ns(ns);
	*out = value;
}

/* Sets *runs, waits, then writes to an address without memory. */
static __global__ void hold(volatile uint32_t *runs, const volatile uint32_t *go)
{
	const uint64_t start = now_ns();

	*runs = 1;
	__threadfence_system();
	while (!*go)
		if (now_ns() - start > UINT64_C(15000000000))
			return;
	*(volatile uint32_t *)NOWHERE = 1;
}

static __global__ void write_to(uint32_t *where)
{
	*where = 1;
}

struct written {
	struct rnl_job job;
	uint32_t *out;		/* pinned; 0: its kernel has not run */
	uint64_t ns;
};

static struct written jobs[NR];
static struct rnl_job bad, late, held[NR_WORKERS];
static volatile uint32_t *runs, *go;
static unsigned nr_in_function;

static int run_written(struct rnl_job *job)
{
	struct written *w = rnl_container_of(job, struct written, job);

	spin<<<1, 1, 0, (cudaStream_t)rnl_stream()>>>(w->ns, w->out, (uint32_t)(w - jobs) + 1);
	return 0;
}

static int run_bad(struct rnl_job *job)
{
	(void)job;
	write_to<<<1, 1, 0, (cudaStream_t)rnl_stream()>>>(NOWHERE);
	return 0;
}

/* Launches its kernel once each worker has such a job. */
static int run_held(struct rnl_job *job)
{
	const unsigned i = (unsigned)(job - held);

	__atomic_add_fetch(&nr_in_function, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&nr_in_function, __ATOMIC_RELAXED) < NR_WORKERS)
		sched_yield();
	hold<<<1, 1, 0, (cudaStream_t)rnl_stream()>>>(&runs[i], &go[i]);
	return 0;
}

static double ms_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static struct rnl_pool *pool_of_kind(int kind)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	attr.nr_workers = NR_WORKERS;
	attr.device = "cuda";
	attr.stream = kind;
	must(rnl_pool_create(&pool, &attr));
	return pool;
}

static uint32_t *words(struct rnl_pool *pool, unsigned nr)
{
	void *mem = NULL;

	must(rnl_memory_get(pool, RNL_PINNED, nr * sizeof(uint32_t), &mem, 0));
	memset(mem, 0, nr * sizeof(uint32_t));
	return (uint32_t *)mem;
}

static void submit_written(struct rnl_pool *pool, struct written *w, uint32_t *out, uint64_t ns)
{
	w->out = out;
	w->ns = ns;
	must(rnl_job_init(&w->job, run_written));
	must(rnl_submit(pool, &w->job));
}

static int result_of(struct rnl_job *job)
{
	must(rnl_job_wait(job, 10000000000));
	return job->result;
}

/* Checks that the pool responds, refuses jobs, and can be destroyed. */
static void check_failed(struct rnl_pool *pool, int kind)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_health health = RNL_HEALTH_INIT;
	void *mem;

	ck_assert_int_eq(rnl_pool_health(pool, &health), 0);
	ck_assert_uint_eq(health.state, RNL_HEALTH_FAILED);
	ck_assert_int_eq(health.device_error, cudaErrorIllegalAddress);
	must(rnl_job_init(&late, run_bad));
	ck_assert_int_eq(rnl_submit(pool, &late), -EIO);
	ck_assert_int_eq(rnl_memory_get(pool, 0, 64, &mem, 0), -EIO);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
	attr.device = "cuda";
	attr.stream = kind;
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), -EIO);
}

TEST(under_a_stream_of_jobs_each_ends_and_those_that_are_done_were_done, .loops = 2)
{
	struct rnl_pool *pool = pool_of_kind(_i);
	uint32_t *out = words(pool, NR);
	unsigned done = 0, failed = 0;
	double start, took;

	for (unsigned i = 0; i < NR; i++) {
		submit_written(pool, &jobs[i], &out[i], 50000);
		if (i != NR / 2)
			continue;
		must(rnl_job_init(&bad, run_bad));
		must(rnl_submit(pool, &bad));
	}
	ck_assert_int_eq(result_of(&bad), -EIO);
	start = ms_now();
	for (unsigned i = 0; i < NR; i++) {
		const int result = result_of(&jobs[i].job);

		ck_assert(result == 0 || result == -EIO);
		if (result)
			failed++;
		else
			done++;
	}
	took = ms_now() - start;
	printf("%u jobs done, %u failed, the last %.0f ms after the bad one\n", done, failed, took);
	fflush(stdout);
	ck_assert_uint_gt(failed, 0);
	ck_assert_double_lt(took, DEFINITE_MS);
	for (unsigned i = 0; i < NR; i++)
		ck_assert(jobs[i].job.result || out[i] == i + 1);
	rnl_memory_put(pool, out);
	check_failed(pool, _i);
}

/* Every worker has a long kernel and queued jobs. Then one kernel fails. */
TEST(eight_busy_workers_and_what_is_queued_end_within_200_ms, .loops = 2)
{
	struct rnl_pool *pool = pool_of_kind(_i);
	uint32_t *out = words(pool, NR_BEHIND), *flags = words(pool, 2 * NR_WORKERS);
	unsigned nr_running = 0;
	double start, took;

	runs = flags;
	go = flags + NR_WORKERS;
	for (unsigned i = 0; i < NR_WORKERS; i++) {
		must(rnl_job_init(&held[i], run_held));
		must(rnl_submit(pool, &held[i]));
	}
	for (start = ms_now(); nr_running < NR_WORKERS && ms_now() < start + 5000;) {
		nr_running = 0;
		for (unsigned i = 0; i < NR_WORKERS; i++)
			nr_running += runs[i];
	}
	for (unsigned i = 0; i < NR_BEHIND; i++)
		submit_written(pool, &jobs[i], &out[i], 0);
	ck_assert_uint_eq(nr_running, NR_WORKERS);

	start = ms_now();
	go[NR_WORKERS / 2] = 1;
	for (unsigned i = 0; i < NR_WORKERS; i++)
		ck_assert_int_eq(result_of(&held[i]), -EIO);
	for (unsigned i = 0; i < NR_BEHIND; i++)
		ck_assert_int_eq(result_of(&jobs[i].job), -EIO);
	took = ms_now() - start;
	printf("the last of %u jobs ended %.0f ms after the illegal address\n",
	       NR_WORKERS + NR_BEHIND, took);
	fflush(stdout);
	ck_assert_double_lt(took, DEFINITE_MS);
	for (unsigned i = 0; i < NR_BEHIND; i++)
		ck_assert_uint_eq(out[i], 0);
	rnl_memory_put(pool, flags);
	rnl_memory_put(pool, out);
	check_failed(pool, _i);
}

/* The end of a worker's thread may never return from CUDA. */
TEST(with_nothing_queued_behind_the_pool_and_the_process_end, .loops = 2)
{
	struct rnl_pool *pool = pool_of_kind(_i);

	must(rnl_job_init(&bad, run_bad));
	must(rnl_submit(pool, &bad));
	ck_assert_int_eq(result_of(&bad), -EIO);
	check_failed(pool, _i);
}

int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	rnl_setup();		/* a hardware queue for each waiting kernel */
	/* CUDA may not load a kernel while others wait. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	return SUITE_GOES_ON;
}
