/* SPDX-License-Identifier: MIT */
/* Known spans have known figures. */
#include <stdlib.h>

#include "overlap.h"
#include "suite.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct rnl__overlap *found;

static void set_up(void)
{
	found = malloc(sizeof(*found));
	ck_assert_ptr_nonnull(found);
}

static void tear_down(void)
{
	free(found);
}

static void find(const struct rnl__overlap_span *spans, size_t nr)
{
	ck_assert_int_eq(rnl__overlap_find(spans, nr, found), 0);
}

START_TEST(test_nothing_has_no_overlap)
{
	find(NULL, 0);
	ck_assert_uint_eq(found->nr_jobs, 0);
	ck_assert_uint_eq(found->end, 0);
	ck_assert_uint_eq(found->gaps[0].end, 0);
	ck_assert_int_eq(rnl__overlap_apart(found, 0, 1), 0);
}
END_TEST

START_TEST(test_one_job_is_busy_and_no_more)
{
	static const struct rnl__overlap_span spans[] = { { 100, 350, 7, RNL__OVERLAP_JOB } };

	find(spans, 1);
	ck_assert_uint_eq(found->begin, 100);
	ck_assert_uint_eq(found->end, 350);
	ck_assert_uint_eq(found->sum_ns, 250);
	ck_assert_uint_eq(found->kind_ns[RNL__OVERLAP_JOB], 250);
	ck_assert_uint_eq(found->at_once_ns[0], 0);
	ck_assert_uint_eq(found->at_once_ns[1], 250);
	ck_assert_uint_eq(found->workers, 1u << 7);
	ck_assert_uint_eq(found->worker_ns[7], 250);
}
END_TEST

/*
 *	0    10   20   30   40   50   60
 *	0: in---kernel----out--
 *	1:      in---kernel----out--          (from 10)
 *	2:                          kernel--- (from 50)
 */
START_TEST(test_kinds_are_counted_where_they_meet)
{
	static const struct rnl__overlap_span spans[] = {
		{ 0, 40, 0, RNL__OVERLAP_JOB },
		{ 0, 10, 0, RNL__OVERLAP_IN },
		{ 10, 30, 0, RNL__OVERLAP_KERNEL },
		{ 30, 40, 0, RNL__OVERLAP_OUT },
		{ 10, 45, 1, RNL__OVERLAP_JOB },
		{ 10, 35, 1, RNL__OVERLAP_IN },
		{ 35, 40, 1, RNL__OVERLAP_KERNEL },
		{ 40, 45, 1, RNL__OVERLAP_OUT },
		{ 50, 60, 2, RNL__OVERLAP_JOB },
		{ 50, 60, 2, RNL__OVERLAP_KERNEL },
	};

	find(spans, COUNT(spans));
	ck_assert_uint_eq(found->nr_jobs, 3);
	ck_assert_uint_eq(found->sum_ns, 40 + 35 + 10);
	ck_assert_uint_eq(found->at_once_ns[0], 5);
	ck_assert_uint_eq(found->at_once_ns[1], 10 + 5 + 10);
	ck_assert_uint_eq(found->at_once_ns[2], 30);
	ck_assert_uint_eq(found->kind_ns[RNL__OVERLAP_JOB], 55);
	ck_assert_uint_eq(found->kind_ns[RNL__OVERLAP_IN], 35);
	ck_assert_uint_eq(found->kind_ns[RNL__OVERLAP_KERNEL], 20 + 5 + 10);
	ck_assert_uint_eq(found->kind_ns[RNL__OVERLAP_OUT], 15);
	ck_assert_uint_eq(found->in_kernel_ns, 20);
	ck_assert_uint_eq(found->copies_ns, 5);
	ck_assert_uint_eq(found->out_kernel_ns, 5);
	ck_assert_uint_eq(found->all_ns, 0);
	ck_assert_uint_eq(found->together_ns[0][1], 30);
	ck_assert_uint_eq(found->together_ns[0][2], 0);
	ck_assert_uint_eq(found->gaps[0].begin, 45);
	ck_assert_uint_eq(found->gaps[0].end, 50);
	ck_assert_uint_eq(found->gaps[1].end, 0);
}
END_TEST

START_TEST(test_three_at_once_are_all_three)
{
	static const struct rnl__overlap_span spans[] = {
		{ 0, 30, 0, RNL__OVERLAP_IN },
		{ 10, 25, 1, RNL__OVERLAP_KERNEL },
		{ 20, 40, 2, RNL__OVERLAP_OUT },
	};

	find(spans, COUNT(spans));
	ck_assert_uint_eq(found->all_ns, 5);
	ck_assert_uint_eq(found->in_kernel_ns, 15);
	ck_assert_uint_eq(found->copies_ns, 10);
	ck_assert_uint_eq(found->out_kernel_ns, 5);
	ck_assert_uint_eq(found->nr_jobs, 0);
}
END_TEST

START_TEST(test_what_only_touches_does_not_overlap)
{
	static const struct rnl__overlap_span spans[] = {
		{ 20, 30, 1, RNL__OVERLAP_JOB }, { 0, 10, 0, RNL__OVERLAP_JOB },
		{ 10, 20, 1, RNL__OVERLAP_JOB }, { 30, 40, 0, RNL__OVERLAP_JOB },
	};

	find(spans, COUNT(spans));
	ck_assert_uint_eq(found->at_once_ns[1], 40);
	ck_assert_uint_eq(found->at_once_ns[2], 0);
	ck_assert_uint_eq(found->gaps[0].end, 0);
	ck_assert_int_eq(rnl__overlap_apart(found, 0, 1), 1);
	ck_assert_int_eq(rnl__overlap_apart(found, 1, 0), 1);
	ck_assert_int_eq(rnl__overlap_apart(found, 0, 0), 0);
	ck_assert_int_eq(rnl__overlap_apart(found, 0, 2), 0);
}
END_TEST

START_TEST(test_workers_at_different_times_are_not_apart)
{
	static const struct rnl__overlap_span spans[] = {
		{ 0, 10, 0, RNL__OVERLAP_JOB }, { 20, 30, 0, RNL__OVERLAP_JOB },
		{ 40, 50, 1, RNL__OVERLAP_JOB }, { 60, 70, 1, RNL__OVERLAP_JOB },
	};

	find(spans, COUNT(spans));
	ck_assert_int_eq(rnl__overlap_apart(found, 0, 1), 0);
}
END_TEST

START_TEST(test_the_longest_gaps_come_first)
{
	struct rnl__overlap_span spans[8];
	static const uint64_t begins[8] = { 0, 13, 20, 40, 48, 60, 90, 95 };

	for (unsigned i = 0; i < 8; i++)
		spans[i] = (struct rnl__overlap_span){ begins[i], begins[i] + 2, i % 3,
						       RNL__OVERLAP_JOB };
	find(spans, 8);
	ck_assert_uint_eq(found->gaps[0].begin, 62);
	ck_assert_uint_eq(found->gaps[1].begin, 22);
	ck_assert_uint_eq(found->gaps[2].begin, 2);
	ck_assert_uint_eq(found->gaps[3].begin, 50);
	ck_assert_uint_eq(found->gaps[4].begin, 42);
	for (int i = 0; i + 1 < RNL__OVERLAP_GAPS; i++)
		ck_assert_uint_ge(found->gaps[i].end - found->gaps[i].begin,
				  found->gaps[i + 1].end - found->gaps[i + 1].begin);
}
END_TEST

START_TEST(test_more_than_the_depth_is_counted_as_the_last)
{
	struct rnl__overlap_span spans[RNL_WORKERS_MAX];

	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++)
		spans[i] = (struct rnl__overlap_span){ i, 1000, i, RNL__OVERLAP_JOB };
	find(spans, RNL_WORKERS_MAX);
	ck_assert_uint_eq(found->workers, UINT64_MAX);
	ck_assert_uint_eq(found->at_once_ns[RNL_OVERLAP_DEPTH - 1], 1);
	ck_assert_uint_eq(found->at_once_ns[RNL_OVERLAP_DEPTH], 1000 - (RNL_OVERLAP_DEPTH - 1));
	ck_assert_uint_eq(found->together_ns[62][63], 1000 - 63);
}
END_TEST

START_TEST(test_what_makes_no_sense_counts_for_nothing)
{
	static const struct rnl__overlap_span spans[] = {
		{ 50, 10, 0, RNL__OVERLAP_JOB }, { 0, 10, RNL_WORKERS_MAX, RNL__OVERLAP_JOB },
		{ 0, 10, 0, RNL__NR_OVERLAPS }, { 30, 30, 0, RNL__OVERLAP_JOB },
		{ 20, 30, 0, RNL__OVERLAP_JOB },
	};

	find(spans, COUNT(spans));
	ck_assert_uint_eq(found->sum_ns, 10);
	ck_assert_uint_eq(found->begin, 20);
	ck_assert_uint_eq(found->end, 30);
	ck_assert_uint_eq(found->nr_jobs, 2);
}
END_TEST

START_TEST(test_a_worker_that_overlaps_itself_counts_once)
{
	static const struct rnl__overlap_span spans[] = {
		{ 0, 20, 3, RNL__OVERLAP_JOB }, { 10, 30, 3, RNL__OVERLAP_JOB },
	};

	find(spans, COUNT(spans));
	ck_assert_uint_eq(found->at_once_ns[1], 30);
	ck_assert_uint_eq(found->at_once_ns[2], 0);
	ck_assert_uint_eq(found->worker_ns[3], 30);
	ck_assert_uint_eq(found->sum_ns, 40);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("unit_overlap");
	TCase *tc = tcase_create("overlap");

	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, test_nothing_has_no_overlap);
	tcase_add_test(tc, test_one_job_is_busy_and_no_more);
	tcase_add_test(tc, test_kinds_are_counted_where_they_meet);
	tcase_add_test(tc, test_three_at_once_are_all_three);
	tcase_add_test(tc, test_what_only_touches_does_not_overlap);
	tcase_add_test(tc, test_workers_at_different_times_are_not_apart);
	tcase_add_test(tc, test_the_longest_gaps_come_first);
	tcase_add_test(tc, test_more_than_the_depth_is_counted_as_the_last);
	tcase_add_test(tc, test_what_makes_no_sense_counts_for_nothing);
	tcase_add_test(tc, test_a_worker_that_overlaps_itself_counts_once);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
