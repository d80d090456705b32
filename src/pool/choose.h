/* SPDX-License-Identifier: MIT */
/*
 * Which worker a job goes to.
 *
 * DESIGN
 *	A submit claims its job, chooses a worker and reserves space in that worker's queue, puts
 *	the job there, and wakes a worker for it.
 *	A keyed job goes to its key's worker.  An open job goes to an idle worker, else to the
 *	submitter's usual one.  Now and then the less loaded of two workers becomes the usual one.
 *	In a pool of several devices, an open job goes to the device with most idle workers.
 *	candidates.h has the workers that a job may go to.
 *	A resize may change the staff during the choice.  Then the reservation is refused because
 *	the worker has left, or because the job's keyed lane was shut.  The choice is repeated with
 *	the new staff.
 */
#ifndef RNL_CHOOSE_H
#define RNL_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "sys/eventcount.h"

/*
 * Chooses a worker for a claimed job, by its flags and its key, and reserves space there.
 * Returns 0, then the caller must put the job; -EAGAIN full; -ESHUTDOWN closed.
 */
int rnl__choose_reserve(struct rnl_pool *pool, struct rnl_job *job);

/*
 * Chooses one worker for up to @nr open jobs.  Returns the number of jobs, from the first on, that
 * have space there now, or the error.
 */
int rnl__choose_reserve_row(struct rnl_pool *pool, unsigned nr, unsigned *worker);

/* Reserves for a job that comes after a barrier.  Returns 0, -EAGAIN or -ESHUTDOWN. */
int rnl__choose_reserve_deferred(struct rnl_pool *pool, struct rnl_job *job);

/* Takes back a reservation in a queue. */
void rnl__choose_unreserve(struct rnl_pool *pool, struct rnl_job *job);

/* Puts a job that has a reservation, and wakes a worker for it. */
void rnl__choose_put(struct rnl_job *job);

void rnl__choose_put_row(struct rnl_pool *pool, unsigned worker, struct rnl_job *const *jobs,
			  unsigned nr);

/*
 * Choose a worker for an accepted job, and put the job, even if the queue is full or closed.
 * _start: any job.  _deferred: a job that was deferred.  _at: the job goes to the @home-th of the
 * serving workers, modulo their number, or to its class.
 */
void rnl__choose_start(struct rnl_job *job);
void rnl__choose_start_deferred(struct rnl_job *job);
void rnl__choose_start_at(struct rnl_job *job, unsigned home);

/* The job of a submit that waits for space. */
struct rnl__wish {
	const struct rnl_job *job;
	bool keyed;
	uint64_t key;
};

/* Prepares a wait for space for the job.  Returns the eventcount, and in @listened its word. */
struct rnl__eventcount *rnl__choose_listen_for_space(struct rnl_pool *pool,
						     const struct rnl__wish *wish,
						     uint32_t *listened);

#endif
