/* SPDX-License-Identifier: MIT */
/*
 * Parking: how a worker sleeps until others have work for it, and they make a
 * system call only if it does sleep.
 *
 * DESIGN
 *	The sleeper says ASLEEP, then looks for work once more, then sleeps.
 *	The waker publishes work, then looks whether the sleeper said ASLEEP.
 *	Each side writes, then reads what the other wrote; with a full barrier
 *	between the two on both sides, at least one sees the other (Dekker).
 *	The waker pays nothing for its barrier: publishing is an exchange on
 *	the queue's tail, which is one already.  While nobody sleeps a wake is
 *	a load of a line that nobody writes.
 *	The lot is the pool's: a bit for each worker that sleeps and has nothing
 *	on its stream either, so that jobs find it.  A bit is set after ASLEEP
 *	and cleared before a wake: so a worker that sleeps idle has its bit set,
 *	or somebody is about to wake it.
 *	Models: tests/model/park.pml, and steal.pml.
 *
 *			prepare	sleep	leave	wake	wake_one claim
 *	prepare		X	X	X	-	-	-
 *	sleep		X	X	X	-	-	-
 *	leave		X	X	X	-	-	-
 *	wake		-	-	-	-	-	-
 *	wake_one	-	-	-	-	-	-
 *	claim		-	-	-	-	-	-	X: the owner alone
 */
#ifndef RNL_PARK_H
#define RNL_PARK_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "atomic.h"
#include "fence.h"

enum { RNL__AWAKE = 0, RNL__ASLEEP = 1 };

struct rnl__lot;

struct rnl__park {
	_Atomic uint32_t word;
	unsigned index;			/* our bit in the lot */
	struct rnl__lot *lot;
};

struct rnl__lot {
	_Atomic uint64_t idle;		/* they sleep */
	struct rnl__park *park[RNL_WORKERS_MAX];
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t spinning; /* idle, but awake: a hint */
};

_Static_assert(RNL_WORKERS_MAX <= 64, "a lot has a bit for each worker");

void rnl__park_init(struct rnl__park *park, struct rnl__lot *lot, unsigned index);

/*
 * From here on a wake finds us, and if we are @idle, who looks for such a one,
 * too.  Then look again, then sleep or leave.
 */
void rnl__park_prepare(struct rnl__park *park, bool idle);

/*
 * Stays awake after all.  True if somebody woke us meanwhile, for something that we may
 * not have come for.
 */
bool rnl__park_leave(struct rnl__park *park);

/* Sleeps until woken or until the deadline; true if woken. */
bool rnl__park_sleep(struct rnl__park *park, uint64_t deadline);

/* What the two below do once they have seen somebody asleep. */
bool rnl__park_wake_asleep(struct rnl__park *park);
bool rnl__lot_wake_idle(struct rnl__lot *lot);

/*
 * Wake the worker if it sleeps or is about to, or any one that is idle; true if
 * one did.  A full barrier stands between what it is to see and this call.
 */
static inline bool rnl__park_wake(struct rnl__park *park)
{
	/* relaxed: the full barrier [queue.E1] of the caller stands before it */
	return atomic_load_explicit(&park->word, memory_order_relaxed) == RNL__ASLEEP &&
	       rnl__park_wake_asleep(park);
}

static inline bool rnl__lot_wake_one(struct rnl__lot *lot)
{
	/* relaxed: who looks acquires */
	return atomic_load_explicit(&lot->idle, memory_order_relaxed) && rnl__lot_wake_idle(lot);
}

/* How many workers sleep idle; a hint. */
static inline unsigned rnl__lot_nr(struct rnl__lot *lot)
{
	/* relaxed: a hint */
	return (unsigned)__builtin_popcountll(atomic_load_explicit(&lot->idle, memory_order_relaxed));
}

/* Whether it did not sleep a moment ago; a hint. */
static inline bool rnl__park_awake(struct rnl__park *park)
{
	/* relaxed: a hint */
	return atomic_load_explicit(&park->word, memory_order_relaxed) == RNL__AWAKE;
}

/*
 * Takes an idle worker for oneself, @first if that is one; -1 if there is none.  The
 * caller wakes it, with a job or without.
 */
int rnl__lot_claim(struct rnl__lot *lot, unsigned first);

/* Whether we spin with nothing to do; then who looks for an idle worker may claim us. */
void rnl__park_spins(struct rnl__park *park, bool spins);

/* One that spins, perhaps, was chosen by who did not look who does. */
static inline void rnl__park_claimed(struct rnl__park *park)
{
	/* relaxed: a hint */
	if (atomic_load_explicit(&park->lot->spinning, memory_order_relaxed) >> park->index & 1)
		rnl__park_spins(park, false);
}

/* Takes one that does, without any promise; -1 if there is none.  Nobody has to wake it. */
int rnl__lot_claim_spinning(struct rnl__lot *lot);

/* Whether a worker sleeps idle; a hint. */
static inline bool rnl__lot_idle(struct rnl__lot *lot)
{
	/* relaxed: a hint */
	return atomic_load_explicit(&lot->idle, memory_order_relaxed) != 0;
}

#endif
