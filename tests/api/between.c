/* SPDX-License-Identifier: MIT */
/*
 * Contents after copies between two devices. tests/cuda/between.cu has more tests, for machines
 * with two GPUs.
 */
#include <dlfcn.h>

#include <runnel/memory.h>

#include "move.h"
#include "pool.h"

enum { BYTES = 64 * 1024 };

struct side {
	struct rnl_pool *pool;
	unsigned char *mem, *pinned;
};

/* Creates a pool on @device. Returns false if there is no such device. */
static bool side_init(struct side *s, const char *device, uint32_t stream)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int (*plan)(const char *text) = (int (*)(const char *))(uintptr_t)dlsym(RTLD_DEFAULT,
									       "fake_plan");
	void *mem, *pinned;
	int ret;

	if (test_fake())
		must(plan("devices=2"));
	attr.nr_workers = 1;
	attr.device = device;
	attr.stream = stream;
	ret = rnl_pool_create(&s->pool, &attr);
	if (ret == -ENODEV)
		return false;
	must(ret);
	must(rnl_memory_get(s->pool, 0, BYTES, &mem, 0));
	must(rnl_memory_get(s->pool, RNL_PINNED, BYTES, &pinned, 0));
	*s = (struct side){ s->pool, mem, pinned };
	return true;
}

static void side_fini(struct side *s)
{
	rnl_memory_put(s->pool, s->mem);
	rnl_memory_put(s->pool, s->pinned);
	rnl_pool_destroy(s->pool);
}

static int move(struct rnl_pool *pool, void *dst, const void *src, size_t pitch)
{
	struct move m = { .dst = dst, .src = src, .bytes = BYTES, .pitch = pitch };

	must(rnl_job_init(&m.job, move_fn));
	return submit_and_wait(pool, &m.job);
}

/* Copies from one side to the other by a worker of @by, and checks the bytes. */
static void from_to(struct side *from, struct side *to, struct side *by, size_t pitch)
{
	for (unsigned i = 0; i < BYTES; i++) {
		from->pinned[i] = (unsigned char)(i * 7 + i / 256 + pitch);
		to->pinned[i] = 0xee;
	}
	ck_assert_int_eq(move(from->pool, from->mem, from->pinned, 0), 0);
	ck_assert_int_eq(move(to->pool, to->mem, to->pinned, 0), 0);
	ck_assert_int_eq(move(by->pool, to->mem, from->mem, pitch), 0);
	ck_assert_int_eq(move(to->pool, to->pinned, to->mem, 0), 0);
	for (unsigned i = 0; i < BYTES; i++) {
		const bool moved = !pitch || i % pitch < pitch / 2;

		ck_assert_msg(to->pinned[i] == (moved ? from->pinned[i] : 0xee), "byte %u is %u", i,
			      to->pinned[i]);
	}
}

TEST(copies_between_two_devices_arrive_both_ways_by_workers_of_either, .loops = 2)
{
	const uint32_t stream = _i ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD;
	struct side sides[2];

	if (on_host())
		test_skip("there is one host device");
	if (!side_init(&sides[0], "cuda:0", stream))
		ck_abort_msg("no device");
	if (!side_init(&sides[1], "cuda:1", stream)) {
		side_fini(&sides[0]);
		test_skip("there is one GPU");
	}
	for (unsigned i = 0; i < 8; i++)
		from_to(&sides[i % 2], &sides[!(i % 2)], &sides[i / 2 % 2], i / 4 ? 512 : 0);
	side_fini(&sides[1]);
	side_fini(&sides[0]);
}
