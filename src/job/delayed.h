/* SPDX-License-Identifier: MIT */
/*
 * Delayed jobs: they wait for their time, outside of the queues.
 *
 * DESIGN
 *	A submit pushes the job on a list and wakes the keeper.  The keeper has the jobs in a
 *	pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986), whose links are in the jobs: so
 *	no memory is allocated, and there is no bound.  When a job's time has come, or it was
 *	cancelled, or the pool was closed, the keeper queues it.
 *	A thread that cancels a job changes its phase, and then puts it on a second list: so the
 *	keeper takes it out of the heap without a search.  If its time comes in between, it leaves
 *	the heap, and is queued when the keeper finds it on that list: until then the thread may
 *	touch it.
 *	A tally counts the jobs, and closes as a queue does: a drain of a closed pool waits until
 *	none is inside.
 *
 *			push	cancelled	look
 *	push		-	-		-
 *	cancelled	-	-		-
 *	look		-	-		X	X: the keeper alone
 */
#ifndef RNL_DELAYED_H
#define RNL_DELAYED_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

struct rnl__keeper_break;

/* Gives an accepted job, which the tally has counted, to the keeper; its time is in submit_ns. */
void rnl__delayed_push(struct rnl_job *job);

/* Gives the keeper a job that this thread has cancelled: its phase was DELAYED. */
void rnl__delayed_cancelled(struct rnl_pool *pool, struct rnl_job *job);

/* Whether a job came, or was cancelled, that the keeper has not seen; a full barrier stands before. */
bool rnl__delayed_came(struct rnl_pool *pool);

/*
 * The keeper: queues the jobs whose time is up, or that were cancelled; @all: all may have been, by
 * rnl_pool_cancel().  @brk: the keeper's, since there may be many.
 */
void rnl__delayed_look(struct rnl_pool *pool, uint64_t now, bool all,
		       struct rnl__keeper_break *brk);

/* The keeper: the earliest time, of the jobs seen. */
uint64_t rnl__delayed_time(struct rnl_pool *pool);

#endif
