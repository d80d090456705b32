/* SPDX-License-Identifier: MIT */
/*
 * Pinned buffers: sizes, alignment, the limit, and memory that moves between sizes.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#include "pinned_device.h"

/* ---- buffers --------------------------------------------------------------- */

static const size_t offsets[] = OFFSETS;

/* Tries sizes on both sides of each border between classes, up to @most. */
static void try_sizes(struct rnl__pinned *p, size_t most)
{
	for (size_t power = 256; power <= most; power *= 2) {
		for (size_t border = power; border < 2 * power; border += power / 4) {
			for (size_t bytes = border - 1; bytes <= border + 1; bytes++) {
				size_t least = bytes < 256 ? 256 : bytes, used;
				char *buf = get(p, bytes);

				ck_assert_uint_eq((uintptr_t)buf % (bytes < 64 * KIB ? 64 : 4096),
						  0);
				used = figures(p).used;
				ck_assert_uint_ge(used, least);
				ck_assert_uint_le(used, least + least / 4 + 1);
				memset(buf, 0xff, bytes < 8 * MIB ? bytes : 1);
				put(p, buf);
				ck_assert_uint_eq(figures(p).used, 0);
			}
		}
	}
}

TEST(buffers_of_any_size_are_aligned, .timeout_s = 60)
{
	for (unsigned i = 0; i < COUNT(offsets); i++) {
		struct rnl__pinned *p;

		device.offset = offsets[i];
		p = pinned_of(GIB, 0);
		for (size_t bytes = 1; bytes < 300; bytes++) {
			void *buf = get(p, bytes);

			ck_assert_uint_eq((uintptr_t)buf % 64, 0);
			put(p, buf);
		}
		try_sizes(p, 8 * MIB);
		destroy(p);
	}
}

TEST(a_buffer_may_have_64_GiB_and_no_more, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(64 * GIB + 8 * KIB, 0);
	void *buf;

	try_sizes(p, 16 * GIB);
	buf = get(p, 64 * GIB);
	ck_assert(rnl__pinned_holds(p, (char *)buf + 64 * GIB - 1, 1));
	put(p, buf);
	ck_assert_int_eq(try_get(p, 64 * GIB + 1), -ENOMEM);
	ck_assert_int_eq(try_get(p, SIZE_MAX), -ENOMEM);
	ck_assert_int_eq(rnl__pinned_get_wait(p, SIZE_MAX, &buf, RNL__NEVER), -ENOMEM);
	destroy(p);
}

TEST(no_two_buffers_have_a_byte_in_common, .timeout_s = 60)
{
	enum { NR = 400 };
	static struct {
		unsigned char *buf;
		size_t bytes;
	} held[NR];
	uint64_t random = draws_of(test_seed(), 0);

	for (unsigned i = 0; i < COUNT(offsets); i++) {
		struct rnl__pinned *p;

		device.offset = offsets[i];
		p = pinned_of(64 * MIB, 0);
		for (unsigned n = 0; n < 20000 / (unsigned)test_scale(); n++) {
			unsigned k = draw(&random, NR);
			void *buf;

			if (held[k].buf) {
				ck_assert_bytes(held[k].buf, held[k].bytes, k & 255);
				put(p, held[k].buf);
				held[k].buf = NULL;
				continue;
			}
			held[k].bytes = 1 + draw(&random, 1u << (4 + draw(&random, 15)));
			if (rnl__pinned_get(p, held[k].bytes, &buf))
				continue;
			held[k].buf = buf;
			memset(buf, k & 255, held[k].bytes);
		}
		for (unsigned k = 0; k < NR; k++) {
			if (!held[k].buf)
				continue;
			ck_assert_bytes(held[k].buf, held[k].bytes, k & 255);
			put(p, held[k].buf);
			held[k].buf = NULL;
		}
		ck_assert_uint_eq(figures(p).used, 0);
		destroy(p);
	}
}

TEST(buffers_that_were_put_are_got_again_without_the_device, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(256 * MIB, 0);
	static const size_t sizes[] = { 100, 5000, 64 * KIB, 3 * MIB };
	void *bufs[COUNT(sizes)][10];
	unsigned nr_calls;

	for (unsigned round = 0; round < 100; round++) {
		if (round == 1)
			nr_calls = device.nr_calls;
		for (unsigned i = 0; i < COUNT(sizes); i++) {
			for (unsigned j = 0; j < 10; j++)
				bufs[i][j] = get(p, sizes[i]);
		}
		for (unsigned i = 0; i < COUNT(sizes); i++)
			put_all(p, bufs[i], 10);
	}
	ck_assert_uint_eq(device.nr_calls, nr_calls);
	ck_assert_uint_eq(device.base.nr_slow, nr_calls);
	destroy(p);
}

static int get_and_put(void *arg)
{
	put(arg, get(arg, 1000));
	return 0;
}

TEST(any_thread_gets_a_buffer_that_another_put, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(16 * KIB, 0);
	void *bufs[100];
	unsigned nr = get_all(p, 1000, bufs, 100);
	struct call call;

	/* The same buffer is found from more threads than there are stacks. */
	put(p, bufs[--nr]);
	for (int i = 0; i < 40; i++) {
		call_start(&call, get_and_put, p);
		call_end(&call);
	}
	ck_assert_ptr_eq(get(p, 1000), bufs[nr]);
	destroy(p);
}

/* ---- the limit ------------------------------------------------------------- */

TEST(beyond_the_bound_there_is_nothing_until_something_is_put, .timeout_s = 60)
{
	static const size_t sizes[] = { 256, 10000, 64 * KIB, 500 * KIB, MIB, 1700 * KIB };
	static void *bufs[20000];

	for (unsigned i = 0; i < COUNT(sizes); i++) {
		struct rnl__pinned *p = pinned_of(5 * MIB + 12345, 0);
		unsigned nr = get_all(p, sizes[i], bufs, COUNT(bufs));

		/*
		 * The loss is at most 64 bytes or a page for each buffer, and a rest that is too
		 * small for another one.
		 */
		ck_assert_uint_ge(figures(p).used, 4 * MIB - 8 * KIB - sizes[i]);
		ck_assert_int_eq(try_get(p, sizes[i]), -ENOMEM);
		put(p, bufs[nr / 2]);
		bufs[nr / 2] = get(p, sizes[i]);
		ck_assert_int_eq(try_get(p, sizes[i]), -ENOMEM);
		put_all(p, bufs, nr);
		ck_assert_uint_eq(get_all(p, sizes[i], bufs, COUNT(bufs)), nr);
		destroy(p);
	}
}

TEST(a_bound_of_little_is_one_too, .timeout_s = 60)
{
	static const uint64_t bounds[] = { 1, 100, 4096, 8127 };
	struct rnl__pinned *p;

	for (unsigned i = 0; i < COUNT(bounds); i++) {
		p = pinned_of(bounds[i], 0);
		ck_assert_int_eq(try_get(p, 1), -ENOMEM);
		ck_assert_uint_eq(device.nr_calls, 0);
		destroy(p);
	}
	p = pinned_of(8128, 0);
	put(p, get(p, 1));
	destroy(p);
	ck_assert_int_eq(rnl__pinned_create(&p, &device.base, 4 * MIB, 4 * MIB + 1), -ENOMEM);
}

TEST(memory_moves_from_one_size_to_another, .timeout_s = 60)
{
	static const size_t sizes[] = { 256, 3 * MIB, 5000, 100 * KIB, 3500 * KIB, MIB, 300 };
	struct rnl__pinned *p = pinned_of(4 * MIB, 0);
	static void *bufs[20000];
	unsigned nr[COUNT(sizes)];

	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < COUNT(sizes); i++) {
			unsigned now = get_all(p, sizes[i], bufs, COUNT(bufs));

			ck_assert_uint_ge(now, 1);
			/* The earlier division of memory matters little. */
			if (round)
				ck_assert_uint_ge(now, nr[i] - nr[i] / 50);
			nr[i] = now;
			put_all(p, bufs, now);
		}
	}
	destroy(p);
}

TEST(a_size_keeps_what_is_in_use_and_gives_the_rest, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(2 * MIB, 0);
	static void *bufs[10000];
	unsigned nr = get_all(p, 1000, bufs, COUNT(bufs)), again;
	unsigned char *held = bufs[nr / 3];

	memset(held, 77, 1000);
	for (unsigned i = 0; i < nr; i++) {
		if (bufs[i] != held)
			put(p, bufs[i]);
	}
	ck_assert_int_eq(try_get(p, 1700 * KIB), -ENOMEM);
	put(p, get(p, 400 * KIB));
	/* Memory that moved to another size returns, and no buffer is given twice. */
	again = get_all(p, 1000, bufs, COUNT(bufs));
	ck_assert_uint_ge(again, nr - nr / 50);
	for (unsigned i = 0; i < again; i++) {
		ck_assert_ptr_ne(bufs[i], held);
		memset(bufs[i], 88, 1000);
	}
	ck_assert_bytes(held, 1000, 77);
	put_all(p, bufs, again);
	put(p, held);
	put(p, get(p, 1700 * KIB));
	destroy(p);
}

TEST(free_regions_are_given_back_for_a_larger_one, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(20 * MIB, 0);
	void *bufs[100], *large;
	unsigned nr = get_all(p, MIB, bufs, COUNT(bufs));

	ck_assert_uint_ge(device.nr_living, 3);
	put_all(p, bufs, nr);
	large = get(p, 16 * MIB);
	ck_assert_uint_lt(device.nr_living, 3);
	/* The buffers are gone, so a put of one is a detected error. */
	for (unsigned i = 0; i < nr; i++)
		ck_assert_int_eq(rnl__pinned_put(p, bufs[i]), -EINVAL);
	put(p, large);
	/* If it would not be enough, no memory is given back. */
	large = get(p, 3 * MIB);
	nr = device.nr_calls;
	ck_assert_int_eq(try_get(p, 20 * MIB), -ENOMEM);
	ck_assert_uint_eq(device.nr_calls, nr);
	put(p, large);
	destroy(p);
}

TEST(preloaded_memory_is_not_asked_for_later, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(64 * MIB, 8 * MIB);
	static void *bufs[1000];
	unsigned nr;

	ck_assert_uint_eq(device.locked, 8 * MIB);
	ck_assert_uint_eq(device.nr_calls, 1);
	for (nr = 0; figures(p).used < 7 * MIB; nr++)
		bufs[nr] = get(p, 40 * KIB);
	ck_assert_uint_eq(device.nr_calls, 1);
	put_all(p, bufs, nr);
	destroy(p);

	p = pinned_of(3 * MIB + 5, 3 * MIB + 5);
	ck_assert_uint_eq(device.locked, 3 * MIB);
	destroy(p);
	p = pinned_of(3 * MIB, 1);
	ck_assert_uint_eq(device.locked, 2 * MIB);
	destroy(p);
}

TEST(many_large_buffers_are_not_many_extents, .timeout_s = 60)
{
	/* More than one extent per buffer would allow; the memory is never touched. */
	enum { NR = 20000 };
	struct rnl__pinned *p = pinned_of(48 * GIB, 0);
	static void *bufs[NR];

	for (unsigned i = 0; i < NR; i++)
		bufs[i] = get(p, 2 * MIB);
	ck_assert_uint_eq(figures(p).used, NR * 2 * MIB);
	ck_assert_uint_lt(device.locked, 45 * GIB);
	put_all(p, bufs, NR);
	destroy(p);
}

TEST(extents_are_only_so_many_and_serve_any_size, .timeout_s = 60)
{
	enum { NR = 4096 };
	struct rnl__pinned *p = pinned_of(300 * GIB, 0);
	static void *bufs[NR];
	unsigned nr_calls;

	/* Each buffer has its own extent. */
	for (unsigned i = 0; i < NR; i++)
		bufs[i] = get(p, 40 * MIB);
	ck_assert_int_eq(try_get(p, 40 * MIB), -ENOMEM);
	ck_assert_int_eq(try_get(p, 300), -ENOMEM);
	nr_calls = device.nr_calls;
	ck_assert_int_eq(try_get(p, 300), -ENOMEM);
	ck_assert_uint_eq(device.nr_calls, nr_calls);
	put_all(p, bufs, NR);
	for (unsigned i = 0; i < NR; i++)
		memset(bufs[i] = get(p, 1000), 1, 1000);
	ck_assert_uint_eq(figures(p).used, NR * 1024);
	put_all(p, bufs, NR);
	destroy(p);
}

TEST(figures_say_what_is_locked_and_what_is_out, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(32 * MIB, 0);
	void *a, *b;

	ck_assert_uint_eq(figures(p).locked, 0);
	ck_assert_uint_eq(figures(p).used, 0);
	a = get(p, 100);
	ck_assert_uint_eq(figures(p).used, 256);
	ck_assert_uint_eq(figures(p).locked, 2 * MIB);
	b = get(p, 5 * MIB - 1);
	ck_assert_uint_eq(figures(p).used, 256 + 5 * MIB);
	ck_assert_uint_ge(figures(p).locked, 7 * MIB);
	put(p, a);
	ck_assert_uint_eq(figures(p).used, 5 * MIB);
	put(p, b);
	ck_assert_uint_eq(figures(p).used, 0);
	destroy(p);
}

TEST(destroy_frees_what_is_still_out, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(64 * MIB, 0);

	for (unsigned i = 0; i < 100; i++)
		(void)get(p, 1000 * i + 1);
	destroy(p);
	destroy(NULL);
}
