/* SPDX-License-Identifier: MIT */
/*
 * Jobs that are replayed: recorded work is issued again, without a call of the function.
 *
 * api/replay_capture.c compiles this file again, for captured runs; tests/cuda/replay.c and
 * replay_calls.c do so for kernels that run on the GPU.
 */
#include <runnel/guard.h>
#include <runnel/hold.h>
#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/stats.h>
#include <runnel/trace.h>
#include <runnel/unit.h>

#include "apply.h"
#include "guard.h"
#include "host_kernel.h"
#include "pool.h"
#include "skip.h"
#include "trace.h"

__attribute__((weak)) int fake_plan(const char *text);

#ifndef HOW
#define HOW RNL_REPLAY
#endif

enum { BYTES = 256, LARGE = 40960, JOBS = 40 };

#ifdef APPLY_ON_GPU
#define skip_without_kernel() ((void)0)
#else
static void apply_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct apply *a = args;
	const struct facts *f = a->facts;

	(void)grid;
	(void)block;
	for (uint32_t i = 0; i < f->bytes; i++)
		f->mem[i] = applied(f->mem[i], f->add + (uint32_t)a->add);
}

RNL_HOST_KERNEL(apply, apply_host, struct apply);
#define skip_without_kernel() skip_unless_host()
#endif

static int launch_apply(const struct apply *args)
{
	const struct rnl_dim grid = { 2, 1, 1 }, block = { 128, 1, 1 };

	return rnl_launch(&apply, grid, block, args);
}

#ifndef APPLY_RAW
static int raw_apply(const struct apply *args)
{
	return launch_apply(args);
}
#endif

/* A job with its own area; `user` points to its facts. */
struct task {
	struct rnl_job job;
	struct facts facts;
};

static struct {
	struct rnl_pool *pool;
	enum rnl_stream_kind stream;
	enum rnl_guard guard;
	unsigned char *device, *pinned;
	struct task tasks[JOBS];
	unsigned char shadow[JOBS][BYTES];
	_Atomic unsigned nr_calls;
	_Atomic uint32_t add;		/* from the function, in addition to the job's */
} all;

static uint64_t keep;		/* scratch_keep; 0: the default */
static _Atomic unsigned nr_notified;	/* log lines about replays */

static void hear(void *arg, enum rnl_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (!strncmp(line, "replay: ", 8))
		nr_notified++;
}

static uint64_t nr_replayed(void)
{
	return figures_of(all.pool).replayed;
}

/* Applies the running job's facts to the area that they name. */
static int apply_facts(uint32_t add)
{
	void *facts;
	int ret = rnl_job_args(sizeof(struct facts), &facts);

	all.nr_calls++;
	return ret ? ret : raw_apply(&(struct apply){ facts, add });
}

static int apply_fn(struct rnl_job *job)
{
	(void)job;
	return apply_facts(all.add);
}

static int in_fn(struct rnl_job *job)
{
	const struct task *t = rnl_container_of(job, struct task, job);

	return rnl_copy(t->facts.mem, all.pinned + (t - all.tasks) * BYTES, BYTES);
}

static int back_fn(struct rnl_job *job)
{
	const struct task *t = rnl_container_of(job, struct task, job);

	return rnl_copy(all.pinned + (t - all.tasks) * BYTES, t->facts.mem, BYTES);
}

/* Runs a job that is not replayed. */
static int run_plain(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user)
{
	submit_job(all.pool, job, fn, user);
	return result_of(job);
}

static void begin_workers(unsigned workers)
{
	void *mem;

	nr_notified = 0;
	all.nr_calls = 0;
	all.add = 0;
	all.pool = pool_of(workers, .stream = all.stream, .guard = all.guard, .log = hear,
			   .scratch_keep = keep);
	must(rnl_memory_get(all.pool, 0, (size_t)JOBS * BYTES + 2 * LARGE, &mem, 0));
	all.device = mem;
	must(rnl_memory_get(all.pool, RNL_PINNED, (size_t)JOBS * BYTES + 2 * LARGE, &mem, 0));
	all.pinned = mem;
	for (unsigned i = 0; i < JOBS; i++) {
		struct task *t = &all.tasks[i];

		t->facts = (struct facts){ all.device + i * BYTES, BYTES, i };
		for (unsigned k = 0; k < BYTES; k++)
			all.shadow[i][k] = (unsigned char)(i + k);
		memcpy(all.pinned + i * BYTES, all.shadow[i], BYTES);
		ck_assert_int_eq(run_plain(&t->job, in_fn, NULL), 0);
	}
}

static void begin(void)
{
	begin_workers(1);
}

static void end(void)
{
	rnl_memory_put(all.pool, all.pinned);
	rnl_memory_put(all.pool, all.device);
	rnl_pool_destroy(all.pool);
	all.stream = RNL_STREAM_PER_THREAD;
	all.guard = RNL_GUARD_OFF;
}

/* Does the work of a job of apply_fn() on the host. */
static void shadow_apply(unsigned i)
{
	for (unsigned k = 0; k < BYTES; k++)
		all.shadow[i][k] = applied(all.shadow[i][k], all.tasks[i].facts.add + all.add);
}

static void submit_replay(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user)
{
	job_of(job, fn, user);
	must(rnl_job_set_flags(job, HOW));
	must(rnl_submit(all.pool, job));
}

static int run_replay(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user)
{
	submit_replay(job, fn, user);
	return result_of(job);
}

/* Runs a job of apply_fn(), or of a function that does the same. */
static void run_task(unsigned i, int (*fn)(struct rnl_job *job))
{
	ck_assert_int_eq(run_replay(&all.tasks[i].job, fn, &all.tasks[i].facts), 0);
	shadow_apply(i);
}

/* Runs a round: each job once, with all of them under way at a time. */
static void round_of(int (*fn)(struct rnl_job *job))
{
	for (unsigned i = 0; i < JOBS; i++)
		submit_replay(&all.tasks[i].job, fn, &all.tasks[i].facts);
	for (unsigned i = 0; i < JOBS; i++) {
		ck_assert_int_eq(result_of(&all.tasks[i].job), 0);
		shadow_apply(i);
	}
}

static void check_all(void)
{
	for (unsigned i = 0; i < JOBS; i++) {
		ck_assert_int_eq(run_plain(&all.tasks[i].job, back_fn, NULL), 0);
		ck_assert_mem_eq(all.pinned + i * BYTES, all.shadow[i], BYTES);
	}
}

/* ---- functions that are replayed -------------------------------------------------- */

TEST(a_function_that_issues_the_same_is_not_called, .loops = 6)
{
	static const enum rnl_guard guards[] = {
		RNL_GUARD_OFF, RNL_GUARD_REPORT, RNL_GUARD_STRICT,
	};

	skip_without_kernel();
	all.stream = (enum rnl_stream_kind)(_i % 2);
	all.guard = guards[_i / 2];
	begin();
	for (int round = 0; round < 10; round++)
		round_of(apply_fn);
	check_all();
	/* One call grows the worker's scratch or is the guard's, and two calls are recorded. */
	ck_assert_uint_eq(all.nr_calls, 3);
	ck_assert_uint_eq(nr_replayed(), 10 * JOBS - all.nr_calls);
	ck_assert_uint_eq(nr_notified, 0);
	end();
}

/* Copies `user` bytes both ways, and fills, always at the same addresses. */
static int all_kinds_fn(struct rnl_job *job)
{
	const uint32_t bytes = (uint32_t)(uintptr_t)job->user;
	unsigned char *device = all.device + JOBS * BYTES, *pinned = all.pinned + JOBS * BYTES;
	int ret = rnl_copy(device, pinned, bytes);

	all.nr_calls++;
	if (!ret)
		ret = rnl_fill(device + bytes / 2, 7, bytes / 4);
	if (!ret)
		ret = rnl_copy_2d(device + LARGE, 16, device, 32, 16, bytes / 32);
	return ret ? ret : rnl_copy(pinned + LARGE, device + LARGE, bytes / 2);
}

TEST(copies_and_fills_read_what_is_there_now, .loops = 2)
{
	const unsigned bytes = _i ? LARGE : BYTES;
	unsigned char *in, *out;
	struct rnl_job job;

	begin();
	in = all.pinned + JOBS * BYTES;
	out = in + LARGE;
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned k = 0; k < bytes; k++)
			in[k] = (unsigned char)(k * 3 + round);
		ck_assert_int_eq(run_replay(&job, all_kinds_fn, (void *)(uintptr_t)bytes), 0);
		for (unsigned k = 0; k < bytes / 2; k++) {
			const unsigned from = k / 16 * 32 + k % 16;
			const bool filled = from >= bytes / 2 && from < bytes / 2 + bytes / 4;

			ck_assert_uint_eq(out[k], filled ? 7 : in[from]);
		}
	}
	ck_assert_uint_eq(all.nr_calls, 2);
	end();
}

/* ---- functions that are not, or no longer, replayed --------------------------------- */

TEST(a_function_that_issues_something_else_is_called)
{
	skip_without_kernel();
	begin();
	for (int round = 0; round < 60; round++) {
		/* Each call issues work that differs from the last call's. */
		for (unsigned i = 0; i < JOBS; i++) {
			run_task(i, apply_fn);
			all.add++;
		}
	}
	check_all();
	ck_assert_uint_eq(all.nr_calls, 60 * JOBS);
	ck_assert_uint_eq(nr_replayed(), 0);
	ck_assert_uint_eq(nr_notified, 1);
	end();
}

static enum { KIND, VALUE, FILLED, COPIED, ROWS, GRID, DIFFERENCES } difference;

/* Each call's work differs from the last call's in one property. */
static int differs_fn(struct rnl_job *job)
{
	const unsigned turn = all.nr_calls++ % 2, bytes = BYTES >> turn;
	const struct rnl_dim grid = { 1 + turn, 1, 1 }, block = { 128, 1, 1 };
	struct apply args = { .add = 1 };
	void *facts;
	int ret;

	(void)job;
	switch (difference) {
	case KIND:
		return turn ? rnl_fill(all.device, 1, BYTES) :
			      rnl_copy(all.device, all.pinned, BYTES);
	case VALUE:
		return rnl_fill(all.device, (uint8_t)turn, BYTES);
	case FILLED:
		return rnl_fill(all.device, 1, bytes);
	case COPIED:
		return rnl_copy(all.device, all.pinned, bytes);
	case ROWS:
		return rnl_copy_2d(all.device, 64, all.pinned, 64, 32, 2 + turn);
	default:
		ret = rnl_job_args(sizeof(struct facts), &facts);
		args.facts = facts;
		return ret ? ret : rnl_launch(&apply, grid, block, &args);
	}
}

TEST(each_difference_is_noticed, .loops = DIFFERENCES)
{
	struct rnl_job job;

	skip_without_kernel();
	begin();
	difference = _i;
	for (unsigned round = 0; round < 20; round++) {
		ck_assert_int_eq(run_replay(&job, differs_fn, &all.tasks[0].facts), 0);
	}
	ck_assert_uint_eq(nr_replayed(), 0);
	ck_assert_uint_eq(nr_notified, 1);
	end();
}

TEST(a_change_is_noticed_and_recorded_anew)
{
	struct task *t = &all.tasks[0];

	skip_without_kernel();
	begin();
	round_of(apply_fn);
	ck_assert_uint_eq(all.nr_calls, 3);
	/* A change is noticed at the next call of the function, so wait for a call first. */
	while (all.nr_calls < 4) {
		run_task(0, apply_fn);
		ck_assert_uint_lt(nr_replayed(), 2000);
	}
	check_all();
	all.add = 5;
	while (all.nr_calls < 5) {
		ck_assert_int_eq(run_replay(&t->job, in_fn, NULL), 0);
		ck_assert_int_eq(run_replay(&t->job, apply_fn, &t->facts), 0);
	}
	/* The last call had its effect. */
	shadow_apply(0);
	for (int round = 0; round < 10; round++)
		round_of(apply_fn);
	check_all();
	ck_assert_uint_lt(all.nr_calls, 10);
	ck_assert_uint_eq(nr_notified, 1);
	end();
}

enum { PAGEABLE, HOLDS, NOTHING, FAILS, JOINS, JOINS_NOTHING, ASKS_FOR_STREAM, WAYS };

static struct {
	int way;
	struct rnl_barrier barrier, empty;
	unsigned char pageable[BYTES];
	int nr;
} odd;

static int slow_fn(struct rnl_job *job)
{
	(void)job;
	return rnl_fill(all.device + BYTES, 1, BYTES);
}

static int odd_fn(struct rnl_job *job)
{
	struct rnl_hold hold;

	odd.nr++;
	if (odd.way == PAGEABLE)
		return rnl_copy(all.device, odd.pageable, BYTES);
	if (odd.way == NOTHING)
		return 0;
	must(rnl_fill(all.device, odd.way < JOINS_NOTHING ? (uint8_t)odd.nr : 1, BYTES));
	if (odd.way == JOINS)
		return rnl_barrier_join(&odd.barrier);
	/* Its next run may find jobs to wait for. */
	if (odd.way == JOINS_NOTHING)
		return rnl_barrier_join(&odd.empty);
	if (odd.way == ASKS_FOR_STREAM)
		return rnl_stream() ? 0 : -ENODEV;
	if (odd.way == FAILS)
		return -EPROTO;
	must(rnl_job_hold(job, &hold));
	return rnl_hold_release(&hold, 0);
}

TEST(a_function_that_cannot_be_recorded_is_called_each_time, .loops = WAYS)
{
	struct rnl_job job, joined;
	int last;

	if (_i == ASKS_FOR_STREAM && (on_host() || HOW == RNL_REPLAY_CAPTURE))
		test_skip("a capture has the stream's work; the host device has no stream");
	begin();
	odd.way = _i;
	must(rnl_barrier_init(&odd.barrier, all.pool));
	must(rnl_barrier_init(&odd.empty, all.pool));
	for (int round = 0; round < 30; round++) {
		job_in(&odd.barrier, &joined, slow_fn, NULL);
		must(rnl_submit(all.pool, &joined));
		memset(odd.pageable, round, BYTES);
		last = odd.nr;
		ck_assert_int_eq(run_replay(&job, odd_fn, NULL), odd.way == FAILS ? -EPROTO : 0);
		/* The function may be called a second time, unrecorded. */
		ck_assert_int_gt(odd.nr, last);
		must(rnl_job_wait(&joined, RNL_FOREVER));
	}
	ck_assert_uint_eq(nr_replayed(), 0);
	ck_assert_uint_eq(nr_notified, 1);
	end();
}

static int no_error(void)
{
	return 0;
}

/* The jobs' unit may launch on stream 0, which is the worker's: the library would not see it. */
TEST(a_unit_that_may_use_stream_0_by_itself_is_called_each_time)
{
	const char *text = (const char *)(uintptr_t)slow_fn;
	const struct rnl__cuda_unit unit = { sizeof(unit), 0, no_error, &unit, text, text + 1 };
	struct rnl_job job;

	if (HOW == RNL_REPLAY_CAPTURE)
		test_skip("a capture has what goes to the stream");
	must(rnl__cuda_unit_add(&unit));
	begin();
	for (int round = 0; round < 10; round++)
		ck_assert_int_eq(run_replay(&job, slow_fn, NULL), 0);
	ck_assert_uint_eq(nr_replayed(), on_host() ? 8 : 0);
	ck_assert_uint_eq(nr_notified, on_host() ? 0 : 1);
	end();
	rnl__cuda_unit_remove(&unit);
}

TEST(one_function_recorded_both_ways_by_turns)
{
	struct task *t = &all.tasks[0];

	skip_without_kernel();
	begin();
	for (int round = 0; round < 60; round++) {
		job_of(&t->job, apply_fn, &t->facts);
		must(rnl_job_set_flags(&t->job, round / 5 % 2 ? RNL_REPLAY_CAPTURE : RNL_REPLAY));
		ck_assert_int_eq(submit_and_wait(all.pool, &t->job), 0);
		shadow_apply(0);
	}
	check_all();
	end();
}

/* ---- concurrent CUDA calls of other threads -------------------------------------------- */

static struct gate inside, go_on;

static int slow_call_fn(struct rnl_job *job)
{
	int ret = rnl_fill(all.device, 3, BYTES);

	(void)job;
	all.nr_calls++;
	gate_open(&inside);
	gate_wait(&go_on);
	return ret ? ret : rnl_copy(all.device + BYTES, all.device, BYTES);
}

/* Makes CUDA calls, which must succeed while the library records or replays a job. */
static void use_cuda(void)
{
	void *mem = NULL;

	ck_assert_int_eq(CUDA(no_args_fn *, "cudaDeviceSynchronize")(), 0);
	ck_assert_int_eq(CUDA(malloc_fn *, "cudaMalloc")(&mem, BYTES), 0);
	ck_assert_int_eq(CUDA(memset_fn *, "cudaMemsetAsync")(mem, 1, BYTES, NULL), 0);
	ck_assert_int_eq(CUDA(stream_fn *, "cudaStreamSynchronize")(NULL), 0);
	ck_assert_int_eq(CUDA(free_fn *, "cudaFree")(mem), 0);
	ck_assert_int_eq(CUDA(no_args_fn *, "cudaDeviceSynchronize")(), 0);
}

TEST(other_threads_use_cuda_while_a_run_is_recorded, .loops = 2)
{
	struct rnl_job job;

	if (on_host())
		test_skip("the host device has no CUDA");
	if (HOW == RNL_REPLAY_CAPTURE)
		test_skip("a capture makes calls of other threads fail");
	all.stream = (enum rnl_stream_kind)_i;
	begin();
	for (int run = 0; run < 2; run++) {
		inside = go_on = (struct gate)GATE_INIT;
		submit_replay(&job, slow_call_fn, NULL);
		gate_wait(&inside);
		use_cuda();
		gate_open(&go_on);
		ck_assert_int_eq(result_of(&job), 0);
	}
	for (int run = 0; run < 10; run++) {
		submit_replay(&job, slow_call_fn, NULL);
		use_cuda();
		ck_assert_int_eq(result_of(&job), 0);
	}
	ck_assert_uint_eq(all.nr_calls, 2);
	ck_assert_uint_eq(nr_replayed(), 10);
	end();
}

/* ---- contents of a record ------------------------------------------------------------- */

static int large_scratch_fn(struct rnl_job *job)
{
	void *mem;
	int ret = rnl_scratch((size_t)(uintptr_t)job->user, &mem);

	return ret ? ret : rnl_fill(mem, 0xee, (size_t)(uintptr_t)job->user);
}

TEST(a_record_has_the_scratch_that_the_worker_has)
{
	struct rnl_job job;

	skip_without_kernel();
	begin();
	for (unsigned round = 1; round < 8; round++) {
		round_of(apply_fn);
		/* The worker gets a larger block. */
		must(run_plain(&job, large_scratch_fn, (void *)((uintptr_t)round << 20)));
	}
	check_all();
	ck_assert_uint_gt(nr_replayed(), 3 * JOBS);
	end();
}

#define MANY(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) \
	X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) \
	X(30) X(31) X(32) X(33) X(34) X(35) X(36) X(37) X(38) X(39)
#define FN(n) \
	static int many_##n(struct rnl_job *job) \
	{ \
		(void)job; \
		return apply_facts(n); \
	}
MANY(FN)
#define NAME(n) many_##n,
static int (*const many[])(struct rnl_job *job) = { MANY(NAME) };

TEST(more_functions_than_records)
{
	skip_without_kernel();
	begin();
	for (int round = 0; round < 300; round++) {
		/* First three functions repeatedly, then all. */
		const unsigned n = (unsigned)round % (round < 150 ? 3 : JOBS);

		all.add = n;
		run_task(n, many[n]);
	}
	check_all();
	ck_assert_uint_gt(nr_replayed(), 140);
	ck_assert_uint_lt(nr_replayed(), 160);
	end();
}

static int chunk_fn(const struct rnl_chunk *chunk)
{
	void *mem;

	(void)chunk;
	return rnl_job_args(8, &mem) == -EINVAL ? 0 : -EPROTO;
}

TEST(a_maps_function_has_no_arguments)
{
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_barrier barrier;

	begin();
	must(rnl_barrier_init(&barrier, all.pool));
	map.in = map.out = all.pinned;
	map.nr = map.chunk = BYTES;
	map.in_bytes = map.out_bytes = 1;
	map.fn = chunk_fn;
	must(rnl_map_start(all.pool, &map, &barrier));
	/* The error of rnl_job_args() fails the chunk, and so the map. */
	ck_assert_int_eq(result_of_barrier(&barrier), -EINVAL);
	end();
}

TEST(a_job_without_user_has_no_arguments)
{
	struct rnl_job job;
	void *mem;

	skip_without_kernel();
	begin();
	ck_assert_int_eq(rnl_job_args(8, &mem), -ENODEV);
	ck_assert_int_eq(run_replay(&job, apply_fn, NULL), -EINVAL);
	for (int i = 0; i < 10; i++) {
		run_task(0, apply_fn);
	}
	ck_assert_int_eq(run_replay(&job, apply_fn, NULL), -EINVAL);
	check_all();
	end();
}

/* ---- with the rest of the library -------------------------------------------------------- */

TEST(workers_come_and_go_and_traces, .timeout_s = 60, .setup = set_path, .teardown = remove_file)
{
	skip_without_kernel();
	begin_workers(3);
	for (unsigned round = 0; round < 30; round++) {
		round_of(apply_fn);
		if (round % 5 == 0)
			must(rnl_pool_resize(all.pool, 1 + round % 4));
		if (round % 10 == 3)
			must(rnl_trace_start(all.pool, path, NULL));
		if (round % 10 == 8)
			must(rnl_trace_stop(all.pool));
	}
	check_all();
	ck_assert_uint_gt(nr_replayed(), 20 * JOBS);
	end();
}

static int with_copies_fn(struct rnl_job *job)
{
	const struct task *t = rnl_container_of(job, struct task, job);
	unsigned char *pinned = all.pinned + (t - all.tasks) * BYTES;
	void *facts;
	int ret = rnl_copy(t->facts.mem, pinned, BYTES);

	if (!ret)
		ret = rnl_job_args(sizeof(t->facts), &facts);
	if (!ret)
		ret = launch_apply(&(struct apply){ facts, all.add });
	if (!ret)
		ret = launch_apply(&(struct apply){ facts, all.add });
	return ret ? ret : rnl_copy(pinned, t->facts.mem, BYTES);
}

/* A job that gathers and replays is called, so its addresses may differ each time. */
TEST(a_job_that_gathers_and_is_alone_is_a_graph)
{
	skip_without_kernel();
	begin();
	for (unsigned i = 0; i < JOBS; i++)
		memcpy(all.pinned + i * BYTES, all.shadow[i], BYTES);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < JOBS; i++) {
			struct task *t = &all.tasks[i];

			job_of(&t->job, with_copies_fn, &t->facts);
			must(rnl_job_set_flags(&t->job, HOW | RNL_GATHER));
			ck_assert_int_eq(submit_and_wait(all.pool, &t->job), 0);
			shadow_apply(i);
			shadow_apply(i);
		}
	}
	for (unsigned i = 0; i < JOBS; i++)
		ck_assert_mem_eq(all.pinned + i * BYTES, all.shadow[i], BYTES);
	ck_assert_uint_eq(nr_replayed(), 0);
	if (!on_host())
		ck_assert_uint_gt(figures_of(all.pool).graphs, 3 * JOBS - 20);
	end();
}

/* Whatever CUDA refuses, a job has its effect once, or fails. */
TEST(a_record_that_is_refused_costs_no_job, .timeout_s = 60, .loops = 10)
{
	static const char *const calls[] = {
		"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphGetNodes",
		"cudaGraphNodeGetType", "cudaGraphInstantiate", "cuGraphKernelNodeGetParams",
		"cuGraphExecKernelNodeSetParams", "cudaGraphLaunch", "cuGraphCreate",
		"cuGraphAddKernelNode",
	};
	char plan[80];

	if (!test_fake())
		test_skip("%s: the double alone refuses calls", calls[_i]);
	for (unsigned nth = 1; nth < 60; nth += 1 + nth / 4) {
		/* A replayed function is not soon recorded again: each round has its own pool. */
		begin();
		snprintf(plan, sizeof(plan), "fail=%s:%u:2", calls[_i], nth);
		must(fake_plan(plan));
		round_of(apply_fn);
		must(fake_plan("nofail"));
		round_of(apply_fn);
		check_all();
		end();
	}
}

TEST(a_node_that_is_refused_costs_no_job, .loops = 3)
{
	static const char *const calls[] = {
		"cudaGraphAddMemcpyNode", "cudaGraphAddMemcpyNode1D", "cudaGraphAddMemsetNode",
	};
	unsigned char *in, *out;
	struct rnl_job job;
	char plan[80];

	if (!test_fake() || HOW == RNL_REPLAY_CAPTURE)
		test_skip("%s: the double alone refuses calls", calls[_i]);
	begin();
	in = all.pinned + JOBS * BYTES;
	out = in + LARGE;
	snprintf(plan, sizeof(plan), "fail=%s:1:2", calls[_i]);
	must(fake_plan(plan));
	for (unsigned round = 0; round < 20; round++) {
		memset(in, (int)round, LARGE);
		ck_assert_int_eq(run_replay(&job, all_kinds_fn, (void *)(uintptr_t)LARGE), 0);
		ck_assert_uint_eq(out[0], round);
	}
	must(fake_plan("nofail"));
	ck_assert_uint_gt(nr_replayed(), 0);
	ck_assert_uint_eq(nr_notified, 1);
	end();
}

TEST(flags_that_do_not_exist_or_exclude_each_other_are_refused)
{
	struct rnl_job job;

	job_of(&job, noop_fn, NULL);
	ck_assert_int_eq(rnl_job_set_flags(&job, 16), -EINVAL);
	ck_assert_int_eq(rnl_job_set_flags(&job, ~0u), -EINVAL);
	ck_assert_int_eq(rnl_job_set_flags(&job, RNL_REPLAY | RNL_REPLAY_CAPTURE), -EINVAL);
	must(rnl_job_set_flags(&job, RNL_REPLAY_CAPTURE));
	must(rnl_job_set_flags(&job, 0));
}

/* ---- results and arguments that a record must not lose --------------------------------- */

enum { RETURNS, RELEASES, ERRS, RESULTS };

/* Issues the same work each time; from the second run on its result or a hold differs. */
static int late_fn(struct rnl_job *job)
{
	const int way = (int)(uintptr_t)job->user;
	struct rnl_hold hold;

	must(rnl_fill(all.device, 7, BYTES));
	if (way == ERRS)
		(void)rnl_copy(NULL, all.pinned, BYTES);
	if (!all.nr_calls++ || way == ERRS)
		return 0;
	if (way == RETURNS)
		return -EPROTO;
	must(rnl_job_hold(job, &hold));
	return rnl_hold_release(&hold, -EPROTO);
}

TEST(a_run_that_has_a_result_is_not_replayed, .loops = RESULTS)
{
	struct rnl_job job;

	begin();
	for (int run = 0; run < 20; run++) {
		const int expected = _i == ERRS ? -EINVAL : run ? -EPROTO : 0;

		ck_assert_int_eq(run_replay(&job, late_fn, (void *)(uintptr_t)_i), expected);
	}
	ck_assert_uint_eq(nr_replayed(), 0);
	end();
}

TEST(arguments_that_were_refused_are_set_anew)
{
	if (!test_fake())
		test_skip("the double alone refuses calls");
	begin();
	/* The second record's arguments for job 2 are refused, so the function is called again. */
	run_task(0, apply_fn);
	run_task(1, apply_fn);
	must(fake_plan("fail=cuGraphExecKernelNodeSetParams:1:1"));
	for (int run = 0; run < 3; run++) {
		run_task(2, apply_fn);
	}
	must(fake_plan("nofail"));
	check_all();
	end();
}

TEST(a_record_has_no_scratch_that_the_worker_gives_back)
{
	skip_without_kernel();
	keep = 1;
	begin();
	keep = 0;
	for (int round = 0; round < 10; round++)
		round_of(apply_fn);
	check_all();
	ck_assert_uint_eq(nr_replayed(), 0);
	end();
}

TEST(parameters_that_cuda_does_not_report_are_not_the_same)
{
	if (!test_fake() || HOW != RNL_REPLAY_CAPTURE)
		test_skip("the double alone refuses calls, and only a capture asks CUDA");
	begin();
	for (unsigned i = 0; i < 20; i++) {
		must(fake_plan("fail=cuFuncGetParamInfo:1:801"));
		run_task(0, apply_fn);
		all.add++;
	}
	must(fake_plan("nofail"));
	check_all();
	ck_assert_uint_eq(nr_replayed(), 0);
	end();
}
