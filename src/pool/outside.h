/* SPDX-License-Identifier: MIT */
/*
 * Outside: accepted jobs that are in no worker's queue, and operations of the library's own.
 *
 * DESIGN
 *	A job or operation is outside for one reason, and is counted in that reason's tally from the
 *	submit until it leaves.  A job leaves for a queue, which has counted it before, or for its
 *	worker, which will count it as released.  So a drain, which compares sums, misses no job.
 *	The only way out is rnl__outside_leave(), which counts, and wakes the threads named below.
 *	If a submit fails after its entry, it takes the entry back, which wakes all these threads.
 *
 *	reason		bound		leaves when			wakes
 *	DEFERRED	max_queued	it is in a queue		the wait queue
 *	CLASSED		by its class	its worker has it		the wait queue
 *	CHAINED		max_queued	its worker has it		the wait queue
 *	DELAYED		-		it is in a queue		drains, the timer thread
 *	LAST		-		it is in a queue		drains, the timer thread
 *	OPERATION	-		it ends				drains, the timer thread
 *
 *	A deferred or delayed job of a class enters CLASSED before it leaves, even if that is closed.
 *	rnl_pool_close() closes CHAINED and CLASSED first, DELAYED after the queues, and DEFERRED
 *	last; LAST and OPERATION stay open.
 */
#ifndef RNL_OUTSIDE_H
#define RNL_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"
#include "pool/tally.h"
#include "sys/fence.h"

void rnl__outside_init(struct rnl_pool *pool);

/* Enters all of @nr or none.  Returns 0, -EAGAIN if there is no space, or -ESHUTDOWN if closed. */
static inline int rnl__outside_enter(struct rnl_pool *pool, enum rnl__outside why, unsigned nr)
{
	return nr ? rnl__tally_enter(&pool->outside[why], nr) : 0;
}

/* Enters an accepted job that will leave another tally, even if this one is closed. */
static inline void rnl__outside_move_to(struct rnl_pool *pool, enum rnl__outside why)
{
	rnl__tally_enter_always(&pool->outside[why]);
}

/* Takes @nr entries back, and wakes drains and submits, which may have counted the entries. */
void rnl__outside_take_back(struct rnl_pool *pool, enum rnl__outside why, unsigned nr);

/* Leaves: the only way out. */
static inline void rnl__outside_leave(struct rnl_pool *pool, enum rnl__outside why)
{
	rnl__tally_leave(&pool->outside[why]);
	/*
	 * [outside.L1] full barrier: the exit is counted before the look for waiters;
	 * pairs with [waitq.W1], [eventcount.L2]
	 */
	rnl__mb_after_rmw();
	if (why == RNL__DEFERRED || why == RNL__CLASSED || why == RNL__CHAINED)
		rnl__waitq_wake(pool);
	else
		rnl__pool_wake_drained(pool);
}

/* Returns about how many are outside for this reason. */
static inline uint64_t rnl__outside_nr(struct rnl_pool *pool, enum rnl__outside why)
{
	return rnl__tally_inside(&pool->outside[why]);
}

static inline bool rnl__outside_has_space(struct rnl_pool *pool, enum rnl__outside why)
{
	return rnl__tally_has_space(&pool->outside[why]);
}

#endif
