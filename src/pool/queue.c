/* SPDX-License-Identifier: MIT */
/* A worker's job queue: reserving, putting, taking; queue.h has the design. */
#include "config.h"

#include <errno.h>

#include "pool/queue.h"
#include "stream/job_flags.h"
#include "sys/clock.h"
#include "sys/flat.h"
#include "sys/tsan.h"

/* Bits of `accepted`. */
#define CLOSED (UINT64_C(1) << 63)
#define AWAY (UINT64_C(1) << 62)

void rnl__queue_init(struct rnl__queue *q, bool places)
{
	rnl__lane_init(&q->keyed[0]);
	rnl__lane_init(&q->keyed[1]);
	rnl__lane_init(&q->first);
	rnl__lane_init(&q->open);
	rnl__lane_init(&q->placed);
	atomic_init(&q->accepted, AWAY);
	atomic_init(&q->taken_seen, 0);
	atomic_init(&q->limit, 0);
	atomic_init(&q->due, RNL__NEVER);
	for (unsigned i = 0; i < RNL__RAISED_LANES; i++)
		for (unsigned tier = 0; tier < RNL__TIER_OWN; tier++)
			atomic_init(&q->raised[i][tier], 0);
	q->keyed_next = false;
	q->places = q->takes_placed = places;
}

void rnl__queue_bound(struct rnl__queue *q, uint64_t limit)
{
	/* relaxed: a concurrent submit uses the old limit or the new one */
	atomic_store_explicit(&q->limit, limit, memory_order_relaxed);
}

/* ---- reserving ----------------------------------------------------------- */

void rnl__queue_unreserve(struct rnl__queue *q, unsigned nr)
{
	/* relaxed: nothing was done for that reservation */
	atomic_fetch_sub_explicit(&q->accepted, nr, memory_order_relaxed);
}

int rnl__queue_reserve(struct rnl__queue *q, unsigned nr)
{
	/* relaxed: see rnl__queue_bound() */
	uint64_t limit = atomic_load_explicit(&q->limit, memory_order_relaxed);
	uint64_t old, used;
	unsigned space;

	/*
	 * [queue.R1] acq_rel: on one word with [queue.C1] and [queue.A1], so a submit that is
	 * concurrent with a close or a leave is either counted before it or refused; and a submit
	 * that is refused for AWAY sees the staff that was published before.
	 */
	old = atomic_fetch_add_explicit(&q->accepted, nr, memory_order_acq_rel);
	if (old & (CLOSED | AWAY)) {
		rnl__queue_unreserve(q, nr);
		return old & CLOSED ? -ESHUTDOWN : -ESTALE;
	}
	/*
	 * Takers write their cache lines with every job, so a submit reads these only if the queue
	 * seems full by the last count.
	 */
	/* relaxed: an old count makes the queue look fuller, and is then renewed */
	used = old - atomic_load_explicit(&q->taken_seen, memory_order_relaxed);
	if (used + nr > limit) {
		uint64_t now = rnl__queue_taken(q);

		/* relaxed: another submit's older count does no harm, see above */
		atomic_store_explicit(&q->taken_seen, now, memory_order_relaxed);
		/* `old` may count reservations that were taken back since. */
		used = old > now ? old - now : 0;
	}
	if (used + nr <= limit)
		return (int)nr;
	space = used < limit ? (unsigned)(limit - used) : 0;
	rnl__queue_unreserve(q, nr - space);
	return space ? (int)space : -EAGAIN;
}

bool rnl__queue_reserve_accepted(struct rnl__queue *q)
{
	/* [queue.R2] acq_rel: like [queue.R1]; pairs with [queue.A1] */
	if (!(atomic_fetch_add_explicit(&q->accepted, 1, memory_order_acq_rel) & AWAY))
		return true;
	rnl__queue_unreserve(q, 1);
	return false;
}

/* ---- putting ------------------------------------------------------------- */

static struct rnl__lane *lane_of(struct rnl__queue *q, const struct rnl_job *job)
{
	if (job->flags & RNL__JOB_KEYED)
		return &q->keyed[rnl__keyed_lane(job->staff)];
	if (job->flags & RNL__JOB_FIRST)
		return &q->first;
	return job->flags & RNL__JOB_PLACED && q->places ? &q->placed : &q->open;
}

void rnl__queue_put(struct rnl__queue *q, struct rnl_job *job)
{
	rnl__lane_put(lane_of(q, job), job);
}

void rnl__queue_put_row(struct rnl__queue *q, struct rnl_job *const *jobs, unsigned nr)
{
	rnl__lane_put_row(&q->open, jobs, nr);
}

/* ---- taking -------------------------------------------------------------- */

/*
 * Takes from one of two lanes.  Each is first every second time, so both lanes progress.  The
 * counts of taken jobs decide which one is first, so several takers share the turns.
 */
static struct rnl_job *take_in_turn(struct rnl__lane *one, struct rnl__lane *other)
{
	const bool turned = (rnl__lane_taken(one) + rnl__lane_taken(other)) & 1;
	struct rnl_job *job = rnl__lane_try_take(turned ? other : one);

	return job ? job : rnl__lane_try_take(turned ? one : other);
}

/* Takes an open job, or a placed one. */
static struct rnl_job *take_open(struct rnl__queue *q, bool placed)
{
	return placed ? take_in_turn(&q->placed, &q->open) : rnl__lane_try_take(&q->open);
}

/*
 * Owner: takes a keyed job of that generation.  If two resizes passed since the owner read which
 * generation is served, the lane has jobs of a later generation.  So the job's own one decides.
 */
static struct rnl_job *take_keyed(struct rnl__queue *q, uint32_t generation)
{
	struct rnl__lane *lane = &q->keyed[rnl__keyed_lane(generation)];
	struct rnl_job *first, *job = NULL;

	if (!rnl__lane_begin(lane))
		return NULL;
	first = rnl__lane_first(lane);
	if (first && first->staff == (uint16_t)generation)
		job = rnl__lane_take(lane, first);
	rnl__lane_end(lane);
	return job;
}

struct rnl_job *rnl__queue_take(struct rnl__queue *q, uint32_t generation)
{
	struct rnl_job *job = rnl__lane_try_take(&q->first);

	if (job)
		return job;
	/* The keyed and the open lane are first by turns, so both progress. */
	q->keyed_next = !q->keyed_next;
	if (q->keyed_next)
		job = take_keyed(q, generation);
	if (!job)
		job = take_open(q, q->takes_placed);
	if (!job && !q->keyed_next)
		job = take_keyed(q, generation);
	return job;
}

RNL__FLAT
struct rnl_job *rnl__queue_take_of(struct rnl__queue *q, const struct rnl_barrier *barrier,
				   unsigned round, uint32_t generation)
{
	struct rnl_job *first, *job = NULL;

	if (rnl__lane_holds(&q->first) || rnl__lane_holds(&q->keyed[rnl__keyed_lane(generation)]) ||
	    (q->takes_placed && rnl__queue_holds_placed(q)) || !rnl__lane_begin(&q->open))
		return NULL;
	first = rnl__lane_first(&q->open);
	if (first && first->barrier == barrier && rnl__job_round(first) == round)
		job = rnl__lane_take(&q->open, first);
	rnl__lane_end(&q->open);
	return job;
}

struct rnl_job *rnl__queue_steal(struct rnl__queue *q, bool placed)
{
	/* In a pool of several devices, a notice may be placed. */
	struct rnl_job *job = placed || !q->places ? rnl__lane_try_take(&q->first) : NULL;

	return job ? job : take_open(q, placed);
}

bool rnl__queue_holds_placed(struct rnl__queue *q)
{
	return rnl__lane_holds(&q->placed) || (q->places && rnl__lane_holds(&q->first));
}

bool rnl__queue_stealable(struct rnl__queue *q, bool placed)
{
	return rnl__lane_holds(&q->open) || (!q->places && rnl__lane_holds(&q->first)) ||
	       (placed && rnl__queue_holds_placed(q));
}

bool rnl__queue_shows(struct rnl__queue *q, uint32_t generation)
{
	return rnl__lane_next(&q->open.head.node) || rnl__lane_next(&q->first.head.node) ||
	       rnl__lane_next(&q->keyed[rnl__keyed_lane(generation)].head.node) ||
	       (q->takes_placed && rnl__lane_next(&q->placed.head.node));
}

bool rnl__queue_holds_keyed(struct rnl__queue *q, uint32_t generation)
{
	return rnl__lane_holds(&q->keyed[rnl__keyed_lane(generation)]);
}

bool rnl__queue_holds(struct rnl__queue *q, uint32_t generation)
{
	return rnl__queue_holds_keyed(q, generation) ||
	       rnl__queue_stealable(q, q->takes_placed);
}

/* ---- the end of reserving ------------------------------------------------ */

void rnl__queue_close(struct rnl__queue *q)
{
	/* [queue.C1] acq_rel: on one word with the reservations; pairs with [queue.R1] */
	atomic_fetch_or_explicit(&q->accepted, CLOSED, memory_order_acq_rel);
}

bool rnl__queue_away(struct rnl__queue *q)
{
	/* relaxed: a change is followed by a wake, or the worker looks again: rnl__idle() */
	return atomic_load_explicit(&q->accepted, memory_order_relaxed) & AWAY;
}

void rnl__queue_serve(struct rnl__queue *q)
{
	/* relaxed: the staff that sends submits here is published afterwards */
	atomic_fetch_and_explicit(&q->accepted, ~AWAY, memory_order_relaxed);
}

void rnl__queue_leave(struct rnl__queue *q)
{
	/*
	 * [queue.A1] acq_rel: on one word with the reservations, after the staff that no longer
	 * sends submits here; pairs with [queue.R1], [queue.R2].
	 */
	atomic_fetch_or_explicit(&q->accepted, AWAY, memory_order_acq_rel);
}

/* ---- keyed lanes --------------------------------------------------------- */

static _Atomic uint64_t *promised_of(struct rnl__queue *q, uint32_t generation)
{
	return &q->keyed[rnl__keyed_lane(generation)].promised;
}

bool rnl__queue_promise(struct rnl__queue *q, uint32_t generation)
{
	/*
	 * [queue.K1] acq_rel: on one word with [queue.K2]: the promise is counted before the lane
	 * is shut, or it is refused and the submit sees the new staff.
	 */
	uint64_t old = atomic_fetch_add_explicit(promised_of(q, generation), 1,
						 memory_order_acq_rel);

	if (!(old & RNL__LANE_SHUT))
		return true;
	rnl__queue_unpromise(q, generation);
	return false;
}

void rnl__queue_unpromise(struct rnl__queue *q, uint32_t generation)
{
	/* relaxed: nothing was done for that promise */
	atomic_fetch_sub_explicit(promised_of(q, generation), 1, memory_order_relaxed);
}

void rnl__queue_open_lane(struct rnl__queue *q, uint32_t generation)
{
	/* relaxed: the staff that sends submits here is published afterwards */
	atomic_fetch_and_explicit(promised_of(q, generation), ~RNL__LANE_SHUT, memory_order_relaxed);
}

void rnl__queue_shut_lane(struct rnl__queue *q, uint32_t generation)
{
	/* [queue.K2] acq_rel: on one word with the promises; pairs with [queue.K1] */
	atomic_fetch_or_explicit(promised_of(q, generation), RNL__LANE_SHUT, memory_order_acq_rel);
}

void rnl__queue_keyed_done(struct rnl__queue *q, uint32_t generation)
{
	_Atomic uint64_t *done = &q->keyed[rnl__keyed_lane(generation)].done;

	rnl__tsan_release(done);
	/*
	 * [queue.K3] release: the job's effects, for the resize that lets its key's next job start
	 * elsewhere; pairs with [queue.K4].
	 */
	atomic_store_explicit(done, rnl__own_read(done) + 1, memory_order_release);
}

void rnl__queue_keyed_removed(struct rnl__queue *q, uint32_t generation)
{
	_Atomic uint64_t *removed = &q->keyed[rnl__keyed_lane(generation)].removed;

	/* [queue.K5] release: like [queue.K3]; pairs with [queue.K6] */
	atomic_store_explicit(removed, rnl__own_read(removed) + 1, memory_order_release);
}

bool rnl__queue_lane_done(struct rnl__queue *q, uint32_t generation)
{
	struct rnl__lane *lane = &q->keyed[rnl__keyed_lane(generation)];
	/* [queue.K4] acquire: the effects of these jobs; pairs with [queue.K3] */
	uint64_t done = atomic_load_explicit(&lane->done, memory_order_acquire);

	/* [queue.K6] acquire: like [queue.K4]; pairs with [queue.K5] */
	done += atomic_load_explicit(&lane->removed, memory_order_acquire);
	rnl__tsan_acquire(&lane->done);

	/*
	 * relaxed: may count a promise that is being taken back; its submit then wakes the worker
	 */
	return (atomic_load_explicit(&lane->promised, memory_order_relaxed) & ~RNL__LANE_SHUT) == done;
}

/* ---- figures ------------------------------------------------------------- */

uint64_t rnl__queue_accepted(struct rnl__queue *q)
{
	/* relaxed: the caller's barrier orders it, see rnl_pool_drain() */
	return atomic_load_explicit(&q->accepted, memory_order_relaxed) & ~(CLOSED | AWAY);
}

uint64_t rnl__queue_taken(struct rnl__queue *q)
{
	uint64_t taken = rnl__lane_taken(&q->open) + rnl__lane_taken(&q->first) +
			 rnl__lane_taken(&q->keyed[0]) + rnl__lane_taken(&q->keyed[1]);

	if (q->places)
		taken += rnl__lane_taken(&q->placed);
	return taken;
}

/* An estimate: with weak memory order, a job's take may be counted before its reservation. */
uint64_t rnl__queue_length(struct rnl__queue *q)
{
	uint64_t now = rnl__queue_taken(q), accepted = rnl__queue_accepted(q);

	return accepted > now ? accepted - now : 0;
}

bool rnl__queue_has_space(struct rnl__queue *q)
{
	/* relaxed: see rnl__queue_bound() */
	return rnl__queue_length(q) < atomic_load_explicit(&q->limit, memory_order_relaxed);
}
