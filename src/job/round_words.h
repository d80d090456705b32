/* SPDX-License-Identifier: MIT */
/* The words that hold a barrier's rounds, for rounds.c, rounds_await.c and barrier.c. */
#ifndef RNL_ROUND_WORDS_H
#define RNL_ROUND_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "pool/inherit.h"
#include "sys/atomic.h"

#define NR_SLOTS RNL__ROUND_SLOTS

/*
 * `open`: the low half has the number of jobs that are not done << 1 | SLEEPER; the high half has
 * the slot, the next slot, JOINER, and the number of jobs that are not issued.  Until the round is
 * sealed, the next slot is the slot itself.  Each half is the word of a futex.
 */
#define SLEEPER UINT64_C(1)		/* a thread sleeps until all jobs are done */
#define UNDONE UINT64_C(2)
#define UNISSUED (UINT64_C(1) << 32)
#define NR_UNISSUED ((UINT64_C(1) << 25) - 1)
#define JOINER (UINT64_C(1) << 57)	/* a thread sleeps until all jobs are issued */
#define NEXT_SHIFT 58
#define SLOT_SHIFT 61

/* Limits: half of each count's range, because concurrent submits may exceed them. */
#define ROOM (UINT64_C(1) << 24)
#define ROOM_UNDONE (UINT64_C(1) << 30)
#define FULL (ROOM * UNISSUED | ROOM_UNDONE * UNDONE)	/* bits that are set if there is no room */

/* `waiting`: a pointer to a job | these bits; ENDED_LIST | bits when the round has ended. */
#define ISSUED UINT64_C(1)
#define FOLLOWED UINT64_C(2)		/* the next round is open, and counts this one */
#define WATCHED UINT64_C(4)		/* a thread sleeps until the round has ended */
#define BITS (ISSUED | FOLLOWED | WATCHED)
#define ENDED_LIST UINT64_C(8)

/* `users`: the number of users of the slot, and the slot of the next round. */
#define NR_USERS ((1u << NEXT_OF_USERS) - 1)
#define NEXT_OF_USERS 29

_Static_assert(sizeof(((struct rnl_barrier *)NULL)->waiting) == NR_SLOTS * sizeof(uint64_t),
	       "a slot has three bits");
_Static_assert(_Alignof(struct rnl_job) >= 8, "a pointer to a job has three bits to spare");

static inline uint64_t nr_undone(uint64_t open)
{
	return (uint32_t)open / UNDONE;
}

static inline uint64_t nr_unissued(uint64_t open)
{
	return open >> 32 & NR_UNISSUED;
}

static inline unsigned slot_of(uint64_t open)
{
	return (unsigned)(open >> SLOT_SHIFT);
}

static inline unsigned next_of(uint64_t open)
{
	return open >> NEXT_SHIFT & (NR_SLOTS - 1);
}

static inline bool is_sealed(uint64_t open)
{
	return slot_of(open) != next_of(open);
}

static inline uint64_t with_slots(uint64_t open, uint64_t slot, uint64_t next)
{
	return (open & ((UINT64_C(1) << NEXT_SHIFT) - 1)) | slot << SLOT_SHIFT | next << NEXT_SHIFT;
}

static inline _Atomic uint64_t *open_of(struct rnl_barrier *b)
{
	return rnl__atomic(&b->open);
}

static inline _Atomic uint64_t *waiting_of(struct rnl_barrier *b, unsigned slot)
{
	return rnl__atomic(&b->waiting[slot]);
}

/* Returns the half of a word that a futex compares. */
static inline _Atomic uint32_t *half_of(_Atomic uint64_t *word, bool high)
{
	const bool second = high == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

	return (_Atomic uint32_t *)(void *)word + second;
}

static inline uint64_t open_now(struct rnl_barrier *b)
{
	/* [rounds.O2] acquire: sees what the dropped jobs did; pairs with [rounds.O1] */
	return atomic_load_explicit(open_of(b), memory_order_acquire);
}

static inline bool exchange_open(struct rnl_barrier *b, uint64_t *open, uint64_t now)
{
	/*
	 * [rounds.O1] acq_rel: the thread that finds no more jobs sees what the dropped jobs did;
	 * and a user of a slot is counted before another thread finds the slot no longer open;
	 * pairs with [rounds.O1], [rounds.O2].
	 */
	return atomic_compare_exchange_weak_explicit(open_of(b), open, now, memory_order_acq_rel,
						     memory_order_acquire);
}

/* Counts a job in the open round.  Returns the round, or RNL__NO_ROUND if it is sealed. */
static inline unsigned rnl__rounds_count_open(struct rnl_barrier *b)
{
	uint64_t open = rnl__peek(open_of(b));

	do {
		if (is_sealed(open))
			return RNL__NO_ROUND;
	} while (!exchange_open(b, &open, open + UNISSUED + UNDONE));
	return slot_of(open);
}

static inline uint64_t waiting_now(struct rnl_barrier *b, unsigned slot)
{
	/* [rounds.W2] acquire: sees all that precedes the state's change; pairs with [rounds.W1] */
	return atomic_load_explicit(waiting_of(b, slot), memory_order_acquire);
}

static inline bool exchange_waiting(struct rnl_barrier *b, unsigned slot, uint64_t *waiting, uint64_t now)
{
	/*
	 * [rounds.W1] acq_rel: the thread that takes the list sees its jobs, and a thread that
	 * finds the round issued or ended sees what its jobs did;
	 * pairs with [rounds.W1], [rounds.W2].
	 */
	return atomic_compare_exchange_weak_explicit(waiting_of(b, slot), waiting, now,
						     memory_order_acq_rel, memory_order_acquire);
}

static inline bool is_ended(uint64_t waiting)
{
	return (waiting & ~BITS) == ENDED_LIST;
}

static inline struct rnl_job *first_of(uint64_t waiting)
{
	return is_ended(waiting) ? NULL : (struct rnl_job *)(uintptr_t)(waiting & ~BITS);
}

/* Adds a user to a slot.  Returns false if it has no users: the caller's view is stale. */
static inline bool use_slot(struct rnl_barrier *b, unsigned slot)
{
	_Atomic uint32_t *users = rnl__atomic(&b->users[slot]);
	uint32_t nr = rnl__peek(users);

	do {
		if (!(nr & NR_USERS))
			return false;
		/* relaxed: [rounds.O1] follows */
	} while (!atomic_compare_exchange_weak_explicit(users, &nr, nr + 1, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

#endif
