/* SPDX-License-Identifier: MIT */
/*
 * Jobs are recorded and replayed while the program's other threads use CUDA: they wait for the
 * device, allocate, use the legacy stream, and copy on their own streams. Their calls do not fail,
 * and every job has its effect.
 */
#include <atomic>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "suite.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>
#include <runnel/device.h>
#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/stats.h>

SUITE_FORKS

enum { NR_WORKERS = 4, NR_FUNCTIONS = 40, NR_JOBS = 64, WORDS = 256, KERNELS = 10, SECONDS = 3 };

/* Does word += *by, KERNELS times. */
struct add {
	const uint32_t *by;		/* on the device, by rnl_job_args() */
	uint32_t *words, more;
	uint32_t unused;
};

static __global__ void add_cuda(struct add a)
{
	a.words[threadIdx.x] += *a.by + a.more;
}
RNL_KERNEL(add, NULL, add_cuda, struct add);

static uint32_t *device_words, *pinned_words;

/* Each worker records each function, so there is always a recording. */
template <int nr> static int add_fn(struct rnl_job *job)
{
	const struct rnl_dim one = { 1, 1, 1 }, block = { WORDS, 1, 1 };
	struct add args;
	void *by;
	int ret = rnl_job_args(sizeof(uint32_t), &by);

	(void)job;
	memset(&args, 0, sizeof(args));
	args.by = static_cast<const uint32_t *>(by);
	args.words = device_words + nr * WORDS;
	args.more = nr;
	if (!ret)
		ret = rnl_fill(args.words, 0, WORDS * sizeof(uint32_t));
	for (int i = 0; i < KERNELS && !ret; i++)
		ret = rnl_launch(&add, one, block, &args);
	return ret ? ret : rnl_copy(pinned_words + nr * WORDS, args.words, WORDS * sizeof(uint32_t));
}

template <int nr> struct functions {
	static void list(int (**fns)(struct rnl_job *job))
	{
		functions<nr - 1>::list(fns);
		fns[nr - 1] = add_fn<nr - 1>;
	}
};
template <> struct functions<0> {
	static void list(int (**)(struct rnl_job *job))
	{
	}
};

/* ---- the program's other threads ------------------------------------------------------ */

static std::atomic<bool> ends;
static std::atomic<int> first_error;
static std::atomic<unsigned long> nr_calls;

static bool went(cudaError_t code)
{
	int none = 0;

	nr_calls++;
	if (code == cudaSuccess)
		return true;
	first_error.compare_exchange_strong(none, static_cast<int>(code));
	return false;
}

static void *wait_for_device(void *unused)
{
	while (!ends && went(cudaDeviceSynchronize()))
		;
	return unused;
}

static void *allocate(void *unused)
{
	void *mem;

	while (!ends && went(cudaMalloc(&mem, 1 << 20)) && went(cudaFree(mem)))
		;
	return unused;
}

static void *use_legacy_stream(void *unused)
{
	void *mem;

	if (!went(cudaMalloc(&mem, 4096)))
		return unused;
	while (!ends && went(cudaMemsetAsync(mem, 1, 4096, cudaStreamLegacy)) &&
	       went(cudaStreamSynchronize(cudaStreamLegacy)))
		;
	went(cudaFree(mem));
	return unused;
}

static void *copy_and_record(void *unused)
{
	cudaStream_t stream;
	cudaEvent_t event;
	void *mem, *host;

	if (!went(cudaStreamCreate(&stream)) || !went(cudaEventCreate(&event)) ||
	    !went(cudaMalloc(&mem, 4096)) || !went(cudaMallocHost(&host, 4096)))
		return unused;
	while (!ends && went(cudaMemcpyAsync(mem, host, 4096, cudaMemcpyDefault, stream)) &&
	       went(cudaEventRecord(event, stream)) && went(cudaEventSynchronize(event)) &&
	       went(cudaMemcpy(host, mem, 4096, cudaMemcpyDefault)))
		;
	went(cudaFreeHost(host));
	went(cudaFree(mem));
	went(cudaEventDestroy(event));
	went(cudaStreamDestroy(stream));
	return unused;
}

static void *(*const others[])(void *unused) = {
	wait_for_device, allocate, use_legacy_stream, copy_and_record, wait_for_device,
};
enum { NR_OTHERS = sizeof(others) / sizeof(others[0]) };

/* ---- the test -------------------------------------------------------------------------- */

static void run_task(struct rnl_pool *pool, int (*fn)(struct rnl_job *job), unsigned nr, uint32_t by)
{
	struct rnl_job job;
	uint32_t user = by;

	must(rnl_job_init(&job, fn));
	job.user = &user;
	must(rnl_job_set_flags(&job, RNL_REPLAY));
	must(rnl_submit(pool, &job));
	must(rnl_job_wait(&job, RNL_FOREVER));
	ck_assert_msg(!job.result, "%s: CUDA's code is %d", rnl_strerror(job.result),
		      job.device_error);
	for (unsigned i = 0; i < WORDS; i++)
		ck_assert_uint_eq(pinned_words[nr * WORDS + i], KERNELS * (by + nr));
}

TEST(other_threads_use_cuda_while_jobs_are_recorded, .timeout_s = 120, .loops = 2)
{
	int (*fns[NR_FUNCTIONS])(struct rnl_job *job);
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	time_t until;
	pthread_t threads[NR_OTHERS];
	struct rnl_pool *pool = NULL;
	uint32_t by = 0;

	ends = false;
	functions<NR_FUNCTIONS>::list(fns);
	attr.nr_workers = NR_WORKERS;
	attr.device = "cuda";
	attr.stream = _i;
	must(rnl_pool_create(&pool, &attr));
	must(rnl_memory_get(pool, 0, NR_FUNCTIONS * WORDS * sizeof(uint32_t),
			    (void **)&device_words, 0));
	must(rnl_memory_get(pool, RNL_PINNED, NR_FUNCTIONS * WORDS * sizeof(uint32_t),
			    (void **)&pinned_words, 0));
	for (int i = 0; i < NR_OTHERS; i++)
		must(pthread_create(&threads[i], NULL, others[i], NULL));
	until = time(NULL) + SECONDS;
	/* There are more functions than records, so a worker records all the time. */
	do {
		for (unsigned i = 0; i < NR_FUNCTIONS; i++)
			for (unsigned times = 0; times < 6; times++)
				run_task(pool, fns[i], i, ++by);
	} while (time(NULL) < until);
	ends = true;
	for (int i = 0; i < NR_OTHERS; i++)
		must(pthread_join(threads[i], NULL));
	must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
	printf("# %lu jobs, %lu replayed; %lu calls of other threads\n", (unsigned long)by,
	       (unsigned long)stats.replayed, nr_calls.load());
	fflush(stdout);
	ck_assert_int_eq(first_error.load(), 0);
	ck_assert_uint_gt(stats.replayed, 0);
	rnl_memory_put(pool, pinned_words);
	rnl_memory_put(pool, device_words);
	rnl_pool_destroy(pool);
}

int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	rnl_setup();
	/* CUDA may not load a kernel while others wait. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	return SUITE_GOES_ON;
}
