/* SPDX-License-Identifier: MIT */
/*
 * Which workers serve a pool, and how that changes while others submit.
 *
 * DESIGN
 *	The table of workers is one word, a generation and a number; workers
 *	are never freed before their pool, so a submit reads the table without a
 *	lock, a registration or a grace period.  What it does by an old table is
 *	caught where it reserves: the queue of a worker that has left says AWAY,
 *	and what was reserved before is counted, so the worker knows when it may
 *	go.
 *	Keyed jobs of a generation take one of two lanes.  A resize publishes
 *	the new table, shuts the old lanes, waits until all that was promised to
 *	them is done, and then lets the workers take from the new ones: so a
 *	key's jobs keep their order, whichever worker it moves to.  A job carries
 *	its generation, for a worker that looked which one is served, and was
 *	preempted while two resizes passed: its lane is in use again then.
 *	A worker that leaves keeps its thread, its stream and its events, for
 *	when the pool grows again.
 *	Model: tests/model/resize.pml.
 */
#ifndef RNL_RESIZE_H
#define RNL_RESIZE_H

#include <runnel.h>

/* Staffs a new pool; 0, or why a worker could not start: then none serves. */
int rnl__pool_staff(struct rnl_pool *pool, unsigned nr_workers);

/*
 * Has all workers note jobs in a trace, or, NULL, cease to; those that start later,
 * too.  Blocks until each of them has come by; not on a worker.
 */
void rnl__pool_set_trace(struct rnl_pool *pool, struct rnl__trace *trace);

/* Ends all workers.  No job is left. */
void rnl__pool_dismiss(struct rnl_pool *pool);

#endif
