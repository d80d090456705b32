/* SPDX-License-Identifier: MIT */
/* Pinned buffers: refused sizes, threads that wait, and puts of other memory. */
#include <runnel/memory.h>

#include "pool.h"

#define BYTES 65536u
#define MOST 64u

static struct rnl_pool *pool;
static void *buffers[MOST];
static unsigned nr, nr_said;

static void hear(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	nr_said += level == RNL_LOG_ERROR && strstr(msg, "rnl_memory_put(");
}

/* Makes a pool whose buffers are all taken. */
static void setup(void)
{
	int ret = 0;

	nr_said = 0;
	pool = pool_of(1, .pinned_max = 2u << 20, .log = hear);
	for (nr = 0; nr < MOST && !ret; nr += !ret)
		ret = rnl_memory_get(pool, RNL_PINNED, BYTES, &buffers[nr], 0);
	ck_assert_int_eq(ret, -ENOMEM);
	ck_assert_uint_ge(nr, 2);
}

static void teardown(void)
{
	while (nr)
		rnl_memory_put(pool, buffers[--nr]);
	rnl_pool_destroy(pool);
}

TEST(what_makes_no_sense_is_refused, .setup = setup, .teardown = teardown)
{
	void *buf = &nr;

	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, 0, &buf, 0), -EINVAL);
	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, 1, NULL, 0), -EINVAL);
	ck_assert_int_eq(rnl_memory_get(NULL, RNL_PINNED, 1, &buf, 0), -EINVAL);
	/* More than the pool's bound. */
	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, 3u << 20, &buf, RNL_FOREVER), -ENOMEM);
	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, SIZE_MAX, &buf, 0), -ENOMEM);
	ck_assert_int_eq(rnl_memory_get(pool, 0, SIZE_MAX, &buf, 0), -ENOMEM);
	ck_assert_ptr_eq(buf, &nr);
}

static int get_waiting(void *arg)
{
	return rnl_memory_get(pool, RNL_PINNED, BYTES, arg, RNL_FOREVER);
}

TEST(who_waits_gets_what_is_put_back, .setup = setup, .teardown = teardown)
{
	struct call call;
	void *buf = NULL;

	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, BYTES, &buf, 0), -ENOMEM);
	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, BYTES, &buf, MS), -ETIMEDOUT);
	ck_assert_ptr_null(buf);
	call_start(&call, get_waiting, &buf);
	ck_waits(call.tid);
	rnl_memory_put(pool, buffers[--nr]);
	ck_assert_int_eq(call_end(&call), 0);
	ck_assert_ptr_eq(buf, buffers[nr]);
	nr++;
}

static int get_fn(struct rnl_job *job)
{
	return rnl_memory_get(pool, RNL_PINNED, BYTES, job->user, RNL_FOREVER);
}

/* The job that puts a buffer back may be queued after this one. */
TEST(a_worker_does_not_wait, .setup = setup, .teardown = teardown)
{
	struct rnl_job job;
	void *buf = NULL;

	submit_job(pool, &job, get_fn, &buf);
	ck_assert_int_eq(result_of(&job), -ENOMEM);
	ck_assert_ptr_null(buf);
	rnl_memory_put(pool, buffers[--nr]);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	ck_assert_ptr_eq(buf, buffers[nr]);
	nr++;
}

TEST(a_put_without_a_pool_is_logged_and_puts_nothing, .setup = setup, .teardown = teardown)
{
	void *device = NULL, *buf = NULL;

	must(rnl_memory_get(pool, 0, BYTES, &device, 0));
	rnl_set_log(hear, NULL);
	rnl_memory_put(NULL, buffers[0]);
	rnl_memory_put(NULL, device);
	rnl_set_log(NULL, NULL);
	ck_assert_uint_eq(nr_said, 2);
	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, BYTES, &buf, 0), -ENOMEM);
	rnl_memory_put(pool, device);
}

TEST(what_is_none_is_left_alone_and_logged, .setup = setup, .teardown = teardown)
{
	_Alignas(4096) static char other[4096];
	void *buf = NULL, *one;
	char before[64];

	rnl_memory_put(pool, NULL);
	ck_assert_uint_eq(nr_said, 0);
	rnl_memory_put(pool, other);
	rnl_memory_put(pool, other + 1);
	rnl_memory_put(pool, (char *)buffers[0] + 4096);
	ck_assert_uint_eq(nr_said, 3);
	ck_assert_bytes((unsigned char *)other, sizeof(other), 0);
	/* A put of a buffer with a damaged header is refused until the header is right again. */
	memcpy(before, (char *)buffers[0] - 64, 64);
	memset((char *)buffers[0] - 64, 0xee, 64);
	rnl_memory_put(pool, buffers[0]);
	ck_assert_uint_eq(nr_said, 4);
	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, BYTES, &buf, 0), -ENOMEM);
	memcpy((char *)buffers[0] - 64, before, 64);
	/* The second put is refused, so the buffer is not given twice. */
	one = buffers[--nr];
	rnl_memory_put(pool, one);
	rnl_memory_put(pool, one);
	ck_assert_uint_eq(nr_said, 5);
	must(rnl_memory_get(pool, RNL_PINNED, BYTES, &buffers[nr++], 0));
	ck_assert_ptr_eq(buffers[nr - 1], one);
	ck_assert_int_eq(rnl_memory_get(pool, RNL_PINNED, BYTES, &buf, 0), -ENOMEM);
}

TEST(more_in_advance_than_there_is_is_refused, .loops = 2)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = test_device();
	attr.nr_workers = 1;
	attr.pinned_max = attr.pinned_preload = UINT64_MAX >> _i;
	pool = NULL;		/* on a GPU all tests run in one process */
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), -ENOMEM);
	ck_assert_ptr_null(pool);
}
