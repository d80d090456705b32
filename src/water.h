/* SPDX-License-Identifier: MIT */
/*
 * Water marks: notices that start once the pool is so full, or so empty.
 *
 * DESIGN
 *	A notice is a job that waits on the pool's list for its mark, outside
 *	of the queues.  Who sees the mark reached takes the whole list and
 *	starts it.  While no notice waits, that costs one load.
 *	Full is looked at by submits that find more than its share of the mark
 *	in a worker's queue; empty by workers that took jobs, as often as the
 *	distance to the mark asks for, and that fall idle.  Each of them changed
 *	its queue, and a notice was pushed, before they look at each other, with
 *	a full barrier between: so one sees the other.
 */
#ifndef RNL_WATER_H
#define RNL_WATER_H

#include <stdint.h>

#include <runnel.h>

/* How many notices were cancelled, ever: to be read before one is accepted. */
uint32_t rnl__water_cancels(struct rnl_pool *pool);

/*
 * Puts an accepted notice on the list; starts it if its mark is reached, or if it
 * was cancelled since @cancels.
 */
void rnl__water_wait(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark,
		     uint32_t cancels);

/* A submit has found more than its share in a queue, or all queues full. */
void rnl__water_rose(struct rnl_pool *pool);
void rnl__water_refused(struct rnl_pool *pool);

/*
 * Jobs were taken, and a notice waits for that; a full barrier stands between the
 * taking and this call.  How many more a worker may take before it looks again.
 */
uint64_t rnl__water_fell(struct rnl_pool *pool);

/* A notice that waited was cancelled: it is to complete now. */
void rnl__water_cancelled(struct rnl_pool *pool);

/* The pool was closed: notices complete with -ECANCELED. */
void rnl__water_close(struct rnl_pool *pool);

#endif
