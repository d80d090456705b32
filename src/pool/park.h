/* SPDX-License-Identifier: MIT */
/*
 * Parking: how a worker sleeps until another thread has work for it.  A waker makes a
 * system call only if the worker does sleep.
 *
 * DESIGN
 *	The sleeper writes ASLEEP, then looks for work once more, then sleeps.  The
 *	waker publishes work, then looks whether the sleeper wrote ASLEEP.  Each side
 *	writes, then reads what the other wrote; with a full barrier between the two on
 *	both sides, at least one sees the other (Dekker).
 *	The waker pays nothing for its barrier: a put is an exchange of the queue's
 *	tail, which is a full barrier already.  While the worker is awake, a wake is a
 *	load of a line that no thread writes.
 *	The idle set is the pool's.  It has a bit for each worker that sleeps idle, with nothing on its
 *	stream either, so that jobs find it.  A bit is set after ASLEEP and cleared before a wake:
 *	so a worker that sleeps idle has its bit set, or a waker is about to wake it.
 *	The bits are in words.  An idle set looks at the words that its workers need, so up to 64 workers
 *	cost one load.  A worker's word is counted before its thread starts: a waker that does not
 *	count the word yet published its work before the worker's last look.  So what holds for the
 *	bits of one word holds for each.
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
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#include "sys/atomic.h"
#include "sys/fence.h"

enum { RNL__AWAKE = 0, RNL__ASLEEP = 1 };

struct rnl__idle_set;

struct rnl__park {
	_Atomic uint32_t word;
	unsigned index;			/* the worker's bit in the idle set */
	struct rnl__idle_set *idle_set;
};

#define RNL__IDLE_SET_WORDS (RNL_WORKERS_MAX / 64)

struct rnl__idle_set {
	/* One line has all that a pool of up to 64 workers needs for a look. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t nr_words; /* up to the last that has a worker */
	struct rnl__park **park;	/* the pool's; [i]: of worker i */
	_Atomic uint64_t idle[RNL__IDLE_SET_WORDS]; /* bits of workers that sleep idle */
	/* Of idle ones, awake: a hint. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t spinning[RNL__IDLE_SET_WORDS];
};

_Static_assert(RNL_WORKERS_MAX % 64 == 0, "an idle set has a bit for each worker");

/* @park: a table of RNL_WORKERS_MAX entries. */
void rnl__idle_set_init(struct rnl__idle_set *idle_set, struct rnl__park **park);

/* Before the worker's thread starts. */
void rnl__park_init(struct rnl__park *park, struct rnl__idle_set *idle_set, unsigned index);

/*
 * The worker is about to sleep: from here on wakes find it, and claims, too, if it is @idle.
 * It looks for work once more, then sleeps or leaves.
 */
void rnl__park_prepare(struct rnl__park *park, bool idle);

/* The worker stays awake.  True: it was woken meanwhile, perhaps for another job than it found. */
bool rnl__park_leave(struct rnl__park *park);

/* Sleeps until it is woken, or until the deadline; true: it was woken. */
bool rnl__park_sleep(struct rnl__park *park, uint64_t deadline);

/* What the next two functions do once they have seen a sleeper. */
bool rnl__park_wake_asleep(struct rnl__park *park);
bool rnl__idle_set_wake_idle(struct rnl__idle_set *idle_set, const uint64_t *among);
bool rnl__idle_set_others_idle(struct rnl__idle_set *idle_set);

/* Workers, for a look at an idle set: a bit each, RNL__IDLE_SET_WORDS words; or all. */
#define RNL__ANY_WORKER NULL

/* The bits of one word. */
static inline uint64_t rnl__among(const uint64_t *among, unsigned word)
{
	return among ? among[word] : UINT64_MAX;
}

/*
 * Wakes the worker, if it sleeps or is about to; or an idle one of these.  True: one was woken.  A
 * full barrier stands between what the worker is to see and this call.
 */
static inline bool rnl__park_wake(struct rnl__park *park)
{
	/* relaxed: the caller's full barrier orders it, as [queue.E1] */
	return atomic_load_explicit(&park->word, memory_order_relaxed) == RNL__ASLEEP &&
	       rnl__park_wake_asleep(park);
}

/* The words to look at.  For a wake, the caller's full barrier stands before this. */
static inline unsigned rnl__idle_set_nr_words(struct rnl__idle_set *idle_set)
{
	/* relaxed: the caller's full barrier orders it, as [queue.E1]; or a hint */
	return atomic_load_explicit(&idle_set->nr_words, memory_order_relaxed);
}

static inline bool rnl__idle_set_wake_one(struct rnl__idle_set *idle_set, const uint64_t *among)
{
	/* relaxed: a hint; rnl__idle_set_wake_idle() acquires */
	return (atomic_load_explicit(&idle_set->idle[0], memory_order_relaxed) &
			rnl__among(among, 0) ||
		rnl__idle_set_nr_words(idle_set) > 1) &&
	       rnl__idle_set_wake_idle(idle_set, among);
}

/* The bits of 64 workers that sleep idle; a hint. */
static inline uint64_t rnl__idle_set_word(struct rnl__idle_set *idle_set, unsigned word)
{
	/* relaxed: a hint */
	return atomic_load_explicit(&idle_set->idle[word], memory_order_relaxed);
}

/* How many workers sleep idle; a hint. */
unsigned rnl__idle_set_nr(struct rnl__idle_set *idle_set);

/* How many of these have nothing to do, asleep or spinning; a hint. */
unsigned rnl__idle_set_nr_free(struct rnl__idle_set *idle_set, const uint64_t *among);

/* Whether the worker was awake a moment ago; a hint. */
static inline bool rnl__park_awake(struct rnl__park *park)
{
	/* relaxed: a hint */
	return atomic_load_explicit(&park->word, memory_order_relaxed) == RNL__AWAKE;
}

/*
 * Claims one of these workers that sleeps idle, @first if it does; -1: there is none.  The caller
 * wakes the worker, with a job or without.
 */
int rnl__idle_set_claim(struct rnl__idle_set *idle_set, unsigned first, const uint64_t *among);

/* The worker spins with nothing to do, and can be claimed; or it does no more. */
void rnl__park_spins(struct rnl__park *park, bool spins);

/* A submit chose this worker, which perhaps spins, without a claim. */
static inline void rnl__park_claimed(struct rnl__park *park)
{
	/* relaxed: a hint */
	if (atomic_load_explicit(&park->idle_set->spinning[park->index / 64],
				 memory_order_relaxed) >>
		    park->index % 64 &
	    1)
		rnl__park_spins(park, false);
}

/* Claims one of these that spins, perhaps no more; -1: there is none.  It needs no wake. */
int rnl__idle_set_claim_spinning(struct rnl__idle_set *idle_set, const uint64_t *among);

/* Whether a worker sleeps idle; a hint. */
static inline bool rnl__idle_set_any(struct rnl__idle_set *idle_set)
{
	/* relaxed: a hint */
	return atomic_load_explicit(&idle_set->idle[0], memory_order_relaxed) != 0 ||
	       (rnl__idle_set_nr_words(idle_set) > 1 && rnl__idle_set_others_idle(idle_set));
}

#endif
