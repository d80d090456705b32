/* SPDX-License-Identifier: MIT */
/* Work on stream 0 in a pool of private streams: refused, or found and joined, never lost. */
#include <runnel/batch.h>
#include <runnel/guard.h>
#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/replay.h>
#include <runnel/unit.h>

#include "guard.h"
#include "host_kernel.h"

#define PER_THREAD ((void *)2)	/* cudaStreamPerThread: stream 0 of units compiled for it */
#define LOOKED 8		/* first runs of a function that the library checks */

static struct said said;

/* ---- units with and without RNL_NAMES_STREAM --------------------------------------- */

static int no_error(void)
{
	return 0;
}

/* Registers a unit of one function, with these flags, until the process ends. */
static void unit_of(uintptr_t fn, uint32_t flags)
{
	static struct rnl__cuda_unit units[8];
	static unsigned nr;
	const char *text = (const char *)fn;

	units[nr] = (struct rnl__cuda_unit){ sizeof(units[0]), flags, no_error, &units, text,
					     text + 1 };
	must(rnl__cuda_unit_add(&units[nr++]));
}

static int silent_fn(struct rnl_job *job)
{
	(*(_Atomic int *)job->user)++;
	return 0;
}

static int silent_chunk(const struct rnl_chunk *chunk)
{
	(void)chunk;
	return 0;
}

static int silent_batch(const struct rnl_batch *batch)
{
	(void)batch;
	return 0;
}

static void add_silent_units(uint32_t flags)
{
	unit_of((uintptr_t)silent_fn, flags);
	unit_of((uintptr_t)silent_chunk, flags);
	unit_of((uintptr_t)silent_batch, flags);
}

struct heard {
	_Atomic int nr;
	char line[640];
};

static void hear(void *arg, enum rnl_log_level level, const char *msg)
{
	struct heard *heard = arg;

	ck_assert_int_eq(level, RNL_LOG_ERROR);
	heard->nr++;
	snprintf(heard->line, sizeof(heard->line), "%s", msg);
}

/* Checks that the last line contains a text, and that @lines lines came; forgets them. */
static void check_heard(struct heard *heard, int lines, const char *text)
{
	ck_assert_int_eq(heard->nr, lines);
	ck_assert_msg(strstr(heard->line, text), "%s", heard->line);
	heard->nr = 0;
}

/* Starts a map of one chunk. */
static int start_map(struct rnl_pool *pool, int (*fn)(const struct rnl_chunk *chunk), void *arg,
		     struct rnl_barrier *barrier)
{
	static char array[64];
	struct rnl_map map = RNL_MAP_INIT;

	map.fn = fn;
	map.arg = arg;
	map.nr = map.chunk = sizeof(array);
	map.in_bytes = 1;
	map.in = array;
	must(rnl_barrier_init(barrier, pool));
	return rnl_map_start(pool, &map, barrier);
}

static int run_map(struct rnl_pool *pool, int (*fn)(const struct rnl_chunk *chunk))
{
	struct rnl_barrier barrier;
	int ret = start_map(pool, fn, NULL, &barrier);

	return ret ? ret : result_of_barrier(&barrier);
}

static int create_batcher(struct rnl_pool *pool, int (*fn)(const struct rnl_batch *batch))
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_batcher *batcher = NULL;
	int ret;

	attr.fn = fn;
	attr.in_bytes = 64;
	ret = rnl_batcher_create(&batcher, pool, &attr);
	rnl_batcher_destroy(batcher);
	return ret;
}

static void make_units(void)
{
	static bool made;		/* by another test of this process */

	if (made)
		return;
	made = true;
	add_silent_units(0);
	unit_of((uintptr_t)count_fn, RNL__CUDA_UNIT_NAMES_STREAM);
	unit_of((uintptr_t)noop_chunk, RNL__CUDA_UNIT_NAMES_STREAM);
}

TEST(a_private_pool_refuses_a_unit_that_does_not_say_that_it_names_the_stream)
{
	struct heard heard = { 0 };
	struct rnl_pool *pool;
	_Atomic int calls = 0;
	struct rnl_job job, notice, *jobs[] = { &job };
	struct rnl_barrier barrier;

	make_units();
	pool = pool_of(1, .stream = RNL_STREAM_PRIVATE, .log = hear, .log_arg = &heard);
	job_of(&job, silent_fn, &calls);
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	check_heard(&heard, 1, "#define RNL_NAMES_STREAM 1");
	ck_assert_int_eq(submit_by_key(pool, &job, 1), -EINVAL);
	ck_assert_int_eq(rnl_submit_wait(pool, &job, RNL_FOREVER), -EINVAL);
	ck_assert_int_eq(submit_by_key_wait(pool, &job, 1, RNL_FOREVER), -EINVAL);
	ck_assert_int_eq(submit_when(pool, &job, RNL_SPACE), -EINVAL);
	heard.nr = 0;
	ck_assert_int_eq(run_map(pool, silent_chunk), -EINVAL);
	check_heard(&heard, 1, "rnl_map_start(): the pool has private streams");
	ck_assert_int_eq(create_batcher(pool, silent_batch), -EINVAL);
	check_heard(&heard, 1, "rnl_batcher_create(): the pool has private");
	ck_assert_int_eq(rnl_submit_many(pool, jobs, 1), -EINVAL);
	ck_assert_int_eq(calls, 0);

	heard.nr = 0;
	job_of(&job, count_fn, &calls);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	ck_assert_int_eq(calls, 1);
	must(run_map(pool, noop_chunk));
	/* A unit that does not include runnel/cuda.h is not known. */
	must(create_batcher(pool, noop_batch));
	/* A job without a function makes no call. */
	must(rnl_barrier_init(&barrier, pool));
	must(rnl_job_init(&notice, NULL));
	must(rnl_barrier_notify(&barrier, &notice));
	ck_assert_int_eq(result_of(&notice), 0);
	ck_assert_int_eq(heard.nr, 0);
	rnl_pool_destroy(pool);
}

TEST(a_pool_of_per_thread_streams_takes_both)
{
	_Atomic int calls = 0;
	struct rnl_pool *pool;

	make_units();
	pool = pool_of(1);
	ck_assert_int_eq(run_job(pool, silent_fn, &calls), 0);
	must(run_map(pool, silent_chunk));
	must(create_batcher(pool, silent_batch));
	rnl_pool_destroy(pool);
}

/* ---- units that need CUDA, on the host device ---------------------------------------- */

static int lasting_error(void)
{
	return 35;		/* cudaErrorInsufficientDriver: without a driver, each time */
}

TEST(a_host_pool_refuses_a_unit_that_needs_cuda)
{
	struct heard heard = { 0 };
	struct rnl_pool *pool;
	_Atomic int calls = 0;
	struct rnl_job job;

	add_silent_units(RNL__CUDA_UNIT_NEEDS_CUDA);
	pool = pool_of(1, .log = hear, .log_arg = &heard);
	job_of(&job, silent_fn, &calls);
	if (!on_host()) {
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
		must(run_map(pool, silent_chunk));
		must(create_batcher(pool, silent_batch));
	} else {
		ck_assert_int_eq(rnl_submit(pool, &job), -ENODEV);
		check_heard(&heard, 1, "RNL_NEEDS_CUDA is 1");
		ck_assert_int_eq(run_map(pool, silent_chunk), -ENODEV);
		ck_assert_int_eq(create_batcher(pool, silent_batch), -ENODEV);
		ck_assert_int_eq(heard.nr, 2);
	}
	rnl_pool_destroy(pool);
}

TEST(without_a_driver_functions_of_a_cuda_unit_fail_on_the_host_device)
{
	const struct rnl__cuda_unit cuda = {
		.size = sizeof(cuda), .last_error = lasting_error, .runtime = &cuda,
		.text = (const char *)(uintptr_t)silent_chunk,
		.text_end = (const char *)(uintptr_t)silent_chunk + 1,
	};
	struct heard heard = { 0 };
	struct rnl_pool *pool;

	if (!on_host())
		test_skip("without_a_driver_functions...: a pool on the host device");
	pool = pool_of(1, .log = hear, .log_arg = &heard);
	must(rnl__cuda_unit_add(&cuda));
	ck_assert_int_eq(run_map(pool, silent_chunk), -ENODEV);
	check_heard(&heard, 1, "its job fails");
	rnl__cuda_unit_remove(&cuda);
	rnl_pool_destroy(pool);
}

/* ---- functions of units that name the stream, but use stream 0 ----------------------- */

struct stray {
	struct gate *gate;	/* the kernel waits there; NULL: it does not */
	int word, value;	/* the kernel stores */
	unsigned from, nr_calls; /* strays after so many calls */
	int between;		/* runs of the kernel on stream 0 */
	struct gate *gate0;	/* the counting kernel waits there; NULL: it does not */
};

static void store_on(struct stray *s, void *stream)
{
	const struct gated_store args = { s->gate, &s->word, s->value };
	const struct rnl_dim one = { 1, 1, 1 };

	(void)fake_launch(gated_store_host, one, one, &args, sizeof(args), stream);
}

static int stray_fn(struct rnl_job *job)
{
	struct stray *s = job->user;

	if (++s->nr_calls > s->from)
		store_on(s, PER_THREAD);
	return 7;
}

static int straying_chunk_fn(const struct rnl_chunk *chunk)
{
	store_on(chunk->arg, PER_THREAD);
	return 0;
}

static struct rnl_pool *private_pool(uint32_t guard)
{
	return guarded_pool(&said, guard, RNL_STREAM_PRIVATE, 1);
}

#define skip_unless_double() \
	do { \
		if (!test_fake()) \
			test_skip("%.*s: it holds kernels of the double of CUDA's runtime", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

/* Submits a job whose stray kernel is held, so the job is not done until the gate opens. */
static void held_until_open(struct rnl_pool *pool, int (*fn)(struct rnl_job *job), struct stray *s)
{
	struct gate gate = GATE_INIT;
	struct rnl_job job;

	s->gate = &gate;
	s->word = 0;
	submit_job(pool, &job, fn, s);
	gate_await(&gate, 1);
	ck_assert_int_eq(rnl_job_wait(&job, 20 * MS), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 7);
	ck_assert_int_eq(s->word, s->value);
	s->gate = NULL;
}

TEST(a_job_is_not_done_before_its_work_on_stream_0_is, .loops = 2)
{
	const uint32_t guards[] = { RNL_GUARD_OFF, RNL_GUARD_REPORT };
	struct stray s = { .value = 5 };
	struct rnl_pool *pool;

	skip_unless_double();
	pool = private_pool(guards[_i]);
	for (int i = 0; i < 3 * LOOKED; i++)
		held_until_open(pool, stray_fn, &s);
	/* The function is counted and logged once. */
	ck_assert_uint_eq(figures_of(pool).guard.strays, 1);
	ck_assert(has_said(&said, "", "uses stream 0 in a pool of private streams"));
	ck_assert_uint_eq(said.nr, 1);
	/* If the guard finds something in a first run, it calls the function again. */
	ck_assert_uint_eq(s.nr_calls, 3 * LOOKED + (unsigned)_i);
	rnl_pool_destroy(pool);
}

/* The function's first runs are not watched, because another worker is busy. */
TEST(a_stray_that_a_run_and_then_a_watch_find_is_counted_once)
{
	struct gate gate = GATE_INIT;
	struct stray s = { .value = 5 };
	struct rnl_pool *pool;
	struct rnl_job held;

	skip_unless_double();
	pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PRIVATE, 2);
	hold_workers(pool, &gate, &held, 1);
	held_until_open(pool, stray_fn, &s);
	ck_assert_uint_eq(figures_of(pool).guard.strays, 1);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&held), 0);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(run_job(pool, stray_fn, &s), 7);
	ck_assert_uint_eq(figures_of(pool).guard.twice, 1);
	ck_assert_uint_eq(figures_of(pool).guard.strays, 1);
	ck_assert_uint_eq(said.nr, 1);
	rnl_pool_destroy(pool);
}

TEST(a_function_that_strays_later_is_found_later)
{
	struct gate gate = GATE_INIT;
	struct stray s = { .value = 5, .from = 2 * LOOKED, .gate = &gate };
	struct rnl_pool *pool;
	struct rnl_job job;

	skip_unless_double();
	pool = private_pool(RNL_GUARD_OFF);
	job_of(&job, stray_fn, &s);
	do {
		must(rnl_submit(pool, &job));
		while (rnl_job_wait(&job, 20 * MS) && !figures_of(pool).guard.strays)
			;
	} while (!figures_of(pool).guard.strays);
	ck_assert_uint_gt(s.nr_calls, s.from);
	ck_assert_uint_le(s.nr_calls, s.from + 64);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 7);
	held_until_open(pool, stray_fn, &s);
	rnl_pool_destroy(pool);
}

static void count_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	struct stray *s = *(struct stray *const *)args;

	(void)grid;
	(void)block;
	if (s->gate0)
		gate_wait(s->gate0);
	s->between++;
}

static void count_on_stream_0(struct stray *s)
{
	const struct rnl_dim one = { 1, 1, 1 };

	(void)fake_launch(count_host, one, one, &s, sizeof(s), PER_THREAD);
}

/* Issues the same work each time; after `from` calls it also counts on stream 0. */
static int store_and_stray_fn(struct rnl_job *job)
{
	struct stray *s = job->user;

	if (++s->nr_calls > s->from)
		count_on_stream_0(s);
	return launch_store(NULL, &s->word, s->value);
}

/* A run's record does not have the work on stream 0, so a replay would lose it. */
TEST(a_function_that_strays_in_a_later_run_is_not_replayed)
{
	enum { NR = 10 };
	struct gate gate = GATE_INIT;
	struct stray s = { .value = 5, .from = 1, .gate0 = &gate };
	struct rnl_pool *pool;
	struct rnl_job job;

	skip_unless_double();
	pool = private_pool(RNL_GUARD_OFF);
	job_of(&job, store_and_stray_fn, &s);
	must(rnl_job_set_flags(&job, RNL_REPLAY));
	for (int i = 0; i < NR; i++) {
		s.word = 0;
		must(rnl_submit(pool, &job));
		/* The first stray run is found while its work is still on stream 0. */
		if (i == 1) {
			ck_eventually(figures_of(pool).guard.strays);
			gate_open(&gate);
		}
		ck_assert_int_eq(result_of(&job), 0);
		ck_assert_int_eq(s.word, s.value);
		ck_assert_int_eq(s.between, i);
	}
	ck_assert_uint_eq(s.nr_calls, NR);
	ck_assert_uint_eq(figures_of(pool).replayed, 0);
	ck_assert_uint_eq(figures_of(pool).guard.strays, 1);
	rnl_pool_destroy(pool);
}

/* Strays once; then it stores, counts on stream 0, and stores once more. */
static int stray_then_mixed_fn(struct rnl_job *job)
{
	struct stray *s = job->user;
	int ret;

	if (!s->nr_calls)
		return stray_fn(job);
	ret = launch_store(s->gate, &s->word, s->value);
	count_on_stream_0(s);
	if (!ret)
		ret = launch_store(NULL, &s->word, s->value + 2);
	return ret ? ret : 7;
}

TEST(in_a_function_that_strays_all_calls_have_their_order)
{
	struct stray s = { .value = 1 };
	struct rnl_pool *pool;

	skip_unless_double();
	pool = private_pool(RNL_GUARD_OFF);
	/* After its first run the function is known to use stream 0. */
	held_until_open(pool, stray_then_mixed_fn, &s);
	for (int i = 0; i < 20; i++) {
		struct gate gate = GATE_INIT;
		struct rnl_job job;

		s.gate = &gate;
		submit_job(pool, &job, stray_then_mixed_fn, &s);
		gate_await(&gate, 1);
		/* Work on stream 0 would not wait for the gate. */
		ck_assert_int_eq(rnl_job_wait(&job, 5 * MS), -ETIMEDOUT);
		ck_assert_int_eq(s.between, i);
		gate_open(&gate);
		ck_assert_int_eq(result_of(&job), 7);
		ck_assert_int_eq(s.between, i + 1);
		ck_assert_int_eq(s.word, 3);
	}
	rnl_pool_destroy(pool);
}

TEST(the_strict_guard_refuses_it)
{
	struct stray s = { .value = 5 };
	struct rnl_pool *pool;

	skip_unless_double();
	pool = private_pool(RNL_GUARD_STRICT);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(run_job(pool, stray_fn, &s), -ENOTSUP);
	ck_assert_uint_eq(s.nr_calls, 1);
	ck_assert_int_eq(s.word, 0);
	ck_assert_uint_eq(figures_of(pool).guard.strays, 1);
	rnl_pool_destroy(pool);
}

TEST(a_maps_function_that_strays_is_joined)
{
	struct gate gate = GATE_INIT;
	struct stray s = { .gate = &gate, .value = 3 };
	struct rnl_barrier barrier;
	struct rnl_pool *pool;

	skip_unless_double();
	pool = private_pool(RNL_GUARD_OFF);
	must(start_map(pool, straying_chunk_fn, &s, &barrier));
	gate_await(&gate, 1);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 20 * MS), -ETIMEDOUT);
	gate_open(&gate);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	ck_assert_int_eq(s.word, 3);
	ck_assert_uint_eq(figures_of(pool).guard.strays, 1);
	rnl_pool_destroy(pool);
}

static int correct_fn(struct rnl_job *job)
{
	return rnl_fill(job->user, 1, 64);
}

TEST(a_function_that_names_its_stream_is_never_accused)
{
	struct rnl_pool *pool = private_pool(RNL_GUARD_OFF);
	void *mem;

	must(rnl_memory_get(pool, RNL_PINNED, 64, &mem, 0));
	for (int i = 0; i < 500; i++)
		ck_assert_int_eq(run_job(pool, correct_fn, mem), 0);
	ck_assert_uint_eq(figures_of(pool).guard.strays, 0);
	ck_assert_uint_eq(said.nr, 0);
	rnl_pool_destroy(pool);
}
