/* SPDX-License-Identifier: MIT */
/*
 * The join of jobs; what the workers and the pool tell a barrier.
 *
 * DESIGN
 *	Two latches.  `undone` counts jobs until they are done: hosts wait on
 *	it.  `unissued` counts them until an event behind them is recorded on
 *	their stream: from then on other streams can wait for them, and nothing
 *	that does can come before what it waits for.  `seq` has, for each
 *	worker, the number of the barrier's last job there, so a join is at most
 *	one event per worker, and of workers that it concerns.
 *	A job that comes after the barrier is pushed on `waiting`, then looks at
 *	`unissued`; who brings that to 0 looks at `waiting`.  Both change the
 *	same word, so one of them sees the other, and starts it.
 *	The last touch of a barrier is the drop of `undone` for its last job.
 *	Model: tests/model/barrier.pml.
 *
 *			count	defer	issued	done	follow
 *	count		-	-	-	-	-
 *	defer		-	-	-	-	-
 *	issued, done	-	-	-	-	-	once per counted job, in this order
 *	follow		-	-	-	-	-	once `unissued` was 0
 */
#ifndef RNL_BARRIER_H
#define RNL_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

/* Counts a job that is being accepted. */
void rnl__barrier_count(struct rnl_barrier *barrier);

/* Whether a job that comes after it may start. */
bool rnl__barrier_ready(struct rnl_barrier *barrier);

/*
 * Puts off a job that comes after another barrier, until all jobs counted there
 * are issued; if they are, starts it now.
 */
void rnl__barrier_defer(struct rnl_job *job);

/* The worker's own: where on its stream a job of the barrier ends. */
void rnl__barrier_place(struct rnl_barrier *barrier, unsigned worker, uint64_t seq);

/* How a job ended, before it is issued or done: the first error stays. */
void rnl__barrier_note(struct rnl_barrier *barrier, int result);

/* So many jobs were marked on their streams, or will not run. */
void rnl__barrier_issued(struct rnl_barrier *barrier, uint32_t nr);

/* So many are done; the barrier may be gone on return. */
void rnl__barrier_done(struct rnl_barrier *barrier, uint32_t nr);

/*
 * Makes the calling thread's stream wait for the barrier's jobs, all issued.
 * 0, -ECANCELED one of them failed, or the device's error.
 */
int rnl__barrier_follow(struct rnl_barrier *barrier);

#endif
