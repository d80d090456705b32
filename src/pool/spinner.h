/* SPDX-License-Identifier: MIT */
/*
 * Spinners: idle workers that look for something while they spin.
 *
 * DESIGN
 *	An owner, a part of a batcher, asks for a spinner: it puts itself in a place of the pool.  The
 *	next worker that runs out of work takes it from there, and looks until the worker has something
 *	to do, or the owner's time is up.  Then the owner must ask again.
 *	`spins` is a hint.  A worker that will be idle sets it early, so that the owner's next request needs no
 *	batch.  A thread that finds no worker looking clears it.
 *	To ask wakes no worker, so an owner asks before it submits a job: the worker of that job will
 *	run out of work.  Workers whose pool has no owner pay for one read of the places.
 *	The latch `users` counts the place, or the worker, that has the owner.  To end, an owner ends its
 *	time, takes itself from its place, and waits for the latch: no worker uses it any more.
 *
 *			ask	take	leave	end
 *	ask		-	-	-	X
 *	take		-	-	-	-
 *	leave		-	-	X	-	X: needs outside synchronisation
 *	end		X	-	-	X
 */
#ifndef RNL_SPINNER_H
#define RNL_SPINNER_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/atomic.h"

struct rnl_pool;

#define RNL__SPINNERS_MAX 8u	/* owners that wait for a worker at a time: a cache line */

struct rnl__spinner {
	void (*look)(struct rnl__spinner *s); /* on the worker's thread; may call callbacks */
	_Atomic uint64_t until;		/* the owner's time */
	_Atomic uint32_t users;		/* latch: 1 while a place or a worker has the owner */
	_Atomic bool spins;		/* a worker looks, or will soon: a hint */
};

/* Returns true if a worker looks, or will soon: a hint. */
static inline bool rnl__spinner_spins(struct rnl__spinner *s)
{
	/* relaxed: a hint */
	return atomic_load_explicit(&s->spins, memory_order_relaxed);
}

static inline void rnl__spinner_set(struct rnl__spinner *s, bool spins)
{
	if (rnl__spinner_spins(s) != spins)
		/* relaxed: a hint */
		atomic_store_explicit(&s->spins, spins, memory_order_relaxed);
}

/* The owner wants a spinner until @until, and asks for one if it has none. */
void rnl__spinner_ask(struct rnl_pool *pool, struct rnl__spinner *s, uint64_t until);

/* Called by a worker that begins to wait: returns an owner to look for, or NULL. */
struct rnl__spinner *rnl__spinner_take(struct rnl_pool *pool);

/* The worker leaves.  The owner may be gone on return. */
void rnl__spinner_leave(struct rnl__spinner *s);

/* Ends the owner's time, and waits until no worker looks. */
void rnl__spinner_end(struct rnl_pool *pool, struct rnl__spinner *s);

#endif
