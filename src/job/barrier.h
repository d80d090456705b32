/* SPDX-License-Identifier: MIT */
/*
 * A barrier: the join of jobs, and what workers and submits tell it.
 *
 * DESIGN
 *	A barrier counts jobs until they are issued, which is until an event behind them is
 *	recorded on their stream, and until they are done.  From the first moment on other streams
 *	can wait for that event, and never for a later one.
 *	`places` has, for the first workers that have jobs of the barrier, the end of the sequence of
 *	the last job there.  For the others a bit is noted, and a join looks for that job among those
 *	on the worker's stream: rnl__inflight_last_of().  So a join waits for at most one event for
 *	each worker, that of the barrier's last job there, and for no worker without such a job.
 *	A job after the barrier waits for a round of it: rounds.h.  It is deferred until the
 *	round is issued, and held back by its worker until the round has ended, whatever became
 *	of it: so the end of a job after tells that the jobs before it are done.
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
 * The submit of a job that comes after barriers: notes the round of each that it waits for, if one is
 * open.  0, -EAGAIN too many rounds are under way.
 */
int rnl__barrier_snapshot(struct rnl_job *job);

/* Whether the job, which has its snapshot, may be queued now. */
bool rnl__barrier_ready(const struct rnl_job *job);

/* The job has a snapshot, and was not accepted. */
void rnl__barrier_forget(struct rnl_job *job);

/*
 * Defers a job until the first of its rounds that is not issued is; then it goes on by
 * rnl__barrier_issued().  False: all are.
 */
bool rnl__barrier_defer(struct rnl_job *job);

/* A round that has deferred the job is issued: defers it until the next one, or has it queued. */
void rnl__barrier_issued(struct rnl_job *job);

/*
 * Makes the calling thread's stream wait for the barriers' jobs, those of the rounds are issued.
 * 0, -ECANCELED a job of a barrier has failed, or the error of the device.
 */
int rnl__barrier_follow(const struct rnl_job *job);

/* Whether all rounds of a job that comes after barriers have ended; it leaves those that have. */
bool rnl__barrier_over(struct rnl_job *job);

/*
 * On the job's worker: has the job returned to job->worker when the first of its rounds that has not
 * ended has; it asks again then.  False: all have.
 */
bool rnl__barrier_holds(struct rnl_job *job);

/* 0 for an initialised barrier of this process; -EINVAL, -EOWNERDEAD. */
int rnl__barrier_check(const struct rnl_barrier *barrier);

/* As rnl__barrier_check(), for a public @call: logs -EINVAL. */
int rnl__barrier_given(const struct rnl_barrier *barrier, const char *call);

/* ---- jobs of the barrier ------------------------------------------------- */

/* Counts a job; its round. */
unsigned rnl__barrier_count(struct rnl_barrier *barrier);

/*
 * @nr_issued jobs of a round are issued, and @nr_done of its issued jobs are done.  Done: the
 * barrier may be gone on return.
 */
void rnl__barrier_drop(struct rnl_barrier *barrier, unsigned round, uint32_t nr_issued,
		       uint32_t nr_done);

/*
 * Has the job returned to a worker, or to the timer thread, when all jobs counted so far are done; its
 * result is the barrier's.  0; -EAGAIN too many rounds are under way.  The barrier may be gone on
 * return.
 */
int rnl__barrier_tell(struct rnl_barrier *barrier, struct rnl_job *job);

/* On the worker: the sequence of a job of the barrier on the worker's stream. */
void rnl__barrier_place(struct rnl_barrier *barrier, unsigned worker, uint64_t seq);

/* The result of a job, before the job counts as issued or done.  The first error stays. */
void rnl__barrier_note(struct rnl_barrier *barrier, int result);

#endif
