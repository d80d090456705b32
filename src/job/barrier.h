/* SPDX-License-Identifier: MIT */
/*
 * A barrier: the join of jobs, and what workers and submits tell it.
 *
 * DESIGN
 *	A barrier has two latches.  `undone` counts jobs until they are done: host threads wait
 *	on it.  `unissued` counts jobs until an event behind them is recorded on their stream:
 *	from then on other streams can wait for that event, and never for a later one.
 *	`seq` has, for each worker, the sequence of the barrier's last job there: so a join
 *	waits for at most one event per worker, and for no worker without such a job.
 *	A deferred job is pushed on `waiting` before its submit looks at `unissued`.  A worker
 *	that drops `unissued` to 0 looks at `waiting` after that.  Both change `unissued`, so
 *	one of them sees the other, and starts the job.
 *	The last touch of a barrier is the drop of `undone` for its last job.
 *	Model: tests/model/barrier.pml.
 *
 *			count	defer	issued	done	follow
 *	count		-	-	-	-	-
 *	defer		-	-	-	-	-
 *	issued, done	-	-	-	-	-	once per counted job, in this order
 *	follow		-	-	-	-	-	once `unissued` was 0
 */
#ifndef RNL_BARRIER_H
#define RNL_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

/* Counts a job that is accepted now. */
void rnl__barrier_count(struct rnl_barrier *barrier);

/* Whether a job that comes after the barrier may be queued now. */
bool rnl__barrier_ready(struct rnl_barrier *barrier);

/*
 * Defers a job until all jobs that its barrier `after` counts are issued.  If they are, queues
 * the job now.
 */
void rnl__barrier_defer(struct rnl_job *job);

/* On the worker: the sequence of a job of the barrier on the worker's stream. */
void rnl__barrier_place(struct rnl_barrier *barrier, unsigned worker, uint64_t seq);

/* The result of a job, before the job counts as issued or done.  The first error stays. */
void rnl__barrier_note(struct rnl_barrier *barrier, int result);

/* @nr jobs are marked on their streams, or will not run. */
void rnl__barrier_issued(struct rnl_barrier *barrier, uint32_t nr);

/* @nr jobs are done.  The barrier may be gone on return. */
void rnl__barrier_done(struct rnl_barrier *barrier, uint32_t nr);

/*
 * Makes the calling thread's stream wait for the barrier's jobs, which are all issued.
 * 0, -ECANCELED a job of the barrier has failed, or the error of the device.
 */
int rnl__barrier_follow(struct rnl_barrier *barrier);

#endif
