/* SPDX-License-Identifier: MIT */
/*
 * A worker waits: for a job, or for its stream.
 *
 * DESIGN
 *	To wait for the device, a worker spins, then sleeps in steps that grow with the time
 *	waited: so the last step ends late by a fraction of the wait.  A submit ends such a
 *	step, as it ends the sleep of an idle worker.
 *	A worker starts no more jobs than keep its stream busy for a while.  The others wait in
 *	its queue, where they can be stolen, or cancelled.  Behind a long job it starts none that
 *	a worker with nothing to do can have.
 *	A device that has failed never writes the word that a worker waits for: so the worker
 *	asks the driver, a few times in each watchdog period.
 *	All functions here run on the worker's own thread.
 */
#ifndef RNL_IDLE_H
#define RNL_IDLE_H

#include <stdbool.h>

#include "pool/worker.h"

/* Nothing is queued, nothing has passed: waits for a job, or for the device. */
void rnl__idle(struct rnl__worker *w);

/*
 * Whether the worker is to wait for its stream alone: it can have no more jobs there, or has enough
 * for now and others queued.  With none queued it waits for a job, too.  A second job behind a long
 * one keeps the device busy, but is itself done sooner on the empty stream of another worker.
 */
bool rnl__idle_full(struct rnl__worker *w);

/*
 * The stream is full: waits until the device has passed a job of it, for a command, or for a job
 * that was held back.
 */
void rnl__idle_await_space(struct rnl__worker *w);

#endif
