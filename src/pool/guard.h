/* SPDX-License-Identifier: MIT */
/*
 * Guard: watches the first run of each job function.
 *
 * DESIGN
 *	The device captures the work that the function issues, and refuses operations that a job
 *	should not use.  If it refused none, the captured work is issued: the function was called
 *	once, and had its effect.  Otherwise no work was done; the capture is discarded, and the
 *	function is called again, unwatched.
 *	During a capture, another thread that uses the legacy stream, or waits for the device, gets
 *	an error and spoils the capture.  So functions are captured only if the program asks for a
 *	guard or for RNL_REPLAY_CAPTURE.  And the pool's other workers stay out of callers' code
 *	during a watch: they enter it through a gate, whose word counts the workers inside.  The
 *	bit HELD in that word closes the gate.  Work on the workers' streams continues.
 *	Job functions may wait for each other, so no worker waits for long.  If the others do not
 *	come out within HOLD_NS, the function runs unwatched, and a later run is watched instead.
 *	A worker that has waited at the gate for HELD_NS enters, and spoils the capture.
 *	A capture covers only the caller's function.  Marks and staged copies, which the library
 *	issues before and after it, go to the stream as usual.
 *	Without a guard, a job costs one check.
 *
 *	A pool of private streams on CUDA always has a guard, even if it watches no function.  It
 *	finds strays: functions that leave work on the thread's default stream, for which the job
 *	does not wait.  It queries that stream after each of a function's first runs, and later only
 *	after one call in LOOK_EVERY: a query takes the driver's lock.  A function that strays is
 *	diverted from then on: the thread's default stream becomes its implicit stream, joined with
 *	the worker's stream on both sides.  So the function's own calls are in order, too.
 *
 *			enter	leave	call	figures
 *	enter		-	-	-	-	- no outside synchronisation needed
 *	leave		-	-	-	-	X not by two threads for one worker
 *	call		-	-	-	-
 *	(the same worker's enter, leave, call: X among each other)
 */
#ifndef RNL_GUARD_H
#define RNL_GUARD_H

#include <runnel.h>
#include <runnel/stats.h>

#include "device/device.h"

struct rnl__worker;
struct rnl__guard;

/* A function, to compare and to name it. */
typedef void rnl__function(void);

/* A call of a caller's function. */
struct rnl__guard_call {
	rnl__function *fn;
	int (*call)(rnl__function *fn, const void *arg); /* calls it by its real type */
	const void *arg;
};

/* Creates a pool's guard, if it needs one, and sets pool->guard.  Returns 0 or -ENOMEM. */
int rnl__guard_create(struct rnl_pool *pool, uint32_t mode);
void rnl__guard_destroy(struct rnl__guard *guard);

/* A worker is about to run callers' code, or has run it; calls may nest. */
void rnl__guard_enter(struct rnl__worker *w);
void rnl__guard_leave(struct rnl__worker *w);

/*
 * Makes a call, between enter and leave; directly if there is no guard.  Returns its result, or
 * -ENOTSUP from the strict guard.
 */
int rnl__guard_call(struct rnl__worker *w, const struct rnl__guard_call *call);

/*
 * Makes a call under capture.  If the device can make a record, @guarded has it.  If `disturbed` is
 * set there, the call was not captured, or another thread disturbed the capture.
 */
int rnl__guard_record(struct rnl__worker *w, const struct rnl__guard_call *call,
		      struct rnl__guarded *guarded);

/* Logs a problem with a function whose work should be replayed. */
void rnl__guard_tell(struct rnl_pool *pool, rnl__function *fn, const char *what);

/* Returns true if a call needs no watching and no diversion, because its function is known. */
bool rnl__guard_knows(struct rnl__guard *guard, rnl__function *fn);

/* Adds the guard's figures. */
void rnl__guard_figures(struct rnl__guard *guard, struct rnl_guard_stats *stats);

/* Logs the findings about a function; guard_report.c. */
void rnl__guard_report(struct rnl_pool *pool, rnl__function *fn,
		       const struct rnl__guarded *guarded);

#endif
