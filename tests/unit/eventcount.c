/* SPDX-License-Identifier: MIT */
/* The eventcount: a thread that prepares to wait before a wake always wakes. */
#include "sys/eventcount.h"
#include "sys/clock.h"
#include "await.h"

static struct rnl__eventcount eventcount;

TEST(a_ring_before_the_wait_is_heard, .timeout_s = 60)
{
	uint32_t listened = rnl__eventcount_prepare(&eventcount);

	ck_assert(rnl__eventcount_has_waiters(&eventcount));
	rnl__full_barrier();
	rnl__eventcount_wake(&eventcount);
	ck_assert(!rnl__eventcount_has_waiters(&eventcount));
	/* If the wake were lost, the thread would sleep forever. */
	ck_assert_int_eq(rnl__eventcount_wait(&eventcount, listened, RNL__NEVER), 0);
}

TEST(a_ring_that_nobody_listens_to_changes_nothing, .timeout_s = 60)
{
	uint32_t before = eventcount.word, listened;
	uint64_t deadline;

	for (unsigned i = 0; i < 100; i++)
		rnl__eventcount_wake(&eventcount);
	ck_assert_uint_eq(eventcount.word, before);
	listened = rnl__eventcount_prepare(&eventcount);
	deadline = rnl__deadline(MS);
	/* A wait may end spuriously, but not always. */
	ck_eventually(rnl__eventcount_wait(&eventcount, listened, deadline) == -ETIMEDOUT);
}

/* ---- threads that wait for a number to rise ------------------------------ */

static _Atomic unsigned risen;
#define ROUNDS 20000u

static void *listener_main(void *arg)
{
	unsigned *seen = arg;

	while (*seen < ROUNDS) {
		uint32_t listened = rnl__eventcount_prepare(&eventcount);
		unsigned now = atomic_load_explicit(&risen, memory_order_acquire);

		if (now == *seen) {
			if (rnl__eventcount_wait(&eventcount, listened,
						 rnl__deadline(patience_ns())))
				return NULL; /* the wake was lost */
			continue;
		}
		*seen = now;
	}
	return NULL;
}

TEST(no_listener_sleeps_through_a_rise, .timeout_s = 60)
{
	enum { LISTENERS = 3 };
	unsigned seen[LISTENERS] = { 0 };
	pthread_t threads[LISTENERS];

	for (unsigned i = 0; i < LISTENERS; i++)
		must(pthread_create(&threads[i], NULL, listener_main, &seen[i]));
	for (unsigned i = 1; i <= ROUNDS; i++) {
		atomic_store_explicit(&risen, i, memory_order_release);
		rnl__full_barrier();
		rnl__eventcount_wake(&eventcount);
		/* From time to time all threads may fall asleep. */
		if (i % 64 == 0)
			usleep(i % 128 ? 50 : 1);
	}
	for (unsigned i = 0; i < LISTENERS; i++) {
		must(pthread_join(threads[i], NULL));
		ck_assert_uint_eq(seen[i], ROUNDS);
	}
}
