/* SPDX-License-Identifier: MIT */
/*
 * A worker's waits for a job or for its stream.
 *
 * DESIGN
 *	To wait for the device, a worker spins, then sleeps in steps that grow with the time
 *	waited, so the last step ends late by only a fraction of the wait.  A submit ends such a
 *	step, like it ends the sleep of an idle worker.
 *	A worker starts only as many jobs as keep its stream busy for a while.  The others wait in
 *	its queue, where they can be stolen or cancelled.  After a long job it starts no job that a
 *	worker with nothing to do could take.
 *	A failed device never writes the word that a worker waits for, so the worker queries the
 *	driver a few times in each watchdog period.
 *	All functions here run on the worker's own thread.
 */
#ifndef RNL_IDLE_H
#define RNL_IDLE_H

#include <stdbool.h>

#include "pool/worker.h"

/* Waits for a job or for the device: no job is queued, and no mark is reached. */
void rnl__idle(struct rnl__worker *w);

/*
 * Returns true if the worker must wait only for its stream: the stream is full, or has enough for
 * now and jobs are queued.  If no job is queued, it waits for a job, too.  A second job after a
 * long one keeps the device busy, but is done sooner on the empty stream of another worker.
 */
bool rnl__idle_full(struct rnl__worker *w);

/*
 * Waits, on a full stream, until the device has completed a job, or for a command, or for a job
 * that was held back.
 */
void rnl__idle_await_space(struct rnl__worker *w);

#endif
