/* SPDX-License-Identifier: MIT */
/* Copies of rectangles: the bytes are correct, and no other bytes change. */
#include <runnel/memory.h>
#include <runnel/thread.h>

#include "copies.h"
#include "seed.h"

/* ---- rectangles --------------------------------------------------------------- */

/* Widths around the size of a staging piece: longer rows are split, shorter rows share a piece. */
static const struct move shapes[] = {
	/* width, dst_at, src_at, rows, dst_pitch, src_pitch */
	{ 0, 0, 1, 0, 0, 1, 1, 1 },
	{ 0, 0, 1, 3, 5, 1, 1000, 7 },
	{ 0, 0, 1, 3, 5, 5000, 7, 3 },
	{ 0, 0, 100, 0, 1, 33, 100, 100 },
	{ 0, 0, 100, 9, 1, 33, 100, 1000 },
	{ 0, 0, 100, 9, 1, 33, 1000, 100 },
	{ 0, 0, 4096, 0, 0, 300, 4096, 8192 },
	{ 0, 0, 4096, 0, 0, 512, 4096, 4096 },
	{ 0, 0, 1001, 17, 19, 3000, 1001, 1024 },
	{ 0, 0, 300000, 7, 11, 9, 300001, 400000 },
	{ 0, 0, 512 * KB, 0, 3, 5, 600 * KB, 512 * KB },
	{ 0, 0, 512 * KB + 1, 0, 3, 5, 600 * KB, 700 * KB },
	{ 0, 0, MB - 1, 0, 0, 3, MB, MB + 9 },
	{ 0, 0, MB, 2, 0, 3, MB, MB },
	{ 0, 0, MB + 5, 2, 0, 3, MB + 100, MB + 5 },
	{ 0, 0, 3 * MB + 1, 0, 1, 1, 4 * MB, 3 * MB + 1 },
	{ 0, 0, 2 * MB - 1, 1, 0, 2, 2 * MB, 2 * MB + 3 },
};
#define SHAPES_BYTES (4 * MB + 4096)

static void check_shapes(struct rnl_pool *pool, struct rnl_pool *memory)
{
	static const int ways[][2] = {
		{ D0, P0 }, { P1, D1 }, { D1, Q0 }, { Q1, D0 }, { D0, D1 }, { P0, P1 }, { Q0, P0 },
	};
	struct bench b;

	bench_init(&b, memory, SHAPES_BYTES);
	b.pool = pool;
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		struct move moves[COUNT(ways)];

		for (unsigned k = 0; k < COUNT(ways); k++) {
			moves[k] = shapes[i];
			moves[k].dst = ways[k][0];
			moves[k].src = ways[k][1];
		}
		/* Two ways are checked before the others, so an error is easier to locate. */
		run(&b, moves, 2);
		bench_check(&b);
		run(&b, moves + 2, COUNT(ways) - 2);
	}
	bench_check(&b);
	b.pool = memory;
	bench_fini(&b);
	ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
}

TEST(rectangles_come_and_go_byte_for_byte, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);

	check_shapes(pool, pool);
	rnl_pool_destroy(pool);
}

TEST(rectangles_do_so_with_little_page_locked_memory, .timeout_s = 60)
{
	static const uint64_t pinned[] = { 1, 100 * KB, 3 * MB }, staging[] = { 1, 0, 1500 * KB };
	struct rnl_pool *memory = pool_of(1);

	for (unsigned i = 0; i < COUNT(pinned); i++) {
		struct rnl_pool *pool = tight_pool(1, pinned[i], staging[i]);

		check_shapes(pool, memory);
		rnl_pool_destroy(pool);
	}
	rnl_pool_destroy(memory);
}

TEST(columns_come_out_beside_each_other, .timeout_s = 60)
{
	enum { PARTS = 4, ROWS = 700, PITCH = 4096 };
	struct move moves[2 * PARTS];
	struct bench b;

	/* Each column's pieces span the rows of the other columns, but must not change them. */
	for (int i = 0; i < PARTS; i++) {
		const size_t at = (size_t)i * PITCH / PARTS;

		moves[i] = (struct move){ P0, D0, PITCH / PARTS, at, at, ROWS, PITCH, PITCH };
		moves[PARTS + i] = (struct move){ D1, P0, PITCH / PARTS, at, at, ROWS, PITCH, PITCH };
	}
	bench_init(&b, pool_of(1), ROWS * PITCH);
	run(&b, moves, 2 * PARTS);
	bench_check(&b);
	check_same(b.mem[P0], b.shadow[D1], b.bytes, "what came out and went in");
	bench_fini(&b);
	rnl_pool_destroy(b.pool);
}

/* ---- empty and refused copies ------------------------------------------- */

struct calling {
	struct rnl_job job;
	unsigned char *dst, *src;
	size_t dst_pitch, src_pitch, width, rows;
};

static int calling_fn(struct rnl_job *job)
{
	const struct calling *c = rnl_container_of(job, struct calling, job);

	return rnl_copy_2d(c->dst, c->dst_pitch, c->src, c->src_pitch, c->width, c->rows);
}

TEST(what_is_no_rectangle_is_refused, .timeout_s = 60)
{
	enum { BYTES = 64 };
	struct rnl_pool *pool = pool_of(1);
	unsigned char *p = malloc(BYTES), *d;
	const size_t longest = INT32_MAX;
	void *mem;

	must(rnl_memory_get(pool, 0, BYTES, &mem, 0));
	d = mem;
	must(rnl_thread_attach(pool));
	for (int in = 1; in >= 0; in--) {
		unsigned char *a = in ? d : p, *b = in ? p : d;
		const struct {
			struct calling call;
			int ret;
		} calls[] = {
			{ { .dst = NULL, .src = b, 8, 8, 8, 2 }, -EINVAL },
			{ { .dst = a, .src = NULL, 8, 8, 8, 2 }, -EINVAL },
			{ { .dst = a, .src = b, 7, 8, 8, 2 }, -EINVAL },
			{ { .dst = a, .src = b, 8, 7, 8, 2 }, -EINVAL },
			{ { .dst = a, .src = b, 0, 8, 8, 2 }, -EINVAL },
			{ { .dst = a, .src = b, 8, 0, 8, 1 }, -EINVAL },
			{ { .dst = a, .src = b, longest + 1, 8, 8, 1 }, -EINVAL },
			{ { .dst = a, .src = b, 8, longest + 1, 8, 1 }, -EINVAL },
			{ { .dst = a, .src = b, SIZE_MAX, 8, 8, 2 }, -EINVAL },
			{ { .dst = a, .src = b, SIZE_MAX, SIZE_MAX, SIZE_MAX, 2 }, -EINVAL },
			{ { .dst = a, .src = b, 8, 8, 8, SIZE_MAX }, -EINVAL },
			{ { .dst = a, .src = b, 1, 1, 1, SIZE_MAX }, -EINVAL },
			/* An empty copy succeeds, whatever its other arguments are. */
			{ { .dst = NULL, .src = NULL, 0, 0, 0, 5 }, 0 },
			{ { .dst = a, .src = b, 8, 8, 0, SIZE_MAX }, 0 },
			{ { .dst = a, .src = b, 1, 1, 8, 0 }, 0 },
			{ { .dst = NULL, .src = NULL, SIZE_MAX, SIZE_MAX, SIZE_MAX, 0 }, 0 },
			/* The largest pitch. */
			{ { .dst = a, .src = b, longest, longest, 8, 1 }, 0 },
		};

		for (unsigned i = 0; i < COUNT(calls); i++) {
			struct calling c = calls[i].call;

			ck_assert_msg(calling_fn(&c.job) == calls[i].ret, "call %u by a thread", i);
			must(rnl_stream_wait(RNL_FOREVER));
			submit_job(pool, &c.job, calling_fn, NULL);
			ck_assert_msg(result_of(&c.job) == calls[i].ret, "call %u in a job", i);
		}
	}
	rnl_thread_attach(NULL);
	ck_assert_int_eq(rnl_copy_2d(p, 8, p + 32, 8, 8, 2), -ENODEV);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
	free(p);
}

TEST(a_thread_that_is_attached_copies_rectangles_too, .timeout_s = 60)
{
	static const struct move moves[] = {
		{ D0, Q0, 1000, 3, 5, 400, 1000, 1024 }, { Q1, D0, 999, 1, 3, 300, 2000, 1001 },
		{ D1, P0, 1000, 3, 5, 400, 1000, 1024 }, { P1, D1, 999, 1, 3, 300, 2000, 1001 },
	};
	struct bench b;

	bench_init(&b, pool_of(1), MB);
	must(rnl_thread_attach(b.pool));
	for (unsigned i = 0; i < COUNT(moves); i++) {
		ck_assert_int_eq(issue(&b, &moves[i]), 0);
		shadow(&b, &moves[i]);
	}
	must(rnl_stream_wait(RNL_FOREVER));
	rnl_thread_attach(NULL);
	bench_check(&b);
	/* Outside of a job, CUDA stages pageable memory, not the library. */
	ck_assert_uint_eq(figures_of(b.pool).staged_bytes, 0);
	bench_fini(&b);
	rnl_pool_destroy(b.pool);
}
