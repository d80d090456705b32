/* SPDX-License-Identifier: MIT */
/*
 * Guard: the first run of each function of jobs is watched.
 *
 * DESIGN
 *	The device captures what the function issues, and refuses what a job should not
 *	do.  If it refused nothing, the captured work is issued in its place: the
 *	function was called once, and had its effect.  Else nothing of the work was done;
 *	it is thrown away, and the function is called again, unwatched.
 *	Another thread's use of the legacy stream, or wait for the device, would fail meanwhile,
 *	and spoil the capture.  So nothing is captured unless the program asks for a guard, or for
 *	a job whose runs are captured; and the pool's other workers stay outside of callers' code
 *	during a watch: they pass a gate on their way in, whose word counts the workers inside
 *	and says HELD.  What they have on their streams goes on.
 *	Functions of jobs may wait for each other, so no worker waits for long.  If the
 *	others do not come out within HOLD_NS, the function runs unwatched, and a later
 *	run is tried; a worker that was held for HELD_NS goes in, and spoils the capture.
 *	A capture covers a caller's function alone: marks and staged copies, which the
 *	library issues before and behind it, go to the stream as ever.
 *	Without a guard, a job costs one look for it.
 *
 *	A pool of private streams on CUDA always has a guard, which may watch nothing.  It looks
 *	for strays: functions that leave work on the thread's default stream, for which nobody
 *	waits.  It queries that stream after a function's first runs, and after one call in
 *	LOOK_EVERY, since each query takes the driver's lock.  A function that strays is diverted
 *	from then on: the thread's default stream is its implicit stream, and is joined with the
 *	worker's stream on both sides.  So its own calls have their order, too.
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

/* A function, to compare it and to name it. */
typedef void rnl__function(void);

/* A call of a caller's function. */
struct rnl__guard_call {
	rnl__function *fn;
	int (*call)(rnl__function *fn, const void *arg); /* calls it, by its own type */
	const void *arg;
};

/* Makes a pool's guard, if it needs one, and sets pool->guard.  0 or -ENOMEM. */
int rnl__guard_create(struct rnl_pool *pool, uint32_t mode);
void rnl__guard_destroy(struct rnl__guard *guard);

/* A worker is about to run callers' code, and has run it; the two nest. */
void rnl__guard_enter(struct rnl__worker *w);
void rnl__guard_leave(struct rnl__worker *w);

/*
 * Makes a call, between enter and leave; without a guard, at once.
 * Return: its result, or -ENOTSUP by the strict guard.
 */
int rnl__guard_call(struct rnl__worker *w, const struct rnl__guard_call *call);

/*
 * As rnl__guard_call(), but under capture, and the device makes a record of the call if it can:
 * @guarded has it.  With `disturbed` nothing is known: it was not tried, or another thread came in.
 */
int rnl__guard_record(struct rnl__worker *w, const struct rnl__guard_call *call,
		      struct rnl__guarded *guarded);

/* Logs of a function what it says, and does not do. */
void rnl__guard_tell(struct rnl_pool *pool, rnl__function *fn, const char *what);

/* Whether a call of the function will be made as it is: it was watched, and does not stray. */
bool rnl__guard_knows(struct rnl__guard *guard, rnl__function *fn);

/* Adds the guard's figures. */
void rnl__guard_figures(struct rnl__guard *guard, struct rnl_guard_stats *stats);

/* Logs what was found of a function; guard_report.c. */
void rnl__guard_report(struct rnl_pool *pool, rnl__function *fn,
		       const struct rnl__guarded *guarded);

#endif
