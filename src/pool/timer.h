/* SPDX-License-Identifier: MIT */
/*
 * The timer thread: a pool's thread that completes queued jobs which cannot wait for a worker, since
 * they were cancelled or are late, and queues delayed jobs when their time has come.
 *
 * DESIGN
 *	The timer thread sleeps on its eventcount until the earliest deadline of all queued jobs.  Each queue
 *	has the earliest of its own, `due`: a submit of a job with a deadline puts the job, then
 *	sets `due` if the deadline is earlier, and rings.  The timer thread forgets `due`, then scans
 *	through the queue, and sets `due` anew from the jobs that stay.  A full barrier stands
 *	between the two steps on both sides: so the scan finds the job, or the submit sets `due`.
 *	A cancel counts itself after the change of the job's phase, and rings.  Delayed jobs are in
 *	no queue: the timer thread looks at all of them if all jobs of the pool were cancelled.
 *	A scan costs time, the timer thread's and that of takers which find a lane held: so the timer thread
 *	rests after it, the longer the longer it took, but no longer than jobs may wait.
 *	Queued jobs that are cancelled or late come first.  What else the timer thread does may take long,
 *	with many delayed jobs or holds: so it looks for such jobs again after each piece
 *	of that.  If it was woken for nothing it rests, until a job is cancelled.
 *	A job that the timer thread has taken off its queue is completed as by a worker, with counts of
 *	the timer thread's own.  A job that comes after a barrier is left to the workers.
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

#define RNL__TIMER RNL_WORKERS_MAX	/* its index, where a worker has one */

/* What the timer thread does between two pieces of long work. */
struct rnl__timer_break {
	void (*look)(struct rnl__timer_break *brk);
	unsigned steps;
};

#define RNL__TIMER_PIECE 256u	/* steps between two looks */

/* A step of long work is done; some 0.1 us. */
static inline void rnl__timer_step(struct rnl__timer_break *brk)
{
	if (++brk->steps % RNL__TIMER_PIECE == 0)
		brk->look(brk);
}

/* The same, for a heap. */
static inline void rnl__timer_between(void *brk)
{
	rnl__timer_step(brk);
}

struct rnl__timer {
	struct rnl__eventcount eventcount;
	struct rnl__eventcount
		cancelled; /* while the timer thread rests: only a cancel ends that */
	_Atomic uint32_t cancels;	/* of jobs that had not started, ever */
	_Atomic uint32_t outside;	/* of them, jobs that may be in no queue */
	struct rnl__inbox came;		/* delayed jobs that it has not seen */
	struct rnl__inbox cancelled_delayed; /* those that were cancelled, by `cancelled` */
	struct rnl__heap delayed;	/* those that it has seen, by time */
	struct rnl_job *notices;	/* and the list of those that wait for no time */
	struct rnl__inbox came_holds;	/* with a deadline, that it has not seen */
	struct rnl__inbox left_holds;	/* with a deadline, that were released */
	struct rnl__heap hold_deadlines;	/* those that it has seen, by deadline */
	_Atomic bool ends;
	bool started;			/* there is a thread */
	pthread_t thread;
	/* Counts what the timer thread completes.  Its queue is empty; the time `due` there is of holds. */
	struct rnl__worker self;
};

/* When a job that has not started is late; NEVER: the timer thread leaves it to the workers. */
static inline uint64_t rnl__timer_expiry(const struct rnl_job *job)
{
	if (!(job->flags & RNL__JOB_DEADLINE) || rnl__job_follows(job))
		return RNL__NEVER;
	return job->submit_ns + job->deadline_ns + 1;
}

/* There is something for the timer thread: wakes it.  A full barrier stands between. */
void rnl__timer_wake(struct rnl_pool *pool);

/* A job was put on the worker's queue, and is late from @at on.  A full barrier stands before. */
void rnl__timer_expect(struct rnl__worker *w, uint64_t at);

/* A job was cancelled that had not started; @outside: all were, delayed ones too. */
void rnl__timer_cancelled(struct rnl_pool *pool, bool outside);

/* How many such cancels there were, or of jobs @outside; the jobs are seen cancelled. */
uint32_t rnl__timer_cancels(struct rnl_pool *pool);
uint32_t rnl__timer_outside(struct rnl_pool *pool);

#endif
