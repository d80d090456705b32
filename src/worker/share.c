/* SPDX-License-Identifier: MIT */
/* What a worker tells other threads of itself; share.h has the design. */
#include "config.h"

#include "job/watermark.h"
#include "pool/pool.h"
#include "worker/share.h"

/*
 * Whether a worker has one job in its queue, and is about to take it.  On a GPU a thief that got
 * a job of its own next would have two, one behind the other, and the worker none.
 */
static bool comes_for_it(struct rnl__worker *w)
{
	/* A worker that becomes occupied after this look wakes us for the job. */
	return rnl__pool_on_gpu(w->pool) && rnl__queue_length(&w->queue) <= 1 &&
	       rnl__worker_attends(w);
}

bool rnl__share_may_have(struct rnl__worker *w, struct rnl__worker *other)
{
	return rnl__queue_stealable(&other->queue) &&
	       (w->urgent == other->urgent || (!w->urgent && !w->pool->device->priorities)) &&
	       !comes_for_it(other);
}

static bool others_have(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	unsigned nr = rnl__pool_nr_workers(pool);

	for (unsigned i = 0; i < nr; i++)
		if (i != w->index && rnl__share_may_have(w, &pool->workers[i]))
			return true;
	return false;
}

/*
 * The thread that put a job on our queue woke us, or saw that we attend, and left the other
 * workers asleep: a sleeping worker can have the job.  A thread that woke us did so for a job
 * in any queue: if it was not the job that we took, another worker has to come for it.
 */
void rnl__share_queue(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	struct rnl__lot *lot = w->urgent ? &pool->urgent_lot : &pool->lot;
	/* On a device without priorities the other workers take urgent jobs, too. */
	struct rnl__lot *also = pool->device->priorities ? lot : &pool->lot;
	bool woken = w->woken;

	w->woken = false;
	if (!rnl__lot_idle(lot) && !rnl__lot_idle(also))
		return;
	if (!rnl__queue_stealable(&w->queue) && !(woken && others_have(w)))
		return;
	if (!rnl__lot_wake_one(lot) && also != lot)
		rnl__lot_wake_one(also);
}

bool rnl__share_occupy(struct rnl__worker *w)
{
	bool was = rnl__own_read(&w->occupied);

	rnl__share_occupied(w);
	/* [run.O2] full barrier: as [job.P1] for [run.O1]; pairs with [queue.E1] */
	rnl__full_barrier();
	rnl__share_queue(w);
	return was;
}

void rnl__share_look_at_mark(struct rnl__worker *w)
{
	w->look_in = 0;
	if (rnl__pool_has_notice(w->pool, RNL_LOW_WATER) ||
	    rnl__pool_has_notice(w->pool, RNL_HIGH_WATER))
		w->look_in = rnl__watermark_fell(w->pool);
}
