/* SPDX-License-Identifier: MIT */
/* Large copies that are cut: their pieces, one at a time, and whose turn is next. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "gate.h"
#include "memory/cut.h"
#include "suite.h"
#include "sys/clock.h"
#include "sys/thread_state.h"

#define PIECE ((size_t)RNL__CUT_BYTES)

/* ---- a device that notes what it does ----------------------------------------- */

static char list[256];			/* a letter for each piece: its thread's */
static _Atomic unsigned nr, under_way, most;
static struct gate *held;		/* where the wait for piece `hold_at` stays; NULL: none */
static unsigned hold_at, fail_at;	/* pieces, from 1; 0: none */
static __thread char letter;
static __thread bool has_piece;
static __thread unsigned drained;	/* waits for the stream, before the first piece */

static int device_copy(const struct rnl__copy *copy)
{
	const unsigned now = atomic_fetch_add(&under_way, 1) + 1;

	ck_assert(drained == 1 && !has_piece && copy->width * copy->rows <= PIECE);
	if (now > most)
		most = now;
	list[nr++] = letter;
	has_piece = true;
	return 0;
}

static int device_wait(uint64_t deadline)
{
	if (deadline != RNL__NEVER) {
		drained++;
		return letter == '!' ? -EIO : 0;
	}
	ck_assert(has_piece);
	if (held && nr == hold_at)
		gate_wait(held);
	for (unsigned i = 0; i < 3; i++)
		sched_yield();	/* the others may do wrong */
	has_piece = false;
	atomic_fetch_sub(&under_way, 1);
	return nr == fail_at ? -EIO : 0;
}

static const struct rnl__device_ops ops = { .copy = device_copy, .wait = device_wait };
static struct rnl__device device = { .ops = &ops };
static struct rnl__cut cut;

struct copier {
	pthread_t thread;
	char letter;
	unsigned rank, pieces;
	_Atomic pid_t tid;
	int ret;
};

static void *copy_main(void *arg)
{
	static char from[1], to[1];
	struct copier *c = arg;
	struct rnl__stream stream = { .device = &device };

	letter = c->letter;
	rnl__thread.stream = &stream;
	c->tid = own_tid();
	c->ret = rnl__cut_copy(&cut.in, c->rank, &(struct rnl__copy){
		.dst = to, .src = from, .width = c->pieces * PIECE, .rows = 1,
	});
	rnl__thread.stream = NULL;
	return NULL;
}

static void begin(struct copier *c, char letter_of, unsigned rank, unsigned pieces)
{
	*c = (struct copier){ .letter = letter_of, .rank = rank, .pieces = pieces };
	must(pthread_create(&c->thread, NULL, copy_main, c));
}

static int end(struct copier *c)
{
	pthread_join(c->thread, NULL);
	return c->ret;
}

TEST(one_piece_is_under_way, .timeout_s = 60)
{
	enum { THREADS = 6 };
	struct copier copiers[THREADS];

	rnl__cut_init(&cut);
	for (unsigned i = 0; i < THREADS; i++)
		begin(&copiers[i], (char)('a' + i), i % 3, 20);
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(end(&copiers[i]), 0);
	ck_assert_uint_eq(nr, THREADS * 20);
	ck_assert_uint_eq(most, 1);
	ck_assert(!cut.in.taken && !cut.in.first);
	rnl__cut_fini(&cut);
}

/* While the first thread's second piece is under way, others come, one after the other. */
static void check_order(unsigned pieces, const char *letters, const unsigned *ranks, const char *should)
{
	struct gate gate = GATE_INIT;
	const unsigned others = (unsigned)strlen(letters);
	struct copier first, other[4];

	rnl__cut_init(&cut);
	held = &gate;
	hold_at = 2;
	begin(&first, 'x', 5, pieces);
	gate_await(&gate, 1);
	for (unsigned i = 0; i < others; i++) {
		begin(&other[i], letters[i], ranks[i], 2);
		ck_waits(other[i].tid);
	}
	gate_open(&gate);
	ck_assert_int_eq(end(&first), 0);
	for (unsigned i = 0; i < others; i++)
		ck_assert_int_eq(end(&other[i]), 0);
	ck_assert_str_eq(list, should);
	rnl__cut_fini(&cut);
}

TEST(those_of_a_smaller_rank_go_first)
{
	static const unsigned ranks[] = { 7, 5, 4, 4 };

	check_order(4, "abcd", ranks, "xx" "ccdd" "xx" "bb" "aa");
}

TEST(a_long_copy_lets_its_equals_pass)
{
	static const unsigned ranks[] = { 5, 6 };

	check_order(RNL__CUT_PIECES + 2, "ab", ranks, "xxxxxxxxxxxxxxxx" "aa" "xx" "bb");
}

TEST(a_failure_ends_a_copy_and_not_the_turns)
{
	struct copier c;

	rnl__cut_init(&cut);
	fail_at = 2;
	begin(&c, 'a', 1, 4);
	ck_assert_int_eq(end(&c), -EIO);
	begin(&c, '!', 1, 4);	/* its stream has failed */
	ck_assert_int_eq(end(&c), -EIO);
	begin(&c, 'b', 1, 3);
	ck_assert_int_eq(end(&c), 0);
	ck_assert_str_eq(list, "aabbb");
	rnl__cut_fini(&cut);
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
