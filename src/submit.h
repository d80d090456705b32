/* SPDX-License-Identifier: MIT */
/* Submitting for the library itself. */
#ifndef RNL_SUBMIT_H
#define RNL_SUBMIT_H

#include <runnel.h>

/*
 * Submits a job of something that was accepted already, and holds the pool until
 * it is done (rnl__pool_hold()): full or closed, it is taken.  @home: the worker
 * that is to have it, counted round the workers that serve.  0, -EIO.
 */
int rnl__submit_held(struct rnl_pool *pool, struct rnl_job *job, unsigned home);

/*
 * Submits a job of something that was accepted already, and that is not under way: full,
 * closed or failed, it is taken, and a failed pool completes it with -EIO.  @home: as
 * above.
 */
void rnl__submit_surely(struct rnl_pool *pool, struct rnl_job *job, unsigned home);

#endif
