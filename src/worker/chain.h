/* SPDX-License-Identifier: MIT */
/*
 * Chains: jobs that run right after another one, on the same worker.
 *
 * DESIGN
 *	The first job of a chain is queued like any job.  The others were accepted with it, and are
 *	in no queue: the pool's tally CHAINED counts them.  When a job was issued, its worker takes
 *	the next job of the chain before the jobs of its queue.  So both jobs are on one stream, in
 *	order: no event or wait is needed, and the next job is done after the first.
 *	If a job has failed in its function, has holds, has copied data that a CPU must still write,
 *	or comes after a barrier whose round has not ended, the next job waits until that job is
 *	done, because it fails, may still fail, or may end later than its stream shows.
 *	If a job fails, the next one is cancelled, and so on.
 *	All functions here run on the worker's own thread, or on the timer thread.
 */
#ifndef RNL_CHAIN_H
#define RNL_CHAIN_H

#include <stdbool.h>

#include "pool/worker.h"

/* Returns true, and sets RNL__JOB_LED, if the job after @job, which is issued, may run now. */
bool rnl__chain_leads(struct rnl__worker *w, struct rnl_job *job);

/*
 * Adds a job whose turn has come.  @class: that of the job before it, 0: none; @cancelled: that job
 * has failed.
 */
void rnl__chain_push(struct rnl__worker *w, struct rnl_job *job, unsigned class, bool cancelled);

/* Returns the next job whose turn has come, or NULL. */
struct rnl_job *rnl__chain_take(struct rnl__worker *w);

#endif
