/* SPDX-License-Identifier: MIT */
/* Jobs whose function issues the same work each time; replay.h has the design. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "stream/job_flags.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "sys/sizes.h"
#include "worker/replay.h"

#define COMPARE_EVERY 1000u	/* replays */
#define WAIT_MAX 65536u

static const struct rnl__device_ops *ops_of(const struct rnl__worker *w)
{
	return w->device->ops;
}

/* Returns false if notes are issued singly: a record's kernels would use all SMs. */
static bool has_records(const struct rnl__worker *w)
{
	return ops_of(w)->record_create && !rnl__thread.stream->some_sms;
}

static void forget(struct rnl__worker *w, struct rnl__replay *r)
{
	if (r->record)
		ops_of(w)->record_drop(r->record);
	r->record = NULL;
	r->notes.nr = 0;
	r->left = 0;
}

/* Returns the function's entry; a new entry replaces the least recently used.  NULL: no memory. */
static struct rnl__replay *replay_get(struct rnl__worker *w, rnl__function *fn)
{
	struct rnl__replays *all = &w->replays;
	struct rnl__replay *least;

	if (!all->list)
		all->list = calloc(RNL__REPLAYS_MAX, sizeof(*all->list));
	if (!all->list)
		return NULL;
	least = all->list;
	for (unsigned i = 0; i < RNL__REPLAYS_MAX; i++) {
		if (all->list[i].fn == fn)
			return &all->list[i];
		if (all->list[i].used < least->used)
			least = &all->list[i];
	}
	forget(w, least);
	*least = (struct rnl__replay){ .fn = fn, .notes = least->notes };
	return least;
}

/* Puts off the next try, and forgets the last run: only consecutive runs are compared. */
static void wait_longer(struct rnl__worker *w, struct rnl__replay *r)
{
	r->wait = r->next_wait;
	if (r->wait)
		forget(w, r);
	r->next_wait = r->wait ? (uint32_t)rnl__smaller(2 * r->wait, WAIT_MAX) : 1;
}

static void tell_replay(struct rnl__worker *w, struct rnl__replay *r, const char *what)
{
	if (!r->notified)
		rnl__guard_tell(w->pool, r->fn, what);
	r->notified = true;
}

static void tell_spoilt(struct rnl__worker *w, struct rnl__replay *r, const char *why)
{
	char what[256];

	snprintf(what, sizeof(what), "cannot be replayed, and is called each time: it %s", why);
	tell_replay(w, r, what);
}

static void is_stable(struct rnl__replay *r)
{
	r->left = COMPARE_EVERY;
	r->next_wait = 0;
}

/* Records the scratch and the copied bytes of the run that was just recorded. */
static void recorded(struct rnl__worker *w, struct rnl__replay *r, bool had_other)
{
	r->scratch = w->scratch.block;
	r->moved = w->moved;
	if (had_other)
		wait_longer(w, r);
	/* Scratch outside the block is freed with the job; the next block may be larger. */
	if (w->scratch.nr_extra) {
		forget(w, r);
		if (w->scratch.wanted > w->scratch.keep) {
			tell_spoilt(w, r, "needs more scratch than the pool's scratch_keep");
			wait_longer(w, r);
		}
	}
}

/* ---- by its calls -------------------------------------------------------- */

/*
 * A unit that does not say that its CUDA calls name rnl_stream() may launch on stream 0, which is
 * the worker's stream in a pool of per-thread streams.
 */
static bool may_use_stream_0(const struct rnl__worker *w, rnl__function *fn)
{
	return w->device->info.cuda && rnl__unit_is_silent(fn);
}

/* Makes the call and notes the operations that it issues.  Returns its result. */
static int replay_call_noted(struct rnl__worker *w, const struct rnl__guard_call *call,
			     struct rnl__notes *notes)
{
	const struct rnl_job *job = rnl__thread.job;
	struct rnl__guard *guard = w->pool->guard;
	int ret;

	rnl__notes_begin(notes);
	if (may_use_stream_0(w, call->fn))
		rnl__notes_spoil("is in a unit that does not define RNL_NAMES_STREAM as 1, so it may use "
				 "stream 0 by itself, which takes RNL_REPLAY_CAPTURE");
	ret = rnl__guard_call(w, call);
	if (ret || rnl__thread.error)
		rnl__notes_spoil("has a result");
	if (job->flags & RNL__JOB_HELD)
		rnl__notes_spoil("takes a hold");
	if (guard && !rnl__guard_knows(guard, call->fn))
		rnl__notes_spoil("uses stream 0 in a pool of private streams");
	if (!notes->nr)
		rnl__notes_spoil("issues nothing");
	rnl__notes_end();
	return ret;
}

/* Makes a record of two runs with equal notes.  Returns false if the device cannot. */
static bool make_record(struct rnl__worker *w, struct rnl__replay *r)
{
	if (!r->record && has_records(w))
		r->record = ops_of(w)->record_create(&r->notes);
	return r->record || !has_records(w);
}

static int record_calls(struct rnl__worker *w, struct rnl__replay *r,
			const struct rnl__guard_call *call)
{
	struct rnl__notes *notes = &w->replays.notes;
	const struct rnl__notes before = r->notes;
	int ret;

	/* A first run that the guard watches may consist of two calls. */
	if (w->pool->guard && !rnl__guard_knows(w->pool->guard, call->fn)) {
		wait_longer(w, r);
		return rnl__guard_call(w, call);
	}
	r->left = 0;
	ret = replay_call_noted(w, call, notes);
	if (!notes->spoilt && before.nr && rnl__notes_same(&before, notes)) {
		if (make_record(w, r)) {
			is_stable(r);
			return ret;
		}
		notes->spoilt = "issues what CUDA does not take into a graph, or there is no memory for it";
	}
	if (notes->spoilt)
		tell_spoilt(w, r, notes->spoilt);
	else if (before.nr)
		tell_replay(w, r, "says that it issues the same each time, and does not: it is called");
	forget(w, r);
	if (!notes->spoilt) {
		r->notes = *notes;
		*notes = before;
	}
	recorded(w, r, before.nr || notes->spoilt);
	return ret;
}

/* ---- by capture ---------------------------------------------------------- */

static int record_capture(struct rnl__worker *w, struct rnl__replay *r,
			  const struct rnl__guard_call *call)
{
	struct rnl__guarded guarded = {
		.records = true, .last = r->record, .user = rnl__thread.job->user,
	};
	const bool stable = r->left;
	bool had_other;
	int ret;

	r->left = 0;
	ret = rnl__guard_record(w, call, &guarded);
	if (guarded.same || (guarded.disturbed && stable)) {
		is_stable(r);
		return ret;
	}
	if (guarded.disturbed) {
		wait_longer(w, r);
		return ret;
	}
	if (!guarded.record)
		tell_spoilt(w, r, "issues nothing, has a result, copies pageable memory, takes a hold, "
				  "joins a barrier, or does what CUDA does not capture");
	else if (r->record)
		tell_replay(w, r, "says that it issues the same each time, and does not: it is called");
	had_other = r->record || !guarded.record;
	forget(w, r);
	r->record = guarded.record;
	recorded(w, r, had_other);
	return ret;
}

/* ---- replay -------------------------------------------------------------- */

static int replay(struct rnl__worker *w, struct rnl__replay *r, const struct rnl__guard_call *call)
{
	struct rnl_job *job = rnl__thread.job;
	const int ret = r->record ? ops_of(w)->record_launch(r->record, job->user) :
				    rnl__notes_issue(&r->notes, job->user);

	if (!ret) {
		r->left--;
		w->moved = r->moved;
		rnl__figure_add(&w->replays.nr, 1);
	}
	/* Notes may have been issued in part; a failed record has issued nothing. */
	if (!ret || !r->record || rnl__device_failed(w->device))
		return ret;
	job->device_error = 0;
	forget(w, r);
	wait_longer(w, r);
	return rnl__guard_call(w, call);
}

int rnl__replay_call(struct rnl__worker *w, const struct rnl__guard_call *call)
{
	/* Without records, a function with both flags is not captured: what it issues is noted. */
	const bool captured = rnl__thread.job->flags & RNL__JOB_CAPTURED && has_records(w);
	struct rnl__replay *r = replay_get(w, call->fn);

	if (!r)
		return rnl__guard_call(w, call);
	r->used = ++w->replays.clock;
	/* A recorded run contains the addresses of the worker's scratch at that time. */
	if (r->scratch != w->scratch.block || r->captured != captured)
		forget(w, r);
	r->captured = captured;
	if (r->left > 1)
		return replay(w, r, call);
	if (!r->wait)
		return captured ? record_capture(w, r, call) : record_calls(w, r, call);
	r->wait--;
	return rnl__guard_call(w, call);
}

void rnl__replays_fini(struct rnl__worker *w)
{
	for (unsigned i = 0; w->replays.list && i < RNL__REPLAYS_MAX; i++) {
		forget(w, &w->replays.list[i]);
		rnl__notes_fini(&w->replays.list[i].notes);
	}
	rnl__notes_fini(&w->replays.notes);
	free(w->replays.list);
	w->replays.list = NULL;
}
