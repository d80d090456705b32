/* SPDX-License-Identifier: MIT */
/* Texts in a trace: the guard's findings, and names of all kinds. */
#include <runnel/guard.h>
#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/trace.h>

#include "guard.h"
#include "trace.h"

SUITE_FORKS

static struct said said;

static char *end_of(struct rnl_pool *pool)
{
	must(rnl_trace_stop(pool));
	return text_of(path);
}

/* ---- the guard's findings ------------------------------------------------ */

static int legacy_fn(struct rnl_job *job)
{
	return CUDA(memset_fn *, "cudaMemsetAsync")(job->user, 1, 64, NULL) ? -EIO : 0;
}

static int legacy_unsaid_fn(struct rnl_job *job)
{
	(void)CUDA(memset_fn *, "cudaMemsetAsync")(job->user, 1, 64, NULL);
	(void)CUDA(no_args_fn *, "cudaGetLastError")();
	return 0;
}

static int wait_fn(struct rnl_job *job)
{
	(void)job;
	(void)CUDA(no_args_fn *, "cudaDeviceSynchronize")();
	return 0;
}

static int alloc_fn(struct rnl_job *job)
{
	void *mem = NULL;

	(void)job;
	if (!CUDA(malloc_fn *, "cudaMalloc")(&mem, 64))
		(void)CUDA(free_fn *, "cudaFree")(mem);
	return 0;
}

/* The driver's log has both calls; the trace has the first one. */
static int wait_and_alloc_fn(struct rnl_job *job)
{
	(void)wait_fn(job);
	return alloc_fn(job);
}

TEST(what_was_found_is_in_words_with_the_functions_name,
     .loops = 2, .setup = set_path, .teardown = remove_file)
{
	static const struct {
		int (*fn)(struct rnl_job *job);
		const char *without, *with_log;
	} found[] = {
		{ legacy_fn, "legacy_fn uses the legacy default stream, which joins all workers' streams",
		  NULL },
		{ legacy_unsaid_fn, "legacy_unsaid_fn does what CUDA refuses under capture", NULL },
		{ wait_fn, "wait_fn waits for a stream or the device, or makes or frees memory",
		  "wait_fn waits for a stream or the device" },
		{ alloc_fn, "alloc_fn waits for a stream or the device, or makes or frees memory",
		  "alloc_fn makes or frees memory" },
		{ wait_and_alloc_fn, "wait_and_alloc_fn does what CUDA refuses under capture",
		  "wait_and_alloc_fn waits for a stream or the device" },
	};
	int (*plan)(const char *text) = (int (*)(const char *))(uintptr_t)dlsym(RTLD_DEFAULT, "fake_plan");
	struct rnl_pool *pool;
	char line[160], *text;
	struct rnl_job job;
	void *mem;

	if (!test_fake())
		test_skip("what_was_found_is_in_words...: of a GPU it depends on the driver's log");
	if (_i)
		ck_assert_int_eq(plan("logs"), 0);
	pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 2);
	must(rnl_memory_get(pool, 0, 64, &mem, 0));
	must(rnl_trace_start(pool, path, NULL));
	for (unsigned i = 0; i < COUNT(found); i++) {
		job_of(&job, found[i].fn, mem);
		add_cuda_unit();
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	}
	text = end_of(pool);
	ck_assert_uint_eq(count(text, "\"cat\":\"guard\""), COUNT(found));
	for (unsigned i = 0; i < COUNT(found); i++) {
		/* For legacy_unsaid_fn the log's text differs, because a memset waits sometimes. */
		if (_i && found[i].fn == legacy_unsaid_fn)
			continue;
		snprintf(line, sizeof(line), "\"name\":\"%s\",\"cat\":\"guard\"",
			 _i && found[i].with_log ? found[i].with_log : found[i].without);
		ck_assert_msg(count(text, line) == 1, "not there: %s", line);
	}
	free(text);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

/* ---- names --------------------------------------------------------------- */

static int submit_fn(void *arg)
{
	struct rnl_job job;

	submit_job(arg, &job, noop_fn, NULL);
	return result_of(&job);
}

TEST(names_of_any_characters_are_strings, .setup = set_path, .teardown = remove_file)
{
	struct rnl_pool *pool = pool_of(1, .name = "\u65e5\u672c\"b\\c\n\x01\xff \U0001f600");
	char *text;

	must(rnl_trace_start(pool, path, NULL));
	ck_assert_int_eq(submit_fn(pool), 0);
	text = end_of(pool);
	ck_assert_uint_eq(count(text, "\"name\":\"\u65e5\u672c\\\"b\\\\c? \U0001f600-0\""), 1);
	free(text);
	rnl_pool_destroy(pool);
}

/* A trace always has space for the first 64 names. */
TEST(every_thread_that_submits_has_its_name, .setup = set_path, .teardown = remove_file)
{
	enum { NR = 80 };
	struct rnl_pool *pool = pool_of(2);
	struct call calls[NR];
	char name[64], *text;

	must(rnl_trace_start(pool, path, NULL));
	for (unsigned i = 0; i < NR; i++)
		call_start(&calls[i], submit_fn, pool);
	for (unsigned i = 0; i < NR; i++)
		ck_assert_int_eq(call_end(&calls[i]), 0);
	text = end_of(pool);
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,",
			 (int)getpid(), (int)calls[i].tid);
		ck_assert_uint_eq(count(text, name), 1);
	}
	free(text);
	rnl_pool_destroy(pool);
}

/* ---- rarely used fields of jobs -------------------------------------------- */

TEST(a_job_is_there_with_its_trace_id_and_all_that_it_waited_for,
     .setup = set_path, .teardown = remove_file)
{
	enum { NR = 3 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct rnl_after after[NR] = { { NULL, 0 } };
	struct rnl_barrier barriers[NR];
	struct rnl_job before[NR], job;
	char *text;

	must(rnl_trace_start(pool, path, NULL));
	for (int i = 0; i < NR; i++) {
		must(rnl_barrier_init(&barriers[i], pool));
		submit_in(pool, &barriers[i], &before[i], noop_fn, NULL);
		after[i].barrier = &barriers[i];
	}
	for (unsigned i = 0; i < sizeof(more.trace_id); i++)
		more.trace_id[i] = (uint8_t)(0xf0 + i);
	more.after = after;
	more.nr_after = NR;
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_more(&job, &more));
	must(rnl_submit(pool, &job));
	ck_assert_int_eq(result_of(&job), 0);
	text = end_of(pool);
	ck_assert_uint_eq(count(text, "\"trace_id\""), 1);
	ck_assert_uint_eq(count(text, "\"trace_id\":\"f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff\"}}"), 1);
	/* An arrow from each job before, perhaps one more to this thread, which waited. */
	ck_assert_uint_ge(count(text, "\"name\":\"join\",\"cat\":\"join\",\"ph\":\"s\""), NR);
	free(text);
	rnl_pool_destroy(pool);
}

/* ---- workers that start later -------------------------------------------- */

static _Atomic int refused;

static int start_fn(void *arg, unsigned worker, void **datap)
{
	(void)arg;
	(void)datap;
	return worker && refused ? -EPROTO : 0;
}

TEST(a_worker_that_could_not_start_at_first_does_no_harm,
     .setup = set_path, .teardown = remove_file)
{
	struct gate gate = GATE_INIT;
	struct rnl_job jobs[2];
	struct rnl_pool *pool = pool_of(1, .on_start = start_fn);
	char *text;

	must(rnl_trace_start(pool, path, NULL));
	refused = 1;
	ck_assert_int_eq(rnl_pool_resize(pool, 2), -EPROTO);
	refused = 0;
	must(rnl_pool_resize(pool, 2));
	hold_workers(pool, &gate, jobs, 2);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&jobs[0]) | result_of(&jobs[1]), 0);
	text = end_of(pool);
	ck_assert_uint_ge(count(text, "\"cat\":\"job\""), 1);
	free(text);
	rnl_pool_destroy(pool);
}
