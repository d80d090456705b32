/* SPDX-License-Identifier: MIT */
/* Which jobs run at a smaller tier, because other jobs wait for them; inherit.h has the design. */
#include "config.h"

#include "pool/inherit.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/sizes.h"

/* Tags of slots. */
#define TAG_NONE 0u		/* in no barrier */
#define TAG_CHAIN 255u		/* each search looks at it: its jobs may be in several barriers */

/* Lanes: the keyed ones of two generations, and two that thieves take from. */
enum { OPEN = RNL__LANE_OPEN, PLACED };

/* ---- rounds -------------------------------------------------------------- */

static _Atomic uint64_t *slots_of(const struct rnl_barrier *b)
{
	return rnl__atomic(&((struct rnl_barrier *)(uintptr_t)b)->slots);
}

static unsigned round_in(uint64_t slots, unsigned slot)
{
	return slots >> rnl__round_shift(slot) & ((1u << RNL__ROUND_BITS) - 1);
}

/* Returns the smallest tier of jobs that wait for the round. */
static unsigned raised_of(unsigned round)
{
	return RNL__TIER_NONE - (round >> RNL__ROUND_RAISED_SHIFT & RNL__ROUND_TIER);
}

unsigned rnl__inherit_class(const struct rnl_pool *pool, const struct rnl_job *job)
{
	/* The submit may be writing other fields; a job without a class is in the own one, 0. */
	const unsigned index = rnl__peek(rnl__atomic((uint8_t *)&job->class_index)) & RNL__CLASS_INDEX;

	return rnl__figure_read(&rnl__class_at(rnl__classes_of(pool), index)->tier);
}

/* Replaces a round's bits, if the word has not changed. */
static bool set_round(const struct rnl_barrier *b, unsigned slot, uint64_t *slots, unsigned round)
{
	const unsigned shift = rnl__round_shift(slot);
	const uint64_t now = (*slots & ~(((UINT64_C(1) << RNL__ROUND_BITS) - 1) << shift)) |
			     (uint64_t)round << shift;

	/*
	 * [inherit.R1] acq_rel: the raise sees what a counted job has reserved, or the job sees the
	 * raise; pairs with [inherit.R1]
	 */
	return atomic_compare_exchange_weak_explicit(slots_of(b), slots, now, memory_order_acq_rel,
						     memory_order_relaxed);
}

void rnl__inherit_count_tier(const struct rnl_job *job, const struct rnl_job *queued)
{
	const struct rnl_barrier *b = job->barrier;
	const unsigned slot = rnl__job_round(job);
	unsigned tier, with, round, now;
	uint64_t slots;

	tier = rnl__inherit_class(queued->pool, queued);
	with = rnl__job_in_class(queued) ? 0 : RNL__ROUND_AT_WORKERS;
	if (with)
		tier = (unsigned)rnl__smaller(tier, RNL__TIER_OWN);
	slots = rnl__peek(slots_of(b));
	do {
		round = round_in(slots, slot);
		now = round | with;
		if ((now & RNL__ROUND_TIER) < tier)
			now = (now & ~RNL__ROUND_TIER) | tier;
	} while (now != round && !set_round(b, slot, &slots, now));
}

unsigned rnl__inherit_tier(const struct rnl_job *job)
{
	unsigned tier;

	if (!rnl__classes_of(job->pool))
		return RNL__TIER_OWN;
	tier = rnl__inherit_class(job->pool, job);
	for (; job; job = job->flags & RNL__JOB_LEADS ? job->then : NULL)
		if (job->barrier)
			tier = (unsigned)rnl__smaller(tier, raised_of(round_in(
				rnl__peek(slots_of(job->barrier)), rnl__job_round(job))));
	return tier;
}

uint8_t rnl__inherit_tag_of(const struct rnl_barrier *b)
{
	/* Fibonacci hashing (Knuth) */
	return (uint8_t)(1 + ((uintptr_t)b * UINT64_C(0x9e3779b97f4a7c15) >> 32) % (TAG_CHAIN - 1));
}

unsigned rnl__inherit_wait(struct rnl_barrier *b, unsigned slot, unsigned tier)
{
	struct rnl__classes *classes = rnl__classes_of(b->pool);
	uint64_t slots = rnl__peek(slots_of(b));
	unsigned round;

	if (!classes)
		return 0;
	do {
		round = round_in(slots, slot);
		if (raised_of(round) <= tier)
			return 0;
	} while (!set_round(b, slot, &slots,
			    (round & ~(RNL__ROUND_TIER << RNL__ROUND_RAISED_SHIFT)) |
				    (RNL__TIER_NONE - tier) << RNL__ROUND_RAISED_SHIFT));
	if ((round & RNL__ROUND_TIER) <= tier)
		return 0;
	/* [inherit.A2] release: the raise; pairs with [inherit.A1] */
	atomic_fetch_add_explicit(&classes->raises, 1, memory_order_release);
	/*
	 * [inherit.W1] full barrier: raised and counted before the look for queued jobs; pairs with
	 * [inherit.W2], [prioq.M2]
	 */
	rnl__mb_after_rmw();
	return round;
}

/* ---- queues of classes --------------------------------------------------- */

uint8_t rnl__inherit_tag(const struct rnl_job *job)
{
	if (job->flags & RNL__JOB_LEADS)
		return TAG_CHAIN;
	return job->barrier ? rnl__inherit_tag_of(job->barrier) : TAG_NONE;
}

uint32_t rnl__inherit_raises(struct rnl__classes *classes)
{
	/* [inherit.A1] acquire: the raises of rounds; pairs with [inherit.A2] */
	return atomic_load_explicit(&classes->raises, memory_order_acquire);
}

void rnl__inherit_take_tags(struct rnl__classes *classes, uint64_t tags[RNL__PRIOQ_TAGS / 64])
{
	uint64_t any = 0;

	for (unsigned i = 0; i < RNL__PRIOQ_TAGS / 64; i++)
		/* [inherit.T2] acquire: the raises of these tags; pairs with [inherit.T1] */
		any |= tags[i] = atomic_exchange_explicit(&classes->tags[i], 0, memory_order_acquire);
	if (any)
		tags[TAG_CHAIN / 64] |= UINT64_C(1) << TAG_CHAIN % 64;
}

/* ---- queues of workers --------------------------------------------------- */

static struct rnl__lane *lane_at(struct rnl__queue *q, unsigned lane)
{
	return lane == OPEN ? &q->open : lane == PLACED ? &q->placed : &q->keyed[lane];
}

unsigned rnl__inherit_lane(const struct rnl__queue *q, const struct rnl_job *job)
{
	if (job->flags & RNL__JOB_KEYED)
		return rnl__keyed_lane(job->staff);
	return job->flags & RNL__JOB_PLACED && q->places ? PLACED : OPEN;
}

void rnl__inherit_raise_lane(struct rnl__queue *q, unsigned lane, unsigned tier)
{
	_Atomic uint64_t *until = &q->raised[lane][tier];
	uint64_t old = rnl__peek(until), others = rnl__queue_taken(q), now;

	/* Jobs that were accepted and not taken from another lane: at least those of this lane. */
	others -= rnl__lane_taken(lane_at(q, lane));
	now = rnl__queue_accepted(q) - others;
	/* relaxed: the worker looks at it with each job that it takes */
	while ((int64_t)(now - old) > 0 &&
	       !atomic_compare_exchange_weak_explicit(until, &old, now, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

void rnl__inherit_raise_workers(struct rnl_pool *pool, unsigned tier)
{
	for (unsigned i = 0; i < rnl__pool_nr_workers(pool); i++) {
		struct rnl__queue *q = &rnl__worker_at(pool, i)->queue;

		for (unsigned lane = 0; rnl__queue_length(q) && lane < RNL__RAISED_LANES; lane++)
			rnl__inherit_raise_lane(q, lane, tier);
	}
}

/* Returns the tier of the lane's jobs; the smallest one that is not over. */
static unsigned tier_of_lane(struct rnl__queue *q, unsigned lane)
{
	struct rnl__lane *l = lane_at(q, lane);
	unsigned tier = 0;

	if (!rnl__lane_holds(l))
		return RNL__TIER_OWN;
	while (tier < RNL__TIER_OWN &&
	       (int64_t)(rnl__figure_read(&q->raised[lane][tier]) - rnl__lane_taken(l)) <= 0)
		tier++;
	return tier;
}

unsigned rnl__inherit_tier_at(const struct rnl__worker *w, struct rnl__worker *from)
{
	struct rnl__queue *q = &from->queue;
	unsigned tier = tier_of_lane(q, OPEN);

	if (w == from)
		tier = (unsigned)rnl__smaller(tier, tier_of_lane(q, rnl__keyed_lane(rnl__pool_serving(w->pool))));
	if (rnl__worker_takes_placed(w, from))
		tier = (unsigned)rnl__smaller(tier, tier_of_lane(q, PLACED));
	return tier;
}
