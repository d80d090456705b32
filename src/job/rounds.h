/* SPDX-License-Identifier: MIT */
/*
 * The rounds of a barrier: which jobs a job after the barrier waits for.
 *
 * DESIGN
 *	A job is counted in the open round.  A job after the barrier seals the open round, and the
 *	next counted job opens another one.  So a job after the barrier waits for the jobs that
 *	were counted before it, and for no later ones.  A submit first seals the round of the
 *	barrier that its job comes after, then counts the job in the job's own barrier.  So a job
 *	only waits for jobs that were counted before it, and waits form no circle.
 *	Rounds use a few slots.  One word, `open`, has the open round's slot and two counts of its
 *	jobs: those not issued, and those not done.  If the round is sealed, the word has the
 *	next round's slot, too.  The job that opens the next round moves the counts of the sealed
 *	round to that round's slot.
 *	Each round except the first counts the previous round as a job.  So rounds end in order.
 *	`waiting` of a slot is one word: a list of jobs, and whether the round is issued and ended.
 *	Jobs after the barrier are deferred on the list until the round is issued.  A job that would
 *	be done before the round has ended is held back on the list until then.  A push and a change
 *	of the state both exchange this word, so the later one sees the earlier.
 *	The library's last access to a barrier is an exchange.  If the last round is sealed, the
 *	exchange marks it as ended; if it is open, the exchange drops its last job.  Host threads
 *	and jobs after the barrier wait for that, so the barrier's memory may then be reused.
 *	A slot is free when it has no users.  Users are its round, until it has ended and the next
 *	round is open; jobs after the barrier, until they have seen the end; and host threads that
 *	sleep until the end.
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

/* Initialises the rounds of a barrier whose memory is zero. */
void rnl__rounds_init(struct rnl_barrier *barrier);

/* Returns true if the counts have room for more jobs; if not, a submit is refused. */
bool rnl__rounds_have_room(const struct rnl_barrier *barrier);

struct rnl__jobs {
	struct rnl_job *first, *last;
};

/*
 * Jobs that no longer wait for a round.  The caller must pass them on, in this order.  A notice has
 * its result already.  The caller zeroes the struct before the call.
 */
struct rnl__let_go {
	struct rnl__jobs issued;	/* deferred jobs whose round is issued */
	struct rnl__jobs ended;		/* held-back jobs and notices whose round has ended */
};

/* Counts a job.  Returns the job's round. */
unsigned rnl__rounds_count(struct rnl_barrier *barrier, struct rnl__let_go *out);

/*
 * Reports that @nr_issued jobs of a round are issued, and that @nr_done issued jobs are done.  The
 * barrier may be gone on return if @nr_done is not 0.
 */
void rnl__rounds_drop(struct rnl_barrier *barrier, unsigned round, uint32_t nr_issued,
		      uint32_t nr_done, struct rnl__let_go *out);

/*
 * Seals the open round for a job after the barrier.  Returns the round, which keeps its slot until
 * rnl__rounds_leave() or _hold(); RNL__NO_ROUND if all jobs are done; -EAGAIN if no slot is free:
 * the pool's wait queue is woken when a slot becomes free.
 */
int rnl__rounds_seal(struct rnl_barrier *barrier, struct rnl__let_go *out);
void rnl__rounds_leave(struct rnl_barrier *barrier, unsigned round);

/* Return true if all jobs of this and earlier rounds are issued (_issued), or done (_ended). */
bool rnl__rounds_issued(struct rnl_barrier *barrier, unsigned round);
bool rnl__rounds_ended(struct rnl_barrier *barrier, unsigned round);

/* Returns the slot of the round that a round counts, if that may not have ended; or RNL__NO_ROUND. */
unsigned rnl__rounds_before(struct rnl_barrier *barrier, unsigned round);

/* Defers the job until the round is issued.  Returns false if it is issued already. */
bool rnl__rounds_defer(struct rnl_barrier *barrier, unsigned round, struct rnl_job *job);

/*
 * On the job's worker: holds the job back until the round has ended.  Returns false if it has
 * ended already.  Leaves the round in both cases.
 */
bool rnl__rounds_hold(struct rnl_barrier *barrier, unsigned round, struct rnl_job *job);

/*
 * Releases the job, with the barrier's result, when all jobs counted so far are done.  Returns 0,
 * or -EAGAIN like rnl__rounds_seal().  The barrier may be gone on return.
 */
int rnl__rounds_notify(struct rnl_barrier *barrier, struct rnl_job *job, struct rnl__let_go *out);

/* Return true if all jobs of all rounds are issued (_all_issued), or done (_all_done). */
bool rnl__rounds_all_issued(struct rnl_barrier *barrier);
bool rnl__rounds_all_done(struct rnl_barrier *barrier);

/* Spin, then sleep, until rnl__rounds_all_issued() or _all_done().  Return 0 or -ETIMEDOUT. */
int rnl__rounds_await_issued(struct rnl_barrier *barrier, uint64_t spin_ns);
int rnl__rounds_await_done(struct rnl_barrier *barrier, uint64_t spin_ns, uint64_t deadline);

#endif
