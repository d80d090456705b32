/* SPDX-License-Identifier: MIT */
/*
 * The keeper: a pool's thread that completes queued jobs which cannot wait for a worker, since
 * they were cancelled or are late, and queues delayed jobs when their time has come.
 *
 * DESIGN
 *	The keeper sleeps on its bell until the earliest deadline of all queued jobs.  Each queue
 *	has the earliest of its own, `due`: a submit of a job with a deadline puts the job, then
 *	sets `due` if the deadline is earlier, and rings.  The keeper forgets `due`, then walks
 *	through the queue, and sets `due` anew from the jobs that stay.  A full barrier stands
 *	between the two steps on both sides: so the walk finds the job, or the submit sets `due`.
 *	A cancel counts itself after the change of the job's phase, and rings.  Delayed jobs are in
 *	no queue: the keeper looks at all of them if all jobs of the pool were cancelled.
 *	A walk costs time, the keeper's and that of takers which find a lane held: so the keeper
 *	rests after it, the longer the longer it took, but no longer than jobs may wait.
 *	Queued jobs that are cancelled or late come first.  What else the keeper does may take long,
 *	with many delayed jobs or holds: so it looks for such jobs again after each piece
 *	of that.  If it was woken for nothing it rests, until a job is cancelled.
 *	A job that the keeper has taken off its queue is completed as by a worker, with counts of
 *	the keeper's own.  A job that comes after a barrier is left to the workers.
 *	The thread is in worker/keep.c; job/delayed.h has delayed jobs.
 */
#ifndef RNL_KEEPER_H
#define RNL_KEEPER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "stream/job_flags.h"
#include "pool/worker.h"
#include "sys/bell.h"
#include "sys/clock.h"
#include "sys/heap.h"
#include "sys/inbox.h"

#define RNL__KEEPER RNL_WORKERS_MAX	/* its index, where a worker has one */

/* What the keeper does between two pieces of long work. */
struct rnl__keeper_break {
	void (*look)(struct rnl__keeper_break *brk);
	unsigned steps;
};

#define RNL__KEEPER_PIECE 256u	/* steps between two looks */

/* A step of long work is done; some 0.1 us. */
static inline void rnl__keeper_step(struct rnl__keeper_break *brk)
{
	if (++brk->steps % RNL__KEEPER_PIECE == 0)
		brk->look(brk);
}

/* The same, for a heap. */
static inline void rnl__keeper_between(void *brk)
{
	rnl__keeper_step(brk);
}

struct rnl__keeper {
	struct rnl__bell bell;
	struct rnl__bell cancelled;	/* while the keeper rests: only a cancel ends that */
	_Atomic uint32_t cancels;	/* of jobs that had not started, ever */
	_Atomic uint32_t outside;	/* of them, jobs that may be in no queue */
	struct rnl__inbox came;		/* delayed jobs that it has not seen */
	struct rnl__inbox cancelled_delayed; /* those that were cancelled, by `cancelled` */
	struct rnl__heap delayed;	/* those that it has seen, by time */
	struct rnl_job *notices;	/* and the list of those that wait for no time */
	struct rnl__inbox came_holds;	/* with a deadline, that it has not seen */
	struct rnl__inbox left_holds;	/* with a deadline, that were released */
	struct rnl__heap late_holds;	/* those that it has seen, by deadline */
	_Atomic bool ends;
	bool started;			/* there is a thread */
	pthread_t thread;
	/* Counts what the keeper completes.  Its queue is empty; the time `due` there is of holds. */
	struct rnl__worker self;
};

/* When a job that has not started is late; NEVER: the keeper leaves it to the workers. */
static inline uint64_t rnl__keeper_time(const struct rnl_job *job)
{
	if (!(job->flags & RNL__JOB_DEADLINE) || rnl__job_follows(job))
		return RNL__NEVER;
	return job->submit_ns + job->deadline_ns + 1;
}

/* There is something for the keeper: wakes it.  A full barrier stands between. */
void rnl__keeper_ring(struct rnl_pool *pool);

/* A job was put on the worker's queue, and is late from @at on.  A full barrier stands before. */
void rnl__keeper_expect(struct rnl__worker *w, uint64_t at);

/* A job was cancelled that had not started; @outside: all were, delayed ones too. */
void rnl__keeper_cancelled(struct rnl_pool *pool, bool outside);

/* How many such cancels there were, or of jobs @outside; the jobs are seen cancelled. */
uint32_t rnl__keeper_cancels(struct rnl_pool *pool);
uint32_t rnl__keeper_outside(struct rnl_pool *pool);

#endif
