/* SPDX-License-Identifier: MIT */
/* The number of jobs that a worker issues, by earlier times on the device.  No clock runs here. */
#include "stream/job_flags.h"
#include "stream/pace.h"
#include "suite.h"

#define LIMIT 64
#define ENOUGH 1000000u

static struct rnl__pace pace;
static uint64_t first, issued;	/* sequence numbers of the first and last job on the stream */

static int quick_fn(struct rnl_job *job)
{
	return job->user != NULL;
}

static int other_fn(struct rnl_job *job)
{
	return job->user == NULL;
}

static struct rnl_job quick = { .fn = quick_fn }, other = { .fn = other_fn };
static struct rnl_job internal = { .fn = other_fn, .flags = RNL__JOB_INTERNAL };

static void begin(uint64_t enough_ns)
{
	rnl__pace_init(&pace, LIMIT, enough_ns);
	first = 1;
	issued = 0;
}

static void begin_enough(void)
{
	begin(ENOUGH);
}

static void end(void)
{
	rnl__pace_fini(&pace);
}

/* A test of jobs that are enough if they take ENOUGH. */
#define PACE_TEST(name) TEST(name, .setup = begin_enough, .teardown = end)

static unsigned nr_on_stream(void)
{
	return (unsigned)(issued + 1 - first);
}

/* Issues jobs until they are enough.  Returns the number of jobs on the stream. */
static unsigned fill(const struct rnl_job *job)
{
	while (nr_on_stream() < LIMIT && !rnl__pace_enough(&pace, nr_on_stream()))
		rnl__pace_add(&pace, job, ++issued);
	return nr_on_stream();
}

static void leave(unsigned nr)
{
	while (nr--)
		rnl__pace_drop(&pace, first++);
}

/* Completes the first @nr jobs, which took @ns each at most. */
static void pass(unsigned nr, uint64_t ns)
{
	rnl__pace_took_at_most(&pace, first, first + nr - 1, nr * ns);
	leave(nr);
}

/* Completes a hundred quick jobs, which took @ns each at most. */
static void learn(uint64_t ns)
{
	for (int i = 0; i < 100; i++) {
		fill(&quick);
		pass(1, ns);
	}
}

TEST(of_an_unknown_function_two_jobs_are_enough)
{
	static const uint64_t enough[] = { 1, 3, 1000, 300001, ENOUGH };

	for (unsigned i = 0; i < COUNT(enough); i++) {
		begin(enough[i]);
		ck_assert_uint_eq(fill(&quick), 2);
		leave(1);
		ck_assert_uint_eq(fill(&quick), 2);
		end();
	}
}

TEST(without_a_bound_the_stream_is_filled)
{
	begin(UINT64_MAX);
	ck_assert_uint_eq(fill(&quick), LIMIT);
	rnl__pace_took_at_least(&pace, 1, 1, UINT64_C(1) << 50);
	leave(1);
	ck_assert_uint_eq(fill(&quick), LIMIT);
	end();
}

PACE_TEST(of_a_long_function_two_jobs_are_on_the_stream_until_one_leaves)
{
	fill(&quick);
	rnl__pace_took_at_least(&pace, 1, 1, 300 * ENOUGH);
	for (int i = 0; i < 10; i++) {
		pass(1, 300 * ENOUGH);
		ck_assert_uint_eq(fill(&quick), 2);
	}
}

PACE_TEST(jobs_that_pass_quickly_are_soon_as_many_as_there_may_be)
{
	unsigned looks = 0;

	for (; fill(&quick) < LIMIT && looks < 100; looks++)
		pass(nr_on_stream() < 8 ? 1 : 8, 5000);
	ck_assert_uint_le(looks, 20);
	/* This is stable if each job takes the most time that fits. */
	for (int i = 0; i < 100; i++) {
		pass(8, ENOUGH / LIMIT);
		ck_assert_uint_eq(fill(&quick), LIMIT);
	}
}

PACE_TEST(there_are_as_many_as_fit_into_the_time)
{
	learn(ENOUGH / 10);
	ck_assert_uint_ge(fill(&quick), 10);
	ck_assert_uint_le(fill(&quick), 11);
}

PACE_TEST(a_worker_that_is_slow_does_not_take_the_device_for_slow)
{
	learn(1000);
	for (int i = 0; i < 100; i++) {
		ck_assert_uint_eq(fill(&quick), LIMIT);
		pass(8, 100 * ENOUGH);		/* the worker did not look earlier */
	}
}

PACE_TEST(a_function_that_takes_longer_than_before_is_known_at_once_and_forgotten_slowly)
{
	unsigned nr;

	learn(1000);
	fill(&quick);
	/* The oldest mark covers eight jobs. */
	rnl__pace_took_at_least(&pace, first, first + 7, 8 * ENOUGH);
	leave(LIMIT);
	ck_assert_uint_eq(fill(&quick), 2);
	pass(1, 1000);
	ck_assert_uint_eq(fill(&quick), 2);
	for (nr = 0; fill(&quick) < LIMIT && nr < 1000; nr++)
		pass(1, 1000);
	ck_assert_uint_ge(nr, 5);
	ck_assert_uint_le(nr, 60);
}

PACE_TEST(functions_have_estimates_of_their_own_and_share_the_time_of_a_mark_by_them)
{
	learn(1000);
	leave(nr_on_stream());
	ck_assert_uint_eq(fill(&other), 2);
	leave(2);
	/* Seven quick jobs and one job of an unknown function take two ms. */
	for (int i = 0; i < 7; i++)
		rnl__pace_add(&pace, &quick, ++issued);
	rnl__pace_add(&pace, &other, ++issued);
	rnl__pace_took_at_least(&pace, first, issued, 2 * ENOUGH);
	leave(nr_on_stream());
	ck_assert_uint_ge(rnl__pace_guess(&pace, &other), ENOUGH);
	ck_assert_uint_le(rnl__pace_guess(&pace, &quick), 10000);
}

PACE_TEST(internal_jobs_do_not_count_and_teach_nothing)
{
	uint32_t before;

	ck_assert_uint_eq(fill(&internal), LIMIT);
	leave(LIMIT - 1);
	before = rnl__pace_guess(&pace, &quick);
	rnl__pace_add(&pace, &quick, ++issued);
	rnl__pace_took_at_least(&pace, first, issued, 100 * ENOUGH);
	rnl__pace_took_at_most(&pace, first, issued, 1);
	ck_assert_uint_eq(rnl__pace_guess(&pace, &quick), before);
	ck_assert_uint_eq(rnl__pace_guess(&pace, &internal), 0);
	leave(2);
	ck_assert_uint_eq(pace.ahead_ns, 0);
}

PACE_TEST(an_estimate_has_its_bounds)
{
	rnl__pace_add(&pace, &quick, ++issued);
	rnl__pace_took_at_least(&pace, 1, 1, UINT64_MAX);
	ck_assert_uint_eq(rnl__pace_guess(&pace, &quick), UINT32_MAX);
	leave(1);
	for (int i = 0; i < 1000; i++) {
		rnl__pace_add(&pace, &quick, ++issued);
		pass(1, 0);
	}
	ck_assert_uint_ge(rnl__pace_guess(&pace, &quick), 1);
	ck_assert_uint_le(rnl__pace_guess(&pace, &quick), 10);
	ck_assert_uint_eq(pace.ahead_ns, 0);
}

PACE_TEST(after_a_job_that_takes_longer_than_expected_no_other_is_issued)
{
	learn(1000);
	leave(nr_on_stream() - 2);
	ck_assert(!rnl__pace_enough(&pace, 2));
	rnl__pace_took_at_least(&pace, first, first, ENOUGH);
	ck_assert(rnl__pace_enough(&pace, 2));
	ck_assert(rnl__pace_long(&pace));
	/* The job leaves with the time that was added for it. */
	leave(1);
	ck_assert(!rnl__pace_long(&pace));
	leave(1);
	ck_assert_uint_eq(pace.ahead_ns, 0);
}
