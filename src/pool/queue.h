/* SPDX-License-Identifier: MIT */
/*
 * A worker's job queue: bounded, with lanes; a put is wait-free.
 *
 * DESIGN
 *	Keyed jobs go to a keyed lane.  Only the owner takes from it, so their order holds.
 *	Other jobs go to the open lane, from which idle workers steal.  In a pool of several
 *	devices, there is another one for placed jobs, which name a device.  Only workers of that
 *	device steal from it.  Takers alternate between the two.  A notice for space goes to the
 *	first lane, and starts before all of them; it may be placed, so it is stolen as if it were.
 *	A submit reserves in one word, `accepted`, before it puts.  The word carries the CLOSED and
 *	AWAY bits, so a submit that is concurrent with a close, or with the worker's leaving, is
 *	either counted or refused.  `accepted` minus the jobs taken is the queue's length, which a
 *	reserve compares with the limit.
 *	There are two keyed lanes, and a staff uses one of them.  During a resize, jobs of the new
 *	staff gather in the other lane until all jobs of the old staff are done.  Before its put, a
 *	keyed job is promised to its lane: counted in a word like `accepted`.  The bit SHUT refuses
 *	further promises, so the number of the lane's jobs is final.  The rest is in staff.h.
 *	Models: tests/model/park.pml, of a put; tests/model/resize.pml, of the bits.
 *
 *			reserve	put	take	steal	close	length
 *	reserve		-	-	-	-	-	-
 *	put		-	-	-	-	-	-
 *	take		-	-	X	-	-	-	X: owner only
 *	steal		-	-	-	-	-	-
 *	close		-	-	-	-	-	-
 */
#ifndef RNL_QUEUE_H
#define RNL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "class/class.h"
#include "pool/lane.h"

#define RNL__RAISED_LANES 4u	/* the keyed ones, `open`, `placed` */

struct rnl__queue {
	struct rnl__lane keyed[2];
	struct rnl__lane first;
	struct rnl__lane open;
	struct rnl__lane placed;	/* used if `places` */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t accepted; /* all jobs so far, | CLOSED | AWAY */
	bool places;			/* the pool has several devices */
	_Atomic uint64_t taken_seen;	/* taken from all lanes, as a submit last saw it */
	_Atomic uint64_t limit;
	_Atomic uint64_t due;		/* no queued job expires earlier; NEVER: no job expires */
	/*
	 * Owner only: its last take tried the keyed lane before the open lane.  A take that finds
	 * no notice toggles this first.
	 */
	_Alignas(RNL__CACHE_LINE) bool keyed_next;
	bool takes_placed;		/* equal to `places` */
	/* By lane and tier: jobs up to this one of the lane's are raised; see inherit.h. */
	_Atomic uint64_t raised[RNL__RAISED_LANES][RNL__TIER_OWN];
};

/* Returns the keyed lane of a staff's generation. */
static inline unsigned rnl__keyed_lane(uint32_t generation)
{
	return generation % 2;
}

/* Initializes a queue: the worker is away, both keyed lanes are shut.  @places: several devices. */
void rnl__queue_init(struct rnl__queue *q, bool places);

/* Sets how many jobs the queue may hold. */
void rnl__queue_bound(struct rnl__queue *q, uint64_t limit);

/*
 * Reserves space for up to @nr jobs.  Each reservation must be used by one put or taken back;
 * there is no time limit.  Returns the number of reservations; -EAGAIN: full; -ESHUTDOWN: closed;
 * -ESTALE: the worker is away.
 */
int rnl__queue_reserve(struct rnl__queue *q, unsigned nr);

/* Takes a reservation back. */
void rnl__queue_unreserve(struct rnl__queue *q, unsigned nr);

/* Reserves for an accepted job, even if full or closed.  Returns false if the worker is away. */
bool rnl__queue_reserve_accepted(struct rnl__queue *q);

/* Puts a job that has a reservation.  Implies a full barrier. */
void rnl__queue_put(struct rnl__queue *q, struct rnl_job *job);

/* Puts several jobs on the open lane with one exchange, in order.  Implies a full barrier. */
void rnl__queue_put_row(struct rnl__queue *q, struct rnl_job *const *jobs, unsigned nr);

/* Owner: takes the next job, or returns NULL.  Takes no keyed job of another generation. */
struct rnl_job *rnl__queue_take(struct rnl__queue *q, uint32_t generation);

/* Owner: takes the next job if it is the open lane's first one and in that round; else NULL. */
struct rnl_job *rnl__queue_take_of(struct rnl__queue *q, const struct rnl_barrier *barrier,
				   unsigned round, uint32_t generation);

/* Any thread: takes a job that is not keyed, or NULL.  @placed: also one for the queue's device. */
struct rnl_job *rnl__queue_steal(struct rnl__queue *q, bool placed);

/*
 * Return true if the queue holds a job of the kind that the name says; without a kind: a job that
 * the owner may take.  A half put job (lane.h) counts.
 */
bool rnl__queue_holds(struct rnl__queue *q, uint32_t generation);
bool rnl__queue_holds_keyed(struct rnl__queue *q, uint32_t generation);
bool rnl__queue_stealable(struct rnl__queue *q, bool placed);
bool rnl__queue_holds_placed(struct rnl__queue *q);

/*
 * Returns true if there is a job whose put is complete.  For a worker that spins: the producers'
 * cache lines, which each put writes, are not read.
 */
bool rnl__queue_shows(struct rnl__queue *q, uint32_t generation);

/* Refuses reservations from now on. */
void rnl__queue_close(struct rnl__queue *q);

/* The worker begins to serve, or leaves.  After _leave, the queue refuses reservations. */
void rnl__queue_serve(struct rnl__queue *q);
void rnl__queue_leave(struct rnl__queue *q);
bool rnl__queue_away(struct rnl__queue *q);

/* ---- keyed lanes, see staff.h -------------------------------------------- */

/* Promises a job to a keyed lane, or takes that back.  Returns false if the lane is shut. */
bool rnl__queue_promise(struct rnl__queue *q, uint32_t generation);
void rnl__queue_unpromise(struct rnl__queue *q, uint32_t generation);

/* Make the lane accept promises, or refuse them, from now on. */
void rnl__queue_open_lane(struct rnl__queue *q, uint32_t generation);
void rnl__queue_shut_lane(struct rnl__queue *q, uint32_t generation);

/* Owner: counts a keyed job of that generation as done. */
void rnl__queue_keyed_done(struct rnl__queue *q, uint32_t generation);

/* Timer thread: counts a keyed job of that generation, taken off by a scan, as done. */
void rnl__queue_keyed_removed(struct rnl__queue *q, uint32_t generation);

/* Returns true if all jobs that were promised to a lane are done; the lane must be shut. */
bool rnl__queue_lane_done(struct rnl__queue *q, uint32_t generation);

/* ---- figures ------------------------------------------------------------- */

/* Returns how many jobs were accepted so far; exact if the queue is closed and no submit runs. */
uint64_t rnl__queue_accepted(struct rnl__queue *q);

/* Returns how many jobs were taken so far. */
uint64_t rnl__queue_taken(struct rnl__queue *q);

/* Returns about how many jobs were reserved and not taken; exact if the worker is away. */
uint64_t rnl__queue_length(struct rnl__queue *q);

/* Returns true if the queue has space. */
bool rnl__queue_has_space(struct rnl__queue *q);

#endif
