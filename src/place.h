/* SPDX-License-Identifier: MIT */
/*
 * Which worker a job goes to.
 *
 * DESIGN
 *	A keyed job goes to its key's worker; an unkeyed one to an idle worker,
 *	if one sleeps, else to the submitter's usual one, which now and then
 *	becomes the less loaded of two.  An urgent job chooses among the urgent
 *	workers, if there are any.
 *	The choice is made by the table of workers, which a resize may change
 *	beside it: a worker that has left refuses the reservation, and a keyed
 *	lane that was shut the promise; then the choice is made again, by the
 *	new table.
 */
#ifndef RNL_PLACE_H
#define RNL_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "bell.h"

/*
 * Chooses a worker for a claimed job, by its flags and its key, and reserves
 * room: 0, then the job is to be put; -EAGAIN full; -ESHUTDOWN.  @high is set if a
 * queue holds more than its share of the high water mark.
 */
int rnl__place_reserve(struct rnl_pool *pool, struct rnl_job *job, bool *high);

/*
 * The same for up to @nr jobs that any worker may run; how many, from the first
 * on, or the error.
 */
int rnl__place_reserve_chain(struct rnl_pool *pool, unsigned nr, unsigned *worker, bool *high);

/* Puts a job that room was reserved for, and sees that somebody runs it. */
void rnl__place_put(struct rnl_job *job);

void rnl__place_put_chain(struct rnl_pool *pool, unsigned worker, struct rnl_job *const *jobs,
			  unsigned nr);

/* Starts a job that was put off for its barrier, full or closed. */
void rnl__place_deferred(struct rnl_job *job);

/* Starts a job that is accepted just now, full or closed, at the @home-th worker, round them. */
void rnl__place_at(struct rnl_job *job, unsigned home);

/* Starts a job that is accepted just now, full or closed, before all others. */
void rnl__place_first(struct rnl_job *job);

/* Reserves for a job that comes after a barrier: 0, -EAGAIN, -ESHUTDOWN. */
int rnl__place_put_off(struct rnl_pool *pool, struct rnl_job *job);

/* What a submit that waits for room has. */
struct rnl__wish {
	bool put_off, keyed, urgent;
	uint64_t key;
};

/* Listens for room for it; what to wait on. */
struct rnl__bell *rnl__place_listen(struct rnl_pool *pool, const struct rnl__wish *wish,
				    uint32_t *listened);

#endif
