/* SPDX-License-Identifier: MIT */
/* Tallies: the limit, the close, and no lost count between threads. */
#include <pthread.h>

#include "gate.h"

#include "pool/tally.h"

static struct rnl__tally tally;

TEST(a_full_tally_refuses_until_one_leaves)
{
	rnl__tally_init(&tally, 2);
	ck_assert_int_eq(rnl__tally_enter(&tally, 1), 0);
	ck_assert_int_eq(rnl__tally_enter(&tally, 1), 0);
	ck_assert(!rnl__tally_has_space(&tally));
	ck_assert_int_eq(rnl__tally_enter(&tally, 1), -EAGAIN);
	ck_assert_uint_eq(rnl__tally_inside(&tally), 2);
	rnl__tally_leave(&tally);
	ck_assert(rnl__tally_has_space(&tally));
	ck_assert_int_eq(rnl__tally_enter(&tally, 1), 0);
	ck_assert_uint_eq(rnl__tally_entered(&tally), 3);
	ck_assert_uint_eq(rnl__tally_left(&tally), 1);
}

TEST(a_closed_tally_refuses_but_what_is_inside_leaves)
{
	rnl__tally_init(&tally, 2);
	ck_assert_int_eq(rnl__tally_enter(&tally, 1), 0);
	ck_assert(!rnl__tally_closed(&tally));
	rnl__tally_close(&tally);
	ck_assert(rnl__tally_closed(&tally));
	ck_assert_int_eq(rnl__tally_enter(&tally, 1), -ESHUTDOWN);
	ck_assert_uint_eq(rnl__tally_inside(&tally), 1);
	rnl__tally_leave(&tally);
	ck_assert_uint_eq(rnl__tally_inside(&tally), 0);
	ck_assert_uint_eq(rnl__tally_entered(&tally), 1);
}

TEST(several_enter_together_or_none)
{
	rnl__tally_init(&tally, 3);
	ck_assert_int_eq(rnl__tally_enter(&tally, 2), 0);
	ck_assert_int_eq(rnl__tally_enter(&tally, 2), -EAGAIN);
	ck_assert_uint_eq(rnl__tally_entered(&tally), 2);
	rnl__tally_leave(&tally);
	ck_assert_int_eq(rnl__tally_enter(&tally, 2), 0);
	ck_assert(!rnl__tally_has_space(&tally));
	rnl__tally_retract(&tally, 2);
	ck_assert_int_eq(rnl__tally_enter(&tally, 3), -EAGAIN);
	ck_assert_int_eq(rnl__tally_enter(&tally, 2), 0);
}

TEST(an_entry_that_is_retracted_counts_no_more)
{
	rnl__tally_init(&tally, 1);
	ck_assert_int_eq(rnl__tally_enter(&tally, 1), 0);
	rnl__tally_retract(&tally, 1);
	ck_assert_uint_eq(rnl__tally_entered(&tally), 0);
	ck_assert_int_eq(rnl__tally_enter(&tally, 1), 0);
}

#define NR_THREADS 4
#define TIMES 50000

static void *come_and_go(void *arg)
{
	uint64_t *entered = arg;

	for (unsigned i = 0; i < TIMES; i++) {
		if (rnl__tally_enter(&tally, 1))
			continue;
		++*entered;
		rnl__tally_leave(&tally);
	}
	return NULL;
}

TEST(threads_that_come_and_go_are_counted_each, .timeout_s = 60)
{
	pthread_t threads[NR_THREADS];
	uint64_t entered[NR_THREADS] = { 0 }, sum = 0;

	rnl__tally_init(&tally, 2);
	for (unsigned i = 0; i < NR_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, &entered[i]), 0);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
		sum += entered[i];
	}
	ck_assert_uint_eq(rnl__tally_entered(&tally), sum);
	ck_assert_uint_eq(rnl__tally_left(&tally), sum);
}
