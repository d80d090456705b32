/* SPDX-License-Identifier: MIT */
/*
 * A barrier: the join of jobs, and the interface for submits and workers.
 *
 * DESIGN
 *	A barrier counts its jobs until they are issued, and until they are done.  A job is issued
 *	when an event is recorded after it on its stream.  From then on other streams can wait for
 *	that event.
 *	`places` has, for the first few workers that run jobs of the barrier, the low bits of the
 *	sequence of each worker's last job of the barrier.  For other workers a bit is set, and a
 *	join searches the worker's stream for that job: rnl__inflight_last_of().  So a join waits
 *	for at most one event per worker, and only for workers that have jobs of the barrier.
 *	A job after the barrier waits for a round of the barrier: rounds.h.  The job is deferred
 *	until the round is issued.  Its worker holds the job back until the round has ended, even
 *	if the job failed.  So when the job is done, the jobs before it are done.
 *
 *	A submit takes the snapshot of `after` before it counts the job in its own barrier.
 */
#ifndef RNL_BARRIER_H
#define RNL_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "job/rounds.h"
#include "stream/job_flags.h"

/* ---- jobs that come after ------------------------------------------------ */

/*
 * Called by the submit of a job that comes after barriers: records, for each barrier, the round
 * that the job waits for, if there is one.  Returns 0, or -EAGAIN if too many rounds are in use.
 */
int rnl__barrier_snapshot(struct rnl_job *job);

/* Returns true if the job, which has its snapshot, may be queued now. */
bool rnl__barrier_ready(const struct rnl_job *job);

/* Raises the rounds that an accepted job waits for to a tier: pool/inherit.h. */
void rnl__barrier_raise(const struct rnl_job *job, unsigned tier);

/* Raises the rounds of the job at the order's gate to the tier of a job that has entered the order. */
void rnl__barrier_raise_before(struct rnl_order *order, const struct rnl_job *job);

/* Drops the snapshot of a job that was not accepted. */
void rnl__barrier_forget(struct rnl_job *job);

/*
 * Defers a job until the first of its rounds that is not issued becomes issued.  That round then
 * calls rnl__barrier_issued().  Returns false if all rounds are issued.
 */
bool rnl__barrier_defer(struct rnl_job *job);

/* The round that deferred the job is issued: defers the job until the next round, or queues it. */
void rnl__barrier_issued(struct rnl_job *job);

/*
 * Makes the calling thread's stream wait for the barriers' jobs; the job's rounds must be issued.
 * Returns 0, -ECANCELED if a job of a barrier has failed, or the device's error.
 */
int rnl__barrier_follow(const struct rnl_job *job);

/* Returns true if all rounds of the job have ended.  Leaves the rounds that have ended. */
bool rnl__barrier_over(struct rnl_job *job);

/*
 * On the job's worker: holds the job back until one more of its rounds has ended.  Then the job is
 * returned to job->worker, which calls this again.  Returns false if all rounds have ended.
 */
bool rnl__barrier_holds(struct rnl_job *job);

/* Returns 0 for an initialised barrier of this process, else -EINVAL or -EOWNERDEAD. */
int rnl__barrier_check(const struct rnl_barrier *barrier);

/* Like rnl__barrier_check(), for a public @call: logs -EINVAL. */
int rnl__barrier_given(const struct rnl_barrier *barrier, const char *call);

/* ---- jobs of the barrier ------------------------------------------------- */

/* Counts a job.  Returns the job's round. */
unsigned rnl__barrier_count(struct rnl_barrier *barrier);

/*
 * Reports that @nr_issued jobs of a round are issued, and that @nr_done issued jobs are done.  The
 * barrier may be gone on return if @nr_done is not 0.
 */
void rnl__barrier_drop(struct rnl_barrier *barrier, unsigned round, uint32_t nr_issued,
		       uint32_t nr_done);

/*
 * Returns the job, with the barrier's result, to a worker or to the timer thread when all jobs
 * counted so far are done.  Returns 0, or -EAGAIN if too many rounds are in use.  The
 * barrier may be gone on return.
 */
int rnl__barrier_tell(struct rnl_barrier *barrier, struct rnl_job *job);

/* On the worker: records the sequence of a job of the barrier on the worker's stream. */
void rnl__barrier_place(struct rnl_barrier *barrier, unsigned worker, uint64_t seq);

/*
 * Makes the calling thread's stream wait for the barrier's jobs, which must be issued.  Returns 0 or
 * the device's error.
 */
int rnl__barrier_join_jobs(struct rnl_barrier *barrier);

/* Records a job's result, before the job counts as issued or done.  The first error stays. */
void rnl__barrier_note(struct rnl_barrier *barrier, int result);

#endif
