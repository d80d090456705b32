/* SPDX-License-Identifier: MIT */
/*
 * Jobs whose function issues the same work each time (RNL_REPLAY): a worker has the device record
 * the work, and then issues the record instead of calling the function.
 *
 * DESIGN
 *	A worker has a record for each such function.  The worker notes the operations that the
 *	function's next run issues (device/notes.h); this run is an ordinary one, which does not
 *	affect other threads.  A job with RNL_REPLAY_CAPTURE is captured instead, like by the guard:
 *	the captured work is then issued, so the job has its effect.  Only such jobs are captured,
 *	because a CUDA capture disturbs other threads.
 *	When two consecutive runs have issued the same work, the record is replayed, and the
 *	function is not called any more.  Now and then a run is recorded again, and compared.  If
 *	it differs, which is logged once, two equal runs are needed again.  After each failed try,
 *	the function is called for twice as many jobs before the next try.  The same holds for a
 *	function that cannot be recorded.
 *	A record contains addresses of the worker's scratch, and is made anew when the scratch has
 *	moved to another block.  There are few records; the least recently used one is replaced.
 *	A job that also gathers is not recorded: its function is called, and its group's graph is
 *	replayed (group.h), even for one job.
 */
#ifndef RNL_REPLAY_H
#define RNL_REPLAY_H

#include "pool/guard.h"
#include "pool/worker.h"

/* Makes the call of a job that replays, or issues its record.  Like rnl__guard_call(). */
int rnl__replay_call(struct rnl__worker *w, const struct rnl__guard_call *call);

/* Frees the records.  The worker's stream must still exist. */
void rnl__replays_fini(struct rnl__worker *w);

#endif
