/* SPDX-License-Identifier: MIT */
/*
 * Pinned buffers used by several threads: waits, look-ups of addresses, and searches.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#include "pinned_device.h"

/* ---- look-ups of addresses ------------------------------------------------- */

static const size_t offsets[] = OFFSETS;

TEST(what_holds_an_address_is_told_to_the_byte, .timeout_s = 60)
{
	for (unsigned i = 0; i < COUNT(offsets); i++) {
		struct rnl__pinned *p;
		void *bufs[50];
		unsigned nr;

		device.offset = offsets[i];
		p = pinned_of(20 * MIB, 0);
		ck_assert(!rnl__pinned_holds(p, NULL, 1));
		ck_assert(!rnl__pinned_holds(p, p, 1));
		for (unsigned round = 0; round < 3; round++) {
			nr = get_all(p, round == 1 ? 9 * MIB : MIB, bufs, COUNT(bufs));
			for (unsigned j = 0; j < NR_PIECES; j++) {
				struct piece *piece = &device.pieces[j];
				char *mem = piece->mem + device.offset;

				if (!piece->mem)
					continue;
				ck_assert(rnl__pinned_holds(p, mem, 1));
				ck_assert(rnl__pinned_holds(p, mem + piece->bytes / 2, 1));
				ck_assert(rnl__pinned_holds(p, mem + piece->bytes - 1, 1));
				/* There may be another region. */
				if (device.offset)
					ck_assert(!rnl__pinned_holds(p, mem - 1, 1));
			}
			for (unsigned j = 0; j < nr; j++)
				ck_assert(rnl__pinned_holds(p, bufs[j], 1));
			ck_assert(!rnl__pinned_holds(p, NULL, 1));
			ck_assert(!rnl__pinned_holds(p, (void *)UINTPTR_MAX, 1));
			ck_assert(!rnl__pinned_holds(p, &p, 1));
			put_all(p, bufs, nr);
		}
		destroy(p);
	}
}

static struct {
	struct rnl__pinned *p;
	char *held;		/* in a region that stays */
	char *between;		/* in no region, but near a region that is added and removed */
	_Atomic bool over;
	_Atomic uint64_t nr;
} looked;

static int look_all_the_time(void *arg)
{
	int ret = 0;

	(void)arg;
	halts_come();
	while (!looked.over) {
		if (!rnl__pinned_holds(looked.p, looked.held, 1) ||
		    rnl__pinned_holds(looked.p, looked.between, 1) ||
		    /* A program's static data may be here. */
		    rnl__pinned_holds(looked.p, (void *)(uintptr_t)(2 * MIB), 1))
			ret = -EPROTO;
		looked.nr++;
	}
	return ret;
}

TEST(what_holds_an_address_is_told_beside_regions_that_come_and_go, .timeout_s = 60)
{
	enum { NR_LOOKING = 2 };
	unsigned nr = 10000 / (unsigned)test_scale();
	uint64_t seed = test_seed(), random = draws_of(seed, 0);
	struct call calls[NR_LOOKING];

	looked.p = pinned_of(40 * MIB, 0);
	looked.held = get(looked.p, 300);
	device.arena = map(ARENA);
	/* That address is beyond a small region, and inside a large one. */
	looked.between = device.arena + ARENA_SMALL + MIB;
	for (unsigned i = 0; i < NR_LOOKING; i++)
		call_start(&calls[i], look_all_the_time, NULL);
	halts_come();
	halts_begin(NR_LOOKING + 1, seed);
	for (unsigned i = 0; i < nr || looked.nr < 1000; i++) {
		put(looked.p, get(looked.p, draw(&random, 2) ? 2 * MIB : 16 * MIB));
		/* When the device has no more memory, all free memory is given back to it. */
		device.persistent = true;
		device.fail_at = 1;
		device.error = -ENOMEM;
		ck_assert_int_eq(try_get(looked.p, 20 * MIB), -ENOMEM);
		device.persistent = false;
		device.fail_at = 0;
	}
	halts_end();
	looked.over = true;
	for (unsigned i = 0; i < NR_LOOKING; i++)
		ck_assert_int_eq(call_end(&calls[i]), 0);
	printf("%u calls of the device, %llu looks\n", device.nr_calls,
	       (unsigned long long)looked.nr);
	ck_assert_uint_gt(device.nr_calls, nr);
	destroy(looked.p);
	munmap(device.arena, ARENA);
}

/* ---- waiting --------------------------------------------------------------- */

struct wait {
	struct rnl__pinned *p;
	size_t bytes;
	void *buf;
};

static int get_waiting(void *arg)
{
	struct wait *w = arg;

	return rnl__pinned_get_wait(w->p, w->bytes, &w->buf, too_late());
}

TEST(a_wait_ends_when_somebody_puts, .timeout_s = 60)
{
	static const size_t sizes[] = { 1000, 1000, 100, 1700 * KIB };
	struct rnl__pinned *p = pinned_of(2 * MIB, 0);
	static void *bufs[10000];

	for (unsigned i = 0; i < COUNT(sizes); i++) {
		struct wait waits[3];
		struct call calls[3];
		unsigned nr = get_all(p, 1000, bufs, COUNT(bufs));
		/* All wait for one size.  The last size needs all memory. */
		unsigned nr_calls = sizes[i] > MIB ? 1 : 3;

		for (unsigned j = 0; j < nr_calls; j++) {
			waits[j] = (struct wait){ p, sizes[i], NULL };
			call_start(&calls[j], get_waiting, &waits[j]);
			ck_waits(calls[j].tid);
		}
		put_all(p, bufs, nr);
		for (unsigned j = 0; j < nr_calls; j++) {
			ck_assert_int_eq(call_end(&calls[j]), 0);
			put(p, waits[j].buf);
		}
	}
	destroy(p);
}

TEST(a_wait_gets_what_is_there_or_takes_its_time, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(2 * MIB, 0);
	void *buf = NULL, *other = NULL;
	double start;

	ck_assert_int_eq(rnl__pinned_get_wait(p, MIB, &buf, 0), 0);
	ck_assert_ptr_nonnull(buf);
	start = seconds_now();
	ck_assert_int_eq(rnl__pinned_get_wait(p, MIB, &other, 0), -ETIMEDOUT);
	ck_assert_int_eq(rnl__pinned_get_wait(p, MIB, &other, rnl__now()), -ETIMEDOUT);
	ck_assert_int_eq(rnl__pinned_get_wait(p, MIB, &other, in_ms(10)), -ETIMEDOUT);
	ck_assert_double_ge(seconds_now() - start, 0.010);
	put(p, buf);
	ck_assert_int_eq(rnl__pinned_get_wait(p, MIB, &buf, RNL__NEVER), 0);
	put(p, buf);
	destroy(p);
}

TEST(nobody_waits_for_what_never_fits, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(4 * MIB, 0);
	void *buf, *held = get(p, 1);

	ck_assert_int_eq(rnl__pinned_get_wait(p, 4 * MIB, &buf, RNL__NEVER), -ENOMEM);
	ck_assert_int_eq(rnl__pinned_get_wait(p, 5 * MIB, &buf, RNL__NEVER), -ENOMEM);
	ck_assert_int_eq(rnl__pinned_get_wait(p, 65 * GIB, &buf, RNL__NEVER), -ENOMEM);
	ck_assert_int_eq(rnl__pinned_get_wait(p, 3584 * KIB, &buf, 0), -ETIMEDOUT);
	put(p, held);
	ck_assert_int_eq(rnl__pinned_get_wait(p, 3584 * KIB, &buf, 0), 0);
	device.fail_at = 1;
	device.error = -EIO;
	put(p, buf);
	destroy(p);
	/* A get does not wait for a failed device. */
	p = pinned_of(4 * MIB, 0);
	ck_assert_int_eq(rnl__pinned_get_wait(p, MIB, &buf, RNL__NEVER), -EIO);
	destroy(p);
}

/* ---- concurrent use -------------------------------------------------------- */

static struct {
	struct rnl__pinned *p;
	unsigned nr;
	size_t sizes[4];
	unsigned nr_sizes;
} passed;

/* Gets and puts one buffer while other threads do the same; there is memory for only one. */
static int pass(void *arg)
{
	uint64_t random = draws_of(1, (uintptr_t)arg);
	struct wait w = { .p = passed.p };

	for (unsigned i = 0; i < passed.nr; i++) {
		w.bytes = passed.sizes[draw(&random, passed.nr_sizes)];
		if (get_waiting(&w))
			return -ETIMEDOUT;
		/* Plain accesses: no other thread has the buffer. */
		*(unsigned *)w.buf = i;
		if (!draw(&random, 8))
			sched_yield();
		if (*(unsigned *)w.buf != i)
			return -EPROTO;
		if (rnl__pinned_put(w.p, w.buf))
			return -EINVAL;
	}
	return 0;
}

static void pass_round(unsigned nr)
{
	struct call calls[4];

	passed.p = pinned_of(2 * MIB, 0);
	passed.nr = (unsigned)(nr / test_scale());
	for (unsigned i = 0; i < COUNT(calls); i++)
		call_start(&calls[i], pass, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < COUNT(calls); i++)
		ck_assert_int_eq(call_end(&calls[i]), 0);
	ck_assert_uint_eq(figures(passed.p).used, 0);
	destroy(passed.p);
}

TEST(nobody_waits_for_a_put_when_no_buffer_is_out, .timeout_s = 60)
{
	struct rnl__pinned *p = pinned_of(20 * MIB, 0);
	void *buf = p;

	/* The limit would allow it, but the device has no memory. */
	device.fail_at = device.nr_calls + 1;
	device.persistent = true;
	device.error = -ENOMEM;
	ck_assert_int_eq(rnl__pinned_get_wait(p, MIB, &buf, RNL__NEVER), -ENOMEM);
	ck_assert_ptr_eq(buf, p);
	device.fail_at = 0;
	ck_assert_int_eq(rnl__pinned_get_wait(p, MIB, &buf, RNL__NEVER), 0);
	ck_assert_int_eq(rnl__pinned_put(p, buf), 0);
	destroy(p);
}

TEST(no_put_is_missed_by_those_who_wait, .timeout_s = 60)
{
	passed.nr_sizes = 1;
	passed.sizes[0] = MIB;
	pass_round(100000);
	/* Each size takes the memory of the other sizes. */
	passed.nr_sizes = 3;
	passed.sizes[1] = 1200 * KIB;
	passed.sizes[2] = 1600 * KIB;
	pass_round(20000);
}

static struct {
	struct rnl__pinned *p;
	_Atomic bool over;
} tried;

/* Tries a size that is never available, so all other sizes are searched. */
static int ask_for_too_much(void *arg)
{
	(void)arg;
	while (!tried.over) {
		if (try_get(tried.p, 1700 * KIB) != -ENOMEM)
			return -EPROTO;
	}
	return 0;
}

TEST(who_comes_beside_a_look_at_all_finds_his_own, .timeout_s = 60)
{
	static void *bufs[10000];
	struct call calls[2];
	unsigned nr;

	tried.p = pinned_of(2 * MIB, 0);
	/* One in sixteen buffers of each extent stays out. */
	nr = get_all(tried.p, 1000, bufs, COUNT(bufs));
	for (unsigned i = 0; i < nr; i++) {
		if (i % 16)
			put(tried.p, bufs[i]);
	}
	for (unsigned i = 0; i < COUNT(calls); i++)
		call_start(&calls[i], ask_for_too_much, NULL);
	for (unsigned i = 0; i < 300000 / (unsigned)test_scale(); i++) {
		void *buf;
		int ret = rnl__pinned_get(tried.p, 1000, &buf);

		if (ret || rnl__pinned_put(tried.p, buf))
			ck_abort_msg("round %u: %d", i, ret);
	}
	tried.over = true;
	for (unsigned i = 0; i < COUNT(calls); i++)
		ck_assert_int_eq(call_end(&calls[i]), 0);
	destroy(tried.p);
}
