/* SPDX-License-Identifier: MIT */
/* Latches: counting, watching and waiting, without a lost wake. */
#include "await.h"

#include "sys/clock.h"
#include "sys/latch.h"

/* A deadline so late that a waiter reaches it only if a wake was lost. */
static uint64_t too_late(void)
{
	return rnl__now() + (uint64_t)patience_ns();
}

static bool watched(_Atomic uint32_t *latch)
{
	return atomic_load(latch) & RNL__LATCH_SLEEPER;
}

TEST(a_latch_is_open_while_it_counts_nothing, .timeout_s = 60)
{
	_Atomic uint32_t latch = 0;

	ck_assert(rnl__latch_open(&latch));
	rnl__latch_add(&latch, 3);
	ck_assert(!rnl__latch_open(&latch));
	ck_assert(!rnl__latch_drop(&latch, 1));
	ck_assert(!rnl__latch_open(&latch));
	ck_assert(rnl__latch_drop(&latch, 2));
	ck_assert(rnl__latch_open(&latch));
	for (int round = 0; round < 3; round++) {
		rnl__latch_add(&latch, 1);
		ck_assert(!rnl__latch_open(&latch));
		ck_assert(rnl__latch_drop(&latch, 1));
	}
	ck_assert_uint_eq(latch, 0);
}

TEST(a_watch_tells_the_count_and_changes_nothing_else, .timeout_s = 60)
{
	_Atomic uint32_t latch = 0;

	ck_assert(!watched(&latch));
	ck_assert_uint_eq(rnl__latch_watch(&latch), 0);
	ck_assert(watched(&latch));
	ck_assert(rnl__latch_open(&latch));
	rnl__latch_add(&latch, 2);
	ck_assert_uint_eq(rnl__latch_watch(&latch), 2);
	ck_assert(!rnl__latch_drop(&latch, 1));
	ck_assert(watched(&latch));
	/* A watch is only removed while the count is 0. */
	rnl__latch_unwatch(&latch);
	ck_assert(watched(&latch));
	ck_assert_uint_eq(rnl__latch_watch(&latch), 1);
	ck_assert(rnl__latch_drop(&latch, 1));
	ck_assert(rnl__latch_open(&latch));
	rnl__latch_unwatch(&latch);
	ck_assert(!watched(&latch));
	ck_assert_uint_eq(latch, 0);
}

TEST(a_latch_counts_far, .timeout_s = 60)
{
	_Atomic uint32_t latch = 0;
	uint32_t most = UINT32_MAX / RNL__LATCH_ONE;

	rnl__latch_add(&latch, most);
	ck_assert_uint_eq(rnl__latch_watch(&latch), most);
	ck_assert(!rnl__latch_drop(&latch, most - 1));
	ck_assert(rnl__latch_drop(&latch, 1));
}

/* Returns the time of a wait in seconds. */
static double time_of_a_wait(_Atomic uint32_t *latch, uint64_t spin_ns)
{
	double start = seconds_now();

	ck_assert_int_eq(rnl__latch_wait(latch, spin_ns, rnl__now() + 10 * MS), -ETIMEDOUT);
	return seconds_now() - start;
}

TEST(a_wait_looks_or_takes_its_time, .timeout_s = 60)
{
	static const uint64_t spins[] = { 0, 1000, 3000000, 100000000 };
	_Atomic uint32_t latch = 0;

	for (unsigned i = 0; i < COUNT(spins); i++) {
		double took;

		ck_assert_int_eq(rnl__latch_wait(&latch, spins[i], 0), 0);
		ck_assert_int_eq(rnl__latch_wait(&latch, spins[i], RNL__NEVER), 0);
		rnl__latch_add(&latch, 1);
		ck_assert_int_eq(rnl__latch_wait(&latch, spins[i], 0), -ETIMEDOUT);
		ck_assert_int_eq(rnl__latch_wait(&latch, spins[i], rnl__now()), -ETIMEDOUT);
		/* A long spin ends at the deadline; on a busy machine it may end later at times. */
		ck_eventually((took = time_of_a_wait(&latch, spins[i])) < 0.090 * test_scale());
		ck_assert_double_ge(took, 0.010);
		ck_assert(rnl__latch_drop(&latch, 1));
		ck_assert_int_eq(rnl__latch_wait(&latch, spins[i], RNL__NEVER), 0);
	}
	/* A waiter whose time is over leaves at most a watch. */
	ck_assert(rnl__latch_open(&latch));
}

struct waiter {
	_Atomic uint32_t *latch;
	const int *data;
	uint64_t spin_ns;
	int ret, seen;
};

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;

	w->ret = rnl__latch_wait(w->latch, w->spin_ns, too_late());
	w->seen = *w->data;
	return NULL;
}

TEST(the_last_drop_wakes_all_who_sleep, .timeout_s = 60)
{
	enum { NR = 4 };

	for (int round = 0; round < 200; round++) {
		_Atomic uint32_t latch = 0;
		struct waiter waiters[NR];
		pthread_t threads[NR];
		int data = 0;

		rnl__latch_add(&latch, 2);
		for (int i = 0; i < NR; i++) {
			waiters[i] = (struct waiter){ &latch, &data, i ? 0 : 100000, 0, 0 };
			must(pthread_create(&threads[i], NULL, wait_thread, &waiters[i]));
		}
		if (round % 2)
			ck_eventually(watched(&latch));
		rnl__latch_drop(&latch, 1);
		data = 5;	/* happens before the code after the wait */
		rnl__latch_drop(&latch, 1);
		for (int i = 0; i < NR; i++) {
			pthread_join(threads[i], NULL);
			ck_assert_int_eq(waiters[i].ret, 0);
			ck_assert_int_eq(waiters[i].seen, 5);
		}
	}
}

/* ---- ping-pong ----------------------------------------------------------- */

enum { WAKERS = 3 };

struct table {
	_Atomic uint32_t latch;
	_Atomic long round;		/* begun by the sleeper; negative: the end */
	long data[WAKERS];		/* not atomic: only the latch orders accesses */
	bool all;			/* all wakers drop in each round, else one waker */
};

struct waker {
	struct table *table;
	int index;
};

static void *waker_thread(void *arg)
{
	struct waker *w = arg;
	struct table *t = w->table;
	long seen = 0, round;

	for (;;) {
		while ((round = t->round) == seen)
			sched_yield();
		if (round < 0)
			return NULL;
		seen = round;
		if (!t->all && round % WAKERS != w->index)
			continue;
		t->data[w->index] = round;
		rnl__latch_drop(&t->latch, 1);
	}
}

/* Returns the number of rounds without an error. */
static long play(bool all, uint64_t spin_ns, long nr_rounds)
{
	struct table t = { .all = all };
	struct waker wakers[WAKERS];
	pthread_t threads[WAKERS];
	long round;
	int ret = 0;

	for (int i = 0; i < WAKERS; i++) {
		wakers[i] = (struct waker){ &t, i };
		must(pthread_create(&threads[i], NULL, waker_thread, &wakers[i]));
	}
	for (round = 1; round <= nr_rounds; round++) {
		rnl__latch_add(&t.latch, all ? WAKERS : 1);
		t.round = round;
		ret = rnl__latch_wait(&t.latch, spin_ns, too_late());
		for (int i = 0; i < WAKERS && !ret; i++) {
			if ((all || round % WAKERS == i) && t.data[i] != round)
				ret = -EPROTO;
		}
		if (ret)
			break;
	}
	t.round = -1;
	for (int i = 0; i < WAKERS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_msg(!ret, "round %ld: %s", round, ret == -ETIMEDOUT ? "a wake was lost" :
									"it opened too early");
	return round - 1;
}

TEST(no_wake_is_lost_between_many_wakers_and_a_sleeper, .timeout_s = 60)
{
	long nr = rounds_of(200000), played = 0;

	played += play(false, 0, nr);
	played += play(false, 2000, nr / 2);
	played += play(true, 0, nr / 10);
	printf("%ld rounds, %d wakers\n", played, WAKERS);
}
