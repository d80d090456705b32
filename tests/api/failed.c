/* SPDX-License-Identifier: MIT */
/* A pool whose device has failed: each call returns -EIO immediately, and a destroy works. */
#include <runnel/batch.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/stats.h>
#include <runnel/thread.h>
#include <runnel/trace.h>

#include "pool.h"
#include "threads.h"

SUITE_FORKS

#define ILLEGAL_ADDRESS 700	/* cudaErrorIllegalAddress */

/* Defined by the double of the CUDA runtime. */
__attribute__((weak)) void fake_fail_sticky(int code);

static char path[64];

/*
 * Objects created before the failure. With these objects, the calls below need no CUDA, so the
 * library itself must refuse them.
 */
struct before {
	struct rnl_batcher_attr attr;
	struct rnl_batcher *batcher;
	struct rnl_request request;	/* reserved */
	char *array;			/* pinned; another buffer of its size is free */
};

static void prepare(struct rnl_pool *pool, struct before *b)
{
	void *mem[2];

	b->attr = (struct rnl_batcher_attr)RNL_BATCHER_ATTR_INIT;
	b->attr.fn = noop_batch;
	b->attr.in_bytes = b->attr.slab_bytes = 64;
	b->attr.nr_slabs = 2;
	must(rnl_batcher_create(&b->batcher, pool, &b->attr));
	must(rnl_job_init(&b->request.job, NULL));
	must(rnl_batcher_reserve(b->batcher, &b->request, 64, 0));
	for (unsigned i = 0; i < COUNT(mem); i++)
		must(rnl_memory_get(pool, RNL_PINNED, 64, &mem[i], 0));
	rnl_memory_put(pool, mem[1]);
	b->array = mem[0];
	must(rnl_thread_attach(pool));
}

static void stream_refused(struct rnl_pool *pool, const struct before *b)
{
	struct rnl_barrier barrier;

	must(rnl_barrier_init(&barrier, pool));
	ck_assert_int_eq(rnl_fill(b->array, 0, 0), -EIO);
	ck_assert_int_eq(rnl_copy(b->array, b->array + 32, 32), -EIO);
	ck_assert_int_eq(rnl_stream_wait(RNL_FOREVER), -EIO);
	ck_assert_int_eq(rnl_barrier_join(&barrier), -EIO);
	rnl_thread_attach(NULL);
	ck_assert_int_eq(rnl_thread_attach(pool), -EIO);
	ck_assert_int_eq(rnl_barrier_join(&barrier), -EIO);
}

static void refused(struct rnl_pool *pool, const struct before *b)
{
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_batcher *batcher = NULL;
	struct rnl_barrier barrier;
	struct rnl_job job, *jobs[1] = { &job };
	void *mem = NULL;

	job_of(&job, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &job), -EIO);
	ck_assert_int_eq(submit_by_key(pool, &job, 1), -EIO);
	ck_assert_int_eq(rnl_submit_wait(pool, &job, RNL_FOREVER), -EIO);
	ck_assert_int_eq(submit_by_key_wait(pool, &job, 1, RNL_FOREVER), -EIO);
	ck_assert_int_eq(rnl_submit_many(pool, jobs, 1), -EIO);
	submit_anew(&job);
	ck_assert_int_eq(submit_when(pool, &job, RNL_SPACE), -EIO);
	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, 64, &mem, 0), -EIO);
	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, 64, &mem, RNL_FOREVER), -EIO);
	ck_assert_int_eq(rnl_memory_get(pool, 0, 64, &mem, 0), -EIO);
	ck_assert_ptr_null(mem);
	must(rnl_barrier_init(&barrier, pool));
	map.fn = noop_chunk;
	map.nr = map.chunk = 64;
	map.in_bytes = map.out_bytes = 1;
	map.in = map.out = b->array;
	ck_assert_int_eq(rnl_map_start(pool, &map, &barrier), -EIO);
	must(rnl_barrier_wait(&barrier, 0));
	ck_assert_int_eq(rnl_batcher_create(&batcher, pool, &b->attr), -EIO);
	ck_assert_ptr_null(batcher);
	ck_assert_int_eq(rnl_trace_start(pool, path, NULL), -EIO);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(rnl_pool_resize(pool, 3), -EIO);
}

static void requests_refused(struct before *b)
{
	struct rnl_request request;

	must(rnl_job_init(&request.job, NULL));
	ck_assert_int_eq(rnl_batcher_reserve(b->batcher, &request, 64, 0), -EIO);
	ck_assert_int_eq(rnl_batcher_reserve(b->batcher, &request, 64, RNL_FOREVER), -EIO);
	ck_assert_int_eq(rnl_request_commit(&b->request), -EIO);
	must(rnl_request_release(&b->request));
	rnl_batcher_destroy(b->batcher);
}

TEST(every_call_says_that_the_device_has_failed)
{
	struct rnl_health health = RNL_HEALTH_INIT;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool;
	struct before before;
	struct rnl_job job;

	if (!test_fake())
		test_skip("every_call_says...: the double of the CUDA runtime fails on demand");
	snprintf(path, sizeof(path), "/tmp/api_failed.%d.json", (int)getpid());
	pool = pool_of(2);
	prepare(pool, &before);
	hold_workers(pool, &gate, &job, 1);
	fake_fail_sticky(ILLEGAL_ADDRESS);
	gate_open(&gate);
	/* The first CUDA call that fails is for the job's mark. */
	ck_assert_int_eq(result_of(&job), -EIO);
	ck_assert_int_eq(rnl_pool_health(pool, &health), 0);
	ck_assert_uint_eq(health.state, RNL_HEALTH_FAILED);
	ck_assert_int_eq(health.device_error, ILLEGAL_ADDRESS);
	refused(pool, &before);
	stream_refused(pool, &before);
	must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
	ck_assert_uint_eq(stats.done, 1);
	ck_assert_uint_eq(stats.failed, 1);
	ck_assert_uint_eq(stats.queued + stats.in_flight, 0);
	ck_assert_uint_eq(stats.nr_workers, 2);
	requests_refused(&before);
	rnl_memory_put(pool, before.array);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	must(rnl_pool_close(pool));
	rnl_pool_destroy(pool);
}

static void *filled;

/* Issues work, makes the device fail, and returns another error. */
static int fails_first_fn(struct rnl_job *job)
{
	int ret = rnl_fill(filled, 0, 64);

	(void)job;
	fake_fail_sticky(ILLEGAL_ADDRESS);
	return ret ? ret : -EPROTO;
}

TEST(a_barrier_has_the_result_of_its_job_that_failed_by_itself)
{
	struct rnl_barrier barrier;
	struct rnl_pool *pool;
	struct rnl_job job;

	if (!test_fake())
		test_skip("a_barrier_has...: the double of the CUDA runtime fails on demand");
	pool = pool_of(1);
	must(rnl_memory_get(pool, 0, 64, &filled, 0));
	must(rnl_barrier_init(&barrier, pool));
	job_in(&barrier, &job, fails_first_fn, NULL);
	must(rnl_submit(pool, &job));
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ck_assert_int_eq(job.result, -EPROTO);
	ck_assert_int_eq(barrier.result, -EPROTO);
	rnl_pool_destroy(pool);
}

/* After a failure, too, an event loop need not block in a drain. */
TEST(a_notice_for_the_end_comes_all_the_same)
{
	struct rnl_job job, notices[2];
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool;

	if (!test_fake())
		test_skip("a_notice_for...: the double of the CUDA runtime fails on demand");
	pool = pool_of(2);
	job_of(&notices[0], noop_fn, NULL);
	must(submit_when(pool, &notices[0], RNL_EMPTY));
	hold_workers(pool, &gate, &job, 1);
	fake_fail_sticky(ILLEGAL_ADDRESS);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), -EIO);
	must(rnl_pool_close(pool));
	ck_assert_int_eq(result_of(&notices[0]), -EIO);
	job_of(&notices[1], noop_fn, NULL);
	must(submit_when(pool, &notices[1], RNL_EMPTY));
	ck_assert_int_eq(result_of(&notices[1]), -EIO);
	rnl_pool_destroy(pool);
}

/* Jobs in flight complete; the time of their end on the device is unknown. */
TEST(a_trace_that_runs_then_is_whole)
{
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool;
	char text[65536];
	struct rnl_job jobs[3];
	FILE *file;

	if (!test_fake())
		test_skip("a_trace_that_runs...: the double of the CUDA runtime fails on demand");
	snprintf(path, sizeof(path), "/tmp/api_failed.%d.json", (int)getpid());
	pool = pool_of(1);
	must(rnl_trace_start(pool, path, NULL));
	hold_workers(pool, &gate, jobs, 1);
	for (unsigned i = 1; i < COUNT(jobs); i++)
		submit_job(pool, &jobs[i], noop_fn, NULL);
	fake_fail_sticky(ILLEGAL_ADDRESS);
	gate_open(&gate);
	for (unsigned i = 0; i < COUNT(jobs); i++)
		ck_assert_int_eq(result_of(&jobs[i]), -EIO);
	must(rnl_trace_stop(pool));
	file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	unlink(path);
	ck_assert_ptr_nonnull(strstr(text, "\"runnel_end\""));
	ck_assert_ptr_nonnull(strstr(text, "\"jobs\":3,"));
	ck_assert_ptr_nonnull(strstr(text, "\"timed\":0,\"unfinished\":0,"));
	rnl_pool_destroy(pool);
}

/* Threads of pools only: those of the double may end at any time. */
#define POOL_THREADS "rnl-worker*"

/* Threads of a failed device never end, so a thread that is started in vain would stay. */
TEST(no_thread_is_started_for_a_device_that_has_failed)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool, *other = NULL;
	struct rnl_job job;

	if (!test_fake())
		test_skip("no_thread...: the double of the CUDA runtime fails on demand");
	pool = pool_of(2);
	hold_workers(pool, &gate, &job, 1);
	fake_fail_sticky(ILLEGAL_ADDRESS);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), -EIO);
	ck_eventually(nr_threads_named(POOL_THREADS) == 3); /* two workers and the timer thread */
	attr.device = test_device();
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(rnl_pool_resize(pool, 4), -EIO);
		ck_assert_int_eq(rnl_pool_create(&other, &attr), -EIO);
		ck_assert_ptr_null(other);
	}
	ck_eventually(nr_threads_named(POOL_THREADS) == 3);
	rnl_pool_destroy(pool);
	ck_eventually(nr_threads_named(POOL_THREADS) == 2);
}
