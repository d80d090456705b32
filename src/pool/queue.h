/* SPDX-License-Identifier: MIT */
/*
 * A worker's job queue: bounded, wait-free to put on, with lanes.
 *
 * DESIGN
 *	Keyed jobs go to a keyed lane, which the owner alone takes from, so their order holds.
 *	Other jobs go to the urgent or the open lane, from which idle workers steal.  In a pool of
 *	several devices each of these has a lane beside it for placed jobs, which name the device:
 *	from that one only workers of the queue's device steal.  The two lanes take turns.
 *	A submit reserves in one word, `accepted`, before it puts.  The word carries the CLOSED and
 *	AWAY bits, so a submit beside a close, or beside the worker's leaving, is either counted or
 *	refused.  The difference between `accepted` and the jobs taken bounds the queue.
 *	There are two keyed lanes, and a staff uses one of them: during a resize, jobs of the new
 *	staff gather in the other lane, until all of the old staff are done.  A keyed job is
 *	promised to its lane, by a word like `accepted`; SHUT there ends the promises, so that the
 *	lane's end is known.  staff.h has the rest.
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

#include "pool/lane.h"

struct rnl__queue {
	struct rnl__lane keyed[2];
	struct rnl__lane urgent;
	struct rnl__lane open;
	struct rnl__lane placed_urgent, placed;	/* if `places` */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t accepted; /* jobs ever, | CLOSED | AWAY */
	bool places;			/* the pool has several devices */
	_Atomic uint64_t taken_seen;	/* of all lanes, as a submit last saw it */
	_Atomic uint64_t limit;
	_Atomic uint64_t due;		/* before it no queued job is late; NEVER: none will be */
	/* The owner's: the keyed lane is looked at before the open one. */
	_Alignas(RNL__CACHE_LINE) bool keyed_next;
	bool takes_placed;		/* as `places` */
};

/* The keyed lane of a staff's generation. */
static inline unsigned rnl__keyed_lane(uint32_t generation)
{
	return generation % 2;
}

/* The worker is away, and both keyed lanes are shut.  @places: the pool has several devices. */
void rnl__queue_init(struct rnl__queue *q, bool places);

/* Sets how many jobs the queue may have. */
void rnl__queue_bound(struct rnl__queue *q, uint64_t limit);

/*
 * Reserves space for up to @nr jobs; each is then put exactly once, however late.
 * How many; -EAGAIN full; -ESHUTDOWN closed; -ESTALE the worker is away.
 */
int rnl__queue_reserve(struct rnl__queue *q, unsigned nr);

/* Takes a reservation back. */
void rnl__queue_unreserve(struct rnl__queue *q, unsigned nr);

/* Reserves for a job that is accepted already, full or closed; false: the worker is away. */
bool rnl__queue_reserve_accepted(struct rnl__queue *q);

/* Puts a job that has a reservation.  A full barrier. */
void rnl__queue_put(struct rnl__queue *q, struct rnl_job *job);

/* Puts several on the open lane at once, in order.  A full barrier. */
void rnl__queue_put_row(struct rnl__queue *q, struct rnl_job *const *jobs, unsigned nr);

/* Owner: the next job; a keyed one only of that generation; NULL: none at this moment. */
struct rnl_job *rnl__queue_take(struct rnl__queue *q, uint32_t generation);

/* Owner: the open lane's first job if it is the next one, and in that round; or NULL. */
struct rnl_job *rnl__queue_take_of(struct rnl__queue *q, const struct rnl_barrier *barrier,
				   unsigned round, uint32_t generation);

/*
 * Any thread: an urgent job, or one that is urgent or open; or NULL.  @placed: also one that is
 * placed on the queue's device.
 */
struct rnl_job *rnl__queue_take_urgent(struct rnl__queue *q, bool placed);
struct rnl_job *rnl__queue_steal(struct rnl__queue *q, bool placed);

/* Whether a job is there, even one that is half put. */
bool rnl__queue_holds(struct rnl__queue *q, uint32_t generation);
bool rnl__queue_holds_keyed(struct rnl__queue *q, uint32_t generation);
bool rnl__queue_holds_urgent(struct rnl__queue *q, bool placed);
bool rnl__queue_stealable(struct rnl__queue *q, bool placed);
bool rnl__queue_holds_placed(struct rnl__queue *q);

/*
 * Whether a job is there whose put is over: for a worker that spins.  The look leaves the producers'
 * lines alone, which each put writes.
 */
bool rnl__queue_shows(struct rnl__queue *q, uint32_t generation);

/* Refuses reservations from now on. */
void rnl__queue_close(struct rnl__queue *q);

/* The worker serves, or is away: then the queue refuses reservations. */
void rnl__queue_serve(struct rnl__queue *q);
void rnl__queue_leave(struct rnl__queue *q);
bool rnl__queue_away(struct rnl__queue *q);

/* ---- keyed lanes, see staff.h -------------------------------------------- */

/* Promises a job to a keyed lane; false: it is shut. */
bool rnl__queue_promise(struct rnl__queue *q, uint32_t generation);
void rnl__queue_unpromise(struct rnl__queue *q, uint32_t generation);

/* From now on the lane takes promises, or refuses them. */
void rnl__queue_open_lane(struct rnl__queue *q, uint32_t generation);
void rnl__queue_shut_lane(struct rnl__queue *q, uint32_t generation);

/* Owner: a keyed job of that generation is done. */
void rnl__queue_keyed_done(struct rnl__queue *q, uint32_t generation);

/* The timer thread: a keyed job of that generation is done, which a scan took off. */
void rnl__queue_keyed_removed(struct rnl__queue *q, uint32_t generation);

/* Whether all jobs that were promised to a lane, which is shut, are done. */
bool rnl__queue_lane_done(struct rnl__queue *q, uint32_t generation);

/* ---- figures ------------------------------------------------------------- */

/* Jobs ever accepted; exact once closed and no submit runs. */
uint64_t rnl__queue_accepted(struct rnl__queue *q);

/* Jobs ever taken. */
uint64_t rnl__queue_taken(struct rnl__queue *q);

/* Jobs reserved and not taken, about; exact when the worker is away. */
uint64_t rnl__queue_length(struct rnl__queue *q);

/* Whether the queue has space. */
bool rnl__queue_has_space(struct rnl__queue *q);

#endif
