/* SPDX-License-Identifier: MIT */
/* The bell: a thread that listens before it is rung wakes, every time. */
#include "sys/bell.h"
#include "sys/clock.h"
#include "await.h"

static struct rnl__bell bell;

TEST(a_ring_before_the_wait_is_heard, .timeout_s = 60)
{
	uint32_t listened = rnl__bell_listen(&bell);

	ck_assert(rnl__bell_has_listeners(&bell));
	rnl__full_barrier();
	rnl__bell_ring(&bell);
	ck_assert(!rnl__bell_has_listeners(&bell));
	/* A lost ring would leave the thread asleep for ever. */
	ck_assert_int_eq(rnl__bell_wait(&bell, listened, RNL__NEVER), 0);
}

TEST(a_ring_that_nobody_listens_to_changes_nothing, .timeout_s = 60)
{
	uint32_t before = bell.word, listened;
	uint64_t deadline;

	for (unsigned i = 0; i < 100; i++)
		rnl__bell_ring(&bell);
	ck_assert_uint_eq(bell.word, before);
	listened = rnl__bell_listen(&bell);
	deadline = rnl__deadline(MS);
	/* A wait may end for no reason, and not for ever. */
	ck_eventually(rnl__bell_wait(&bell, listened, deadline) == -ETIMEDOUT);
}

/* ---- threads that wait for a number to rise ------------------------------ */

static _Atomic unsigned risen;
#define ROUNDS 20000u

static void *listener_main(void *arg)
{
	unsigned *seen = arg;

	while (*seen < ROUNDS) {
		uint32_t listened = rnl__bell_listen(&bell);
		unsigned now = atomic_load_explicit(&risen, memory_order_acquire);

		if (now == *seen) {
			if (rnl__bell_wait(&bell, listened, rnl__deadline(patience_ns())))
				return NULL;	/* lost */
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
		rnl__bell_ring(&bell);
		/* Now and then all threads may fall asleep. */
		if (i % 64 == 0)
			usleep(i % 128 ? 50 : 1);
	}
	for (unsigned i = 0; i < LISTENERS; i++) {
		must(pthread_join(threads[i], NULL));
		ck_assert_uint_eq(seen[i], ROUNDS);
	}
}
