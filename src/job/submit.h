/* SPDX-License-Identifier: MIT */
/* Submits by the library itself. */
#ifndef RNL_SUBMIT_H
#define RNL_SUBMIT_H

#include <runnel.h>

/*
 * Submits a job of a map or a batch that was accepted before, and keeps the pool from being
 * drained (rnl__pool_operation_begin()): the job is accepted even if the pool is full or closed.
 * @home: the worker that gets the job, counted around the workers that serve.  0, -EIO.
 */
int rnl__submit_internal(struct rnl_pool *pool, struct rnl_job *job, unsigned home);

/*
 * The same, of a job that is known to be done, and even if the device has failed: then the job
 * completes with -EIO.
 */
void rnl__submit_surely(struct rnl_pool *pool, struct rnl_job *job, unsigned home);

#endif
