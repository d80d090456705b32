/* SPDX-License-Identifier: MIT */
/*
 * One pool over two GPUs: kernels on one reach memory on the other, copies arrive both ways, a
 * barrier joins work of both, and a wrong address on one GPU ends the jobs of both. Also a pool on
 * the second GPU, which does not use the first one.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "spin.h"
#include "suite.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>
#include <runnel/device.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

#include <cuda.h>

SUITE_FORKS

enum { WORDS = 1 << 20, BYTES = WORDS * 4, PITCH = 4096, BLOCK = 256, GRID = 512, NR_WORKERS = 4 };

/* After a while, to[i] = from[i] + add. */
struct sum {
	const uint32_t *from;
	uint32_t *to;
	uint32_t nr, add;
	uint64_t ns;
};

static __global__ void sum_cuda(struct sum s)
{
	spin_ns(s.ns);
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < s.nr; i += gridDim.x * blockDim.x)
		s.to[i] = s.from[i] + s.add;
}
RNL_KERNEL(sum, NULL, sum_cuda, struct sum);

/* A job's work: a copy, a copy of rows, or the kernel, launched by runnel or by CUDA. */
enum act { COPY, ROWS, LAUNCH, RAW };

struct task {
	struct rnl_job job;
	enum act act;
	struct sum s;
};

struct area {
	uint32_t *mem[2];		/* on each GPU */
	uint32_t *pinned;
};

static bool two_gpus(void)
{
	int nr = 0;

	return cudaGetDeviceCount(&nr) == cudaSuccess && nr >= 2;
}

static bool are_peers(void)
{
	int there = 0, back = 0;

	return cudaDeviceCanAccessPeer(&there, 0, 1) == cudaSuccess && there &&
	       cudaDeviceCanAccessPeer(&back, 1, 0) == cudaSuccess && back;
}

static struct rnl_pool *pool_of_kind(int kind)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	attr.nr_workers = NR_WORKERS;
	attr.device = "cuda:0,1";
	attr.stream = kind;
	must(rnl_pool_create(&pool, &attr));
	return pool;
}

static struct area area_of(struct rnl_pool *pool, size_t bytes)
{
	struct area area = {};

	for (unsigned i = 0; i < 2; i++)
		must(rnl_memory_get(pool, i, bytes, (void **)&area.mem[i], 0));
	must(rnl_memory_get(pool, RNL_PINNED, bytes, (void **)&area.pinned, 0));
	return area;
}

static void put(struct rnl_pool *pool, const struct area *area)
{
	for (unsigned i = 0; i < 2; i++)
		rnl_memory_put(pool, area->mem[i]);
	rnl_memory_put(pool, area->pinned);
}

static int run(struct rnl_job *job)
{
	const struct task *t = rnl_container_of(job, struct task, job);
	const struct rnl_dim grid = { GRID, 1, 1 }, block = { BLOCK, 1, 1 };

	switch (t->act) {
	case COPY:
		return rnl_copy(t->s.to, t->s.from, t->s.nr * sizeof(uint32_t));
	case ROWS:
		return rnl_copy_2d(t->s.to, PITCH, t->s.from, PITCH, PITCH / 2, BYTES / PITCH);
	case LAUNCH:
		return rnl_launch(&sum, grid, block, &t->s);
	default:
		sum_cuda<<<GRID, BLOCK, 0, (cudaStream_t)rnl_stream()>>>(t->s);
		return 0;
	}
}

static void task_init(struct task *t, int device, enum act act, struct sum s)
{
	t->act = act;
	t->s = s;
	must(rnl_job_init(&t->job, run));
	must(rnl_job_set_device(&t->job, device));
}

static void do_task(struct rnl_pool *pool, int device, enum act act, struct sum s)
{
	struct task t = {};

	task_init(&t, device, act, s);
	must(rnl_submit(pool, &t.job));
	must(rnl_job_wait(&t.job, RNL_FOREVER));
	ck_assert_msg(!t.job.result, "%s: CUDA's code is %d", rnl_strerror(t.job.result),
		      t.job.device_error);
}

static void copy_all(struct rnl_pool *pool, uint32_t *to, const uint32_t *from)
{
	do_task(pool, -1, COPY, (struct sum){ from, to, WORDS, 0, 0 });
}

static uint32_t word_of(uint32_t i)
{
	return i * 2654435761u;
}

/* Fills @from with words, and @to with other words, on one GPU or on two. */
static void fill(struct rnl_pool *pool, uint32_t *from, uint32_t *to, uint32_t *pinned)
{
	for (uint32_t i = 0; i < WORDS; i++)
		pinned[i] = word_of(i);
	copy_all(pool, from, pinned);
	for (uint32_t i = 0; i < WORDS; i++)
		pinned[i] = ~word_of(i);
	copy_all(pool, to, pinned);
}

/* ---- tests --------------------------------------------------------------------------- */

/* A kernel on each GPU reads or writes memory of each GPU. */
TEST(a_kernel_reads_and_writes_the_memory_of_a_peer, .timeout_s = 60, .loops = 2)
{
	struct rnl_pool *pool;
	struct area in, out;

	if (!two_gpus() || !are_peers())
		test_skip("there are no two GPUs that are peers");
	pool = pool_of_kind(_i);
	in = area_of(pool, BYTES);
	out = area_of(pool, BYTES);
	for (unsigned way = 0; way < 16; way++) {
		const unsigned device = way & 1, act = way & 2 ? RAW : LAUNCH;
		uint32_t *from = in.mem[way & 4 ? device : !device];
		uint32_t *to = out.mem[way & 8 ? device : !device];

		fill(pool, from, to, in.pinned);
		do_task(pool, (int)device, (enum act)act, (struct sum){ from, to, WORDS, way + 1, 0 });
		copy_all(pool, out.pinned, to);
		for (uint32_t i = 0; i < WORDS; i++)
			if (out.pinned[i] != word_of(i) + way + 1)
				ck_abort_msg("way %u, word %u is 0x%x", way, i, out.pinned[i]);
	}
	put(pool, &in);
	put(pool, &out);
	rnl_pool_destroy(pool);
}

/* Copies to and from either GPU, by workers of either GPU. */
TEST(copies_arrive_both_ways, .timeout_s = 60, .loops = 2)
{
	struct rnl_pool *pool;
	struct area a;

	if (!two_gpus())
		test_skip("there is one GPU");
	pool = pool_of_kind(_i);
	a = area_of(pool, BYTES);
	for (unsigned way = 0; way < 8; way++) {
		const unsigned from = way & 1, rows = way & 2;

		fill(pool, a.mem[from], a.mem[!from], a.pinned);
		do_task(pool, way & 4 ? 1 : 0, rows ? ROWS : COPY,
			(struct sum){ a.mem[from], a.mem[!from], WORDS, 0, 0 });
		copy_all(pool, a.pinned, a.mem[!from]);
		for (uint32_t i = 0; i < WORDS; i++) {
			const bool moved = !rows || i % (PITCH / 4) < PITCH / 8;

			if (a.pinned[i] != (moved ? word_of(i) : ~word_of(i)))
				ck_abort_msg("way %u, word %u is 0x%x", way, i, a.pinned[i]);
		}
	}
	put(pool, &a);
	rnl_pool_destroy(pool);
}

enum { STAGES = 100, PARTS = 4, PART = 16 << 10, STAGE_NS = 50000 };

static struct task stages[STAGES][2][PARTS];

/*
 * The stages alternate between the GPUs. Each part of a stage takes the result of another part of
 * the stage before, and adds 1. A copy that did not wait for the other GPU's kernel would take an
 * older result.
 */
TEST(stages_go_from_one_gpu_to_the_other_by_barriers, .timeout_s = 60, .loops = 2)
{
	struct rnl_barrier done[2];
	struct rnl_pool *pool;
	struct area a;

	if (!two_gpus())
		test_skip("there is one GPU");
	pool = pool_of_kind(_i);
	a = area_of(pool, BYTES);
	fill(pool, a.mem[1], a.mem[0], a.pinned);
	for (int i = 0; i < 2; i++)
		must(rnl_barrier_init(&done[i], pool));
	for (int stage = 0; stage < STAGES; stage++) {
		const int on = stage % 2;

		for (uint32_t part = 0; part < PARTS; part++) {
			struct task *copy = &stages[stage][0][part], *add = &stages[stage][1][part];
			uint32_t *mine = a.mem[on] + part * PART;

			task_init(copy, on, COPY, (struct sum){ a.mem[!on] + (part + 1) % PARTS * PART,
								mine, PART, 0, 0 });
			task_init(add, on, RAW, (struct sum){ mine, mine, PART, 1, STAGE_NS });
			if (stage)
				must(rnl_job_set_after(&copy->job, &done[!on]));
			must(rnl_job_set_then(&copy->job, &add->job));
			must(rnl_barrier_add(&done[on], &copy->job));
			must(rnl_barrier_add(&done[on], &add->job));
			must(rnl_submit_wait(pool, &copy->job, RNL_FOREVER));
		}
	}
	for (int i = 0; i < 2; i++) {
		must(rnl_barrier_wait(&done[i], RNL_FOREVER));
		must(done[i].result);
	}
	copy_all(pool, a.pinned, a.mem[!(STAGES % 2)]);
	for (uint32_t i = 0; i < PARTS * PART; i++) {
		const uint32_t first = (i + STAGES % PARTS * PART) % (PARTS * PART);

		if (a.pinned[i] != word_of(first) + STAGES)
			ck_abort_msg("word %u is 0x%x", i, a.pinned[i]);
	}
	put(pool, &a);
	rnl_pool_destroy(pool);
}

/* ---- a pool on the second GPU only ---------------------------------------------------- */

/* Returns true if a GPU has its primary context.  The driver's query makes no context. */
static bool has_context(int device)
{
	typedef CUresult state_fn(CUdevice device, unsigned *flags, int *active);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	state_fn *state = driver ? (state_fn *)dlsym(driver, "cuDevicePrimaryCtxGetState") : NULL;
	unsigned flags;
	int active = -1;

	ck_assert(state && state(device, &flags, &active) == CUDA_SUCCESS);
	return active;
}

static unsigned char pageable[1 << 20];

static int touch_all(struct rnl_job *job)
{
	void *mem;
	int ret = rnl_scratch(sizeof(pageable), &mem);

	if (!ret)
		ret = rnl_copy(mem, pageable, sizeof(pageable));
	if (!ret)
		ret = rnl_copy(pageable, mem, sizeof(pageable));
	return ret ? ret : rnl_copy(job->user, mem, BYTES / 8);
}

TEST(a_pool_on_the_second_gpu_makes_no_context_on_the_first, .timeout_s = 60, .loops = 2)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;
	void *mem, *pinned;
	struct rnl_job job;
	int current = -1;

	if (!two_gpus())
		test_skip("there is one GPU");
	attr.device = "cuda:1";
	attr.nr_workers = 2;
	attr.stream = _i;
	must(rnl_pool_create(&pool, &attr));
	ck_assert(!has_context(0));
	must(rnl_memory_get(pool, 0, BYTES, &mem, 0));
	must(rnl_memory_get(pool, RNL_PINNED, BYTES, &pinned, 0));
	ck_assert(!has_context(0));
	must(rnl_job_init(&job, touch_all));
	job.user = pinned;
	must(rnl_submit(pool, &job));
	must(rnl_job_wait(&job, RNL_FOREVER));
	must(job.result);
	ck_assert(!has_context(0));
	rnl_memory_put(pool, pinned);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
	ck_assert(!has_context(0));
	ck_assert(has_context(1));
	/* The caller has set no device, so its device is the first one. */
	ck_assert_int_eq(cudaGetDevice(&current), cudaSuccess);
	ck_assert_int_eq(current, 0);
}

/* ---- a wrong address ----------------------------------------------------------------- */

#define NR 4000			/* alternately on the GPUs: a second's work for each */
#define NS 1000000
#define NOWHERE ((uint32_t *)16)
#define WATCHDOG_MS 100		/* the default */
#define DEFINITE_MS (1e3 * seconds_allowed(2e-3 * WATCHDOG_MS))

static struct task tasks[NR], bad, late;

static double ms_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int result_of(struct task *t)
{
	must(rnl_job_wait(&t->job, 10000000000));
	return t->job.result;
}

static void check_failed(struct rnl_pool *pool)
{
	struct rnl_health health = RNL_HEALTH_INIT;
	void *mem;

	must(rnl_pool_health(pool, &health));
	ck_assert_uint_eq(health.state, RNL_HEALTH_FAILED);
	ck_assert_int_eq(health.device_error, cudaErrorIllegalAddress);
	for (unsigned i = 0; i < 2; i++) {
		task_init(&late, (int)i, COPY, (struct sum){});
		ck_assert_int_eq(rnl_submit(pool, &late.job), -EIO);
		ck_assert_int_eq(rnl_memory_get(pool, i, 64, &mem, 0), -EIO);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_wrong_address_on_one_gpu_ends_the_jobs_of_both, .timeout_s = 60, .loops = 4)
{
	unsigned failed[2] = { 0, 0 };
	const int device = _i / 2;
	struct rnl_pool *pool;
	uint32_t *pinned;
	double start, took;

	if (!two_gpus())
		test_skip("there is one GPU");
	pool = pool_of_kind(_i % 2);
	must(rnl_memory_get(pool, RNL_PINNED, 2 * NR * sizeof(*pinned), (void **)&pinned, 0));
	memset(pinned, 0, 2 * NR * sizeof(*pinned));
	for (uint32_t i = 0; i < NR; i++) {
		/* From a word of 0 to the task's own word. */
		task_init(&tasks[i], (int)i % 2, RAW, (struct sum){ pinned + NR + i, pinned + i, 1,
								    i + 1, NS });
		must(rnl_submit(pool, &tasks[i].job));
		if (i != NR / 2)
			continue;	/* half a second's work precedes the bad task */
		task_init(&bad, device, RAW, (struct sum){ NOWHERE, NOWHERE, 1, 0, 0 });
		must(rnl_submit(pool, &bad.job));
	}
	ck_assert_int_eq(result_of(&bad), -EIO);
	start = ms_now();
	for (unsigned i = 0; i < NR; i++) {
		const int result = result_of(&tasks[i]);

		ck_assert(result == 0 || result == -EIO);
		ck_assert(result || pinned[i] == i + 1);
		failed[i % 2] += result != 0;
	}
	took = ms_now() - start;
	printf("# of %d jobs each, %u and %u failed, the last %.0f ms after the bad one\n", NR / 2,
	       failed[0], failed[1], took);
	fflush(stdout);
	ck_assert_double_lt(took, DEFINITE_MS);
	ck_assert_uint_gt(failed[0], 0);
	ck_assert_uint_gt(failed[1], 0);
	rnl_memory_put(pool, pinned);
	check_failed(pool);
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
