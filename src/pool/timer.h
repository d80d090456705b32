/* SPDX-License-Identifier: MIT */
/*
 * The timer thread: a pool's thread that completes queued jobs which cannot wait for a worker,
 * because they were cancelled or have expired, and queues delayed jobs when their time has come.
 *
 * DESIGN
 *	The timer thread sleeps on its eventcount until the earliest deadline of all queued jobs.
 *	Each queue has its own earliest deadline, `due`.  A submit of a job with a deadline puts the
 *	job, then sets `due` if the deadline is earlier, and wakes the timer thread.  The timer
 *	thread resets `due`, then scans, and sets `due` from the jobs that stay.  A full barrier is
 *	between the two steps on both sides, so the scan finds the job, or the submit sets `due`.
 *	A cancel changes the job's phase, then counts itself, and wakes the timer thread.  Delayed
 *	jobs are in no queue; the timer thread looks at all of them after a pool's cancel or close.
 *	A scan delays the timer thread, and takers that find the lane held.  So the timer thread
 *	rests after a scan, longer after a longer scan, but at most 2 ms, because jobs wait for it.
 *	Queued jobs that are cancelled or expired come first: the timer thread looks for them after
 *	each piece of other work, because many delayed jobs or holds take long.  After a wake for
 *	work that is not due yet, it rests a moment, or until a job is cancelled.
 *	Jobs that it took off their queue are completed as on a worker, and counted in its own
 *	figures.  Jobs that come after a barrier are left to the workers.
 *	The thread is in worker/timer_thread.c; job/delayed.h has delayed jobs.
 */
#ifndef RNL_TIMER_H
#define RNL_TIMER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "stream/job_flags.h"
#include "pool/worker.h"
#include "sys/eventcount.h"
#include "sys/clock.h"
#include "sys/heap.h"
#include "sys/inbox.h"

#define RNL__TIMER RNL_WORKERS_MAX	/* the timer thread's index, in place of a worker's */

/* Called between two pieces of the timer thread's long work. */
struct rnl__timer_break {
	void (*look)(struct rnl__timer_break *brk);
	unsigned steps;
};

#define RNL__TIMER_PIECE 256u	/* steps between two looks */

/* Counts a step of long work, some 0.1 us; looks after each piece. */
static inline void rnl__timer_step(struct rnl__timer_break *brk)
{
	if (++brk->steps % RNL__TIMER_PIECE == 0)
		brk->look(brk);
}

/* rnl__timer_step(), as a heap calls it. */
static inline void rnl__timer_between(void *brk)
{
	rnl__timer_step(brk);
}

struct rnl__timer {
	struct rnl__eventcount eventcount;
	struct rnl__eventcount
		cancelled; /* wakes the timer thread even while it rests */
	_Atomic uint32_t cancels;	/* of jobs that had not started */
	_Atomic uint32_t outside;	/* those that also concern jobs in no queue */
	struct rnl__inbox came;		/* delayed jobs that it has not seen */
	struct rnl__inbox cancelled_delayed; /* cancelled jobs, linked by `cancelled` */
	struct rnl__heap delayed;	/* delayed jobs that it has seen, by time */
	struct rnl_job *notices;	/* notices that it has seen, a list */
	struct rnl__inbox came_holds;	/* holds with a deadline that it has not seen */
	struct rnl__inbox left_holds;	/* holds with a deadline, released */
	struct rnl__heap hold_deadlines;	/* holds that it has seen, by deadline */
	_Atomic bool ends;
	bool started;			/* a thread exists */
	pthread_t thread;
	/* Counts the jobs that it completes.  `self.queue` is empty; its `due` is for holds. */
	struct rnl__worker self;
};

/* Returns when an unstarted job expires; NEVER: it does not, or it is left to the workers. */
static inline uint64_t rnl__timer_expiry(const struct rnl_job *job)
{
	if (!(job->flags & RNL__JOB_DEADLINE) || rnl__job_follows(job))
		return RNL__NEVER;
	return job->submit_ns + job->deadline_ns + 1;
}

/* Wakes the timer thread after a change.  Begins with a full barrier. */
void rnl__timer_wake(struct rnl_pool *pool);

/* Notes that a job on the worker's queue expires at @at.  A full barrier must precede the call. */
void rnl__timer_expect(struct rnl__worker *w, uint64_t at);

/* Counts a cancel of unstarted jobs.  @outside: it also concerns jobs that are in no queue. */
void rnl__timer_cancelled(struct rnl_pool *pool, bool outside);

/* Return the number of counted cancels, all or (_outside) only those with @outside. */
uint32_t rnl__timer_cancels(struct rnl_pool *pool);
uint32_t rnl__timer_outside(struct rnl_pool *pool);

#endif
