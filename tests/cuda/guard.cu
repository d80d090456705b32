/* SPDX-License-Identifier: MIT */
/* Guard on a GPU: forbidden calls of jobs are found and named, and correct jobs work as before. */
#include <errno.h>

#include "suite.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>
#include <runnel/guard.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

SUITE_FORKS

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define N 4096			/* ints */
#define BYTES (N * sizeof(int))

/* ---- pools and their messages ------------------------------------------------------- */

/* Written by workers while the test waits for their job. */
static struct {
	unsigned nr;
	char lines[32][640];
} said;

static void hear_guard(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	if (!strncmp(msg, "guard: ", 7) && said.nr < COUNT(said.lines))
		snprintf(said.lines[said.nr++], sizeof(said.lines[0]), "%s", msg);
}

static bool has_said(const char *name, const char *what)
{
	for (unsigned i = 0; i < said.nr; i++) {
		if (strstr(said.lines[i], name) && strstr(said.lines[i], what))
			return true;
	}
	return false;
}

static void print_said(void)
{
	for (unsigned i = 0; i < said.nr; i++)
		printf("# %s\n", said.lines[i]);
	fflush(stdout);
}

static struct rnl_pool *guarded_pool(uint32_t guard, uint32_t stream, unsigned nr_workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	said.nr = 0;
	attr.nr_workers = nr_workers;
	attr.device = "cuda";
	attr.stream = stream;
	attr.guard = guard;
	attr.log = hear_guard;
	must(rnl_pool_create(&pool, &attr));
	return pool;
}

static struct rnl_pool_stats figures_of(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
	return stats;
}

static uint64_t findings_of(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = figures_of(pool);

	return stats.guard.legacy + stats.guard.waits + stats.guard.memory +
	       stats.guard.waits_or_memory + stats.guard.pageable + stats.guard.unclear +
	       stats.guard.strays;
}

struct ground {
	int *in, *out;		/* pinned */
	int *device, *other;
	int *pageable;
	int *kept;		/* allocated by one job, freed by another */
	cudaStream_t side;
	cudaEvent_t forks, joins;
	unsigned nr_calls;
};

/* ---- kernels ------------------------------------------------------------------- */

static __global__ void add(int *mem, int n, int value)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < n)
		mem[i] += value;
}

template <int FACTOR> static __global__ void multiply(int *mem, int n)
{
	extern __shared__ int tile[];
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	tile[threadIdx.x] = i < n ? mem[i] : 0;
	__syncthreads();
	if (i < n)
		mem[i] = tile[threadIdx.x] * FACTOR;
}

struct mix_args {
	int *mem;
	int n, value;
};

static __global__ void mix(struct mix_args a)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < a.n)
		a.mem[i] = (a.mem[i] ^ a.value) * 31;
}
RNL_KERNEL(mix_kernel, NULL, mix, struct mix_args);

static cudaStream_t own(void)
{
	return (cudaStream_t)rnl_stream();
}

/* A careful job checks each call's error. */
#define TRY(call) \
	do { \
		if ((call) != cudaSuccess) \
			return -EIO; \
	} while (0)

#define JOB(name) \
	static int name(struct rnl_job *job) \
	{ \
		struct ground *g = (struct ground *)job->user; \
		g->nr_calls++; {
#define END return 0; } }

/* ---- twenty correct jobs --------------------------------------------------------- */

JOB(copies_in)
	TRY(cudaMemcpyAsync(g->device, g->in, BYTES, cudaMemcpyHostToDevice, own()));
END
JOB(adds)
	add<<<N / 256, 256, 0, own()>>>(g->device, N, 3);
END
JOB(multiplies)
	multiply<3><<<N / 128, 128, 128 * sizeof(int), own()>>>(g->device, N);
END
JOB(copies_on)
	TRY(cudaMemcpyAsync(g->other, g->device, BYTES, cudaMemcpyDeviceToDevice, own()));
END
JOB(sets)
	TRY(cudaMemsetAsync(g->other, 0x11, 512, own()));
END
JOB(copies_rows)
	TRY(cudaMemcpy2DAsync(g->other + 256, 64, g->device, 128, 32, 8, cudaMemcpyDeviceToDevice,
			      own()));
END
JOB(copies_kernel_copies)
	TRY(cudaMemcpyAsync(g->device, g->in + 64, 256, cudaMemcpyHostToDevice, own()));
	add<<<1, 64, 0, own()>>>(g->device, 64, 9);
	TRY(cudaMemcpyAsync(g->out + 64, g->device, 256, cudaMemcpyDeviceToHost, own()));
END
JOB(rnl_copies)
	return rnl_copy(g->device + 128, g->in + 512, 1024);
END
JOB(rnl_copies_rows)
	return rnl_copy_2d(g->out + 512, 64, g->device, 128, 16, 4);
END
JOB(rnl_launches)
	const struct mix_args args = { g->device, N, 77 };
	const struct rnl_dim grid = { N / 256, 1, 1 }, block = { 256, 1, 1 };

	return rnl_launch(&mix_kernel, grid, block, &args);
END
JOB(rnl_fills)
	return rnl_fill(g->other + 1024, 0x21, 256);
END
JOB(uses_scratch)
	void *mem;
	int ret = rnl_scratch(BYTES, &mem);

	if (ret)
		return ret;
	TRY(cudaMemcpyAsync(mem, g->device, BYTES, cudaMemcpyDeviceToDevice, own()));
	add<<<N / 256, 256, 0, own()>>>((int *)mem, N, 1);
	TRY(cudaMemcpyAsync(g->other + 2048, mem, 1024, cudaMemcpyDeviceToDevice, own()));
END
JOB(forks_and_joins)
	TRY(cudaEventRecord(g->forks, own()));
	TRY(cudaStreamWaitEvent(g->side, g->forks, 0));
	add<<<N / 256, 256, 0, g->side>>>(g->device, N, 5);
	TRY(cudaEventRecord(g->joins, g->side));
	TRY(cudaStreamWaitEvent(own(), g->joins, 0));
	multiply<2><<<N / 128, 128, 128 * sizeof(int), own()>>>(g->device, N);
END
JOB(allocates_in_order)
	int *mem;

	TRY(cudaMallocAsync(&mem, BYTES, own()));
	TRY(cudaMemcpyAsync(mem, g->device, BYTES, cudaMemcpyDeviceToDevice, own()));
	add<<<N / 256, 256, 0, own()>>>(mem, N, 2);
	TRY(cudaMemcpyAsync(g->device, mem, BYTES, cudaMemcpyDeviceToDevice, own()));
	TRY(cudaFreeAsync(mem, own()));
END
JOB(asks_whose_memory)
	struct cudaPointerAttributes attributes;

	TRY(cudaPointerGetAttributes(&attributes, g->device));
	return attributes.type == cudaMemoryTypeDevice ? 0 : -EPROTO;
END
static void CUDART_CB count_up(void *word)
{
	*(volatile int *)word += 1;
}
JOB(calls_the_host)
	TRY(cudaMemcpyAsync(g->out + 1024, g->device, 256, cudaMemcpyDeviceToHost, own()));
	TRY(cudaLaunchHostFunc(own(), count_up, g->out + 1024));
END
JOB(fails_by_itself)
	add<<<1, 64, 0, own()>>>(g->device, 64, 1);
	return -EPROTO;
END
JOB(does_nothing)
	return 12;
END
JOB(makes_a_graph_of_many)
	for (int i = 0; i < 100; i++)
		add<<<1, 64, 0, own()>>>(g->device + 64, 64, i);
END
JOB(copies_out)
	TRY(cudaMemcpyAsync(g->out + 1280, g->other, 4096, cudaMemcpyDeviceToHost, own()));
	TRY(cudaMemcpyAsync(g->out + 2304, g->device, 4096, cudaMemcpyDeviceToHost, own()));
END

static int (*const correct[])(struct rnl_job *job) = {
	copies_in, adds, multiplies, copies_on, sets, copies_rows, copies_kernel_copies, rnl_copies,
	rnl_copies_rows, rnl_launches, rnl_fills, uses_scratch, forks_and_joins, allocates_in_order,
	asks_whose_memory, calls_the_host, fails_by_itself, does_nothing, makes_a_graph_of_many,
	copies_out,
};

/* A correct function, but a second call of it would free twice. */
JOB(allocates_for_later)
	int *mem;

	TRY(cudaMallocAsync(&mem, BYTES, own()));
	TRY(cudaMemsetAsync(mem, 1, BYTES, own()));
	g->kept = mem;
END
JOB(frees_what_was_kept)
	TRY(cudaMemcpyAsync(g->out + 3500, g->kept, 64, cudaMemcpyDeviceToHost, own()));
	TRY(cudaFreeAsync(g->kept, own()));
END

/* ---- the ground ------------------------------------------------------------------- */

static void ground_init(struct ground *g, struct rnl_pool *pool)
{
	void *mem[4];

	memset((void *)g, 0, sizeof(*g));
	must(rnl_memory_get(pool, RNL_PINNED, BYTES, &mem[0], 0));
	must(rnl_memory_get(pool, RNL_PINNED, BYTES, &mem[1], 0));
	must(rnl_memory_get(pool, 0, BYTES, &mem[2], 0));
	must(rnl_memory_get(pool, 0, BYTES, &mem[3], 0));
	g->in = (int *)mem[0];
	g->out = (int *)mem[1];
	g->device = (int *)mem[2];
	g->other = (int *)mem[3];
	g->pageable = (int *)malloc(BYTES);
	for (int i = 0; i < N; i++) {
		g->in[i] = g->pageable[i] = i * 2654435761u >> 7;
		g->out[i] = 0;
	}
	ck_assert_int_eq(cudaStreamCreateWithFlags(&g->side, cudaStreamNonBlocking), cudaSuccess);
	ck_assert_int_eq(cudaEventCreateWithFlags(&g->forks, cudaEventDisableTiming), cudaSuccess);
	ck_assert_int_eq(cudaEventCreateWithFlags(&g->joins, cudaEventDisableTiming), cudaSuccess);
	ck_assert_int_eq(cudaMemset(g->device, 0, BYTES), cudaSuccess);
	ck_assert_int_eq(cudaMemset(g->other, 0, BYTES), cudaSuccess);
	ck_assert_int_eq(cudaDeviceSynchronize(), cudaSuccess);
}

static void ground_fini(struct ground *g, struct rnl_pool *pool)
{
	cudaStreamDestroy(g->side);
	cudaEventDestroy(g->forks);
	cudaEventDestroy(g->joins);
	rnl_memory_put(pool, g->in);
	rnl_memory_put(pool, g->out);
	rnl_memory_put(pool, g->device);
	rnl_memory_put(pool, g->other);
	free(g->pageable);
}

static int run_here(struct rnl_pool *pool, int (*fn)(struct rnl_job *job), struct ground *g)
{
	struct rnl_job job;

	must(rnl_job_init(&job, fn));
	job.user = g;
	must(rnl_submit(pool, &job));
	must(rnl_job_wait(&job, RNL_FOREVER));
	return job.result;
}

/* ---- tests ------------------------------------------------------------------------ */

static void run_correct(uint32_t guard, uint32_t stream, int *out, int *results)
{
	struct rnl_pool *pool = guarded_pool(guard, stream, 4);
	struct ground g;

	ground_init(&g, pool);
	/* Each job runs twice: guarded, then unguarded. */
	for (unsigned i = 0; i < 2 * COUNT(correct); i++)
		results[i] = run_here(pool, correct[i % COUNT(correct)], &g);
	if (guard) {
		print_said();
		ck_assert_uint_eq(findings_of(pool), 0);
		ck_assert_uint_eq(figures_of(pool).guard.twice, 0);
		ck_assert_uint_eq(figures_of(pool).guard.functions, COUNT(correct));
		ck_assert_uint_eq(said.nr, 0);
		ck_assert_uint_eq(g.nr_calls, 2 * COUNT(correct));
	}
	memcpy(out, g.out, BYTES);
	ground_fini(&g, pool);
	rnl_pool_destroy(pool);
}

static void compare_correct(uint32_t guard, uint32_t stream)
{
	static int plain[N], watched[N];
	int results[2][2 * COUNT(correct)];

	ck_assert_uint_eq(COUNT(correct), 20);
	run_correct(RNL_GUARD_OFF, stream, plain, results[0]);
	run_correct(guard, stream, watched, results[1]);
	ck_assert_int_eq(memcmp(results[0], results[1], sizeof(results[0])), 0);
	ck_assert_int_eq(memcmp(plain, watched, BYTES), 0);
	ck_assert_int_ne(plain[2304], 0);
}

TEST(twenty_correct_jobs_give_no_finding_and_what_they_give_without_guard, .timeout_s = 60)
{
	compare_correct(RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD);
}

TEST(so_they_do_on_private_streams, .timeout_s = 60)
{
	compare_correct(RNL_GUARD_REPORT, RNL_STREAM_PRIVATE);
}

TEST(so_they_do_by_the_strict_guard, .timeout_s = 60)
{
	compare_correct(RNL_GUARD_STRICT, RNL_STREAM_PER_THREAD);
}

TEST(memory_that_one_job_allocates_and_another_frees_gives_no_finding, .timeout_s = 60)
{
	struct rnl_pool *pool = guarded_pool(RNL_GUARD_STRICT, RNL_STREAM_PER_THREAD, 1);
	struct ground g;

	ground_init(&g, pool);
	for (int i = 0; i < 2; i++) {
		g.out[3500] = 0;
		ck_assert_int_eq(run_here(pool, allocates_for_later, &g), 0);
		ck_assert_int_eq(run_here(pool, frees_what_was_kept, &g), 0);
		ck_assert_int_eq(g.out[3500], 0x01010101);
	}
	print_said();
	printf("# called %u times\n", (unsigned)g.nr_calls);
	ck_assert_uint_eq(findings_of(pool), 0);
	ground_fini(&g, pool);
	rnl_pool_destroy(pool);
}

/* ---- forbidden calls ------------------------------------------------------- */

#define BAD_JOB(name) \
	extern "C" __attribute__((visibility("default"))) int name(struct rnl_job *job); \
	int name(struct rnl_job *job) \
	{ \
		struct ground *g = (struct ground *)job->user; \
		g->nr_calls++; {

BAD_JOB(bad_legacy)
	add<<<N / 256, 256, 0, cudaStreamLegacy>>>(g->device, N, 1);
	TRY(cudaGetLastError());
	TRY(cudaMemcpyAsync(g->out, g->device, BYTES, cudaMemcpyDeviceToHost, cudaStreamLegacy));
	/* The legacy stream does not order private streams. */
	TRY(cudaStreamSynchronize(cudaStreamLegacy));
END
BAD_JOB(bad_legacy_unchecked)
	add<<<N / 256, 256, 0, cudaStreamLegacy>>>(g->device, N, 1);
	add<<<N / 256, 256, 0, own()>>>(g->device, N, 1);
	add<<<N / 256, 256, 0, own()>>>(g->device, N, 1);
END
BAD_JOB(bad_device_wait)
	add<<<N / 256, 256, 0, own()>>>(g->device, N, 1);
	TRY(cudaDeviceSynchronize());
END
BAD_JOB(bad_stream_wait)
	add<<<N / 256, 256, 0, own()>>>(g->device, N, 1);
	TRY(cudaStreamSynchronize(own()));
END
BAD_JOB(bad_malloc)
	int *mem;

	TRY(cudaMalloc(&mem, BYTES));
	TRY(cudaMemsetAsync(mem, 2, BYTES, own()));
	TRY(cudaMemcpyAsync(g->device, mem, BYTES, cudaMemcpyDeviceToDevice, own()));
	TRY(cudaFree(mem));
END
BAD_JOB(bad_pinning)
	void *mem;

	TRY(cudaHostAlloc(&mem, BYTES, cudaHostAllocDefault));
	TRY(cudaFreeHost(mem));
END
BAD_JOB(bad_pageable)
	TRY(cudaMemcpyAsync(g->device, g->pageable, BYTES, cudaMemcpyHostToDevice, own()));
END
BAD_JOB(bad_pageable_rnl_copy)
	return rnl_copy(g->device, g->pageable, BYTES);
END

static const struct {
	int (*fn)(struct rnl_job *job);
	const char *name, *text;
} bad_jobs[] = {
	{ bad_legacy, "bad_legacy()", "uses the legacy default stream" },
	{ bad_legacy_unchecked, "bad_legacy_unchecked()", "uses the legacy default stream" },
	{ bad_device_wait, "bad_device_wait()", "waits" },
	{ bad_stream_wait, "bad_stream_wait()", "waits" },
	{ bad_malloc, "bad_malloc()", "makes or frees memory" },
	{ bad_pinning, "bad_pinning()", "makes or frees memory" },
	{ bad_pageable, "bad_pageable()", "copies pageable memory" },
	{ bad_pageable_rnl_copy, "bad_pageable_rnl_copy()", "copies pageable memory" },
};

static int run_bad(uint32_t guard, int i, int *out)
{
	struct rnl_pool *pool = guarded_pool(guard, RNL_STREAM_PER_THREAD, 3);
	struct ground g;
	int ret;

	ground_init(&g, pool);
	ck_assert_int_eq(run_here(pool, copies_in, &g), 0);
	ret = run_here(pool, bad_jobs[i].fn, &g);
	ck_assert_int_eq(run_here(pool, bad_jobs[i].fn, &g), ret);
	if (guard) {
		print_said();
		ck_assert(has_said(bad_jobs[i].name, bad_jobs[i].text));
		ck_assert_uint_eq(findings_of(pool), 1);
	}
	if (guard == RNL_GUARD_STRICT)
		ck_assert_uint_eq(g.nr_calls, 2);	/* copies_in, and this job */
	ck_assert_int_eq(run_here(pool, copies_on, &g), 0);
	ck_assert_int_eq(run_here(pool, copies_out, &g), 0);
	memcpy(out, g.out, BYTES);
	ground_fini(&g, pool);
	rnl_pool_destroy(pool);
	return ret;
}

TEST(what_a_job_should_not_do_is_found_and_named_and_its_effect_is_as_ever,
     .timeout_s = 60, .loops = COUNT(bad_jobs))
{
	static int plain[N], watched[N];

	ck_assert_int_eq(run_bad(RNL_GUARD_OFF, _i, plain), 0);
	ck_assert_int_eq(run_bad(RNL_GUARD_REPORT, _i, watched), 0);
	ck_assert_int_eq(memcmp(plain, watched, BYTES), 0);
}

TEST(by_the_strict_guard_it_fails, .timeout_s = 60, .loops = COUNT(bad_jobs))
{
	static int out[N];

	ck_assert_int_eq(run_bad(RNL_GUARD_STRICT, _i, out), -ENOTSUP);
}

TEST(on_a_private_stream_the_legacy_one_is_found_too, .timeout_s = 60)
{
	struct rnl_pool *pool = guarded_pool(RNL_GUARD_REPORT, RNL_STREAM_PRIVATE, 2);
	struct ground g;

	ground_init(&g, pool);
	ck_assert_int_eq(run_here(pool, bad_legacy, &g), 0);
	print_said();
	ck_assert(has_said("bad_legacy()", "uses the legacy default stream"));
	ground_fini(&g, pool);
	rnl_pool_destroy(pool);
}
