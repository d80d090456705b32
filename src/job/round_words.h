/* SPDX-License-Identifier: MIT */
/* The words of a barrier's rounds, as rounds.c and rounds_await.c read and change them. */
#ifndef RNL_ROUND_WORDS_H
#define RNL_ROUND_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "sys/atomic.h"

#define NR_SLOTS 8u

/*
 * `open`: in its low half jobs that are not done << 1 | SLEEPER, in its high half the slot, the
 * next slot, JOINER, and jobs that are not issued.  Until the round is sealed, the next slot is the
 * slot itself.  A half is the word of a futex.
 */
#define SLEEPER UINT64_C(1)		/* a thread sleeps until all is done */
#define UNDONE UINT64_C(2)
#define UNISSUED (UINT64_C(1) << 32)
#define NR_UNISSUED ((UINT64_C(1) << 25) - 1)
#define JOINER (UINT64_C(1) << 57)	/* a thread sleeps until all is issued */
#define NEXT_SHIFT 58
#define SLOT_SHIFT 61

/* Half of what the count has bits for: submits that run meanwhile count more. */
#define ROOM (UINT64_C(1) << 24)
#define ROOM_UNDONE (UINT64_C(1) << 30)
#define FULL (ROOM * UNISSUED | ROOM_UNDONE * UNDONE)	/* bits that are set if there is none */

/* `waiting`: a pointer to a job | these.  All of it is ENDED_LIST | bits when the round is over. */
#define ISSUED UINT64_C(1)
#define FOLLOWED UINT64_C(2)		/* the next round is open, and counts this one */
#define WATCHED UINT64_C(4)		/* a thread sleeps until the round has ended */
#define BITS (ISSUED | FOLLOWED | WATCHED)
#define ENDED_LIST UINT64_C(8)

/* `users`: how many use the slot, and the slot of the round that came next. */
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

/* The half of a word that a futex compares. */
static inline _Atomic uint32_t *half_of(_Atomic uint64_t *word, bool high)
{
	const bool second = high == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

	return (_Atomic uint32_t *)(void *)word + second;
}

static inline uint64_t open_now(struct rnl_barrier *b)
{
	/* [rounds.O2] acquire: what the jobs did that were dropped; pairs with [rounds.O1] */
	return atomic_load_explicit(open_of(b), memory_order_acquire);
}

static inline bool exchange_open(struct rnl_barrier *b, uint64_t *open, uint64_t now)
{
	/*
	 * [rounds.O1] acq_rel: what the dropped jobs did, to the thread that finds no more of
	 * them; and a user of a slot is counted before another thread finds the slot no longer
	 * open; pairs with [rounds.O1], [rounds.O2].
	 */
	return atomic_compare_exchange_weak_explicit(open_of(b), open, now, memory_order_acq_rel,
						     memory_order_acquire);
}

static inline uint64_t waiting_now(struct rnl_barrier *b, unsigned slot)
{
	/* [rounds.W2] acquire: what was done before the round's state changed; pairs with [rounds.W1] */
	return atomic_load_explicit(waiting_of(b, slot), memory_order_acquire);
}

static inline bool exchange_waiting(struct rnl_barrier *b, unsigned slot, uint64_t *waiting, uint64_t now)
{
	/*
	 * [rounds.W1] acq_rel: the jobs on the list, to the thread that takes them, and what
	 * the round's jobs did, to a thread that finds it issued, or ended; pairs with
	 * [rounds.W1], [rounds.W2].
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

/* One more user of a slot; false: it had none, so the caller's view is old. */
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
