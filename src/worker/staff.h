/* SPDX-License-Identifier: MIT */
/*
 * Which workers serve a pool, and how that changes beside submits.
 *
 * DESIGN
 *	The staff is one word, a generation and a number.  Workers are freed with their pool, not
 *	before: so a submit reads the staff without a lock, a registration or a grace period.  A
 *	submit that goes by an old staff is refused where it reserves: the queue of a worker that
 *	has left says AWAY.  A reservation made before that is counted, so the worker knows whether
 *	it may leave.
 *	Keyed jobs of a generation take one of two lanes.  A resize publishes the new staff, shuts
 *	the old lanes, waits until all jobs that were promised to them are done, and then lets the
 *	workers take from the new lanes: so the jobs of a key keep their order, whichever worker the
 *	key moves to.  A worker may look which generation is served, and be preempted while two
 *	resizes pass, after which the lane is in use again: so each job carries its generation.
 *	A worker that leaves keeps its thread, its stream and its events: the pool may grow again.
 *	Model: tests/model/resize.pml.
 */
#ifndef RNL_STAFF_H
#define RNL_STAFF_H

#include <runnel.h>

struct rnl__tracks;

/* Starts the workers of a new pool; 0, or why one could not start: then none serves. */
int rnl__staff_start(struct rnl_pool *pool, unsigned nr_workers);

/*
 * Has each worker note its jobs in its track of @tracks, or, NULL, cease to; workers that
 * start later, too.  Blocks until each worker has done so.  Not called on a worker.
 */
void rnl__staff_set_tracks(struct rnl_pool *pool, struct rnl__tracks *tracks);

/* Ends the threads of all workers, which have no jobs. */
void rnl__staff_dismiss(struct rnl_pool *pool);

#endif
