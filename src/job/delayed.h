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
 *	between these two steps, the job leaves the heap, but is queued only when it is found on
 *	the second list: until then the cancelling thread may access the job.
 *	A worker that becomes idle wakes the timer thread if a notice waits.  While a notice waits
 *	for space, the timer thread also checks each millisecond, so takers need not wake it.  Space
 *	means half of all places, rnl__pool_has_room(): one free place must not start a notice.
 *	A tally counts the jobs, and closes like a queue: a drain of a closed pool waits until the
 *	tally is empty.  Notices for the pool's end have their own tally: they start after the close
 *	and after all other jobs.
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

/* Gives the timer thread an accepted, counted job; its time, if it has one, is more->start_ns. */
void rnl__delayed_push(struct rnl_job *job);

/* Gives the timer thread a job that the calling thread has cancelled in the phase DELAYED. */
void rnl__delayed_cancelled(struct rnl_pool *pool, struct rnl_job *job);

/* Returns true if there are jobs or cancels to look at.  A full barrier must precede the call. */
bool rnl__delayed_came(struct rnl_pool *pool);

/*
 * On the timer thread: queues the jobs that are due or were cancelled.  @all: looks at all jobs,
 * because rnl_pool_cancel() was called.  @brk: gets a step for each job, as there may be many.
 */
void rnl__delayed_look(struct rnl_pool *pool, uint64_t now, bool all,
		       struct rnl__timer_break *brk);

/* On the timer thread: returns the time of the next look for the known jobs; 0: a notice is due. */
uint64_t rnl__delayed_time(struct rnl_pool *pool);

#endif
