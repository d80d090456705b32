/* SPDX-License-Identifier: MIT */
/*
 * A worker's waits for a job or for its stream.
 *
 * DESIGN
 *	To wait for the device, a worker spins, then sleeps in steps that grow with the time
 *	waited, so the last step ends late by only a fraction of the wait.  A submit ends such a
 *	step, like it ends the sleep of an idle worker.
 *	A worker starts only as many jobs as keep its stream busy for a while.  Other jobs wait in
 *	its queue, where they can be stolen or cancelled.  After a long job, a worker starts no job
 *	that an idle worker could take.
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

/* Returns true if the worker will be idle when its jobs that are reached are completed: a hint. */
bool rnl__idle_soon(struct rnl__worker *w);

/*
 * Returns true if the worker must wait only for its stream: the stream is full, or has enough for
 * now and jobs are queued.  Also true if the stream has a long job, and idle workers may take the
 * queued jobs, because these are done sooner on another, empty stream.
 */
bool rnl__idle_full(struct rnl__worker *w);

/*
 * Waits, on a full stream, until the device has completed a job, or for a command, or for a job
 * that was held back.
 */
void rnl__idle_await_space(struct rnl__worker *w);

#endif
