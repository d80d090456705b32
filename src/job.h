/* SPDX-License-Identifier: MIT */
/*
 * A job's life, as one latch: `state` counts 1 from the accepted submit until
 * the job is done.  Who completes it touches it last with that drop, so that a
 * waiter may reuse its memory at once.
 */
#ifndef RNL_JOB_H
#define RNL_JOB_H

#include <stdbool.h>

#include <runnel.h>

#include "latch.h"

/* Claims a job that is not under way: 0, -EBUSY it is, -EINVAL no such job. */
int rnl__job_claim(struct rnl_job *job);

/* Gives up a claim: the job was not accepted after all. */
void rnl__job_unclaim(struct rnl_job *job);

/* Keeps an active job from being seen done, until the release. */
void rnl__job_hold(struct rnl_job *job);
void rnl__job_release(struct rnl_job *job);

/* Whether a submit was accepted and the job is not done. */
bool rnl__job_active(const struct rnl_job *job);

/* Completes a job; it may be gone on return. */
void rnl__job_complete(struct rnl_job *job, int result);

#endif
