/* SPDX-License-Identifier: MIT */
/*
 * The worker's loop: take a job or steal one, run it, complete what the device has passed, and
 * wait when there is nothing to do.
 *
 * DESIGN
 *	With jobs queued behind, a worker looks at its stream from time to time: so what the
 *	device has passed is told soon, however much is queued.
 *	An urgent worker takes and steals urgent jobs alone.  Where the device has no
 *	priorities, the other workers take urgent jobs as well, before all other jobs.
 */
#ifndef RNL_LOOP_H
#define RNL_LOOP_H

struct rnl__worker;

/* Serves until the worker is to leave, and has no job. */
void rnl__loop(struct rnl__worker *w);

#endif
