/* SPDX-License-Identifier: MIT */
/* Parking: sleeps, wakes, and no lost wake. */
#include "await.h"

#include "sys/clock.h"
#include "pool/park.h"

/* A deadline so late that a sleeper reaches it only if a wake was lost. */
static uint64_t too_late(void)
{
	return rnl__now() + (uint64_t)patience_ns();
}

/* A test has one idle set at a time. */
static struct rnl__idle_set set;
static struct rnl__park parks[RNL_WORKERS_MAX];

static void init_idle_set(void)
{
	static struct rnl__park *table[RNL_WORKERS_MAX];

	rnl__idle_set_init(&set, table);
}

static void init_parks(void)
{
	init_idle_set();
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++)
		rnl__park_init(&parks[i], &set, i);
}

static bool wakes_one(void)
{
	return rnl__idle_set_wake_one(&set, RNL__ANY_WORKER);
}

TEST(no_worker_is_woken_that_is_awake, .timeout_s = 60)
{
	init_parks();
	ck_assert_uint_eq(rnl__idle_set_nr(&set), 0);
	ck_assert(!rnl__park_wake(&parks[0]));
	ck_assert(!rnl__park_wake(&parks[RNL_WORKERS_MAX - 1]));
	ck_assert(!wakes_one());
}

TEST(only_an_idle_worker_is_found, .timeout_s = 60)
{
	init_parks();
	rnl__park_prepare(&parks[0], false);
	ck_assert(!rnl__idle_set_any(&set));
	ck_assert(!wakes_one());
	ck_assert_int_eq(rnl__idle_set_claim(&set, 0, RNL__ANY_WORKER), -1);
	/* A put to the worker's own queue still wakes it. */
	ck_assert(rnl__park_wake(&parks[0]));
	rnl__park_prepare(&parks[0], false);
	rnl__park_prepare(&parks[1], true);
	ck_assert(rnl__idle_set_any(&set));
	ck_assert_int_eq(rnl__idle_set_claim(&set, 0, RNL__ANY_WORKER), 1);
	/* Already claimed: only the thread that claimed the worker wakes it. */
	ck_assert_int_eq(rnl__idle_set_claim(&set, 0, RNL__ANY_WORKER), -1);
	ck_assert(!wakes_one());
	ck_assert(rnl__park_wake(&parks[1]));
	ck_assert(!rnl__park_wake(&parks[1]));
}

TEST(from_prepare_on_one_wake_finds_the_worker, .timeout_s = 60)
{
	init_parks();
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		for (int by_idle_set = 0; by_idle_set < 2; by_idle_set++) {
			rnl__park_prepare(&parks[i], true);
			ck_assert(atomic_load(&set.idle[i / 64]) == UINT64_C(1) << i % 64);
			ck_assert_uint_eq(rnl__idle_set_nr(&set), 1);
			ck_assert(by_idle_set ? wakes_one() : rnl__park_wake(&parks[i]));
			ck_assert_uint_eq(rnl__idle_set_nr(&set), 0);
			ck_assert(!rnl__park_wake(&parks[i]));
			ck_assert(!wakes_one());
			/* The wake came before the sleep, so the worker does not sleep. */
			rnl__park_sleep(&parks[i], RNL__NEVER);
		}
	}
}

TEST(a_worker_that_leaves_or_sleeps_too_long_is_awake_again, .timeout_s = 60)
{
	struct rnl__park *park = &parks[5];
	double start;

	init_parks();
	rnl__park_prepare(park, true);
	rnl__park_leave(park);
	ck_assert_uint_eq(rnl__idle_set_nr(&set), 0);
	ck_assert(!rnl__park_wake(park));

	for (unsigned ms = 0; ms <= 20; ms += 10) {
		rnl__park_prepare(park, true);
		start = seconds_now();
		rnl__park_sleep(park, rnl__now() + (uint64_t)ms * MS);
		ck_assert_double_ge(seconds_now() - start, ms * 0.001);
		ck_assert_uint_eq(rnl__idle_set_nr(&set), 0);
		ck_assert(!rnl__park_wake(park));
		ck_assert(!wakes_one());
	}
	/* The deadline is already over. */
	rnl__park_prepare(park, true);
	rnl__park_sleep(park, 1);
	ck_assert(!rnl__park_wake(park));
}

/* ---- an idle set --------------------------------------------------------------- */

enum { SLEEPERS = 5 };

struct sleeper {
	struct rnl__park park;
	_Atomic int nr_woken;
	_Atomic bool late;
};

static int nr_woken(const struct sleeper *sleepers)
{
	int nr = 0;

	for (int i = 0; i < SLEEPERS; i++)
		nr += sleepers[i].nr_woken;
	return nr;
}

static void *sleeper_thread(void *arg)
{
	struct sleeper *s = arg;
	uint64_t deadline = too_late();

	rnl__park_prepare(&s->park, true);
	rnl__park_sleep(&s->park, deadline);
	s->late = rnl__now() >= deadline;
	s->nr_woken++;
	return NULL;
}

TEST(an_idle_set_wakes_as_many_as_it_is_asked_and_only_sleepers, .timeout_s = 60)
{
	struct sleeper sleepers[SLEEPERS], awake;

	init_idle_set();
	rnl__park_init(&awake.park, &set, 0);
	for (int round = 0; round < 100; round++) {
		pthread_t threads[SLEEPERS];

		for (unsigned i = 0; i < SLEEPERS; i++) {
			sleepers[i].nr_woken = 0;
			rnl__park_init(&sleepers[i].park, &set, i * 250 + 3);
			must(pthread_create(&threads[i], NULL, sleeper_thread, &sleepers[i]));
		}
		ck_eventually(rnl__idle_set_nr(&set) == SLEEPERS);
		for (int nr = 1; nr <= SLEEPERS; nr++) {
			ck_assert(wakes_one());
			ck_assert_int_eq(rnl__idle_set_nr(&set), SLEEPERS - nr);
			ck_assert_int_le(nr_woken(sleepers), nr);
			if (round % 2)
				ck_eventually(nr_woken(sleepers) == nr);
		}
		ck_assert(!wakes_one());
		for (int i = 0; i < SLEEPERS; i++) {
			pthread_join(threads[i], NULL);
			ck_assert_int_eq(sleepers[i].nr_woken, 1);
			ck_assert(!sleepers[i].late);
		}
	}
}

TEST(each_worker_of_a_large_idle_set_is_found_and_no_other, .timeout_s = 60)
{
	init_idle_set();
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		uint64_t own[RNL__IDLE_SET_WORDS] = { 0 }, others[RNL__IDLE_SET_WORDS];

		rnl__park_init(&parks[i], &set, i);
		own[i / 64] = UINT64_C(1) << i % 64;
		for (unsigned word = 0; word < RNL__IDLE_SET_WORDS; word++)
			others[word] = ~own[word];
		rnl__park_prepare(&parks[i], true);
		ck_assert(rnl__idle_set_any(&set));
		ck_assert_uint_eq(rnl__idle_set_nr_free(&set, own), 1);
		ck_assert_uint_eq(rnl__idle_set_nr_free(&set, others), 0);
		ck_assert(!rnl__idle_set_wake_one(&set, others));
		ck_assert_int_eq(rnl__idle_set_claim(&set, i, others), -1);
		ck_assert_int_eq(rnl__idle_set_claim(&set, i ? i - 1 : 0, own), (int)i);
		ck_assert(!rnl__idle_set_any(&set));
		ck_assert(rnl__park_wake(&parks[i]));
		rnl__park_spins(&parks[i], true);
		ck_assert_uint_eq(rnl__idle_set_nr_free(&set, RNL__ANY_WORKER), 1);
		ck_assert_int_eq(rnl__idle_set_claim_spinning(&set, others), -1);
		ck_assert_int_eq(rnl__idle_set_claim_spinning(&set, own), (int)i);
		ck_assert_uint_eq(rnl__idle_set_nr_free(&set, RNL__ANY_WORKER), 0);
	}
}

/* ---- ping-pong ----------------------------------------------------------- */

enum { WAKERS = 3 };

struct table {
	struct rnl__park park;
	_Atomic long work;		/* put by wakers */
	_Atomic long taken;
	_Atomic bool end;
	bool through_the_idle_set;
	_Atomic long nr_woken;
};

struct waker {
	struct table *table;
	long index;
};

/* Puts work unit by unit, each after the previous unit was taken. */
static void *waker_thread(void *arg)
{
	struct waker *w = arg;
	struct table *t = w->table;

	for (long next = w->index;; next += WAKERS) {
		while (t->taken != next) {
			if (t->end)
				return NULL;
			sched_yield();
		}
		atomic_fetch_add(&t->work, 1);
		rnl__mb_after_rmw();
		if (t->through_the_idle_set ? wakes_one() : rnl__park_wake(&t->park))
			t->nr_woken++;
	}
}

static long play(bool through_the_idle_set, unsigned index, long nr_rounds)
{
	static struct table t;
	struct waker wakers[WAKERS];
	pthread_t threads[WAKERS];
	long slept = 0;
	bool lost = false;

	memset(&t, 0, sizeof(t));
	t.through_the_idle_set = through_the_idle_set;
	init_idle_set();
	rnl__park_init(&t.park, &set, index);
	for (int i = 0; i < WAKERS; i++) {
		wakers[i] = (struct waker){ &t, i };
		must(pthread_create(&threads[i], NULL, waker_thread, &wakers[i]));
	}
	while (t.taken < nr_rounds && !lost) {
		while (t.work == t.taken && !lost) {
			uint64_t deadline = too_late();

			rnl__park_prepare(&t.park, true);
			if (t.work != t.taken) {
				rnl__park_leave(&t.park);
				break;
			}
			slept++;
			rnl__park_sleep(&t.park, deadline);
			lost = rnl__now() >= deadline;
		}
		t.taken++;
	}
	t.end = true;
	for (int i = 0; i < WAKERS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_msg(!lost, "a wake was lost in round %ld", t.taken);
	printf("%ld rounds, %d wakers%s: slept %ld times, woken %ld times\n", nr_rounds, WAKERS,
	       through_the_idle_set ? " through the idle set" : "", slept, t.nr_woken);
	/* A wake returns true only if the worker slept or was about to sleep. */
	ck_assert_int_le(t.nr_woken, nr_rounds + 1);
	return slept;
}

TEST(no_wake_is_lost_between_many_wakers_and_a_sleeper, .timeout_s = 60)
{
	long nr = rounds_of(200000);

	ck_assert_int_gt(play(false, 2, nr), 0);
	ck_assert_int_gt(play(true, 2, nr / 4), 0);
	ck_assert_int_gt(play(true, RNL_WORKERS_MAX - 1, nr / 4), 0);
}
