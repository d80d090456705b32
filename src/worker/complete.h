/* SPDX-License-Identifier: MIT */
/*
 * How a worker completes a job.
 *
 * DESIGN
 *	Three layers; each calls only the next one.
 *
 *	reached		The device has completed the job's work: the job is taken off the
 *	   |		stream, the copies that were staged for it are written, its times
 *	   v		are recorded.
 *	complete	The result is counted, and the job's barrier and its keyed lane are
 *	   |		notified.
 *	   v
 *	hand over	The result is set, and the job is given to its completion queue, its
 *			waiter or its callback.  The library does not access it again.
 *
 *	A job that left nothing on the stream, or did not run, begins at `complete`.
 *	If a job after a barrier reaches `complete` before its round has ended, it is held back:
 *	the thread that ends the round pushes it on the worker's inbox `returned`, and the worker
 *	continues with it.  So all counts remain local to the worker.
 *	If the device has failed, every job on the stream counts as reached immediately, with -EIO.
 *	A barrier is notified of several jobs at a time: while the worker's next job is of the same
 *	round, the round cannot be done, and no thread can observe the missing notification.
 *	`owed` has the notifications that are still due, and their number is bounded: loop.c.
 *	All functions here run on the worker's own thread.
 */
#ifndef RNL_COMPLETE_H
#define RNL_COMPLETE_H

#include <stdbool.h>

#include "pool/worker.h"

/*
 * Completes the jobs that the device has reached; @query: the argument of rnl__inflight_poll().
 * Returns true if there was such a job.
 */
bool rnl__complete_reached(struct rnl__worker *w, unsigned query);

/* Completes jobs that were held back, and have been returned. */
void rnl__complete_returned(struct rnl__worker *w);

/* Completes a job that left nothing on the stream. */
void rnl__complete(struct rnl__worker *w, struct rnl_job *job, int result);

/* Records that a job's function is not called, for statistics and traces; it is completed later. */
void rnl__complete_note_unrun(struct rnl__worker *w, struct rnl_job *job, int result);

/* Completes a job whose function was not called. */
void rnl__complete_unrun(struct rnl__worker *w, struct rnl_job *job, int result);

/*
 * Completes a request of a batch: it was accepted as a job, but was not in a queue, and counts of
 * jobs do not include it.  The caller must call rnl__owed_tell() afterwards.
 */
void rnl__complete_request(struct rnl__worker *w, struct rnl_job *job, int result);

/*
 * A job of a barrier is on the stream.  Its barrier will be notified, after an event is recorded; jobs of the
 * same round that follow it have the same event.
 */
void rnl__owed_issued(struct rnl__worker *w, struct rnl_job *job);

/*
 * Sends the barrier in `owed` the notifications that are due.  Must be called before the worker
 * does anything except run another job of the same round.
 */
void rnl__owed_tell(struct rnl__worker *w);

#endif
