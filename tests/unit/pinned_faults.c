/* SPDX-License-Identifier: MIT */
/* Pinned buffers of a failing device, and wrong puts. */
#include "pinned_device.h"

/* ---- a device that fails --------------------------------------------------- */

static void use(struct rnl__pinned *p, unsigned *nr_got)
{
	static const size_t sizes[] = { 300, MIB, 40 * KIB, 5 * MIB, 2000, 2 * MIB, 9 * MIB };
	void *bufs[COUNT(sizes)];
	unsigned nr = 0;

	for (unsigned i = 0; i < COUNT(sizes); i++) {
		int ret = rnl__pinned_get(p, sizes[i], &bufs[nr]);

		ck_assert(!ret || ret == device.error);
		if (!ret)
			memset(bufs[nr++], 1, sizes[i]);
	}
	*nr_got = nr;
	put_all(p, bufs, nr);
}

TEST(what_the_device_refuses_harms_nothing, .timeout_s = 60)
{
	static const int errors[] = { -ENOMEM, -EIO };
	unsigned got;

	for (unsigned e = 0; e < COUNT(errors); e++) {
		for (unsigned nth = 1, refused = true; refused; nth++) {
			struct rnl__pinned *p = pinned_of(24 * MIB, 0);

			device.error = errors[e];
			device.fail_at = nth;
			use(p, &got);
			refused = !device.fail_at;
			device.fail_at = 0;
			/* One -ENOMEM of the device is compensated, or costs one buffer. */
			ck_assert_uint_ge(got, refused ? 6 : 7);
			use(p, &got);
			ck_assert_uint_eq(got, 7);
			ck_assert_uint_eq(figures(p).used, 0);
			destroy(p);
			ck_assert(nth < 100);
		}
	}
}

TEST(a_device_that_has_no_more_memory_is_lived_with, .timeout_s = 60)
{
	unsigned got;

	device.persistent = true;
	device.error = -ENOMEM;
	for (unsigned nth = 1; nth < 10; nth++) {
		struct rnl__pinned *p = pinned_of(48 * MIB, 0);

		device.fail_at = nth;
		use(p, &got);
		ck_assert_uint_ge(got, nth > 1 ? 3 : 0);
		/* Free memory moves to the wanted size. */
		if (nth > 1)
			put(p, get(p, 1700 * KIB));
		device.fail_at = 0;
		use(p, &got);
		ck_assert_uint_eq(got, 7);
		destroy(p);
	}
}

TEST(a_preload_that_fails_leaves_nothing, .timeout_s = 60)
{
	static const int errors[] = { -ENOMEM, -EIO };
	struct rnl__pinned *p;

	device.base.ops = &device_ops;
	device.max = 8 * MIB;
	for (unsigned e = 0; e < COUNT(errors); e++) {
		device.fail_at = 1;
		device.error = errors[e];
		ck_assert_int_eq(rnl__pinned_create(&p, &device.base, 8 * MIB, MIB), errors[e]);
		ck_assert_uint_eq(device.nr_living, 0);
	}
}

/* ---- wrong puts ------------------------------------------------------------ */

static int put_again(struct rnl__pinned *p, void *buf)
{
	struct rnl__pinned_figures before, after;
	int ret;

	rnl__pinned_figures(p, &before);
	ret = rnl__pinned_put(p, buf);
	rnl__pinned_figures(p, &after);
	ck_assert_uint_eq(after.used, before.used);
	return ret;
}

TEST(a_put_of_what_is_no_buffer_is_refused, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(8 * MIB, 0), *other = pinned_of(8 * MIB, 0);
	char *a = get(p, 1000), *b = get(p, 1000), *foreign = get(other, 1000);

	memset(a, 0, 1000);
	for (size_t i = 1; i < 1000; i++)
		ck_assert_int_eq(put_again(p, a + i), -EINVAL);
	ck_assert_int_eq(put_again(p, a - 64), -EINVAL);
	ck_assert_int_eq(put_again(p, foreign), -EINVAL);
	ck_assert_int_eq(put_again(p, NULL), -EINVAL);
	ck_assert_int_eq(put_again(p, &p), -EINVAL);
	ck_assert_int_eq(put_again(p, (void *)(uintptr_t)64), -EINVAL);
	ck_assert_int_eq(put_again(p, (void *)UINTPTR_MAX), -EINVAL);
	put(p, a);
	ck_assert_int_eq(put_again(p, a), -EINVAL);
	put(p, b);
	ck_assert_int_eq(put_again(p, a), -EINVAL);
	ck_assert_int_eq(put_again(p, b), -EINVAL);
	/* No buffer is given twice. */
	a = get(p, 1000);
	b = get(p, 1000);
	ck_assert_ptr_ne(a, b);
	ck_assert_ptr_ne(get(p, 1000), a);
	put(other, foreign);
	rnl__pinned_destroy(other);
	destroy(p);
}

TEST(a_put_of_a_former_smaller_buffer_is_refused, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(2 * MIB, 0);
	static void *bufs[10000];
	unsigned nr = get_all(p, 400, bufs, COUNT(bufs));
	char *large;

	put_all(p, bufs, nr);
	large = get(p, 1700 * KIB);
	/* The headers of the old buffers are inside the large one now. */
	for (unsigned i = 0; i < nr; i++)
		ck_assert_int_eq(rnl__pinned_put(p, bufs[i]), -EINVAL);
	put(p, large);
	destroy(p);
}

TEST(an_overrun_is_noticed, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(8 * MIB, 0);
	char *bufs[20], saved;
	unsigned last = 0;

	for (unsigned i = 0; i < 20; i++) {
		bufs[i] = get(p, 256);
		last = bufs[i] > bufs[last] ? i : last;
	}
	for (unsigned i = 0; i < 20; i++) {
		char *end = bufs[i] + 256;

		if (i == last)
			continue;
		saved = *end;
		*end ^= 1;
		ck_assert_int_eq(put_again(p, end + 64), -EINVAL);
		*end = saved;
		/* A wrong byte before the buffer is detected, too. */
		saved = bufs[i][-1];
		bufs[i][-1] ^= 1;
		ck_assert_int_eq(put_again(p, bufs[i]), -EINVAL);
		bufs[i][-1] = saved;
	}
	/* The failed puts changed nothing. */
	for (unsigned i = 0; i < 20; i++)
		put(p, bufs[i]);
	destroy(p);
}
