/* SPDX-License-Identifier: MIT */
/* How much time several spans cover together: what lies in several of them counts once. */
#include <stdint.h>

#include "gate.h"
#include "seed.h"
#include "spans.h"

/* Whatever their order; spans are sorted by the call, so each gets a copy. */
static void check_cover(const struct rnl__span *spans, size_t nr, uint64_t cover)
{
	struct rnl__span forward[16], backward[16];

	ck_assert_uint_le(nr, COUNT(forward));
	for (size_t i = 0; i < nr; i++) {
		forward[i] = spans[i];
		backward[i] = spans[nr - 1 - i];
	}
	ck_assert_uint_eq(rnl__spans_cover(forward, nr), cover);
	ck_assert_uint_eq(rnl__spans_cover(backward, nr), cover);
	/* Now they are sorted. */
	ck_assert_uint_eq(rnl__spans_cover(backward, nr), cover);
}

START_TEST(no_spans_cover_nothing)
{
	struct rnl__span one = { 5, 10 };

	ck_assert_uint_eq(rnl__spans_cover(&one, 0), 0);
	check_cover(&one, 1, 5);
}
END_TEST

START_TEST(spans_apart_add_up)
{
	check_cover((struct rnl__span[]){ { 0, 10 }, { 20, 25 }, { 100, 101 } }, 3, 16);
}
END_TEST

START_TEST(spans_that_touch_add_up)
{
	check_cover((struct rnl__span[]){ { 0, 10 }, { 10, 20 }, { 20, 21 } }, 3, 21);
}
END_TEST

START_TEST(what_lies_in_several_counts_once)
{
	/* Nested, with the same begin, with the same end, equal, across. */
	check_cover((struct rnl__span[]){ { 0, 100 }, { 10, 20 }, { 30, 40 } }, 3, 100);
	check_cover((struct rnl__span[]){ { 0, 100 }, { 0, 20 }, { 0, 50 } }, 3, 100);
	check_cover((struct rnl__span[]){ { 0, 100 }, { 50, 100 }, { 99, 100 } }, 3, 100);
	check_cover((struct rnl__span[]){ { 7, 9 }, { 7, 9 }, { 7, 9 }, { 7, 9 } }, 4, 2);
	check_cover((struct rnl__span[]){ { 0, 10 }, { 5, 15 }, { 12, 30 } }, 3, 30);
	/* One that ends within a long one does not shorten it. */
	check_cover((struct rnl__span[]){ { 0, 100 }, { 10, 20 }, { 90, 110 }, { 30, 31 } }, 4, 110);
}
END_TEST

START_TEST(empty_spans_cover_nothing)
{
	check_cover((struct rnl__span[]){ { 5, 5 }, { 5, 5 } }, 2, 0);
	check_cover((struct rnl__span[]){ { 0, 10 }, { 5, 5 }, { 10, 10 }, { 50, 50 } }, 4, 10);
	/* Nor do those that end before they begin. */
	check_cover((struct rnl__span[]){ { 0, 10 }, { 20, 15 }, { 30, 5 } }, 3, 10);
	check_cover((struct rnl__span[]){ { -3, -8 }, { 3, -8 } }, 2, 0);
}
END_TEST

START_TEST(times_may_be_negative)
{
	check_cover((struct rnl__span[]){ { -10, 10 } }, 1, 20);
	check_cover((struct rnl__span[]){ { -100, -90 }, { -95, -50 }, { -50, 0 }, { 0, 1 } }, 4, 101);
	check_cover((struct rnl__span[]){ { -5, -5 }, { -20, -10 } }, 2, 10);
}
END_TEST

START_TEST(the_whole_of_time_can_be_covered)
{
	check_cover((struct rnl__span[]){ { INT64_MIN, INT64_MIN + 1 } }, 1, 1);
	check_cover((struct rnl__span[]){ { INT64_MAX - 1, INT64_MAX } }, 1, 1);
	check_cover((struct rnl__span[]){ { INT64_MIN, 0 }, { 0, INT64_MAX } }, 2, UINT64_MAX);
	check_cover((struct rnl__span[]){ { INT64_MIN, INT64_MAX }, { -1, 1 } }, 2, UINT64_MAX);
}
END_TEST

/* ---- against a bitmap ------------------------------------------------------ */

enum { MOMENTS = 200, FROM = -MOMENTS / 2 };

static uint64_t covered(const struct rnl__span *spans, unsigned nr)
{
	bool in[MOMENTS] = { false };
	uint64_t sum = 0;

	for (unsigned i = 0; i < nr; i++) {
		for (int64_t t = spans[i].begin; t < spans[i].end; t++)
			in[t - FROM] = true;
	}
	for (unsigned i = 0; i < MOMENTS; i++)
		sum += in[i];
	return sum;
}

START_TEST(any_spans_cover_what_a_bitmap_says)
{
	enum { ROUNDS = 20000, NR = 40 };
	uint64_t random = draws_of(test_seed(), 0);

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned nr = draw(&random, NR), longest = 1 + draw(&random, MOMENTS);
		struct rnl__span spans[NR];
		uint64_t expected;

		for (unsigned i = 0; i < nr; i++) {
			unsigned begin = draw(&random, MOMENTS), nr_moments = draw(&random, longest);

			if (nr_moments > MOMENTS - begin)
				nr_moments = MOMENTS - begin;
			spans[i].begin = FROM + (int64_t)begin;
			spans[i].end = spans[i].begin + (int64_t)nr_moments;
		}
		expected = covered(spans, nr);
		ck_assert_msg(rnl__spans_cover(spans, nr) == expected,
			      "round %u: %u spans should cover %llu", round, nr,
			      (unsigned long long)expected);
		/* What is left is the same spans. */
		ck_assert_uint_eq(covered(spans, nr), expected);
		for (unsigned i = 1; i < nr; i++)
			ck_assert_int_le(spans[i - 1].begin, spans[i].begin);
	}
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("spans");
	TCase *tc = tcase_create("spans");

	tcase_add_test(tc, no_spans_cover_nothing);
	tcase_add_test(tc, spans_apart_add_up);
	tcase_add_test(tc, spans_that_touch_add_up);
	tcase_add_test(tc, what_lies_in_several_counts_once);
	tcase_add_test(tc, empty_spans_cover_nothing);
	tcase_add_test(tc, times_may_be_negative);
	tcase_add_test(tc, the_whole_of_time_can_be_covered);
	tcase_add_test(tc, any_spans_cover_what_a_bitmap_says);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
