/* SPDX-License-Identifier: MIT */
/* The guard in busy pools: jobs that wait for each other, maps, resizes. */
#include <runnel/batch.h>
#include <runnel/guard.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "guard.h"
#include "host_kernel.h"

static struct said said;

struct step {
	struct gate *waits_at, *opens;	/* NULL: none */
	unsigned char *mem;		/* 64 bytes, filled with `value`; NULL: none */
	unsigned char value;
	_Atomic unsigned nr_calls;
};

static int do_step(struct rnl_job *job)
{
	struct step *step = job->user;

	step->nr_calls++;
	if (step->opens)
		gate_open(step->opens);
	if (step->waits_at)
		gate_wait(step->waits_at);
	return step->mem ? rnl_fill(step->mem, step->value, 64) : 0;
}

/* Separate functions, because the guard checks each function once. */
static int step_a(struct rnl_job *job)
{
	return do_step(job) ? -EIO : 1;
}

static int step_b(struct rnl_job *job)
{
	return do_step(job) ? -EIO : 2;
}

static struct rnl_pool *quiet_pool(uint32_t guard, unsigned nr_workers)
{
	return guarded_pool(&said, guard, RNL_STREAM_PER_THREAD, nr_workers);
}

static unsigned char *pinned_of(struct rnl_pool *pool, size_t bytes)
{
	void *mem;

	must(rnl_memory_get(pool, RNL_PINNED, bytes, &mem, 0));
	memset(mem, 0, bytes);
	return mem;
}

/* ---- a busy pool --------------------------------------------------------------- */

TEST(while_a_function_does_not_return_a_new_one_runs_unwatched_and_is_watched_later)
{
	struct rnl_pool *pool = quiet_pool(RNL_GUARD_STRICT, 2);
	struct gate gate = GATE_INIT;
	struct step held = { .waits_at = &gate }, step = { .mem = pinned_of(pool, 64), .value = 1 };
	struct rnl_job job;

	submit_job(pool, &job, step_a, &held);
	gate_await(&gate, 1);
	ck_assert_int_eq(run_job(pool, step_b, &step), 2);
	ck_assert_bytes(step.mem, 64, 1);
	ck_assert_uint_eq(figures_of(pool).guard.postponed, 1);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 1);
	/* step_a was checked, because no other job ran when it began. */
	ck_assert_uint_eq(figures_of(pool).guard.functions, 1);

	step.value = 2;
	ck_assert_int_eq(run_job(pool, step_b, &step), 2);
	ck_assert_bytes(step.mem, 64, 2);
	ck_assert_uint_eq(figures_of(pool).guard.functions, 2);
	ck_assert_uint_eq(figures_of(pool).guard.postponed, 1);
	ck_assert_uint_eq(findings_of(pool), 0);
	ck_assert_uint_eq(step.nr_calls, 2);
	rnl_pool_destroy(pool);
}

TEST(a_watched_function_may_wait_for_one_that_it_holds_up)
{
	struct rnl_pool *pool = quiet_pool(RNL_GUARD_REPORT, 2);
	struct gate gate = GATE_INIT;
	struct step waits = { .waits_at = &gate, .mem = pinned_of(pool, 64), .value = 7 };
	struct step opens = { .opens = &gate };
	struct rnl_job first;

	submit_job(pool, &first, step_a, &waits);
	gate_await(&gate, 1);
	ck_assert_int_eq(run_job(pool, step_b, &opens), 2);
	ck_assert_int_eq(result_of(&first), 1);
	ck_assert_bytes(waits.mem, 64, 7);
	ck_assert_uint_eq(waits.nr_calls, 1);
	ck_assert_uint_eq(findings_of(pool), 0);
	rnl_pool_destroy(pool);
}

static struct gate callback_gate = GATE_INIT;

static void wait_at_gate(struct rnl_job *job)
{
	(void)job;
	gate_wait(&callback_gate);
}

TEST(a_callback_is_callers_code_too)
{
	struct rnl_pool *pool = quiet_pool(RNL_GUARD_STRICT, 2);
	struct step step = { 0 };
	struct rnl_job first;

	job_of(&first, step_a, &step);
	must(rnl_job_set_on_done(&first, wait_at_gate));
	must(rnl_submit(pool, &first));
	gate_await(&callback_gate, 1);
	ck_assert_int_eq(run_job(pool, step_b, &step), 2);
	ck_assert_uint_eq(figures_of(pool).guard.functions, 1);
	ck_assert_uint_eq(figures_of(pool).guard.postponed, 1);
	gate_open(&callback_gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(run_job(pool, step_b, &step), 2);
	ck_assert_uint_eq(figures_of(pool).guard.functions, 2);
	rnl_pool_destroy(pool);
}

/* ---- many functions ------------------------------------------------------------- */

/* Spins for @seconds; NULL: not at all. */
static void linger(const double *seconds)
{
	const double from = seconds_now();

	while (seconds && seconds_now() < from + *seconds)
		;
}

#define FN(n) static int fn_##n(struct rnl_job *job) { linger(job->user); return 0x##n; }
#define FN16(n) FN(n##0) FN(n##1) FN(n##2) FN(n##3) FN(n##4) FN(n##5) FN(n##6) FN(n##7) \
		FN(n##8) FN(n##9) FN(n##a) FN(n##b) FN(n##c) FN(n##d) FN(n##e) FN(n##f)
#define AT(n) fn_##n,
#define AT16(n) AT(n##0) AT(n##1) AT(n##2) AT(n##3) AT(n##4) AT(n##5) AT(n##6) AT(n##7) \
		AT(n##8) AT(n##9) AT(n##a) AT(n##b) AT(n##c) AT(n##d) AT(n##e) AT(n##f)
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(a) X(b) X(c) X(d) X(e) X(f) \
		X(10)
EACH(FN16)
static int (*const many[])(struct rnl_job *job) = { EACH(AT16) };

TEST(of_more_functions_than_it_can_keep_the_first_are_watched_and_all_run)
{
	struct rnl_pool *pool = quiet_pool(RNL_GUARD_STRICT, 2);

	ck_assert_uint_eq(COUNT(many), 272);
	for (unsigned i = 0; i < COUNT(many); i++)
		ck_assert_int_eq(run_job(pool, many[i], NULL), (int)i);
	ck_assert_uint_eq(figures_of(pool).guard.functions, 256);
	ck_assert_uint_eq(figures_of(pool).guard.beyond, 16);
	ck_assert_int_eq(run_job(pool, many[0], NULL), 0);
	ck_assert_uint_eq(figures_of(pool).guard.beyond, 16);
	rnl_pool_destroy(pool);
}

struct legacy {
	struct rnl_pool *pool;
	void *mem;
	_Atomic bool stop;
	_Atomic unsigned nr;
};

static int legacy_fn(struct rnl_job *job)
{
	const struct legacy *legacy = job->user;

	return CUDA(memset_fn *, "cudaMemsetAsync")(legacy->mem, 1, 64, NULL) ? -EIO : 0;
}

static int submit_legacy(void *arg)
{
	struct legacy *legacy = arg;
	int ret = 0;

	while (!ret && !legacy->stop) {
		ret = run_job(legacy->pool, legacy_fn, legacy);
		legacy->nr++;
	}
	return ret;
}

/* Returns false if a watched job took too long: then other workers do not wait for it. */
static bool legacy_calls_go_on(void)
{
	struct rnl_pool *pool = quiet_pool(RNL_GUARD_REPORT, 3);
	struct legacy legacy = { .pool = pool };
	double seconds = 0.0005, longest = 0;
	struct call call;

	must(rnl_memory_get(pool, 0, 64, &legacy.mem, 0));
	ck_assert_int_eq(run_job(pool, legacy_fn, &legacy), 0);
	ck_assert_uint_eq(findings_of(pool), 1);
	call_start(&call, submit_legacy, &legacy);
	for (unsigned i = 0; i < 200; i++) {
		const double start = seconds_now();
		unsigned before = legacy.nr;
		double took;

		ck_assert_int_eq(run_job(pool, many[i], &seconds), (int)i);
		took = seconds_now() - start;
		longest = took > longest ? took : longest;
		ck_eventually(legacy.nr != before || call.returned);
	}
	legacy.stop = true;
	(void)call_end(&call);
	if (longest <= 0.1) {
		ck_assert_int_eq(call.ret, 0);
		ck_assert_uint_eq(findings_of(pool), 1);
		ck_assert_uint_ge(figures_of(pool).guard.functions, 100);
	}
	rnl_memory_put(pool, legacy.mem);
	rnl_pool_destroy(pool);
	return longest <= 0.1;
}

TEST(a_legacy_call_of_another_worker_does_not_fail_and_the_watched_function_gets_no_blame)
{
	if (on_host())
		test_skip("the host device has no legacy stream");
	for (int i = 0; i < 5; i++)
		if (legacy_calls_go_on())
			return;
	test_skip("jobs of half a millisecond took so long that no worker waits for them");
}

/* ---- order, and the library's own work ------------------------------------------- */

struct joining {
	struct rnl_barrier barrier;
	struct gate gate;
	int *word, *copy;		/* pinned */
	_Atomic unsigned nr_calls;
};

static int store_later(struct rnl_job *job)
{
	struct joining *j = job->user;

	return launch_store(&j->gate, j->word, 5);
}

static int join_and_copy(struct rnl_job *job)
{
	struct joining *j = job->user;
	int ret = rnl_barrier_join(&j->barrier);

	j->nr_calls++;
	return ret ? ret : rnl_copy(j->copy, j->word, sizeof(int));
}

/* @stores is issued, its kernel at the gate; then the function of @joins joins its barrier. */
static void join_during(struct rnl_pool *pool, struct joining *j, struct rnl_job *stores,
			struct rnl_job *joins, bool after)
{
	const uint64_t keys[] = { key_on(pool, 0), key_on(pool, 1) };

	*j = (struct joining){ .gate = GATE_INIT };
	j->word = (int *)(void *)pinned_of(pool, 64);
	j->copy = (int *)(void *)pinned_of(pool, 64);
	must(rnl_barrier_init(&j->barrier, pool));
	job_in(&j->barrier, stores, store_later, j);
	must(submit_by_key(pool, stores, keys[0]));
	must(rnl_barrier_join(&j->barrier));
	job_of(joins, join_and_copy, j);
	must(rnl_job_set_after(joins, after ? &j->barrier : NULL));
	must(submit_by_key(pool, joins, keys[1]));
	ck_eventually(j->nr_calls == (after ? 1 : 2));
	ck_assert_int_eq(*j->copy, 0);
	gate_open(&j->gate);
	ck_assert_int_eq(result_of(joins), 0);
	ck_assert_int_eq(*j->copy, 5);
	ck_assert_uint_eq(j->nr_calls, after ? 1 : 2);
	ck_assert_uint_eq(findings_of(pool), 0);
	must(rnl_barrier_wait(&j->barrier, RNL_FOREVER));
	rnl_thread_attach(NULL);
}

/* Loop 1: the job also comes after the barrier, so there is no need to call its function again. */
TEST(a_function_that_joins_a_barrier_is_called_again_and_joins_it, .loops = 2)
{
	struct rnl_pool *pool;
	struct joining j;
	struct rnl_job stores, joins;

	skip_unless_host();
	pool = quiet_pool(RNL_GUARD_STRICT, 2);
	join_during(pool, &j, &stores, &joins, _i);
	ck_assert_uint_eq(figures_of(pool).guard.twice, !_i);
	ck_assert(_i || has_said(&said, "cannot be captured", "called again"));
	rnl_pool_destroy(pool);
}

static int map_fn(const struct rnl_chunk *chunk)
{
	_Atomic unsigned *nr_calls = chunk->arg;
	int ret;

	(*nr_calls)++;
	ret = rnl_copy(chunk->out, chunk->in, chunk->nr);
	return ret ? ret : rnl_fill(chunk->out, 9, 1);
}

/* Returns true if the function was watched, which needs one try with no other job running. */
static bool watches_a_map(void)
{
	enum { NR = 1 << 20, CHUNK = 1 << 16 };
	static unsigned char in[NR], out[NR];
	struct rnl_pool *pool = quiet_pool(RNL_GUARD_STRICT, 3);
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_barrier barrier;
	_Atomic unsigned nr_calls = 0;
	uint64_t nr_functions;

	for (unsigned i = 0; i < NR; i++)
		in[i] = (unsigned char)(i % 251);
	memset(out, 0, NR);
	map.fn = map_fn;
	map.arg = &nr_calls;
	map.nr = NR;
	map.chunk = CHUNK;
	map.in_bytes = map.out_bytes = 1;
	map.in = in;
	map.out = out;
	must(rnl_barrier_init(&barrier, pool));
	must(rnl_map_start(pool, &map, &barrier));
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	for (unsigned i = 0; i < NR; i++)
		ck_assert_uint_eq(out[i], i % CHUNK ? in[i] : 9);
	ck_assert_uint_eq(nr_calls, NR / CHUNK);
	/* The library's own functions have no findings. */
	nr_functions = figures_of(pool).guard.functions;
	ck_assert_uint_le(nr_functions, 1);
	ck_assert_uint_eq(findings_of(pool), 0);
	rnl_pool_destroy(pool);
	return nr_functions == 1;
}

TEST(a_maps_function_is_watched_and_its_chunks_come_out)
{
	ck_eventually(watches_a_map());
}

static int batch_fn(const struct rnl_batch *batch)
{
	_Atomic unsigned *nr_calls = batch->arg;

	(*nr_calls)++;
	return rnl_copy(batch->out, batch->in, batch->in_bytes);
}

TEST(a_batchers_function_is_watched_and_its_requests_come_out)
{
	struct rnl_pool *pool = quiet_pool(RNL_GUARD_STRICT, 2);
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_batcher *batcher;
	_Atomic unsigned nr_calls = 0;
	struct rnl_request request;

	attr.fn = batch_fn;
	attr.arg = &nr_calls;
	attr.in_bytes = attr.out_bytes = 64;
	must(rnl_batcher_create(&batcher, pool, &attr));
	for (unsigned i = 0; i < 10; i++) {
		must(rnl_job_init(&request.job, NULL));
		must(rnl_batcher_reserve(batcher, &request, 64, 0));
		memset(request.in, (int)i + 1, 64);
		must(rnl_request_commit(&request));
		ck_assert_int_eq(result_of(&request.job), 0);
		ck_assert_bytes(request.out, 64, i + 1);
		must(rnl_request_release(&request));
	}
	ck_assert_uint_eq(nr_calls, 10);
	ck_assert_uint_eq(figures_of(pool).guard.functions, 1);
	ck_assert_uint_eq(findings_of(pool), 0);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

static int copy_pageable_fn(struct rnl_job *job)
{
	unsigned char *mem = job->user;

	return rnl_copy(mem + 4096, mem, 4096);
}

TEST(staged_copies_of_jobs_before_come_before)
{
	struct rnl_pool *pool = quiet_pool(RNL_GUARD_REPORT, 1);
	static unsigned char mem[65][4096];
	struct rnl_job jobs[64];

	/* Each job writes what the next one reads. */
	for (unsigned i = 0; i < 4096; i++)
		mem[0][i] = (unsigned char)(i % 241);
	for (unsigned i = 0; i < 64; i++) {
		job_of(&jobs[i], copy_pageable_fn, mem[i]);
		must(submit_by_key(pool, &jobs[i], 1));
	}
	for (unsigned i = 0; i < 64; i++)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	ck_assert_int_eq(memcmp(mem[64], mem[0], 4096), 0);
	ck_assert_uint_eq(figures_of(pool).guard.pageable, 1);
	ck_assert_uint_eq(figures_of(pool).guard.twice, 1);
	rnl_pool_destroy(pool);
}

/* ---- several threads and many functions ------------------------------------------- */

enum { NR_THREADS = 4, NR_JOBS = 400 };

struct storm {
	struct rnl_pool *pool;
	unsigned char *mem;		/* NR_JOBS * 64 */
	struct step steps[NR_JOBS];
	struct rnl_job jobs[NR_JOBS];
	unsigned offset;
};

static int submit_storm(void *arg)
{
	static int (*const fills[])(struct rnl_job *job) = { step_a, step_b, do_step };
	struct storm *s = arg;
	int ret = 0;

	for (unsigned i = 0; !ret && i < NR_JOBS; i++) {
		const unsigned which = (i + s->offset) % 8;

		s->steps[i] = (struct step){ .mem = s->mem + (size_t)i * 64,
					     .value = (unsigned char)(i % 255 + 1) };
		if (which < COUNT(fills)) {
			job_of(&s->jobs[i], fills[which], &s->steps[i]);
		} else {
			job_of(&s->jobs[i], many[(i * 7 + s->offset) % COUNT(many)], NULL);
			/* The functions in `many` do nothing, so the memory is filled here. */
			memset(s->steps[i].mem, s->steps[i].value, 64);
		}
		if (i % 3)
			ret = rnl_submit_wait(s->pool, &s->jobs[i], RNL_FOREVER);
		else
			ret = submit_by_key_wait(s->pool, &s->jobs[i], i % 5, RNL_FOREVER);
	}
	for (unsigned i = 0; !ret && i < NR_JOBS; i++)
		ret = rnl_job_wait(&s->jobs[i], RNL_FOREVER);
	return ret;
}

TEST(many_threads_submit_while_the_pool_is_resized)
{
	struct rnl_pool *pool = quiet_pool(RNL_GUARD_STRICT, 3);
	struct storm *storms = calloc(NR_THREADS, sizeof(*storms));
	struct call calls[NR_THREADS];
	bool all_returned = false;

	for (unsigned i = 0; i < NR_THREADS; i++) {
		storms[i].pool = pool;
		storms[i].mem = pinned_of(pool, NR_JOBS * 64);
		storms[i].offset = i;
		call_start(&calls[i], submit_storm, &storms[i]);
	}
	for (unsigned n = 0; !all_returned; n++) {
		must(rnl_pool_resize(pool, n % 4 + 1));
		all_returned = true;
		for (unsigned i = 0; i < NR_THREADS; i++)
			all_returned = all_returned && calls[i].returned;
	}
	for (unsigned i = 0; i < NR_THREADS; i++) {
		must(call_end(&calls[i]));
		for (unsigned k = 0; k < NR_JOBS; k++) {
			ck_assert_int_ge(storms[i].jobs[k].result, 0);
			ck_assert_bytes(storms[i].mem + (size_t)k * 64, 64, k % 255 + 1);
			ck_assert_uint_le(storms[i].steps[k].nr_calls, 1);
		}
	}
	ck_assert_uint_eq(findings_of(pool), 0);
	ck_assert_uint_eq(figures_of(pool).guard.twice, 0);
	ck_assert_uint_ge(figures_of(pool).guard.functions, 3);
	rnl_pool_destroy(pool);
	free(storms);
}

TEST(a_guarded_pool_is_destroyed_with_jobs_under_way)
{
	for (unsigned round = 0; round < 20; round++) {
		struct rnl_pool *pool = quiet_pool(RNL_GUARD_REPORT, 3);
		struct rnl_job jobs[30];

		for (unsigned i = 0; i < COUNT(jobs); i++)
			submit_job(pool, &jobs[i], many[i], NULL);
		rnl_pool_destroy(pool);
		for (unsigned i = 0; i < COUNT(jobs); i++)
			ck_assert_int_eq(jobs[i].result, (int)i);
	}
}
