/* SPDX-License-Identifier: MIT */
/* The steps of a submit, and submits by the library itself. */
#ifndef RNL_SUBMIT_H
#define RNL_SUBMIT_H

#include <errno.h>
#include <stdint.h>

#include <runnel.h>

#include "pool/waitq.h"
#include "pool/pool.h"
#include "sys/probe.h"

/*
 * Claims a job for a submit and sets the flags of @lane.  Notices for the end of a pool or barrier
 * are accepted even if the device has failed.  Returns 0, or the error.
 */
int rnl__submit_claim(struct rnl_pool *pool, struct rnl_job *job, unsigned lane);

/* Accepts a claimed job: writes its pool, times, count of cancels, phase and round. */
void rnl__submit_accept(struct rnl_pool *pool, struct rnl_job *job, uint8_t phase);

/*
 * Counts @nr jobs that wait outside of the queues, for the job before them or for a barrier's
 * round.  @w: the thread's place in the wait queue, or NULL.  Returns 0, -EAGAIN or -ESHUTDOWN.
 */
int rnl__submit_enter_chained(struct rnl_pool *pool, int nr, struct rnl__waiter *w);

/* Submits a job; @w: as above. */
int rnl__submit_try(struct rnl_pool *pool, struct rnl_job *job, struct rnl__waiter *w);

/* Returns an attempt's result @ret; -ESHUTDOWN if it is -EAGAIN and the pool is closed. */
static inline int rnl__submit_answer(struct rnl_pool *pool, int ret)
{
	return ret == -EAGAIN && rnl__pool_closed(pool) ? -ESHUTDOWN : ret;
}

/* Like the above, at the end of a public call; a probe reports a refused @job, which may be NULL. */
static inline int rnl__submit_end(struct rnl_pool *pool, const struct rnl_job *job, int ret)
{
	if (__builtin_expect(!ret, true))
		return 0;
	ret = rnl__submit_answer(pool, ret);
	if (job)
		RNL__PROBE_REFUSE(job, ret);
	return ret;
}

/*
 * Submits a job of a map or a batch.  The map or batch was accepted before, and drains wait for it
 * (pool/outside.h), so the job is accepted even if the pool is full or closed.  @home: the worker
 * that gets the job, modulo the number of serving workers.  Returns 0 or -EIO.
 */
int rnl__submit_internal(struct rnl_pool *pool, struct rnl_job *job, unsigned home);

/*
 * Like rnl__submit_internal(), for a job that is known to be done.  Succeeds even if the device
 * has failed: then the job completes with -EIO.
 */
void rnl__submit_surely(struct rnl_pool *pool, struct rnl_job *job, unsigned home);

#endif
