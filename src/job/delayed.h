/* SPDX-License-Identifier: MIT */
/*
 * Delayed jobs: jobs that the timer thread holds, outside of the queues, until their time comes,
 * or, as notices, until the pool has space or ends.
 *
 * DESIGN
 *	A submit puts the job in an inbox and wakes the timer thread, which keeps jobs with a time
 *	in a heap and notices in a list.  The links are in `more` of the jobs: nothing is
 *	allocated, and the jobs' number is not limited.  The timer thread queues a job when its
 *	time has come, when the job was cancelled, or when the pool is closed.  A close does not
 *	cancel a notice for the pool's end.
 *	A thread that cancels a job changes its phase, and then puts the job on a second list.  So
 *	the timer thread takes the job out of the heap without a search.  If the job's time comes
 *	in between, the job leaves the heap, but is queued only when the list has it: until then
 *	the cancelling thread may access the job.
 *	A worker that becomes idle wakes the timer thread if a notice waits.  While a notice waits
 *	for space, the timer thread also checks each millisecond, so no take has to.  Space means
 *	rnl__pool_has_room(): half of all places are free, so that there is not one notice per job.
 *	A tally counts the jobs, and closes like a queue: a drain of a closed pool waits until it
 *	is empty.  Notices for the pool's end have their own tally: they start after the close and
 *	after all other jobs.
 *
 *			push	cancelled	look
 *	push		-	-		-
 *	cancelled	-	-		-
 *	look		-	-		X	X: the timer thread only
 */
#ifndef RNL_DELAYED_H
#define RNL_DELAYED_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

struct rnl__timer_break;

/* Called before the timer thread starts. */
void rnl__delayed_init(struct rnl_pool *pool);

/* Gives the timer thread an accepted, counted job; its time, if it has one, is in submit_ns. */
void rnl__delayed_push(struct rnl_job *job);

/* Gives the timer thread a job that the calling thread has cancelled in the phase DELAYED. */
void rnl__delayed_cancelled(struct rnl_pool *pool, struct rnl_job *job);

/* Returns true if there are jobs or cancels to look at.  A full barrier must precede the call. */
bool rnl__delayed_came(struct rnl_pool *pool);

/*
 * On the timer thread: queues the jobs that are due or were cancelled.  @all: all may be
 * cancelled, by rnl_pool_cancel().  @brk: the timer thread's, because there may be many jobs.
 */
void rnl__delayed_look(struct rnl_pool *pool, uint64_t now, bool all,
		       struct rnl__timer_break *brk);

/* On the timer thread: returns when to look next, for the jobs seen so far; 0: a notice is due. */
uint64_t rnl__delayed_time(struct rnl_pool *pool);

#endif
