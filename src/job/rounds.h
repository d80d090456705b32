/* SPDX-License-Identifier: MIT */
/*
 * The rounds of a barrier: which jobs a job after the barrier waits for.
 *
 * DESIGN
 *	A job is counted into the open round.  A job after the barrier seals the open round: the
 *	next job that is counted opens another one.  So a job after waits for the jobs that were
 *	counted before, and for no later ones.  Its submit seals, then counts the job in its own
 *	barrier: each wait is for something counted earlier, so no waits form a circle.
 *	Rounds lie in a few slots.  One word, `open`, has the open round's slot and its counts:
 *	jobs that are not issued, and not done.  A sealed round has the slot of the next round
 *	there, too.  The job that opens that one moves the old counts to the old slot.
 *	Each round but the first counts the round before as one job.  So rounds end in order, and
 *	a round that has ended tells that all earlier ones have.
 *	`waiting` of a slot is one word: a list of jobs, and whether the round is issued, and
 *	ended.  Jobs that come after are deferred on the list until the round is issued; a job
 *	that is done before the round has ended is held back on the list until then.  A push and
 *	a change of the state exchange the word, so one of the two sees the other.
 *	A sealed round's last touch of the barrier is the change of `waiting` to ENDED, an open
 *	round's is the drop of its last job: hosts and jobs after wait for that.
 *	A slot is used again when nothing uses it: its round, until that has ended and another
 *	is open, each job after, until it has seen the end, and a host that sleeps until then.
 *	Model: tests/model/barrier.pml.
 *
 *			count	seal	drop	wait	- no outside synchronisation needed
 *	count		-	-	-	-
 *	seal		-	-	-	-
 *	drop		-	-	-	-	once per counted job, issued before done
 *	wait		-	-	-	-
 */
#ifndef RNL_ROUNDS_H
#define RNL_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "stream/job_flags.h"

/* Of a barrier whose memory is zero. */
void rnl__rounds_init(struct rnl_barrier *barrier);

/* Whether the counts have room for more jobs; else a submit is refused. */
bool rnl__rounds_have_room(const struct rnl_barrier *barrier);

struct rnl__jobs {
	struct rnl_job *first, *last;
};

/* Jobs that a round lets go, in their order: the caller goes on with them.  It begins as zero. */
struct rnl__let_go {
	struct rnl__jobs issued;	/* deferred jobs whose round is issued */
	struct rnl__jobs ended;		/* jobs held back, and notices with their result, whose round ended */
};

/* Counts a job; its round. */
unsigned rnl__rounds_count(struct rnl_barrier *barrier, struct rnl__let_go *out);

/*
 * @nr_issued jobs of a round are issued, and @nr_done of its issued jobs are done.  Done: the
 * barrier may be gone on return.
 */
void rnl__rounds_drop(struct rnl_barrier *barrier, unsigned round, uint32_t nr_issued,
		      uint32_t nr_done, struct rnl__let_go *out);

/*
 * Seals the open round for a job after the barrier: the round, which stays in its slot until
 * rnl__rounds_leave() or _hold(); RNL__NO_ROUND all jobs are done; -EAGAIN no slot is free: the
 * pool's line is woken when one is.
 */
int rnl__rounds_seal(struct rnl_barrier *barrier, struct rnl__let_go *out);
void rnl__rounds_leave(struct rnl_barrier *barrier, unsigned round);

/* Whether all jobs of the round, and of those before, are issued; are done. */
bool rnl__rounds_issued(struct rnl_barrier *barrier, unsigned round);
bool rnl__rounds_ended(struct rnl_barrier *barrier, unsigned round);

/* Lets the job go when the round is issued.  False: it is. */
bool rnl__rounds_defer(struct rnl_barrier *barrier, unsigned round, struct rnl_job *job);

/*
 * On the job's worker: lets the job go when the round has ended.  False: it has.  Leaves the round
 * in both cases.
 */
bool rnl__rounds_hold(struct rnl_barrier *barrier, unsigned round, struct rnl_job *job);

/*
 * Lets the job go when all jobs counted so far are done; its result is the barrier's.  0; -EAGAIN as
 * rnl__rounds_seal().  The barrier may be gone on return.
 */
int rnl__rounds_notify(struct rnl_barrier *barrier, struct rnl_job *job, struct rnl__let_go *out);

/* Of all rounds. */
bool rnl__rounds_all_issued(struct rnl_barrier *barrier);
bool rnl__rounds_all_done(struct rnl_barrier *barrier);

/* Spin, then sleep, until all are; 0 or -ETIMEDOUT. */
int rnl__rounds_await_issued(struct rnl_barrier *barrier, uint64_t spin_ns);
int rnl__rounds_await_done(struct rnl_barrier *barrier, uint64_t spin_ns, uint64_t deadline);

#endif
