/* SPDX-License-Identifier: MIT */
/* Threads that the guard stops, functions that it calls twice, and those that it cannot check. */
#include <sys/mman.h>

#include <runnel/guard.h>
#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/replay.h>

#include "guard.h"
#include "host_kernel.h"

static struct said said;

/* ---- threads that were stopped -------------------------------------------------------- */

/* Waits for the other job, then issues. */
struct waiting {
	struct rnl_job job;
	struct gate came, gate;
	void *mem;
	_Atomic unsigned nr_calls;
};

static int wait_and_fill(struct rnl_job *job)
{
	struct waiting *w = rnl_container_of(job, struct waiting, job);
	int ret;

	w->nr_calls++;
	gate_open(&w->came);
	gate_wait(&w->gate);
	ret = rnl_fill(w->mem, 7, 64);
	return ret ? ret : 3;
}

/* CUDA refuses this call during a capture. */
static int use_legacy_and_open(struct rnl_job *job)
{
	struct waiting *w = job->user;
	int ret = CUDA(memset_fn *, "cudaMemsetAsync")((char *)w->mem + 64, 1, 64, NULL);

	(void)CUDA(no_args_fn *, "cudaGetLastError")();
	gate_open(&w->gate);
	return ret;
}

static void count_told(struct rnl_job *job)
{
	++*(_Atomic int *)job->user;
}

/* The watched function keeps the worker, so the timer thread calls the callbacks. */
TEST(who_is_cancelled_is_told_beside_a_watched_function_that_runs_on, .timeout_s = 60)
{
	enum { NR = 100 };
	struct waiting w = { .came = GATE_INIT, .gate = GATE_INIT };
	struct rnl_pool *pool;
	struct rnl_job jobs[NR];
	_Atomic int notified = 0;
	double start;
	void *mem;

	if (on_host())
		test_skip("who_is_cancelled...: the host device has nothing to watch");
	pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 1);
	must(rnl_memory_get(pool, RNL_PINNED, 128, &mem, 0));
	w.mem = mem;
	job_of(&w.job, wait_and_fill, NULL);
	must(rnl_submit(pool, &w.job));
	gate_wait(&w.came);
	start = seconds_now();
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], noop_fn, (void *)&notified);
		must(rnl_job_set_on_done(&jobs[i], count_told));
		must(rnl_submit(pool, &jobs[i]));
		must(rnl_job_cancel(&jobs[i]));
	}
	ck_eventually(notified == NR);
	/* The timer thread did not wait 200 ms before each callback. */
	ck_assert_double_lt(seconds_now() - start, seconds_allowed(5));
	gate_open(&w.gate);
	ck_assert_int_eq(result_of(&w.job), 3);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

TEST(what_another_has_spoilt_is_called_again_not_blamed_and_watched_later)
{
	struct waiting w = { .came = GATE_INIT, .gate = GATE_INIT };
	struct rnl_pool *pool;
	struct rnl_job legacy;
	void *mem;

	if (on_host())
		test_skip("what_another_has_spoilt...: the host device has no legacy stream");
	pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 2);
	must(rnl_memory_get(pool, RNL_PINNED, 128, &mem, 0));
	w.mem = mem;
	memset(mem, 0, 128);
	job_of(&w.job, wait_and_fill, NULL);
	job_of(&legacy, use_legacy_and_open, &w);
	must(rnl_submit(pool, &w.job));
	gate_wait(&w.came);
	must(rnl_submit(pool, &legacy));
	ck_assert_int_eq(result_of(&w.job), 3);
	ck_assert_int_gt(result_of(&legacy), 0);
	/* The work was done once, by the second call. */
	ck_assert_uint_eq(w.nr_calls, 2);
	ck_assert_bytes((unsigned char *)mem, 64, 7);
	ck_assert_uint_eq(figures_of(pool).guard.twice, 1);
	ck_assert_uint_eq(figures_of(pool).guard.functions, 0);
	ck_assert_uint_eq(said.nr, 0);
	/* With no other job running, the function is checked, without a finding. */
	for (unsigned i = 0; i < 8; i++) {
		ck_assert_int_eq(submit_and_wait(pool, &w.job), 3);
	}
	ck_assert_uint_eq(w.nr_calls, 10);
	ck_assert_uint_eq(said.nr, 0);
	ck_assert_uint_eq(figures_of(pool).guard.functions, 1);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

/* ---- functions that are called again -------------------------------------- */

struct add {
	int *word;
};

static void add_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	++*((const struct add *)args)->word;
}
RNL_HOST_KERNEL(add, add_host, struct add);

struct adding {
	int word;
	unsigned nr_calls;
	void *mem;
};

static int add_and_copy_pageable(struct rnl_job *job)
{
	static char pageable[64];
	const struct rnl_dim one = { 1, 1, 1 };
	struct adding *a = job->user;
	int ret = rnl_launch(&add, one, one, &(struct add){ &a->word });

	a->nr_calls++;
	return ret ? ret : rnl_copy(a->mem, pageable, sizeof(pageable));
}

TEST(what_the_first_call_launched_was_not_done)
{
	struct adding adding = { 0 };
	struct rnl_pool *pool;

	skip_on_cuda("its kernel is the host device's");
	pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 1);
	must(rnl_memory_get(pool, 0, 64, &adding.mem, 0));
	ck_assert_int_eq(run_job(pool, add_and_copy_pageable, &adding), 0);
	ck_assert_uint_eq(adding.nr_calls, 2);
	ck_assert_int_eq(adding.word, 1);
	ck_assert_int_eq(run_job(pool, add_and_copy_pageable, &adding), 0);
	ck_assert_uint_eq(adding.nr_calls, 3);
	ck_assert_int_eq(adding.word, 2);
	rnl_memory_put(pool, adding.mem);
	rnl_pool_destroy(pool);
}

/* ---- functions that cannot be watched --------------------------------------- */

struct owing {
	struct gate gate;
	unsigned char pageable[64];
	void *mem;
};

/* When the gate opens, the worker must finish this copy with the CPU. */
static int hold_and_copy_out(struct rnl_job *job)
{
	struct owing *o = job->user;
	int ret = rnl_fill(o->mem, 7, sizeof(o->pageable));

	if (!ret)
		ret = launch_store(&o->gate, NULL, 0);
	return ret ? ret : rnl_copy(o->pageable, o->mem, sizeof(o->pageable));
}

static int open_fn(struct rnl_job *job)
{
	gate_open(&((struct owing *)job->user)->gate);
	return 4;
}

TEST(behind_a_copy_that_a_cpu_owes_a_function_runs_unwatched)
{
	struct owing owing = { .gate = GATE_INIT };
	struct rnl_job holds, opens;
	struct rnl_pool *pool;

	skip_unless_host();
	pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 1);
	must(rnl_memory_get(pool, 0, 64, &owing.mem, 0));
	job_of(&holds, hold_and_copy_out, &owing);
	job_of(&opens, open_fn, &owing);
	must(rnl_submit(pool, &holds));
	gate_await(&owing.gate, 1);
	ck_assert_int_eq(submit_and_wait(pool, &opens), 4);
	ck_assert_int_eq(result_of(&holds), 0);
	ck_assert_bytes(owing.pageable, sizeof(owing.pageable), 7);
	ck_assert_uint_eq(figures_of(pool).guard.postponed, 1);
	ck_assert_uint_eq(figures_of(pool).guard.functions, 1);
	rnl_memory_put(pool, owing.mem);
	rnl_pool_destroy(pool);
}

static void count_replay_line(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)level;
	*(_Atomic unsigned *)arg += !strncmp(msg, "replay: ", 8);
}

/* A capture would wait for the copy, and the copy waits for this function. */
TEST(behind_a_copy_that_a_cpu_owes_a_function_is_not_recorded, .loops = 2)
{
	struct owing owing = { .gate = GATE_INIT };
	_Atomic unsigned notified = 0;
	struct rnl_job holds, opens;
	struct rnl_pool *pool;

	skip_unless_host();
	if (on_host())
		test_skip("behind_a_copy...: the host device makes no capture");
	pool = pool_of(1, .guard = _i ? RNL_GUARD_REPORT : RNL_GUARD_OFF, .log = count_replay_line,
		       .log_arg = (void *)&notified);
	must(rnl_memory_get(pool, 0, 64, &owing.mem, 0));
	/* After these runs the guard knows both functions. */
	ck_assert_int_eq(run_job(pool, open_fn, &owing), 4);
	ck_assert_int_eq(run_job(pool, hold_and_copy_out, &owing), 0);
	/* A capture would log that a function with a result cannot be replayed. */
	for (int round = 0; round < 3; round++) {
		owing.gate = (struct gate)GATE_INIT;
		memset(owing.pageable, 0, sizeof(owing.pageable));
		job_of(&holds, hold_and_copy_out, &owing);
		job_of(&opens, open_fn, &owing);
		must(rnl_job_set_flags(&opens, RNL_REPLAY_CAPTURE));
		must(rnl_submit(pool, &holds));
		gate_await(&owing.gate, 1);
		ck_assert_int_eq(submit_and_wait(pool, &opens), 4);
		ck_assert_int_eq(result_of(&holds), 0);
		ck_assert_bytes(owing.pageable, sizeof(owing.pageable), 7);
		ck_assert_uint_eq(notified, 0);
	}
	/* One of the later runs is recorded. */
	for (int run = 0; run < 8; run++)
		ck_assert_int_eq(submit_and_wait(pool, &opens), 4);
	ck_assert_uint_eq(notified, 1);
	rnl_memory_put(pool, owing.mem);
	rnl_pool_destroy(pool);
}

/* ---- names ------------------------------------------------------------------ */

#ifdef __x86_64__
static int copy_pageable(struct rnl_job *job)
{
	static char pageable[64];

	return rnl_copy(job->user, pageable, sizeof(pageable));
}
#endif

/* The function is in no file, like one made by a compiler at run time. */
TEST(a_function_that_has_no_file_is_named_by_its_address)
{
#ifdef __x86_64__
	/* movabs $fn, %rax; jmp *%rax */
	unsigned char code[] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
	int (*const to)(struct rnl_job *job) = copy_pageable;
	struct rnl_pool *pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 1);
	void *mem, *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[64];

	ck_assert(page != MAP_FAILED);
	memcpy(code + 2, &to, sizeof(to));
	memcpy(page, code, sizeof(code));
	ck_assert_int_eq(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	must(rnl_memory_get(pool, 0, 64, &mem, 0));
	ck_assert_int_eq(run_job(pool, (int (*)(struct rnl_job *))(uintptr_t)page, mem), 0);
	snprintf(name, sizeof(name), "the function at %p", page);
	ck_assert_msg(has_said(&said, name, "pageable"), "said: %s", said.lines[0]);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
	munmap(page, 4096);
#else
	test_skip("a_function_that_has_no_file...: it is of x86-64's code");
#endif
}
