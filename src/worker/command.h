/* SPDX-License-Identifier: MIT */
/*
 * Commands to a worker, as its thread follows them; worker.h has the list.
 *
 * DESIGN
 *	The resizing thread, or the one that starts or ends a trace, sets the bits, wakes the worker,
 *	and waits on the pool's latch `moving`.  The worker looks at the bits between jobs, and
 *	follows a command when it can: at once, or when it has no jobs left.  It clears the bit then,
 *	and drops the latch.
 *	All functions here run on the worker's own thread.
 */
#ifndef RNL_COMMAND_H
#define RNL_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/worker.h"

static inline uint32_t rnl__commands(struct rnl__worker *w)
{
	/* [worker.O1] acquire: what was made ready for the command; pairs with [worker.O2] */
	return atomic_load_explicit(&w->commands, memory_order_acquire);
}

/*
 * Whether the worker is to cease, and has no job, and no reservation that a submit may fill.  The
 * barrier that it has just told may have given it a notice to tell.
 */
bool rnl__command_may_leave(struct rnl__worker *w);

/*
 * Whether there is a command that can be obeyed between jobs.  To hand over, all jobs of the old
 * keyed lane have to be done.
 */
bool rnl__command_may_obey(struct rnl__worker *w);

/* There is a command that can be obeyed at once. */
void rnl__command_obey(struct rnl__worker *w);

/* Begins to note jobs in the worker's track, or ceases to. */
void rnl__command_track(struct rnl__worker *w);

/* Takes a command off: it was obeyed, or could not be, for @error. */
void rnl__command_done(struct rnl__worker *w, uint32_t command, int error);

#endif
