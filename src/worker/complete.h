/* SPDX-License-Identifier: MIT */
/*
 * A job's way out of its worker.
 *
 * DESIGN
 *	Three layers; each calls the next one alone.
 *
 *	passed		The device has passed the job: the job is taken off the stream, the
 *	   |		copies that were staged for it are written, its times are noted.
 *	   v
 *	complete	How the job ended is counted, and its barrier and its keyed lane
 *	   |		learn of it.
 *	   v
 *	hand over	The result is set, and the job is given to its completion queue, its
 *			waiter or its callback.  The library does not touch it again.
 *
 *	A job that left nothing on the stream, or did not run, begins at `complete`.
 *	A job after a barrier that comes to `complete` before its round has ended is held back: the
 *	thread that ends the round pushes it on the worker's inbox `returned`, and the worker
 *	goes on with it.  So all counts stay the worker's own.
 *	A device that has failed passes every job at once, with -EIO.
 *	A barrier learns of several jobs at once: while the worker's next job is of this round
 *	too, the round cannot be done, and no thread sees that it has not been told.  What
 *	the barrier has not been told yet is `owed` to it, and bounded: loop.c.
 *	All functions here run on the worker's own thread.
 */
#ifndef RNL_COMPLETE_H
#define RNL_COMPLETE_H

#include <stdbool.h>

#include "pool/worker.h"

/*
 * Completes the jobs that the device has passed; @query: rnl__inflight_poll() takes it.
 * Return: whether there was such a job.
 */
bool rnl__complete_reached(struct rnl__worker *w, unsigned query);

/* Completes jobs that were held back for their barriers, and have been returned. */
void rnl__complete_returned(struct rnl__worker *w);

/* Completes a job that left nothing on the stream. */
void rnl__complete(struct rnl__worker *w, struct rnl_job *job, int result);

/* Notes that a job's function is not called, for figures and a trace; the job is completed later. */
void rnl__complete_note_unrun(struct rnl__worker *w, struct rnl_job *job, int result);

/* Completes a job whose function was not called. */
void rnl__complete_unrun(struct rnl__worker *w, struct rnl_job *job, int result);

/*
 * Completes a request of a batch: it was accepted as a job, but never was in a queue, and no
 * count of jobs has it.  rnl__owed_tell() is due afterwards.
 */
void rnl__complete_request(struct rnl__worker *w, struct rnl_job *job, int result);

/*
 * Tells the barrier that `owed` names what it is owed.  Due before the worker does anything
 * but run another job of this barrier.
 */
void rnl__owed_tell(struct rnl__worker *w);

#endif
