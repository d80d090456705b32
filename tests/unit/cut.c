/* SPDX-License-Identifier: MIT */
/* Large copies that are cut: which pieces are issued, and which stream waits for which. */
#include <errno.h>
#include <string.h>

#include "memory/cut.h"
#include "suite.h"
#include "sys/thread_state.h"

#define PIECE ((size_t)RNL__CUT_BYTES)

/* A device whose operations are noted. */
struct noted {
	const struct rnl__stream *stream;
	char op;			/* w(ait), c(opy), r(ecord) */
	struct rnl__copy copy;
};
static struct noted list[64];
static unsigned nr, nr_events, fails_at;	/* fails_at: the n-th operation; 0: none */
static struct rnl__event event;

static int note(char op, const struct rnl__copy *copy)
{
	ck_assert_uint_lt(nr, COUNT(list));
	list[nr] = (struct noted){ rnl__thread.stream, op, copy ? *copy : (struct rnl__copy){ 0 } };
	return ++nr == fails_at ? -EIO : 0;
}

static int note_copy(const struct rnl__copy *copy)
{
	return note('c', copy);
}

static int note_wait(struct rnl__event *waited)
{
	ck_assert_ptr_eq(waited, &event);
	return note('w', NULL);
}

static int note_record(struct rnl__event *recorded)
{
	ck_assert_ptr_eq(recorded, &event);
	return note('r', NULL);
}

static int create(struct rnl__device *device, bool timed, struct rnl__event **eventp)
{
	(void)device;
	ck_assert(!timed);
	if (fails_at == UINT32_MAX)
		return -ENOMEM;
	nr_events++;
	*eventp = &event;
	return 0;
}

static void destroy(struct rnl__event *destroyed)
{
	nr_events -= destroyed != NULL;
}

static const struct rnl__device_ops ops = {
	.copy = note_copy, .event_wait = note_wait, .event_record = note_record, .event_create = create,
	.event_destroy = destroy,
};
static struct rnl__device device = { .ops = &ops };
static struct rnl__stream streams[2] = { { .device = &device }, { .device = &device } };
static struct rnl__cut cut;

static int copy_on(unsigned stream, size_t bytes)
{
	static char from[1], to[1];

	rnl__thread.stream = &streams[stream];
	return rnl__cut_copy(&cut.in, &(struct rnl__copy){ .dst = to, .src = from, .width = bytes, .rows = 1 });
}

/* Checks the operations since the last check: "0ccr" are two copies and a record on stream 0. */
static void check_noted(const char *should)
{
	char is[2 * COUNT(list) + 1] = "", *to = is;

	for (unsigned i = 0; i < nr; i++) {
		if (!i || list[i].stream != list[i - 1].stream)
			*to++ = (char)('0' + (list[i].stream - streams));
		*to++ = list[i].op;
	}
	ck_assert_str_eq(is, should);
	nr = 0;
}

TEST(a_copy_waits_for_the_last_one_of_another_stream)
{
	rnl__cut_init(&cut);
	ck_assert_int_eq(copy_on(0, 3 * PIECE), 0);
	check_noted("0wcccr");
	ck_assert_int_eq(copy_on(0, 2 * PIECE + 1), 0);
	check_noted("0cccr");
	ck_assert_int_eq(copy_on(1, 2 * PIECE), 0);
	check_noted("1wccr");
	ck_assert_int_eq(copy_on(0, 2 * PIECE), 0);
	check_noted("0wccr");
	ck_assert_uint_eq(nr_events, 1);
	rnl__cut_fini(&cut, &device);
	ck_assert_uint_eq(nr_events, 0);
}

TEST(after_a_failure_the_next_copy_waits_for_what_was_issued)
{
	rnl__cut_init(&cut);
	fails_at = UINT32_MAX;
	ck_assert_int_eq(copy_on(0, 3 * PIECE), -ENOMEM);
	check_noted("");
	fails_at = 3;
	ck_assert_int_eq(copy_on(0, 3 * PIECE), -EIO);
	check_noted("0wccr");
	ck_assert_int_eq(copy_on(1, 3 * PIECE), -EIO);
	check_noted("1wccr");
	fails_at = 5;
	ck_assert_int_eq(copy_on(0, 3 * PIECE), -EIO);
	check_noted("0wcccr");
	fails_at = 1;
	ck_assert_int_eq(copy_on(1, 3 * PIECE), -EIO);
	check_noted("1w");
	fails_at = 0;
	ck_assert_int_eq(copy_on(1, 3 * PIECE), 0);
	check_noted("1wcccr");
	rnl__cut_fini(&cut, &device);
}

/* ---- pieces ---------------------------------------------------------------- */

#define MAX 1000u

struct painted {
	unsigned pieces;
};

static int paint_piece(const struct rnl__copy *c, void *arg)
{
	struct painted *p = arg;

	ck_assert_uint_le(c->width * c->rows, MAX);
	ck_assert_uint_gt(c->width * c->rows, 0);
	for (size_t row = 0; row < c->rows; row++)
		memcpy((char *)c->dst + row * c->dst_pitch, (const char *)c->src + row * c->src_pitch, c->width);
	p->pieces++;
	return 0;
}

static const struct {
	size_t width, rows, dst_pitch, src_pitch;
	unsigned pieces;
} shapes[] = {
	{ 1, 1, 0, 0, 1 }, { MAX, 1, 0, 0, 1 }, { MAX + 1, 1, 0, 0, 2 }, { 10 * MAX - 1, 1, 0, 0, 10 },
	{ 100, 25, 110, 103, 3 }, { 333, 7, 333, 400, 3 }, { MAX, 4, MAX + 8, MAX, 4 },
	{ MAX + 1, 4, MAX + 1, MAX + 9, 8 },
};

TEST(pieces_are_the_whole_copy, .loops = COUNT(shapes))
{
	static unsigned char from[16 * MAX], to[16 * MAX], should[16 * MAX];
	struct painted p = { 0 };
	const struct rnl__copy c = {
		.dst = to, .src = from, .dst_pitch = shapes[_i].dst_pitch, .src_pitch = shapes[_i].src_pitch,
		.width = shapes[_i].width, .rows = shapes[_i].rows,
	};

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 2654435761u >> 24);
	for (size_t row = 0; row < c.rows; row++)
		memcpy(should + row * c.dst_pitch, from + row * c.src_pitch, c.width);
	ck_assert_int_eq(rnl__cut_each(&c, MAX, paint_piece, &p), 0);
	ck_assert_uint_eq(p.pieces, shapes[_i].pieces);
	ck_assert_int_eq(memcmp(to, should, sizeof(to)), 0);
}
