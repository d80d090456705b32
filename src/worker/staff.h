/* SPDX-License-Identifier: MIT */
/*
 * Which workers serve a pool, and how that changes concurrently with submits.
 *
 * DESIGN
 *	The staff is one word: a generation and the number of workers.  Workers are not freed before
 *	their pool, so a submit reads the staff without a lock, a registration or a grace period.
 *	A submit that uses an old staff is refused when it reserves, because the queue of a worker
 *	that has left has the bit AWAY.  An earlier reservation is counted, so the worker knows
 *	whether it may leave.
 *	Keyed jobs of a generation use one of two lanes.  A resize publishes the new staff, shuts
 *	the old lanes, waits until all jobs counted for them are done, and then lets the workers
 *	take from the new lanes.  So the jobs of a key keep their order when the key moves to
 *	another worker.  A worker may read the served generation and be preempted during two
 *	resizes, after which the lane is in use again: so each job carries its generation.
 *	A worker that leaves keeps its thread, its stream and its events: the pool may grow again.
 *	Model: tests/model/resize.pml.
 */
#ifndef RNL_STAFF_H
#define RNL_STAFF_H

#include <runnel.h>

struct rnl__own;
struct rnl__tracks;

/* Starts a new pool's workers: all of them, or, if one fails, none.  Returns 0 or the error. */
int rnl__staff_start(struct rnl_pool *pool, unsigned nr_workers);

/*
 * Makes each worker, including later ones, record its jobs in its track of @tracks, or, if @tracks
 * is NULL, stop recording.  Blocks until each worker has done so.  Must not be called on a worker.
 */
void rnl__staff_set_tracks(struct rnl_pool *pool, struct rnl__tracks *tracks);

/*
 * Starts workers for a class: @nr of those for classes, with streams and spins like @like.
 * *@workers: receives a bit for each.  Returns 0; -EAGAIN other classes have too many, which is
 * logged; or the error.  Blocks; not on a worker.
 */
int rnl__staff_lend(struct rnl_pool *pool, unsigned nr, const struct rnl__own *like, uint64_t *workers);

/* Makes them serve the class in that place of the table; 0: none. */
void rnl__staff_assign(struct rnl_pool *pool, uint64_t workers, unsigned class);

/* Takes them back: the class has no jobs.  Waits until they are done with those that they had. */
void rnl__staff_take_back(struct rnl_pool *pool, uint64_t workers);

/* Ends the threads of all workers, which have no jobs. */
void rnl__staff_dismiss(struct rnl_pool *pool);

#endif
