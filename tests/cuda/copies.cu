/* SPDX-License-Identifier: MIT */
/*
 * An application's kernels and CUDA calls in jobs, with either copy of the CUDA runtime:
 * linked with the static and the shared runtime, against the shared and the static library.
 */
#include <errno.h>
#include <stdint.h>

#include "spin.h"
#include "suite.h"
#include "submits.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>
#include <runnel/memory.h>

#define NR 4096
#define NR_WORKERS 4

struct add_args {
	uint32_t *data;
	uint32_t nr, addend;
};

static __global__ void add_cuda(struct add_args args)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < args.nr)
		args.data[i] += args.addend;
}

static __global__ void add_plain(uint32_t *data, uint32_t nr, uint32_t addend)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < nr)
		data[i] += addend;
}

/* Lasts @ns nanoseconds, then sets the flag. */
static __global__ void slow(uint64_t ns, volatile uint32_t *flag)
{
	spin_ns(ns);
	*flag = 1;
}

RNL_KERNEL(test_add, NULL, add_cuda, struct add_args);

static struct rnl_pool *pool;
static uint32_t *pinned, *on_device;

static void begin(enum rnl_stream_kind stream)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.nr_workers = NR_WORKERS;
	attr.device = "cuda";
	attr.stream = stream;
	must(rnl_pool_create(&pool, &attr));
	must(rnl_memory_get(pool, RNL_PINNED, NR * 4, (void **)&pinned, 0));
	must(rnl_memory_get(pool, 0, NR * 4, (void **)&on_device, 0));
	for (uint32_t i = 0; i < NR; i++)
		pinned[i] = i;
}

static void end(void)
{
	rnl_memory_put(pool, pinned);
	rnl_memory_put(pool, on_device);
	rnl_pool_destroy(pool);
}

static void run(struct rnl_job *job)
{
	must(rnl_submit(pool, job));
	must(rnl_job_wait(job, RNL_FOREVER));
}

static void run_fn(struct rnl_job *job, int (*fn)(struct rnl_job *job))
{
	must(rnl_job_init(job, fn));
	run(job);
}

static int add_through_launch(struct rnl_job *job)
{
	struct add_args args = { on_device, NR, 7 };
	struct rnl_dim grid = { NR / 256, 1, 1 }, block = { 256, 1, 1 };
	int ret = rnl_copy(on_device, pinned, NR * 4);

	(void)job;
	if (!ret)
		ret = rnl_launch(&test_add, grid, block, &args);
	return ret ? ret : rnl_copy(pinned, on_device, NR * 4);
}

TEST(a_kernel_runs_through_rnl_launch, .loops = 2)
{
	struct rnl_job job;

	begin((enum rnl_stream_kind)_i);
	run_fn(&job, add_through_launch);
	ck_assert_int_eq(job.result, 0);
	for (uint32_t i = 0; i < NR; i++)
		ck_assert_uint_eq(pinned[i], i + 7);
	end();
}

static int add_through_brackets(struct rnl_job *job)
{
	(void)job;
	cudaMemcpyAsync(on_device, pinned, NR * 4, cudaMemcpyHostToDevice, 0);
	add_plain<<<NR / 256, 256>>>(on_device, NR, 9);
	cudaMemcpyAsync(pinned, on_device, NR * 4, cudaMemcpyDeviceToHost, 0);
	return 0;
}

TEST(a_kernel_runs_through_angle_brackets)
{
	struct rnl_job job;

	begin(RNL_STREAM_PER_THREAD);
	run_fn(&job, add_through_brackets);
	ck_assert_int_eq(job.result, 0);
	for (uint32_t i = 0; i < NR; i++)
		ck_assert_uint_eq(pinned[i], i + 9);
	end();
}

static int bad_brackets(struct rnl_job *job)
{
	(void)job;
	add_plain<<<1, 4096>>>(on_device, NR, 1);
	return 0;
}

static int bad_launch(struct rnl_job *job)
{
	struct add_args args = { on_device, NR, 1 };
	struct rnl_dim grid = { 1, 1, 1 }, block = { 4096, 1, 1 };

	(void)job;
	return rnl_launch(&test_add, grid, block, &args);
}

static int bad_launch_ignored(struct rnl_job *job)
{
	(void)bad_launch(job);
	return 0;
}

static int nothing(struct rnl_job *job)
{
	(void)job;
	return 0;
}

/* Checks that an error in a job belongs to that job only. */
static void fails_alone(int (*fn)(struct rnl_job *job))
{
	struct rnl_job job, after;

	begin(RNL_STREAM_PER_THREAD);
	must(rnl_job_init(&job, fn));
	must(submit_by_key(pool, &job, 1));
	must(rnl_job_wait(&job, RNL_FOREVER));
	ck_assert_int_eq(job.result, -EINVAL);
	/* CUDA 12 returns the first error, CUDA 13 the second. */
	ck_assert(job.device_error == cudaErrorInvalidConfiguration ||
		  job.device_error == cudaErrorInvalidValue);
	/* The next job on the same worker has no error. */
	must(rnl_job_init(&after, nothing));
	must(submit_by_key(pool, &after, 1));
	must(rnl_job_wait(&after, RNL_FOREVER));
	ck_assert_int_eq(after.result, 0);
	ck_assert_int_eq(after.device_error, 0);
	run_fn(&after, add_through_brackets);
	ck_assert_int_eq(after.result, 0);
	end();
}

TEST(a_bad_configuration_in_brackets_is_the_jobs_error)
{
	fails_alone(bad_brackets);
}

TEST(a_bad_configuration_of_rnl_launch_is_the_jobs_error)
{
	fails_alone(bad_launch);
	fails_alone(bad_launch_ignored);
}

TEST(what_an_unchecked_job_left_is_not_blamed_on_the_next)
{
	struct rnl_job job, after;

	begin(RNL_STREAM_PER_THREAD);
	/* A call like in a unit without runnel/cuda.h. */
	ck_assert_int_eq((rnl_job_init)(&job, bad_brackets), 0);
	must(submit_by_key(pool, &job, 1));
	must(rnl_job_wait(&job, RNL_FOREVER));
	must(rnl_job_init(&after, nothing));
	must(submit_by_key(pool, &after, 1));
	must(rnl_job_wait(&after, RNL_FOREVER));
	ck_assert_int_eq(after.result, 0);
	end();
}

static uint32_t *flag;

static int slow_brackets(struct rnl_job *job)
{
	(void)job;
	slow<<<1, 1>>>(20000000, flag);
	return 0;
}

TEST(a_job_is_done_when_its_kernel_is)
{
	struct rnl_job job;

	begin(RNL_STREAM_PER_THREAD);
	must(rnl_memory_get(pool, RNL_PINNED, 64, (void **)&flag, 0));
	for (int i = 0; i < 10; i++) {
		*(volatile uint32_t *)flag = 0;
		run_fn(&job, slow_brackets);
		ck_assert_uint_eq(*(volatile uint32_t *)flag, 1);
	}
	rnl_memory_put(pool, flag);
	end();
}

static unsigned long long ids[NR_WORKERS][2];

static int note_stream(struct rnl_job *job)
{
	int index = rnl_worker().index;
	unsigned long long id;

	(void)job;
	if (cudaStreamGetId(cudaStreamPerThread, &id) != cudaSuccess)
		return -EIO;
	ids[index][0] = id;
	if (cudaStreamGetId((cudaStream_t)rnl_stream(), &id) != cudaSuccess)
		return -EIO;
	ids[index][1] = id;
	return 0;
}

TEST(each_worker_has_the_per_thread_stream_of_its_own)
{
	begin(RNL_STREAM_PER_THREAD);
	for (uint64_t key = 0; key < 64; key++) {
		struct rnl_job job;

		must(rnl_job_init(&job, note_stream));
		must(submit_by_key(pool, &job, key));
		must(rnl_job_wait(&job, RNL_FOREVER));
		ck_assert_int_eq(job.result, 0);
	}
	for (int i = 0; i < NR_WORKERS; i++) {
		ck_assert_uint_ne(ids[i][0], 0);
		ck_assert_uint_eq(ids[i][0], ids[i][1]);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(ids[i][0], ids[j][0]);
	}
	end();
}
