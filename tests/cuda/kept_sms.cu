/* SPDX-License-Identifier: MIT */
/* Kernels of a pool that keeps SMs: a class's run only on those SMs, others only on the rest. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "spin.h"
#include "suite.h"

#define RNL_NAMES_STREAM 1
#include <runnel/class.h>
#include <runnel/cuda.h>
#include <runnel/device.h>
#include <runnel/guard.h>
#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

enum { SMS_MAX = 1024, NR_WORKERS = 4, NR_JOBS = 64 };

#define BLOCK_NS 20000
#define FLOOD_NS 5000000	/* of a block of a kernel that fills the GPU */
#define URGENT_NS 10000
#define BOUND_US 1000.0

/* Each block sets the word of its SM, and stays there for a while, so that the next one goes on. */
struct look {
	uint32_t *seen;
	uint64_t ns;
};

static __global__ void look_cuda(struct look look)
{
	uint32_t sm;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	if (!threadIdx.x)
		look.seen[sm] = 1;
	spin_ns(look.ns);
}
RNL_KERNEL(look, NULL, look_cuda, struct look);

static struct rnl_device_info info;
static struct rnl_pool *pool;
static struct rnl_class *cls;	/* has a worker of its own, and the kept SMs if there are any */
static uint32_t *seen[2];	/* by its jobs, by others */
static volatile int stopping;

static struct rnl_dim look_grid(void)
{
	const struct rnl_dim grid = { 4 * info.nr_multiprocessors, 1, 1 };

	return grid;
}

static const struct rnl_dim look_block = { 1024, 1, 1 };

/* ---- jobs: three kernels each, since that makes a graph in other pools ------------------- */

static int look_fn(struct rnl_job *job)
{
	struct look args = { (uint32_t *)job->user, BLOCK_NS };
	int ret = 0;

	for (int i = 0; i < 3 && !ret; i++)
		ret = rnl_launch(&look, look_grid(), look_block, &args);
	return ret;
}

static int look_raw_fn(struct rnl_job *job)
{
	const struct look args = { (uint32_t *)job->user, BLOCK_NS };

	for (int i = 0; i < 3; i++)
		look_cuda<<<look_grid().x, look_block.x, 0, (cudaStream_t)rnl_stream()>>>(args);
	return 0;
}

static const struct how {
	const char *name;
	int (*fn)(struct rnl_job *job);
	uint32_t flags, guard;
} hows[] = {
	{ "rnl_launch()", look_fn, 0, RNL_GUARD_OFF },
	{ "<<<>>>", look_raw_fn, 0, RNL_GUARD_OFF },
	{ "RNL_GATHER", look_fn, RNL_GATHER, RNL_GUARD_OFF },
	{ "RNL_REPLAY", look_fn, RNL_REPLAY, RNL_GUARD_OFF },
	{ "RNL_REPLAY_CAPTURE", look_fn, RNL_REPLAY_CAPTURE, RNL_GUARD_OFF },
	{ "RNL_REPLAY_CAPTURE of <<<>>>", look_raw_fn, RNL_REPLAY_CAPTURE, RNL_GUARD_OFF },
	{ "a guard", look_fn, 0, RNL_GUARD_STRICT },
	{ "a guard of <<<>>>", look_raw_fn, 0, RNL_GUARD_STRICT },
};
#define NR_HOWS ((int)(sizeof(hows) / sizeof(hows[0])))

static void begin(uint32_t kept, uint32_t guard)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_class_attr own = RNL_CLASS_ATTR_INIT;

	info.size = sizeof(info);
	must(rnl_device_describe(NULL, "cuda", 0, &info));
	if (!info.sm_group)
		test_skip("this GPU keeps no SMs");
	ck_assert_uint_le(info.nr_multiprocessors, SMS_MAX);
	attr.nr_workers = NR_WORKERS;
	attr.nr_class_workers = own.nr_workers = 1;
	attr.device = "cuda";
	attr.stream = RNL_STREAM_PRIVATE;
	attr.kept_sms = kept * info.sm_group;
	attr.guard = guard;
	must(rnl_pool_create(&pool, &attr));
	own.flags = kept ? RNL_CLASS_KEPT_SMS : 0;
	must(rnl_class_create(&cls, pool, &own));
	for (int i = 0; i < 2; i++) {
		must(rnl_memory_get(pool, RNL_PINNED, SMS_MAX * sizeof(uint32_t), (void **)&seen[i], 0));
		memset(seen[i], 0, SMS_MAX * sizeof(uint32_t));
	}
}

static void end(void)
{
	for (int i = 0; i < 2; i++)
		rnl_memory_put(pool, seen[i]);
	rnl_pool_destroy(pool);
}

static void run_all(const struct how *how)
{
	static struct rnl_job jobs[NR_JOBS];

	for (int i = 0; i < NR_JOBS; i++) {
		must(rnl_job_init(&jobs[i], how->fn));
		jobs[i].user = seen[i % 4 != 0];
		must(rnl_job_set_class(&jobs[i], i % 4 ? NULL : cls));
		must(rnl_job_set_flags(&jobs[i], how->flags));
		must(rnl_submit(pool, &jobs[i]));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR_JOBS; i++)
		ck_assert_int_eq(jobs[i].result, 0);
}

static uint32_t nr_seen(const uint32_t *words)
{
	uint32_t nr = 0;

	for (int i = 0; i < SMS_MAX; i++)
		nr += words[i];
	return nr;
}

/* Jobs of the class have seen all kept SMs, others all of the rest, and neither any of the other's. */
static void check_sets(const char *name, uint32_t kept)
{
	uint32_t both = 0;

	for (int i = 0; i < SMS_MAX; i++)
		both += seen[0][i] && seen[1][i];
	printf("%s: the class's jobs ran on %u SMs, others on %u, both on %u of them\n", name,
	       nr_seen(seen[0]), nr_seen(seen[1]), both);
	fflush(stdout);
	ck_assert_uint_eq(both, 0);
	ck_assert_uint_eq(nr_seen(seen[0]), kept);
	ck_assert_uint_eq(nr_seen(seen[1]), info.nr_multiprocessors - kept);
}

TEST(jobs_keep_to_their_sms, .timeout_s = 60, .loops = NR_HOWS)
{
	begin(1, hows[_i].guard);
	for (int round = 0; round < 4; round++)
		run_all(&hows[_i]);
	check_sets(hows[_i].name, info.sm_group);
	end();
}

TEST(more_groups_can_be_kept_and_workers_be_added, .timeout_s = 60, .loops = 2)
{
	const uint32_t groups = _i ? 3 : 2;

	begin(0, RNL_GUARD_OFF);
	end();
	if (groups * info.sm_group >= info.nr_multiprocessors)
		test_skip("this GPU has too few SMs for %u groups", groups);
	begin(groups, RNL_GUARD_OFF);
	must(rnl_pool_resize(pool, 2 * NR_WORKERS));
	run_all(&hows[0]);
	must(rnl_pool_resize(pool, 1));
	run_all(&hows[1]);
	check_sets(_i ? "three groups" : "two groups", groups * info.sm_group);
	end();
}

TEST(threads_and_other_pools_use_every_sm, .timeout_s = 60)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *other;
	struct rnl_job job;
	struct look args;

	begin(1, RNL_GUARD_OFF);
	attr.nr_workers = 1;
	attr.device = "cuda";
	must(rnl_pool_create(&other, &attr));
	must(rnl_job_init(&job, look_fn));
	job.user = seen[0];
	must(rnl_submit(other, &job));
	must(rnl_job_wait(&job, RNL_FOREVER));
	must(rnl_thread_attach(pool));
	args.seen = seen[1];
	args.ns = BLOCK_NS;
	must(rnl_launch(&look, look_grid(), look_block, &args));
	must(rnl_stream_wait(RNL_FOREVER));
	printf("another pool ran on %u SMs, an attached thread on %u\n", nr_seen(seen[0]),
	       nr_seen(seen[1]));
	fflush(stdout);
	ck_assert_uint_eq(nr_seen(seen[0]), info.nr_multiprocessors);
	ck_assert_uint_eq(nr_seen(seen[1]), info.nr_multiprocessors);
	must(rnl_thread_attach(NULL));
	rnl_pool_destroy(other);
	end();
}

/* ---- an urgent kernel beside kernels of long blocks ---------------------------------------- */

static int flood_fn(struct rnl_job *job)
{
	struct look args = { (uint32_t *)job->user, FLOOD_NS };

	return rnl_launch(&look, look_grid(), look_block, &args);
}

/* Submits the job again, which keeps the flood up. */
static void flood_again(struct rnl_job *job)
{
	if (!stopping)
		rnl_submit(pool, job);
}

static int urgent_fn(struct rnl_job *job)
{
	const struct rnl_dim one = { 1, 1, 1 };
	struct look args = { (uint32_t *)job->user, URGENT_NS };

	return rnl_launch(&look, one, one, &args);
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the median time from submit to done during a flood. */
static double median_us(const char *what)
{
	enum { RUNS = 51, FLOODS = 8 };
	static struct rnl_job floods[FLOODS];
	const struct timespec gap = { 0, 3000000 };
	struct rnl_job job;
	double us[RUNS];

	must(rnl_job_init(&job, urgent_fn));
	must(rnl_job_set_class(&job, cls));
	job.user = seen[0];
	/* CUDA loads a kernel at its first launch, which must not be measured. */
	must(rnl_submit(pool, &job));
	must(rnl_job_wait(&job, RNL_FOREVER));
	stopping = 0;
	for (int i = 0; i < FLOODS; i++) {
		must(rnl_job_init(&floods[i], flood_fn));
		must(rnl_job_set_on_done(&floods[i], flood_again));
		floods[i].user = seen[1];
		must(rnl_submit(pool, &floods[i]));
	}
	for (int i = 0; i < RUNS; i++) {
		double start;

		nanosleep(&gap, NULL);
		start = now_us();
		must(rnl_submit(pool, &job));
		must(rnl_job_wait(&job, RNL_FOREVER));
		us[i] = now_us() - start;
		ck_assert_int_eq(job.result, 0);
	}
	stopping = 1;
	must(rnl_pool_drain(pool, RNL_FOREVER));
	qsort(us, RUNS, sizeof(us[0]), ascending);
	printf("an urgent kernel beside blocks of %d ms, %s: p50 %.0f us, p99 %.0f us\n",
	       FLOOD_NS / 1000000, what, us[RUNS / 2], us[RUNS * 99 / 100]);
	fflush(stdout);
	return us[RUNS / 2];
}

TEST(an_urgent_kernel_does_not_wait_for_long_blocks, .timeout_s = 60)
{
	double kept = 0, shared;

	begin(0, RNL_GUARD_OFF);
	shared = median_us("all SMs shared");
	end();
	for (int again = 0; again < 3 && (!again || kept > BOUND_US); again++) {
		begin(1, RNL_GUARD_OFF);
		kept = median_us("SMs kept");
		end();
	}
	ck_assert_double_le(kept, BOUND_US * test_scale());
	ck_assert_double_gt(shared, kept);
}

/* ---- ends ---------------------------------------------------------------------------------- */

enum { POOLS = 30 };

/* Returns the MiB of the GPU's memory that pools leave behind. */
static double left_by(uint32_t kept)
{
	size_t before = 0, after = 0, all;

	for (int i = 0; i <= POOLS; i++) {
		begin(kept, RNL_GUARD_OFF);
		run_all(&hows[0]);
		end();
		/* The first one may make what the process keeps. */
		if (!i)
			ck_assert_int_eq(cudaMemGetInfo(&before, &all), cudaSuccess);
	}
	ck_assert_int_eq(cudaMemGetInfo(&after, &all), cudaSuccess);
	printf("%d pools that keep %u groups of SMs left %.1f MiB behind\n", POOLS, kept,
	       ((double)before - (double)after) / (1 << 20));
	fflush(stdout);
	return ((double)before - (double)after) / (1 << 20);
}

/*
 * CUDA keeps the memory of the workers' per-thread streams in any case.  A driver (580) also keeps 8 MiB
 * for each pair of green contexts, without any stream, too.
 */
TEST(green_contexts_leave_what_cuda_keeps_of_them, .timeout_s = 120)
{
	const double usual = left_by(0);

	ck_assert_double_le(left_by(1), usual + 8 * POOLS + 16);
}

int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (rnl_setup())
		return 1;
	return SUITE_GOES_ON;
}
