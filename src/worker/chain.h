/* SPDX-License-Identifier: MIT */
/*
 * Chains: jobs that run right behind another one, on its worker.
 *
 * DESIGN
 *	The first job of a chain is queued as any job.  The others were accepted with it, and are in
 *	no queue: the pool's tally `chained` counts them, as a queue would.  When a job was issued,
 *	its worker has the next one at hand, and takes it before the jobs of its queue.  So both are
 *	on one stream, in order: no event, no wait, and the next one is done after the first.
 *	If the job may still fail, or end later than its stream says, the next one is handed on when
 *	the job is done: when its function failed, when it has holds, when a CPU has yet to write
 *	what it copied, when it comes after a barrier.
 *	If a job fails, the next one is cancelled, and so on.
 *	All functions here run on the worker's own thread, or on the timer thread's.
 */
#ifndef RNL_CHAIN_H
#define RNL_CHAIN_H

#include <stdbool.h>

#include "pool/worker.h"

/* Whether a job that was issued hands its next job on now; it is marked then. */
bool rnl__chain_leads(struct rnl__worker *w, struct rnl_job *job);

/* The job's turn has come; @cancelled: the one before it has failed. */
void rnl__chain_push(struct rnl__worker *w, struct rnl_job *job, bool cancelled);

/* The next job whose turn has come; or NULL. */
struct rnl_job *rnl__chain_take(struct rnl__worker *w);

#endif
