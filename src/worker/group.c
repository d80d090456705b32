/* SPDX-License-Identifier: MIT */
/* Jobs whose work is issued together; group.h has the design. */
#include "config.h"

#include <errno.h>

#include "job/barrier.h"
#include "job/job.h"
#include "job/rounds.h"
#include "pool/guard.h"
#include "pool/holds.h"
#include "pool/pool.h"
#include "worker/complete.h"
#include "worker/group.h"
#include "worker/share.h"

/*
 * Longest time of a group on the device.  With 0.2 ms, 16 workers that share the bus had groups of two J of
 * 256 KB, and copied at half the rate.
 */
#define LONGEST_NS 1000000u

static bool gathers(const struct rnl__worker *w, const struct rnl_job *job)
{
	if (!(job->flags & RNL__JOB_GATHERS) ||
	    job->flags & (RNL__JOB_CHAINED | RNL__JOB_LEADS))
		return false;
	return !w->track &&
	       (!w->pool->guard || rnl__guard_knows(w->pool->guard, (rnl__function *)job->fn));
}

static bool has_key(const struct rnl__group *group, const struct rnl_job *job)
{
	for (unsigned i = 0; job->flags & RNL__JOB_KEYED && i < group->nr_keys; i++)
		if (group->keys[i] == job->key)
			return true;
	return false;
}

bool rnl__group_full(const struct rnl__worker *w)
{
	return w->group.nr == RNL__GROUP_MAX || w->inflight.now - w->group.since >= RNL__MARK_NS;
}

bool rnl__group_prepare(struct rnl__worker *w, struct rnl_job *job)
{
	struct rnl__group *group = &w->group;
	struct rnl__inflight *f = &w->inflight;
	const bool takes = gathers(w, job);

	if (!group->nr)
		return takes;
	if (!takes || rnl__job_follows(job) || has_key(group, job) || rnl__group_full(w) ||
	    w->scratch.wanted > w->scratch.block_bytes ||
	    f->unmarked_ns + rnl__pace_guess(&f->pace, job) >= LONGEST_NS)
		rnl__group_end(w);
	return takes;
}

bool rnl__group_join(struct rnl__worker *w, struct rnl_job *job)
{
	struct rnl__group *group = &w->group;

	if (!group->nr) {
		if (!(job->flags & RNL__JOB_REPLAYS) &&
		    !rnl__queue_holds(&w->queue, rnl__pool_serving(w->pool)) &&
		    !rnl__share_awaits_classed(w))
			return false;
		group->since = rnl__inflight_clock(&w->inflight);
	}
	if (job->flags & RNL__JOB_KEYED)
		group->keys[group->nr_keys++] = job->key;
	group->nr++;
	rnl__gather_begin(&w->gather);
	return true;
}

void rnl__group_issued(struct rnl__worker *w, struct rnl_job *job, bool mark)
{
	if (!w->group.first)
		w->group.first = job;
	w->group.mark = w->group.mark || mark;
	w->group.moved += w->moved;
}

void rnl__group_failed(struct rnl_job *job, int error)
{
	char reason[RNL__WHY_BYTES];

	if (error == -EINVAL || error == -ENOTSUP)
		rnl__log_limited(&rnl__thread.worker->pool->log, RNL_LOG_ERROR, "the device refused a "
				 "copy, fill or launch of job %p, which gathers (%s): without "
				 "RNL_GATHER the log names the call%s", (void *)job,
				 rnl_strerror(error),
				 rnl__device_reason(rnl__thread.worker->device, 0, reason));
	if (job != rnl__thread.job)
		rnl__holds_note(job, error);
	else if (!rnl__thread.error)
		rnl__thread.error = error;
}

void rnl__group_left_out(const struct rnl__copy *copy)
{
	rnl__staging_leave_out(&rnl__thread.worker->staging, copy);
}

/* Notifies the barriers that the jobs from @job on are issued; @ret: the mark's result. */
static void group_tell_barriers(struct rnl_job *job, int ret)
{
	for (; job; job = job->link) {
		int result = rnl__holds_result(job);

		if (!job->barrier || job->flags & RNL__JOB_OWES)
			continue;
		rnl__barrier_note(job->barrier, result < 0 ? result : ret);
		rnl__barrier_drop(job->barrier, rnl__job_round(job), 1, 0);
	}
}

void rnl__group_end(struct rnl__worker *w)
{
	const struct rnl__group group = { .nr = w->group.nr, .first = w->group.first,
					  .mark = w->group.mark, .moved = w->group.moved };
	bool was, event;
	int ret;

	if (!group.nr)
		return;
	w->group.nr = w->group.nr_keys = 0;
	w->group.first = NULL;
	w->group.mark = false;
	w->group.moved = 0;
	if (group.nr > 1)
		rnl__figure_add(&w->gathered, group.nr);
	was = rnl__share_occupy(w);
	if (w->gather.nr)
		rnl__gather_issue(&w->gather);
	if (w->scratch.wanted)
		rnl__scratch_end(&w->scratch);
	rnl__share_attend(w, was);
	/* A few jobs that need no mark are marked by the next job, or at the end of the queue. */
	if (!group.first || (!group.mark && group.nr < RNL__MARK_EVERY))
		return;
	event = group.mark || group.moved >= RNL__LARGE_MOVE || w->owed.unmarked;
	ret = rnl__inflight_mark(&w->inflight, event, !event);
	group_tell_barriers(group.first, ret);
	if (ret)
		(void)rnl__complete_reached(w, 0);
}
