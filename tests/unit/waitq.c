/* SPDX-License-Identifier: MIT */
/* The wait queue of submits: the order of wakes, and wakes passed on to other submits. */
#include "suite.h"

#include "pool/waitq.h"
#include "pool/pool.h"

enum { NR = 5, MAX = 4, PLACE = RNL__LACKS_PLACE, CHAIN = RNL__LACKS_CHAIN, OTHER = RNL__LACKS_OTHER };

static struct rnl_pool pool;
static struct rnl__waiter in_line[NR];

/* Enters waiters that have tried, and found that they need @lacks. */
static void line_of(const unsigned lacks[NR])
{
	pool.max_queued = MAX;
	rnl__tally_init(&pool.outside[RNL__DEFERRED], MAX);
	rnl__tally_init(&pool.outside[RNL__CHAINED], MAX);
	rnl__waitq_init(&pool.waitq);
	for (int i = 0; i < NR; i++) {
		in_line[i] = (struct rnl__waiter){ .found = lacks[i], .nr_behind = 1 };
		rnl__waitq_enter(&pool.waitq, &in_line[i]);
	}
}

/* Returns the waiters that were woken since the last call, one bit each. */
static unsigned woken(void)
{
	unsigned bits = 0;

	for (int i = 0; i < NR; i++)
		bits |= (unsigned)atomic_exchange(&in_line[i].woken, 0) << i;
	return bits;
}

static unsigned woken_by_space(void)
{
	rnl__waitq_wake(&pool);
	return woken();
}

TEST(space_wakes_the_first_thread_that_lacks_it)
{
	line_of((const unsigned[]){ PLACE, PLACE, PLACE, PLACE, PLACE });
	for (unsigned i = 0; i < NR; i++) {
		ck_assert_uint_eq(woken_by_space(), 1u << i);
		rnl__waitq_leave(&pool, &in_line[i]);
		/* There may be more space. */
		ck_assert_uint_eq(woken(), i + 1 < NR ? 2u << i : 0);
	}
	ck_assert_uint_eq(rnl__waitq_lacks(&pool.waitq), 0);
}

TEST(each_kind_of_space_has_an_order_of_its_own, .loops = 2)
{
	line_of(_i ? (const unsigned[]){ CHAIN, PLACE, CHAIN, OTHER, PLACE } :
		     (const unsigned[]){ OTHER, OTHER, PLACE, PLACE, OTHER });
	ck_assert_uint_eq(woken_by_space(), _i ? 1 | 2 | 8 : 1 | 2 | 4 | 16);
}

TEST(a_chain_is_woken_once_there_are_places_for_all_of_it)
{
	line_of((const unsigned[]){ CHAIN, CHAIN, PLACE, CHAIN, PLACE });
	in_line[0].nr_behind = 3;
	must(rnl__tally_enter(&pool.outside[RNL__CHAINED], 2));
	ck_assert_uint_eq(woken_by_space(), 4);		/* no chain overtakes the first waiter */
	rnl__tally_leave(&pool.outside[RNL__CHAINED]);
	ck_assert_uint_eq(woken_by_space(), 1 | 4);
	must(rnl__tally_enter(&pool.outside[RNL__CHAINED], 3));
	ck_assert_uint_eq(woken_by_space(), 4);
	/* The waiter is woken by a close. */
	rnl__tally_close(&pool.outside[RNL__DEFERRED]);
	ck_assert_uint_eq(woken_by_space(), 1 | 4);
}

TEST(a_thread_leaves_to_those_before_it_what_they_lack)
{
	static const unsigned before[NR] = { 0, CHAIN, CHAIN, CHAIN | PLACE, CHAIN | PLACE };

	line_of((const unsigned[]){ CHAIN, OTHER, PLACE, OTHER, CHAIN });
	ck_assert_uint_eq(rnl__waitq_lacks(&pool.waitq), CHAIN | PLACE);
	for (int i = 0; i < NR; i++) {
		rnl__waitq_look(&pool.waitq, &in_line[i]);
		ck_assert_uint_eq(in_line[i].before, before[i]);
	}
	rnl__waitq_leave(&pool, &in_line[2]);
	ck_assert_uint_eq(rnl__waitq_lacks(&pool.waitq), CHAIN);
	rnl__waitq_look(&pool.waitq, &in_line[3]);
	ck_assert_uint_eq(in_line[3].before, CHAIN);
}

TEST(a_thread_that_lacks_something_else_now_lets_the_next_one_try)
{
	line_of((const unsigned[]){ CHAIN, CHAIN, CHAIN, PLACE, CHAIN });
	in_line[0].found = PLACE;
	rnl__waitq_stay(&pool, &in_line[0]);
	/* The first waiter has just tried, and no place became free. */
	ck_assert_uint_eq(woken() & ~1u, 2);
	ck_assert_uint_eq(woken_by_space(), 1 | 2);
	/* The last waiter goes first: the queue's end stays correct, too. */
	rnl__waitq_leave(&pool, &in_line[4]);
	rnl__waitq_enter(&pool.waitq, &in_line[4]);
	rnl__waitq_look(&pool.waitq, &in_line[4]);
	ck_assert_uint_eq(in_line[4].before, CHAIN | PLACE);
}

TEST(nobody_in_line_costs_others_nothing)
{
	line_of((const unsigned[]){ CHAIN, CHAIN, CHAIN, PLACE, CHAIN });
	for (int i = 0; i < NR; i++)
		rnl__waitq_leave(&pool, &in_line[i]);
	ck_assert_uint_eq(rnl__peek(&pool.waitq.nr), 0);
	ck_assert_ptr_null(pool.waitq.first);
	(void)woken();
	ck_assert_uint_eq(woken_by_space(), 0);
}
