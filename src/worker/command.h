/* SPDX-License-Identifier: MIT */
/*
 * Commands to a worker, as its thread executes them; worker.h has the list.
 *
 * DESIGN
 *	A thread that resizes the pool, or that starts or ends a trace, sets the command's bit,
 *	wakes the worker, and waits on the pool's latch `moving`.  The worker checks the bits
 *	between jobs, and executes a command when it can: immediately, or when it has no jobs left.
 *	Then it clears the bit and drops the latch.
 *	All functions here run on the worker's own thread.
 */
#ifndef RNL_COMMAND_H
#define RNL_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/worker.h"

static inline uint32_t rnl__commands(struct rnl__worker *w)
{
	/* [worker.O1] acquire: sees what was prepared for the command; pairs with [worker.O2] */
	return atomic_load_explicit(&w->commands, memory_order_acquire);
}

/*
 * Returns true if the worker must leave, and has no job, and no reservation that a submit may
 * fill.  Includes notices that were returned to the worker by a barrier that it has just notified.
 */
bool rnl__command_may_leave(struct rnl__worker *w);

/*
 * Returns true if there is a command that can be executed between jobs.  A keyed lane migrates
 * only when all jobs of the old lane are done.
 */
bool rnl__command_may_obey(struct rnl__worker *w);

/* Executes a command that can be executed immediately. */
void rnl__command_obey(struct rnl__worker *w);

/* Begins or ceases to record jobs in the worker's track. */
void rnl__command_track(struct rnl__worker *w);

/* Completes a command: it was executed, or failed with @error. */
void rnl__command_done(struct rnl__worker *w, uint32_t command, int error);

#endif
