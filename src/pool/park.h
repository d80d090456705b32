/* SPDX-License-Identifier: MIT */
/*
 * Parking: how a worker sleeps until another thread has work for it.  A waker makes a system call
 * only if the worker sleeps or is about to sleep.
 *
 * DESIGN
 *	The sleeper writes ASLEEP, then looks for work once more, then sleeps.  The waker publishes
 *	work, then reads whether the sleeper wrote ASLEEP.  Each side writes, then reads the other's
 *	word.  With a full barrier between the two steps on both sides, at least one side sees the
 *	other's write (Dekker).
 *	The waker's barrier is free: a put is an exchange of the queue's tail, which is a full
 *	barrier already.  While the worker is awake, a wake is a load of a cache line that no thread
 *	writes.
 *	A pool has an idle set, and another for classes' own workers.  A worker that sleeps idle, that is,
 *	with nothing on its stream, has a bit there, so that jobs find it.  The bit is set after
 *	ASLEEP and cleared before a wake: an idle sleeper has its bit set, or is about to be woken.
 *	The bits are in words.  Only the words that the pool's workers need are read, so up to 64
 *	workers cost one load.  A worker's word is counted before its thread starts: a waker that
 *	does not see the count published its work before the worker's last look.  So the rules above
 *	hold for each word.
 *	Models: tests/model/park.pml, and steal.pml.
 *
 *			prepare	sleep	leave	wake	wake_one claim
 *	prepare		X	X	X	-	-	-
 *	sleep		X	X	X	-	-	-
 *	leave		X	X	X	-	-	-
 *	wake		-	-	-	-	-	-
 *	wake_one	-	-	-	-	-	-
 *	claim		-	-	-	-	-	-	X: only the owner
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
	/* With up to 64 workers, a look reads only this cache line. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint32_t nr_words; /* words with a worker */
	struct rnl__park **park;	/* the pool's table; [i]: worker i */
	_Atomic uint64_t idle[RNL__IDLE_SET_WORDS]; /* bits of workers that sleep idle */
	/* Bits of idle workers that spin: a hint. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t spinning[RNL__IDLE_SET_WORDS];
};

_Static_assert(RNL_WORKERS_MAX % 64 == 0, "an idle set has a bit for each worker");

/* @park: the pool's table of RNL_WORKERS_MAX entries. */
void rnl__idle_set_init(struct rnl__idle_set *idle_set, struct rnl__park **park);

/* Called before the worker's thread starts. */
void rnl__park_init(struct rnl__park *park, struct rnl__idle_set *idle_set, unsigned index);

/*
 * The worker is about to sleep.  From now on wakes find it; if it is @idle, claims find it, too.
 * The worker must look for work once more, then sleep or leave.
 */
void rnl__park_prepare(struct rnl__park *park, bool idle);

/* Stays awake.  Returns true if a wake came meanwhile, perhaps not for the job that was found. */
bool rnl__park_leave(struct rnl__park *park);

/* Sleeps until a wake or the deadline.  Returns true if it was woken. */
bool rnl__park_sleep(struct rnl__park *park, uint64_t deadline);

/* The slow paths of the inline functions below: there is a sleeper. */
bool rnl__park_wake_asleep(struct rnl__park *park);
bool rnl__idle_set_wake_idle(struct rnl__idle_set *idle_set, const uint64_t *among);
bool rnl__idle_set_others_idle(struct rnl__idle_set *idle_set);

/* @among below has RNL__IDLE_SET_WORDS words with a bit for each worker; NULL: all workers. */
#define RNL__ANY_WORKER NULL

/* Returns the bits of one word. */
static inline uint64_t rnl__among(const uint64_t *among, unsigned word)
{
	return among ? among[word] : UINT64_MAX;
}

/*
 * Wakes the worker if it sleeps or is about to sleep; _wake_one wakes an idle worker of @among.
 * Returns true if one was woken.  The work's publication and a full barrier must precede the call.
 */
static inline bool rnl__park_wake(struct rnl__park *park)
{
	/* relaxed: the caller's full barrier orders it, like [queue.E1] */
	return atomic_load_explicit(&park->word, memory_order_relaxed) == RNL__ASLEEP &&
	       rnl__park_wake_asleep(park);
}

/* Returns how many words to look at.  For a wake, the caller's full barrier must precede this. */
static inline unsigned rnl__idle_set_nr_words(struct rnl__idle_set *idle_set)
{
	/* relaxed: the caller's full barrier orders it, like [queue.E1]; or a hint */
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

/* Returns the bits of 64 workers that sleep idle; a hint. */
static inline uint64_t rnl__idle_set_word(struct rnl__idle_set *idle_set, unsigned word)
{
	/* relaxed: a hint */
	return atomic_load_explicit(&idle_set->idle[word], memory_order_relaxed);
}

/* Returns how many workers sleep idle; a hint. */
unsigned rnl__idle_set_nr(struct rnl__idle_set *idle_set);

/* Returns how many workers of @among have nothing to do, asleep or spinning; a hint. */
unsigned rnl__idle_set_nr_free(struct rnl__idle_set *idle_set, const uint64_t *among);

/* Returns true if the worker was awake a moment ago; a hint. */
static inline bool rnl__park_awake(struct rnl__park *park)
{
	/* relaxed: a hint */
	return atomic_load_explicit(&park->word, memory_order_relaxed) == RNL__AWAKE;
}

/*
 * Claims a worker of @among that sleeps idle, preferably @first.  Returns -1 if there is none.  The
 * caller must wake the worker, with a job or without.
 */
int rnl__idle_set_claim(struct rnl__idle_set *idle_set, unsigned first, const uint64_t *among);

/* The worker starts or stops spinning with nothing to do.  While it spins, it can be claimed. */
void rnl__park_spins(struct rnl__park *park, bool spins);

/* A submit chose this worker without a claim; the worker may be spinning. */
static inline void rnl__park_claimed(struct rnl__park *park)
{
	/* relaxed: a hint */
	if (atomic_load_explicit(&park->idle_set->spinning[park->index / 64],
				 memory_order_relaxed) >>
		    park->index % 64 &
	    1)
		rnl__park_spins(park, false);
}

/* Claims a worker of @among that spins or just did; -1: there is none.  It needs no wake. */
int rnl__idle_set_claim_spinning(struct rnl__idle_set *idle_set, const uint64_t *among);

/* Returns true if a worker sleeps idle; a hint. */
static inline bool rnl__idle_set_any(struct rnl__idle_set *idle_set)
{
	/* relaxed: a hint */
	return atomic_load_explicit(&idle_set->idle[0], memory_order_relaxed) != 0 ||
	       (rnl__idle_set_nr_words(idle_set) > 1 && rnl__idle_set_others_idle(idle_set));
}

#endif
