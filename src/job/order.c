/* SPDX-License-Identifier: MIT */
/* Orders of jobs that come after barriers; order.h has the design. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <runnel/more.h>

#include "job/job.h"
#include "job/order.h"
#include "job/rounds.h"
#include "pool/choose.h"
#include "pool/inherit.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/inbox.h"
#include "sys/log.h"
#include "sys/thread_state.h"

/* Bits of a job's `gate`, until its submit is complete: */
#define UNREADY UINT64_C(1)	/* no thread may start the job */
#define AT_GATE UINT64_C(2)	/* ... and the submit owns the order's gate */

/* `waits`: from TIER_SHIFT on RNL__TIER_NONE - the smallest tier, and these bits: */
#define WAITS 1u		/* the job at the gate waits */
#define RAISES 2u		/* ... a submit raises its rounds */
#define LEFT 4u			/* ... and goes on with the job */
#define TIER_SHIFT 3

#define NAP_NS 50000u		/* between checks of rnl_order_fini() */

/* Returns an order's inbox, which is armed while the gate is free. */
static struct rnl__inbox *inbox_of(struct rnl_order *order)
{
	return (struct rnl__inbox *)&order->waiting;
}

static _Atomic uint64_t *gate_of(struct rnl_job *job)
{
	return rnl__atomic(&job->more->gate);
}

/* Returns true if the job gets the gate; else the job waits in the inbox. */
static bool get_gate(struct rnl_order *order, struct rnl_job *job)
{
	struct rnl__inbox *inbox = inbox_of(order);

	if (rnl__inbox_arm(inbox, false))
		return true;
	if (!rnl__inbox_put(inbox, job, &job->link))
		return false;
	/* The gate was released in between: the job is the oldest one in the inbox. */
	order->first = rnl__job_in_order(rnl__inbox_take_all(inbox))->link;
	return true;
}

/* Returns true if the job's submit is complete.  If not, the submit owns the gate from now on. */
static bool is_ready(struct rnl_job *job)
{
	uint64_t gate = UNREADY;

	/*
	 * [order.K1] acq_rel: either this or the end of the submit is first; the later one sees the
	 * writes of the earlier one: the accepted job, or order->first; pairs with [order.K2]
	 */
	return !atomic_compare_exchange_strong_explicit(gate_of(job), &gate, gate | AT_GATE,
							memory_order_acq_rel,
							memory_order_acquire);
}

/* ---- tiers --------------------------------------------------------------- */

static _Atomic uint32_t *waits_of(struct rnl_order *order)
{
	return rnl__atomic(&order->waits);
}

static unsigned tier_behind(uint32_t waits)
{
	return RNL__TIER_NONE - (waits >> TIER_SHIFT);
}

static bool set_waits(struct rnl_order *order, uint32_t *waits, uint32_t now)
{
	/*
	 * [order.W1] acq_rel: passes the gate, `first` and the tiers between the thread at the gate
	 * and a submit that raises; pairs with [order.W1], [order.W2]
	 */
	return atomic_compare_exchange_weak_explicit(waits_of(order), waits, now, memory_order_acq_rel,
						     memory_order_acquire);
}

unsigned rnl__order_wait(struct rnl_order *order, struct rnl_job *job)
{
	job->more->next = order->first;
	order->first = job;
	/* [order.W2] acq_rel: like [order.W1]; pairs with [order.W1] */
	return tier_behind(atomic_fetch_or_explicit(waits_of(order), WAITS, memory_order_acq_rel));
}

bool rnl__order_waited(struct rnl_order *order)
{
	uint32_t waits = rnl__peek(waits_of(order));

	while (waits & WAITS)
		if (set_waits(order, &waits, waits & RAISES ? waits | LEFT : waits & ~WAITS))
			break;
	if (!(waits & WAITS))
		return true;
	if (waits & RAISES)
		return false;
	order->first = order->first->more->next;
	return true;
}

/* Lowers the tier, and marks a job that waits.  Returns false if there is none, or it is marked. */
static bool lower_tier(struct rnl_order *order, unsigned tier)
{
	uint32_t waits = rnl__peek(waits_of(order)), now;

	do {
		if (tier_behind(waits) <= tier)
			return false;
		now = (RNL__TIER_NONE - tier) << TIER_SHIFT | (waits & ((1u << TIER_SHIFT) - 1));
	} while (!set_waits(order, &waits, waits & WAITS ? now | RAISES : now));
	return waits & WAITS && !(waits & RAISES);
}

struct rnl_job *rnl__order_raise(struct rnl_order *order, const struct rnl_job *job, unsigned *tier)
{
	/* No job is before one that has come to the gate. */
	if (rnl__peek(gate_of((struct rnl_job *)(uintptr_t)job)) & AT_GATE || !lower_tier(order, *tier))
		return NULL;
	return order->first;
}

bool rnl__order_raised(struct rnl_order *order, unsigned *tier, struct rnl_job **left)
{
	uint32_t waits = rnl__peek(waits_of(order));

	do {
		if (tier_behind(waits) < *tier) {
			*tier = tier_behind(waits);
			return false;
		}
	} while (!set_waits(order, &waits,
			    waits & ~(waits & LEFT ? WAITS | RAISES | LEFT : RAISES)));
	if (waits & LEFT) {
		*left = order->first;
		order->first = order->first->more->next;
	}
	return true;
}

/*
 * Forgets the tiers of jobs that have left an empty order.  Jobs that come meanwhile may have set
 * theirs already, so they set them again: then this is called with @came.
 */
static void forget_tiers(struct rnl_order *order, struct rnl_job *came)
{
	if (!came && rnl__peek(waits_of(order)))
		/* relaxed: the caller has the gate, where no job waits */
		atomic_store_explicit(waits_of(order), 0, memory_order_relaxed);
	for (; came && rnl__classes_of(order->pool); came = came->link)
		(void)lower_tier(order, rnl__inherit_class(order->pool, came));
}

struct rnl_job *rnl__order_next(struct rnl_order *order)
{
	struct rnl__inbox *inbox = inbox_of(order);
	bool forgot = false;
	struct rnl_job *job;

	while (!order->first) {
		order->first = rnl__job_in_order(rnl__inbox_take_all(inbox));
		if (!order->first || forgot)
			forget_tiers(order, order->first);
		if (!order->first && rnl__inbox_arm(inbox, true))
			return NULL;
		forgot = true;
	}
	job = order->first;
	order->first = job->link;
	return is_ready(job) ? job : NULL;
}

void rnl__order_enter(struct rnl_order *order, struct rnl_job *job)
{
	job->flags |= RNL__JOB_ORDERED;
	/* relaxed, both: [inbox.P1] publishes it, or no other thread reads it */
	atomic_store_explicit(gate_of(job), UNREADY, memory_order_relaxed);
	if (get_gate(order, job))
		/* relaxed */
		atomic_store_explicit(gate_of(job), UNREADY | AT_GATE, memory_order_relaxed);
}

bool rnl__order_ready(struct rnl_job *job)
{
	/* [order.K2] acq_rel: like [order.K1]; pairs with [order.K1] */
	return atomic_exchange_explicit(gate_of(job), 0, memory_order_acq_rel) & AT_GATE;
}

int rnl_order_init(struct rnl_order *order, struct rnl_pool *pool, uint64_t key)
{
	int ret = rnl__pool_given(pool, "rnl_order_init()");

	if (ret)
		return ret;
	if (!order)
		return rnl__invalid(&pool->log, "rnl_order_init(): the order is NULL");
	memset(order, 0, sizeof(*order));
	(void)rnl__inbox_arm(inbox_of(order), true);
	order->pool = pool;
	order->key = key;
	order->generation = pool->generation;
	return 0;
}

void rnl_order_fini(struct rnl_order *order)
{
	if (!order || !order->pool || rnl__generation_check(order->generation))
		return;
	/* Once this succeeds, no other thread touches the order. */
	while (!rnl__inbox_arm(inbox_of(order), false))
		rnl__nap(NAP_NS);
	order->pool = NULL;
}
