/* SPDX-License-Identifier: MIT */
/* The steps of a submit, and submits by the library itself. */
#ifndef RNL_SUBMIT_H
#define RNL_SUBMIT_H

#include <errno.h>
#include <stdint.h>

#include <runnel.h>

#include "pool/waitq.h"
#include "pool/pool.h"

/*
 * Claims a job for a submit and sets the flags of @lane.  Notices for a pool's or a barrier's end are
 * accepted even if the device has failed.  Return: 0, or the error.
 */
int rnl__submit_claim(struct rnl_pool *pool, struct rnl_job *job, unsigned lane);

/* Everything else that is written in a job between its claim and its start. */
void rnl__submit_accept(struct rnl_pool *pool, struct rnl_job *job, uint8_t phase);

/*
 * Counts @nr jobs that wait in no queue: behind another one, or for a barrier's round.  @w: the
 * calling thread's place in line, or NULL.  0, -EAGAIN, -ESHUTDOWN.
 */
int rnl__submit_enter_chained(struct rnl_pool *pool, int nr, struct rnl__waiter *w);

/* Submits a job; @w: as above. */
int rnl__submit_try(struct rnl_pool *pool, struct rnl_job *job, struct rnl__waiter *w);

/* What an attempt to submit returned; but nobody is to wait for space in a closed pool. */
static inline int rnl__submit_answer(struct rnl_pool *pool, int ret)
{
	return ret == -EAGAIN && rnl__pool_closed(pool) ? -ESHUTDOWN : ret;
}

/*
 * Submits a job of a map or a batch that was accepted before, and keeps the pool from being
 * drained (pool/outside.h): the job is accepted even if the pool is full or closed.
 * @home: the worker that gets the job, counted around the workers that serve.  0, -EIO.
 */
int rnl__submit_internal(struct rnl_pool *pool, struct rnl_job *job, unsigned home);

/*
 * The same, of a job that is known to be done, and even if the device has failed: then the job
 * completes with -EIO.
 */
void rnl__submit_surely(struct rnl_pool *pool, struct rnl_job *job, unsigned home);

#endif
