/* SPDX-License-Identifier: MIT */
/* Memory of the pool and of its device. */
#include <string.h>

#include <runnel/memory.h>
#include <runnel/stats.h>

#include "await.h"
#include "countdown.h"

enum { BYTES = 5000, LARGE_BYTES = 3 << 20, MOST_BYTES = 4 << 20 };

static void *mem;

/* ---- page-locked ---------------------------------------------------------------- */

static int get_some(struct rnl_pool *pool, int where, size_t bytes)
{
	int ret = rnl_memory_get(pool, where, bytes, &mem, 0);

	expect(!ret == (mem != NULL));
	return ret;
}

/* So far only the pool's own memory is page-locked. */
static int get(struct rnl_pool **pool)
{
	return get_some(*pool, RNL_PINNED, BYTES);
}

/* A small buffer exists; the large one does not fit into its region. */
static int get_large(struct rnl_pool **pool)
{
	return get_some(*pool, RNL_PINNED, LARGE_BYTES);
}

static void use_and_put(struct rnl_pool *pool, int ret)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	void *again = NULL;

	if (!ret)
		memset(mem, 1, BYTES);
	rnl_memory_put(pool, mem);
	expect(!rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats) && !stats.pinned_used);
	if (fault_lasts())
		return;
	expect(!rnl_memory_get(pool, RNL_PINNED, LARGE_BYTES, &again, 0));
	rnl_memory_put(pool, again);
}

static void get_small(struct rnl_pool *pool)
{
	void *small = NULL;

	expect(!rnl_memory_get(pool, RNL_PINNED, 100, &small, 0));
	rnl_memory_put(pool, small);
}

static void *taken;

static void take_most(struct rnl_pool *pool)
{
	expect(!rnl_memory_get(pool, RNL_PINNED, LARGE_BYTES, &taken, 0));
}

static struct call call;

static int get_waiting(void *pool)
{
	return rnl_memory_get(pool, RNL_PINNED, LARGE_BYTES, &mem, RNL_FOREVER);
}

/* Another thread already waits. */
static void take_most_and_wait(struct rnl_pool *pool)
{
	take_most(pool);
	call = (struct call){ .fn = get_waiting, .arg = pool };
	expect(!pthread_create(&call.thread, NULL, call_main, &call));
	while (!call.tid || thread_state(call.tid) != 'S')
		sched_yield();
}

static int get_wait(struct rnl_pool **pool)
{
	rnl_memory_put(*pool, taken);
	own_call(expect(!pthread_join(call.thread, NULL)));
	expect(!call.ret == (mem != NULL));
	return call.ret;
}

static int put(struct rnl_pool **pool)
{
	rnl_memory_put(*pool, taken);
	return 0;
}

/* ---- device memory ----------------------------------------------------------------- */

static int alloc(struct rnl_pool **pool)
{
	return get_some(*pool, 0, LARGE_BYTES);
}

static void free_device(struct rnl_pool *pool, int ret)
{
	(void)ret;
	rnl_memory_put(pool, mem);
}

static void take_device(struct rnl_pool *pool)
{
	expect(!rnl_memory_get(pool, 0, LARGE_BYTES, &taken, 0));
}

#define GET(says, ...) { .name = "rnl_memory_get, " says, .errnos = { -ENOMEM, -EIO }, __VA_ARGS__ }

const struct operation memory_operations[] = {
	GET("the pool's first", .run = get, .after = use_and_put),
	GET("large", .before = get_small, .run = get_large, .after = use_and_put),
	GET("with a timeout", .attr = { .pinned_max = MOST_BYTES }, .before = take_most_and_wait,
	    .run = get_wait, .after = use_and_put),
	GET("of a device", .run = alloc, .after = free_device),
	{ .name = "rnl_memory_put", .before = take_most, .run = put },
	{ .name = "rnl_memory_put, of a device", .before = take_device, .run = put },
	{ 0 }
};
