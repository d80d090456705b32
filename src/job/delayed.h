/* SPDX-License-Identifier: MIT */
/*
 * Delayed jobs: they wait with the timer thread, outside of the queues: for their time, or, as notices,
 * for space in the pool or for its end.
 *
 * DESIGN
 *	A submit puts the job in an inbox and wakes the timer thread.  The timer thread has the jobs that wait for
 *	a time in a heap, and the notices in a list.  The links are in the jobs' `more`: so no memory is
 *	allocated, and there is no bound.  The timer thread queues a job when its time has come, when it was
 *	cancelled, or when the pool is closed.  A notice for the end is not cancelled by a close.
 *	A thread that cancels a job changes its phase, and then puts it on a second list: so the
 *	timer thread takes it out of the heap without a search.  If its time comes in between, it leaves
 *	the heap, and is queued when the timer thread finds it on that list: until then the thread may
 *	touch it.
 *	A worker that falls idle rings the timer thread if a notice waits.  While one waits for space, the
 *	timer thread looks for it each millisecond, too: so no take of a job does.  Space is
 *	rnl__pool_has_room(): half of all places are free, so that a notice does not come for each
 *	job.
 *	A tally counts the jobs, and closes as a queue does: a drain of a closed pool waits until
 *	none is inside.  Notices for the end have a tally of their own: they come after the close,
 *	and wait for all that the others count.
 *
 *			push	cancelled	look
 *	push		-	-		-
 *	cancelled	-	-		-
 *	look		-	-		X	X: the timer thread alone
 */
#ifndef RNL_DELAYED_H
#define RNL_DELAYED_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

struct rnl__timer_break;

/* The timer thread: before it starts. */
void rnl__delayed_init(struct rnl_pool *pool);

/* Gives an accepted job, which is counted, to the timer thread; its time, if it has one, is in submit_ns. */
void rnl__delayed_push(struct rnl_job *job);

/* Gives the timer thread a job that this thread has cancelled: its phase was DELAYED. */
void rnl__delayed_cancelled(struct rnl_pool *pool, struct rnl_job *job);

/* Whether a job came, or was cancelled, that the timer thread has not seen; a full barrier stands before. */
bool rnl__delayed_came(struct rnl_pool *pool);

/*
 * The timer thread: queues the jobs that wait no longer, or that were cancelled; @all: all may have been, by
 * rnl_pool_cancel().  @brk: the timer thread's, since there may be many.
 */
void rnl__delayed_look(struct rnl_pool *pool, uint64_t now, bool all,
		       struct rnl__timer_break *brk);

/* The timer thread: when it is to look next, by the jobs seen; 0: a notice waits no longer. */
uint64_t rnl__delayed_time(struct rnl_pool *pool);

#endif
