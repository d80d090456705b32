/* SPDX-License-Identifier: MIT */
/* Threads that wait for the rounds of a barrier; rounds.h has the design. */
#include "config.h"

#include <errno.h>

#include "job/round_words.h"
#include "job/rounds.h"
#include "sys/clock.h"
#include "sys/futex.h"
#include "sys/spin.h"
#include "sys/tsan.h"

bool rnl__rounds_all_issued(struct rnl_barrier *b)
{
	if (nr_unissued(open_now(b)))
		return false;
	rnl__tsan_acquire(b);
	return true;
}

bool rnl__rounds_all_done(struct rnl_barrier *b)
{
	uint64_t open = open_now(b);

	if (nr_undone(open) || (is_sealed(open) && !rnl__rounds_ended(b, slot_of(open))))
		return false;
	rnl__tsan_acquire(b);
	return true;
}

static bool all_issued(void *b)
{
	return rnl__rounds_all_issued(b);
}

static bool all_done(void *b)
{
	return rnl__rounds_all_done(b);
}

/* Sleeps with the bit set until the word's count may have become 0.  Returns 0 or -ETIMEDOUT. */
static int sleep_open(struct rnl_barrier *b, uint64_t open, uint64_t bit, uint64_t deadline)
{
	const bool high = bit == JOINER;

	/*
	 * The bit and the count share a word: either the last drop sees the bit, or this thread
	 * sees the last drop.
	 */
	if (!(open & bit) && !exchange_open(b, &open, open | bit))
		return 0;
	open |= bit;
	return rnl__futex_wait(half_of(open_of(b), high), (uint32_t)(high ? open >> 32 : open),
			       deadline);
}

/*
 * All jobs are done: sleeps until another thread has recorded the end of the last round.  Uses the
 * slot meanwhile, like seal(), because a free or reused slot would not wake this thread.
 */
static int sleep_ended(struct rnl_barrier *b, uint64_t open, uint64_t deadline)
{
	const unsigned slot = slot_of(open);
	uint64_t waiting;
	int ret = 0;

	if (!use_slot(b, slot))
		return 0;
	if (exchange_open(b, &open, open)) {
		waiting = waiting_now(b, slot);
		if (!is_ended(waiting) && exchange_waiting(b, slot, &waiting, waiting | WATCHED))
			ret = rnl__futex_wait(half_of(waiting_of(b, slot), false),
					      (uint32_t)(waiting | WATCHED), deadline);
	}
	rnl__rounds_leave(b, slot);
	return ret;
}

int rnl__rounds_await_issued(struct rnl_barrier *b, uint64_t spin_ns)
{
	uint64_t open;

	if (rnl__spin(all_issued, b, spin_ns, RNL__NEVER))
		return 0;
	while (nr_unissued(open = open_now(b)))
		(void)sleep_open(b, open, JOINER, RNL__NEVER);
	rnl__tsan_acquire(b);
	return 0;
}

int rnl__rounds_await_done(struct rnl_barrier *b, uint64_t spin_ns, uint64_t deadline)
{
	int ret = 0;

	if (rnl__spin(all_done, b, spin_ns, deadline))
		return 0;
	while (!rnl__rounds_all_done(b)) {
		uint64_t open = open_now(b);

		if (ret || rnl__now() >= deadline)
			return -ETIMEDOUT;
		ret = nr_undone(open) ? sleep_open(b, open, SLEEPER, deadline) :
		      is_sealed(open) ? sleep_ended(b, open, deadline) : 0;
	}
	return 0;
}
