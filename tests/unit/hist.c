/* SPDX-License-Identifier: MIT */
/* Histograms of times are accurate to the width of a bucket. */
#include <pthread.h>
#include <stdint.h>

#include <runnel/stats.h>

#include "sys/hist.h"
#include "suite.h"

static struct rnl__hist hist;

static struct rnl__hist_sum *sum_of(struct rnl__hist *h)
{
	static struct rnl__hist_sum sum;

	sum = (struct rnl__hist_sum){ 0 };
	rnl__hist_add(&sum, h);
	return &sum;
}

/* A histogram's value is never too small, and too large by a sixteenth at most. */
#define ck_assert_close(said, so) \
	ck_assert_msg((said) >= (so) && (said) <= (so) + (so) / 16, "%llu said, %llu is so", \
		      (unsigned long long)(said), (unsigned long long)(so))

static void empty_hist(void)
{
	hist = (struct rnl__hist){ 0 };
}

TEST(all_quantiles_of_one_time_are_that_time, .setup = empty_hist)
{
	const uint64_t times[] = { 0, 1, 15, 16, 17, 31, 32, 1000, 999999, 123456789,
				   UINT64_C(1) << 40, (UINT64_C(1) << 41) - 1 };

	for (unsigned i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct rnl_latency latency;

		hist = (struct rnl__hist){ 0 };
		rnl__hist_count(&hist, times[i]);
		rnl__hist_latency(sum_of(&hist), &latency);
		ck_assert_uint_eq(latency.nr, 1);
		ck_assert_uint_eq(latency.sum_ns, times[i]);
		ck_assert_uint_eq(latency.max_ns, times[i]);
		ck_assert_uint_eq(latency.p50_ns, times[i]);
		ck_assert_uint_eq(latency.p999_ns, times[i]);
	}
}

TEST(quantiles_are_right_to_a_sixteenth, .setup = empty_hist)
{
	struct rnl_latency latency;

	for (uint64_t i = 1; i <= 100000; i++)
		rnl__hist_count(&hist, i * 37);
	rnl__hist_latency(sum_of(&hist), &latency);
	ck_assert_uint_eq(latency.nr, 100000);
	ck_assert_uint_eq(latency.sum_ns, UINT64_C(37) * 50000 * 100001);
	ck_assert_close(latency.p50_ns, UINT64_C(37) * 50000);
	ck_assert_close(latency.p99_ns, UINT64_C(37) * 99000);
	ck_assert_close(latency.p999_ns, UINT64_C(37) * 99900);
	ck_assert_uint_eq(latency.max_ns, 3700000);
}

TEST(times_beyond_the_last_bucket_count_as_the_maximum, .setup = empty_hist)
{
	struct rnl_latency latency;

	for (unsigned i = 0; i < 99; i++)
		rnl__hist_count(&hist, 5);
	rnl__hist_count(&hist, UINT64_MAX / 2);
	rnl__hist_count(&hist, UINT64_C(1) << 50);
	rnl__hist_latency(sum_of(&hist), &latency);
	ck_assert_uint_eq(latency.p50_ns, 5);
	ck_assert_uint_eq(latency.p999_ns, UINT64_MAX / 2);
	ck_assert_uint_eq(latency.max_ns, UINT64_MAX / 2);
}

enum { THREADS = 4, EACH = 20000 };

static void *count_main(void *arg)
{
	for (uint64_t i = 0; i < EACH; i++)
		rnl__hist_count_any(&hist, i * THREADS + (uint64_t)(uintptr_t)arg);
	return NULL;
}

TEST(several_threads_count_each_time, .setup = empty_hist)
{
	pthread_t threads[THREADS];
	struct rnl_latency latency;

	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, count_main, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	rnl__hist_latency(sum_of(&hist), &latency);
	ck_assert_uint_eq(latency.nr, THREADS * EACH);
	ck_assert_uint_eq(latency.sum_ns, UINT64_C(1) * THREADS * EACH * (THREADS * EACH - 1) / 2);
	ck_assert_uint_eq(latency.max_ns, THREADS * EACH - 1);
	ck_assert_close(latency.p99_ns, UINT64_C(1) * THREADS * EACH * 99 / 100 - 1);
	rnl__hist_clear(&hist);
	rnl__hist_latency(sum_of(&hist), &latency);
	ck_assert_uint_eq(latency.nr, 0);
}

TEST(no_times_say_nothing, .setup = empty_hist)
{
	struct rnl_latency latency = { 1, 1, 1, 1, 1, 1 };

	rnl__hist_latency(sum_of(&hist), &latency);
	ck_assert_uint_eq(latency.nr | latency.sum_ns | latency.p50_ns | latency.p99_ns |
			  latency.p999_ns | latency.max_ns, 0);
}

TEST(counts_below_a_power_of_two_are_exact, .setup = empty_hist)
{
	for (unsigned bits = 4; bits < 41; bits++) {
		rnl__hist_count(&hist, (UINT64_C(1) << bits) - 1);
		rnl__hist_count(&hist, UINT64_C(1) << bits);
	}
	for (unsigned bits = 4; bits < 41; bits++)
		ck_assert_uint_eq(rnl__hist_below(sum_of(&hist), bits), 2 * (bits - 4) + 1);
}

TEST(several_histograms_add_up, .setup = empty_hist)
{
	static struct rnl__hist other;
	struct rnl__hist_sum *sum;
	struct rnl_latency latency;

	for (unsigned i = 0; i < 10; i++)
		rnl__hist_count(i % 2 ? &hist : &other, i);
	sum = sum_of(&hist);
	rnl__hist_add(sum, &other);
	rnl__hist_latency(sum, &latency);
	ck_assert_uint_eq(latency.nr, 10);
	ck_assert_uint_eq(latency.sum_ns, 45);
	ck_assert_uint_eq(latency.p50_ns, 4);
	ck_assert_uint_eq(latency.max_ns, 9);
}
