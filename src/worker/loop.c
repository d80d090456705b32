/* SPDX-License-Identifier: MIT */
/* A worker's loop; loop.h has the design.  Read it from its end. */
#include "config.h"

#include "pool/pool.h"
#include "worker/chain.h"
#include "worker/charge.h"
#include "worker/command.h"
#include "worker/complete.h"
#include "worker/group.h"
#include "worker/idle.h"
#include "worker/loop.h"
#include "worker/run.h"
#include "worker/share.h"

/*
 * While more jobs are queued, a job gets its mark within RNL__MARK_NS plus a function's time, and
 * the worker checks the mark within LOOK_NS plus a function's time; if jobs gather, RNL__MARK_NS later.
 * Jobs of a group have one mark, so each is reported when the device has done all of them.
 * A longer function delays only one of the two.  So a completion is reported within 1 ms, or within one
 * function's time.
 */
#define LOOK_NS 400000u

#define OWED_MAX 256u		/* jobs in a deferred notification of a barrier */

/* ---- taking -------------------------------------------------------------- */

/* Takes a job of the worker's own queue, or of a class; @from: the worker. */
static struct rnl_job *loop_take(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_pool *pool = w->pool;
	struct rnl_job *job = NULL;

	if (rnl__inflight_enough(&w->inflight))
		return NULL;
	*from = w;
	job = rnl__chain_take(w);
	if (job)
		return job;
	job = rnl__share_take_classed(w);
	return job ? job : rnl__queue_take(&w->queue, rnl__pool_serving(pool));
}

/*
 * Takes the next job if it is of the round that `owed` names, or returns NULL: the barrier must be
 * notified before another job is taken, because a job after the barrier may have to go first.
 */
static struct rnl_job *take_of_owed(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_pool *pool = w->pool;

	*from = w;
	if (!w->owed.barrier || w->next || rnl__classes_any(pool) || w->owed.nr_done >= OWED_MAX ||
	    rnl__inflight_enough(&w->inflight))
		return NULL;
	return rnl__queue_take_of(&w->queue, w->owed.barrier, w->owed.round,
				  rnl__pool_serving(pool));
}

static struct rnl_job *steal(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_job *job;

	*from = rnl__share_victim(w);
	job = *from ? rnl__queue_steal(&(*from)->queue, rnl__worker_takes_placed(w, *from)) : NULL;
	if (job)
		rnl__figure_add(&w->stolen, 1);
	return job;
}

/* ---- the loop ------------------------------------------------------------ */

/*
 * Checks the stream if the last check was a while ago: first the latest mark, which covers all
 * jobs; if it is not reached, a binary search finds the latest mark that is reached.  Each query
 * delays all threads that call the driver.
 */
static void look_on_time(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	const uint64_t unlooked = rnl__inflight_clock(f) - f->looked;
	unsigned nr, before, half;

	/* A group is not cut short, but groups that follow each other do not delay the look for long. */
	if (w->group.nr && !rnl__group_full(w) && unlooked < LOOK_NS + RNL__MARK_NS)
		return;
	rnl__group_end(w);
	if (rnl__inflight_reached(f))
		(void)rnl__complete_reached(w, 0);
	if (unlooked < LOOK_NS || !f->nr_marks)
		return;
	nr = f->nr_marks;
	if (rnl__complete_reached(w, nr))
		return;
	/* The nr-th mark is not reached. */
	while (nr > 1) {
		before = f->nr_marks;
		half = nr / 2;
		if (!rnl__complete_reached(w, half))
			nr = half;
		else if (before - f->nr_marks < nr)
			nr -= before - f->nr_marks;
		else
			break;
	}
}

void rnl__loop(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl__worker *from;
	struct rnl_job *job;

	for (;;) {
		if (f->first)
			look_on_time(w);
		if (rnl__command_may_obey(w)) {
			rnl__group_end(w);
			rnl__owed_tell(w);
			rnl__command_obey(w);
		}
		if (rnl__worker_has_returned(w)) {
			rnl__group_end(w);
			rnl__complete_returned(w);
		}
		if (rnl__idle_full(w)) {
			rnl__group_end(w);
			rnl__owed_tell(w);
			(void)rnl__share_occupy(w);
			rnl__idle_await_space(w);
			rnl__share_attend(w, false);
			continue;
		}
		job = take_of_owed(w, &from);
		if (!job) {
			rnl__owed_tell(w);
			job = loop_take(w, &from);
		}
		if (!job) {
			rnl__group_end(w);
			rnl__run_mark_last(w);
			if (rnl__complete_reached(w, 0))
				continue;
			job = steal(w, &from);
		}
		if (job)
			rnl__run(w, job, from);
		else if (rnl__command_may_leave(w))
			break;
		else
			rnl__idle(w);
	}
	rnl__charge_idle(w);
	/* The worker leaves: it passes a pending wake-up on to another worker. */
	(void)rnl__share_occupy(w);
}
