/* SPDX-License-Identifier: MIT */
/*
 * Jobs whose function issues the same each time: a worker has the device record it, and then issues
 * the record in the function's place.
 *
 * DESIGN
 *	A worker has a record for each such function.  It notes what a function's next run issues
 *	(device/notes.h): an ordinary run, which no other thread notices.  A job that asks for it is
 *	captured instead, as by the guard: the captured work is issued in its place, so the job has
 *	had its effect.  CUDA has a capture disturb other threads, so nothing else is captured.
 *	When two runs, one after the other, have issued the same, the record is replayed, and the
 *	function is not called any more.  Now and then a run is recorded again, and compared.
 *	If it has issued something else, which is said once, it has to be the same twice again, and
 *	each time that it is not, it runs for twice as many jobs as it is before the next try.  The
 *	same holds for a function that cannot be recorded.
 *	A record has addresses of the worker's scratch.  When the worker has another block, its
 *	records are made anew.
 *	There are few records; the one that was not used for the longest time goes.
 *	A job that gathers, too, is not recorded: its function is called, and its group's graph is
 *	replayed (group.h), even if it is alone.
 */
#ifndef RNL_REPLAY_H
#define RNL_REPLAY_H

#include "pool/guard.h"
#include "pool/worker.h"

/* Makes the call of a job that replays, or issues its record: as rnl__guard_call(). */
int rnl__replay_call(struct rnl__worker *w, const struct rnl__guard_call *call);

/* The worker's stream is still there. */
void rnl__replays_fini(struct rnl__worker *w);

#endif
