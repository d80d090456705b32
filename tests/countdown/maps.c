/* SPDX-License-Identifier: MIT */
/* Maps: all kinds of memory, halos, callbacks, order and reports. */
#include <runnel/map.h>
#include <runnel/stats.h>

#include "asserts.h"

#include "map.h"

static struct task t;
static int result;

static void prepare(struct rnl_pool *pool, const struct task *task)
{
	t = *task;
	t.nr = 60;
	t.chunk = 10;
	t.in_bytes = t.out_bytes = 8;
	task_prepare(&t, pool);
}

static void run_map(void)
{
	struct rnl_barrier barrier;
	int ret;

	expect(!rnl_barrier_init(&barrier, t.pool));
	ret = rnl_map_start(t.pool, &t.map, &barrier);
	expect(!rnl_barrier_wait(&barrier, RNL_FOREVER));
	result = barrier.result;
	/* A refused map is not counted in its barrier. */
	expect(!ret || !result);
	if (ret)
		result = ret;
}

/* Returns the call's result, or else the barrier's. */
static int run(struct rnl_pool **pool)
{
	(void)pool;
	run_map();
	return result;
}

static void begin_again(void)
{
	memset(t.seen, 0, t.nr);
	memset(t.written, 0, t.nr);
	memset((void *)t.read, 0, t.nr);
	t.next_read = t.next_write = 0;
	t.in_read = t.in_write = false;
	if (t.from)
		memcpy(t.from, t.original, t.nr * t.in_bytes);
}

/* Checks that the pool is as before, and gives memory. */
static void after(struct rnl_pool *pool, int ret)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	if (ret && !fault_lasts()) {
		begin_again();
		run_map();
		expect(!result);
	}
	if (!result)
		task_verify(&t);
	task_end(&t);
	expect(!rnl_pool_drain(pool, RNL_FOREVER) && !rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
	expect(!stats.pinned_used && stats.accepted == stats.done);
}

/* ---- all kinds of maps --------------------------------------------------------- */

#define MAP(name, ...) \
	static void name(struct rnl_pool *pool) { prepare(pool, &(struct task){ __VA_ARGS__ }); }

MAP(pinned, .in = PINNED, .out = PINNED, .before = 2, .after = 3)
MAP(in_place, .in = PINNED, .out = IN_PLACE, .flags = RNL_MAP_COPIES_FIRST)
MAP(borders_kept, .in = PAGEABLE, .out = IN_PLACE, .before = 1, .after = 1)
MAP(pageable, .in = PAGEABLE, .out = PAGEABLE, .before = 1, .flags = RNL_MAP_COPIES_FIRST)
MAP(called, .in = CALLED, .out = CALLED, .after = 3)
MAP(in_order, .in = CALLED, .out = CALLED, .before = 1,
    .flags = RNL_MAP_IN_ORDER | RNL_MAP_COPIES_FIRST)
MAP(reported, .in = PAGEABLE, .out = CALLED, .reports = true)

#define START(says, begins, ...) \
	{ .name = "rnl_map_start, " says, .before = begins, .run = run, .after = after, \
	  .errnos = { -ENOMEM, -EIO }, __VA_ARGS__ }

const struct operation map_operations[] = {
	START("page-locked, with halos", pinned, .attr = TWO_SMALL_WORKERS),
	START("in place, copies first", in_place, .attr = TWO_SMALL_WORKERS),
	START("in place, pageable, with halos", borders_kept, .attr = TWO_SMALL_WORKERS),
	START("pageable, copies first", pageable, .attr = TWO_SMALL_WORKERS),
	START("read and written by callbacks", called, .attr = TWO_SMALL_WORKERS),
	START("read and written in order", in_order, .attr = TWO_SMALL_WORKERS),
	START("with a report", reported, .attr = TWO_SMALL_WORKERS),
	START("over devices", reported, .several = true),
	{ 0 }
};
