/* SPDX-License-Identifier: MIT */
/*
 * Known spans give known figures: those of the tool's report, and the time that the spans of a
 * map's stage cover.
 */
#include <stdint.h>

#include <runnel/trace.h>

#include "await.h"
#include "map/map.h"
#include "seed.h"
#include "tool/overlap.h"

static struct overlap_figures found;

static void find(const struct overlap_span *spans, size_t nr)
{
	must(overlap_find(spans, nr, &found));
}

#define FIND(...) \
	do { \
		static const struct overlap_span spans_[] = { __VA_ARGS__ }; \
		find(spans_, COUNT(spans_)); \
	} while (0)

#define ck_found(member, value) ck_assert_uint_eq(found.member, value)

static bool apart(unsigned i, unsigned j)
{
	ck_assert_uint_eq(found.apart[i] >> j & 1, found.apart[j] >> i & 1);
	return found.apart[i] >> j & 1;
}

TEST(without_spans_all_figures_are_0)
{
	find(NULL, 0);
	ck_found(nr_jobs, 0);
	ck_found(elapsed_ns, 0);
	ck_found(gaps[0].end_ns, 0);
	ck_assert_int_eq(apart(0, 1), 0);
}

TEST(one_job_keeps_the_device_busy_and_overlaps_nothing)
{
	FIND({ 100, 350, 7, OVERLAP_JOB });
	ck_found(elapsed_ns, 250);
	ck_found(sum_ns, 250);
	ck_found(busy_ns, 250);
	ck_found(at_once_ns[0], 0);
	ck_found(at_once_ns[1], 250);
	ck_found(workers, 1u << 7);
	ck_found(worker_ns[7], 250);
}

/*
 *	0    10   20   30   40   50   60
 *	0: in---kernel----out--
 *	1:      in---kernel----out--          (from 10)
 *	2:                          kernel--- (from 50)
 */
TEST(time_with_two_kinds_of_work_at_once_is_counted)
{
	FIND({ 0, 40, 0, OVERLAP_JOB },
	     { 0, 10, 0, OVERLAP_IN },
	     { 10, 30, 0, OVERLAP_KERNEL },
	     { 30, 40, 0, OVERLAP_OUT },
	     { 10, 45, 1, OVERLAP_JOB },
	     { 10, 35, 1, OVERLAP_IN },
	     { 35, 40, 1, OVERLAP_KERNEL },
	     { 40, 45, 1, OVERLAP_OUT },
	     { 50, 60, 2, OVERLAP_JOB },
	     { 50, 60, 2, OVERLAP_KERNEL });
	ck_found(nr_jobs, 3);
	ck_found(sum_ns, 40 + 35 + 10);
	ck_found(at_once_ns[0], 5);
	ck_found(at_once_ns[1], 10 + 5 + 10);
	ck_found(at_once_ns[2], 30);
	ck_found(busy_ns, 55);
	ck_found(in_ns, 35);
	ck_found(kernel_ns, 20 + 5 + 10);
	ck_found(out_ns, 15);
	ck_found(in_kernel_ns, 20);
	ck_found(copies_ns, 5);
	ck_found(out_kernel_ns, 5);
	ck_found(all_ns, 0);
	ck_found(gaps[0].begin_ns, 45);
	ck_found(gaps[0].end_ns, 50);
	ck_found(gaps[1].end_ns, 0);
}

TEST(time_with_all_kinds_at_once_counts_for_all_and_for_each_pair)
{
	FIND({ 0, 30, 0, OVERLAP_IN },
	     { 10, 25, 1, OVERLAP_KERNEL },
	     { 20, 40, 2, OVERLAP_OUT });
	ck_found(all_ns, 5);
	ck_found(in_kernel_ns, 15);
	ck_found(copies_ns, 10);
	ck_found(out_kernel_ns, 5);
	ck_found(nr_jobs, 0);
}

TEST(spans_that_only_touch_do_not_overlap)
{
	FIND({ 20, 30, 1, OVERLAP_JOB }, { 0, 10, 0, OVERLAP_JOB },
	     { 10, 20, 1, OVERLAP_JOB }, { 30, 40, 0, OVERLAP_JOB });
	ck_found(at_once_ns[1], 40);
	ck_found(at_once_ns[2], 0);
	ck_found(gaps[0].end_ns, 0);
	ck_assert_int_eq(apart(0, 1), 1);
	ck_assert_int_eq(apart(1, 0), 1);
	ck_assert_int_eq(apart(0, 0), 0);
	ck_assert_int_eq(apart(0, 2), 0);
}

TEST(workers_are_apart_only_if_their_periods_overlap)
{
	FIND({ 0, 10, 0, OVERLAP_JOB }, { 20, 30, 0, OVERLAP_JOB },
	     { 40, 50, 1, OVERLAP_JOB }, { 60, 70, 1, OVERLAP_JOB });
	ck_assert_int_eq(apart(0, 1), 0);
}

TEST(the_longest_gaps_come_first)
{
	struct overlap_span spans[8];
	static const uint64_t begins[8] = { 0, 13, 20, 40, 48, 60, 90, 95 };

	for (unsigned i = 0; i < 8; i++)
		spans[i] = (struct overlap_span){ begins[i], begins[i] + 2, i % 3,
						       OVERLAP_JOB };
	find(spans, 8);
	ck_found(gaps[0].begin_ns, 62);
	ck_found(gaps[1].begin_ns, 22);
	ck_found(gaps[2].begin_ns, 2);
	ck_found(gaps[3].begin_ns, 50);
	ck_found(gaps[4].begin_ns, 42);
	for (int i = 0; i + 1 < OVERLAP_GAPS; i++)
		ck_assert_uint_ge(found.gaps[i].end_ns - found.gaps[i].begin_ns,
				  found.gaps[i + 1].end_ns - found.gaps[i + 1].begin_ns);
}

TEST(more_jobs_at_once_than_overlap_depth_count_as_that_many)
{
	struct overlap_span spans[RNL_WORKERS_MAX];

	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++)
		spans[i] = (struct overlap_span){ i, 1000, i, OVERLAP_JOB };
	find(spans, RNL_WORKERS_MAX);
	ck_found(workers, UINT64_MAX);
	ck_assert_uint_eq(found.at_once_ns[OVERLAP_DEPTH - 1], 1);
	ck_found(at_once_ns[OVERLAP_DEPTH], 1000 - (OVERLAP_DEPTH - 1));
}

TEST(workers_with_high_numbers_count_like_the_others)
{
	FIND({ 0, 10, 64, OVERLAP_JOB }, { 5, 20, RNL_WORKERS_MAX - 1, OVERLAP_JOB },
	     { 30, 40, 0, OVERLAP_JOB });
	ck_found(busy_ns, 30);
	ck_found(at_once_ns[2], 5);
	ck_found(worker_ns[0], 10);
	ck_found(worker_ns[64], 10);
	ck_assert_uint_eq(found.worker_ns[RNL_WORKERS_MAX - 1], 15);
}

TEST(what_makes_no_sense_counts_for_nothing)
{
	FIND({ 50, 10, 0, OVERLAP_JOB }, { 0, 10, RNL_WORKERS_MAX, OVERLAP_JOB },
	     { 0, 10, 0, OVERLAP_OUT + 1 }, { 30, 30, 0, OVERLAP_JOB },
	     { 20, 30, 0, OVERLAP_JOB });
	ck_found(sum_ns, 10);
	ck_found(elapsed_ns, 10);
	ck_found(nr_jobs, 2);
}

TEST(a_worker_that_overlaps_itself_counts_once)
{
	FIND({ 0, 20, 3, OVERLAP_JOB }, { 10, 30, 3, OVERLAP_JOB });
	ck_found(at_once_ns[1], 30);
	ck_found(at_once_ns[2], 0);
	ck_found(worker_ns[3], 30);
	ck_found(sum_ns, 40);
}

TEST(spans_that_no_memory_can_hold_are_refused)
{
	static const struct overlap_span span = { 0, 10, 0, OVERLAP_JOB };

	ck_assert_int_eq(overlap_find(&span, SIZE_MAX / 2, &found), -ENOMEM);
}

/* ---- spans of one kind: time in several spans counts once ------------------ */

static uint64_t map_cover(const struct overlap_span *spans, size_t nr)
{
	struct rnl__map_span own[64];

	ck_assert_uint_le(nr, COUNT(own));
	for (size_t i = 0; i < nr; i++)
		own[i] = (struct rnl__map_span){ spans[i].begin_ns, spans[i].end_ns };
	return rnl__map_cover(own, nr);
}

/* Checks the time that the spans cover, in both orders of the spans. */
static void check_cover(const uint64_t (*spans)[2], size_t nr, uint64_t cover)
{
	struct overlap_span forward[16], backward[16];

	ck_assert_uint_le(nr, COUNT(forward));
	for (size_t i = 0; i < nr; i++) {
		forward[i] = (struct overlap_span){ spans[i][0], spans[i][1], i % 3,
							OVERLAP_KERNEL };
		backward[nr - 1 - i] = forward[i];
	}
	ck_assert_uint_eq(map_cover(forward, nr), cover);
	ck_assert_uint_eq(map_cover(backward, nr), cover);
	find(forward, nr);
	ck_found(kernel_ns, cover);
	find(backward, nr);
	ck_found(kernel_ns, cover);
	ck_assert_uint_eq(found.in_ns + found.out_ns + found.busy_ns + found.nr_jobs, 0);
}

#define SPANS(...) ((const uint64_t[][2]){ __VA_ARGS__ })

TEST(spans_that_are_apart_or_touch_add_up)
{
	check_cover(SPANS({ 0, 10 }, { 20, 25 }, { 100, 101 }), 3, 16);
	check_cover(SPANS({ 0, 10 }, { 10, 20 }, { 20, 21 }), 3, 21);
}

TEST(time_in_several_spans_counts_once)
{
	/* Spans that are nested, begin together, end together, are equal, or overlap. */
	check_cover(SPANS({ 0, 100 }, { 10, 20 }, { 30, 40 }), 3, 100);
	check_cover(SPANS({ 0, 100 }, { 0, 20 }, { 0, 50 }), 3, 100);
	check_cover(SPANS({ 0, 100 }, { 50, 100 }, { 99, 100 }), 3, 100);
	check_cover(SPANS({ 7, 9 }, { 7, 9 }, { 7, 9 }, { 7, 9 }), 4, 2);
	check_cover(SPANS({ 0, 10 }, { 5, 15 }, { 12, 30 }), 3, 30);
	/* A span that ends within a longer one does not shorten it. */
	check_cover(SPANS({ 0, 100 }, { 10, 20 }, { 90, 110 }, { 30, 31 }), 4, 110);
}

TEST(spans_that_are_empty_or_end_before_they_begin_cover_nothing)
{
	check_cover(SPANS({ 5, 5 }, { 5, 5 }), 2, 0);
	check_cover(SPANS({ 0, 10 }, { 5, 5 }, { 10, 10 }, { 50, 50 }), 4, 10);
	check_cover(SPANS({ 0, 10 }, { 20, 15 }, { 30, 5 }), 3, 10);
}

TEST(the_whole_of_time_can_be_covered)
{
	check_cover(SPANS({ 0, 1 }), 1, 1);
	check_cover(SPANS({ UINT64_MAX - 1, UINT64_MAX }), 1, 1);
	check_cover(SPANS({ 0, UINT64_MAX / 2 }, { UINT64_MAX / 2, UINT64_MAX }), 2, UINT64_MAX);
	check_cover(SPANS({ 0, UINT64_MAX }, { 100, 200 }), 2, UINT64_MAX);
}

/* ---- compared with a bitmap ------------------------------------------------ */

enum { MOMENTS = 200 };

static uint64_t covered(const struct overlap_span *spans, unsigned nr)
{
	bool in[MOMENTS] = { false };
	uint64_t sum = 0;

	for (unsigned i = 0; i < nr; i++) {
		for (uint64_t t = spans[i].begin_ns; t < spans[i].end_ns; t++)
			in[t] = true;
	}
	for (unsigned i = 0; i < MOMENTS; i++)
		sum += in[i];
	return sum;
}

TEST(any_spans_cover_what_a_bitmap_says)
{
	enum { ROUNDS = 20000, NR = 40 };
	uint64_t random = draws_of(test_seed(), 0);

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned nr = draw(&random, NR), longest = 1 + draw(&random, MOMENTS);
		struct overlap_span spans[NR];
		uint64_t expected;

		for (unsigned i = 0; i < nr; i++) {
			unsigned begin = draw(&random, MOMENTS), length = draw(&random, longest);

			if (length > MOMENTS - begin)
				length = MOMENTS - begin;
			spans[i] = (struct overlap_span){ begin, begin + length, i % 5, OVERLAP_OUT };
		}
		expected = covered(spans, nr);
		find(spans, nr);
		ck_assert_uint_eq(map_cover(spans, nr), expected);
		ck_assert_msg(found.out_ns == expected, "round %u: %u spans should cover %llu", round, nr,
			      (unsigned long long)expected);
	}
}
