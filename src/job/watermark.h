/* SPDX-License-Identifier: MIT */
/*
 * Water marks: notices that are queued once the pool is as full, or as empty, as their mark says.
 *
 * DESIGN
 *	A notice is a job that waits for its mark in a list of the pool, outside of the queues.
 *	A thread that sees the mark reached takes the whole list, and queues its jobs.  While
 *	no notice waits, the look costs one load.
 *	A notice does not start twice in a mark's turn.  A turn begins when notices are started, and
 *	ends when a thread sees the queues beyond the mark: so a notice that submits itself again
 *	leaves the workers to other jobs.  While no notice waits nobody looks, and a submit of one
 *	goes by the number of jobs that were put, or taken, in the turn.
 *	Submits look at the high mark when they find more than its share in a worker's queue.
 *	Workers look at the low mark when they fall idle, and after as many jobs as the
 *	distance to the mark asks for.
 *	Both have changed a queue before they look for notices; a notice is pushed before its
 *	submit looks at the queues.  A full barrier stands between the two steps on both sides,
 *	so one side sees the other.
 */
#ifndef RNL_WATERMARK_H
#define RNL_WATERMARK_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

/*
 * Puts an accepted notice on the list, and queues it if its mark is reached.  @cancels: the
 * keeper's count, read before the notice was accepted.
 */
void rnl__watermark_wait(struct rnl_pool *pool, struct rnl_job *job, enum rnl_water mark,
		     uint32_t cancels);

/* A submit has put jobs, and a notice waits for low water. */
void rnl__watermark_put(struct rnl_pool *pool);

/* A submit has found more than a share of the mark in a queue, perhaps by an old count. */
void rnl__watermark_rose(struct rnl_pool *pool);

/*
 * A submit was refused, as there was no space in the queues, or for jobs that wait elsewhere.  The
 * low mark is left.  If few jobs are queued, its notices start at once, but behind these.
 */
void rnl__watermark_refused(struct rnl_pool *pool);

/*
 * Jobs were taken, and a notice waits.  A full barrier stands between the taking
 * and this call.  Return: how many more jobs the worker may take before it looks again.
 */
uint64_t rnl__watermark_fell(struct rnl_pool *pool);

/* The keeper: queues the notices that were cancelled, to be completed. */
void rnl__watermark_cancelled(struct rnl_pool *pool);

/* The pool was closed: its notices complete with -ECANCELED. */
void rnl__watermark_close(struct rnl_pool *pool);

/* Keeps an accepted notice until the pool is closed and empty. */
void rnl__watermark_wait_for_end(struct rnl_pool *pool, struct rnl_job *job);

/* The keeper: queues these notices, if it is so.  Return: whether it did. */
bool rnl__watermark_end(struct rnl_pool *pool);

#endif
