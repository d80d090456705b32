/* SPDX-License-Identifier: MIT */
/*
 * The worker's loop: take or steal a job, run it, complete the jobs that the device has reached,
 * and wait when there is nothing to do.
 *
 * DESIGN
 *	While jobs are queued, a worker checks its stream from time to time.  So completions are
 *	reported soon, however long the queue is.
 *	A class's own worker takes the class's jobs, and no others.
 */
#ifndef RNL_LOOP_H
#define RNL_LOOP_H

struct rnl__worker;

/* Serves until the worker must leave and has no job. */
void rnl__loop(struct rnl__worker *w);

#endif
