/* SPDX-License-Identifier: MIT */
/* Jobs whose function issues the same each time; replay.h has the design. */
#include "config.h"

#include <stdlib.h>

#include "pool/pool.h"
#include "sys/sizes.h"
#include "worker/replay.h"

#define COMPARE_EVERY 1000u	/* replays */
#define WAIT_MAX 65536u

static const struct rnl__device_ops *ops_of(const struct rnl__worker *w)
{
	return w->device->ops;
}

static void forget(struct rnl__worker *w, struct rnl__replay *r)
{
	if (r->record)
		ops_of(w)->record_drop(r->record);
	r->record = NULL;
	r->left = 0;
}

/* The function's place, perhaps that of the one least used; NULL: no memory. */
static struct rnl__replay *get(struct rnl__worker *w, rnl__function *fn)
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
	*least = (struct rnl__replay){ .fn = fn };
	return least;
}

/* The record before a wait is forgotten: two runs are to be the same, one right after the other. */
static void wait_longer(struct rnl__worker *w, struct rnl__replay *r)
{
	r->wait = r->next_wait;
	if (r->wait)
		forget(w, r);
	r->next_wait = r->wait ? (uint32_t)rnl__smaller(2 * r->wait, WAIT_MAX) : 1;
}

static void tell(struct rnl__worker *w, struct rnl__replay *r, const char *what)
{
	if (!r->told)
		rnl__guard_tell(w->pool, r->fn, what);
	r->told = true;
}

/* Records a run.  The record before, if there is one, was made with the same scratch. */
static int record(struct rnl__worker *w, struct rnl__replay *r, const struct rnl__guard_call *call)
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
		r->left = COMPARE_EVERY;
		r->next_wait = 0;
		return ret;
	}
	if (guarded.disturbed) {
		wait_longer(w, r);
		return ret;
	}
	if (!guarded.record)
		tell(w, r, "cannot be replayed: it issues nothing, has a result, copies pageable "
			   "memory, takes a hold, joins, or does what CUDA does not capture. It is "
			   "called");
	else if (r->record)
		tell(w, r, "says that it issues the same each time, and does not: it is called");
	had_other = r->record || !guarded.record;
	forget(w, r);
	r->record = guarded.record;
	r->scratch = w->scratch.block;
	r->moved = w->moved;
	if (had_other)
		wait_longer(w, r);
	/* Scratch beside the block goes with the job; then the worker may have a larger block. */
	if (w->scratch.nr_extra) {
		forget(w, r);
		if (w->scratch.wanted > w->scratch.keep) {
			tell(w, r, "cannot be replayed: it needs more scratch than the pool's "
				   "scratch_keep. It is called");
			wait_longer(w, r);
		}
	}
	return ret;
}

static int replay(struct rnl__worker *w, struct rnl__replay *r, const struct rnl__guard_call *call)
{
	struct rnl_job *job = rnl__thread.job;
	const int ret = ops_of(w)->record_launch(r->record, job->user);

	if (!ret) {
		r->left--;
		w->moved = r->moved;
		rnl__figure_add(&w->replays.nr, 1);
	}
	if (!ret || rnl__device_failed(w->device))
		return ret;
	/* Nothing was issued. */
	job->device_error = 0;
	forget(w, r);
	wait_longer(w, r);
	return rnl__guard_call(w, call);
}

int rnl__replay_call(struct rnl__worker *w, const struct rnl__guard_call *call)
{
	struct rnl__replay *r = ops_of(w)->record_launch ? get(w, call->fn) : NULL;

	if (!r)
		return rnl__guard_call(w, call);
	r->used = ++w->replays.clock;
	if (r->record && r->scratch != w->scratch.block)
		forget(w, r);
	if (r->left > 1)
		return replay(w, r, call);
	if (!r->wait)
		return record(w, r, call);
	r->wait--;
	return rnl__guard_call(w, call);
}

void rnl__replays_fini(struct rnl__worker *w)
{
	for (unsigned i = 0; w->replays.list && i < RNL__REPLAYS_MAX; i++)
		forget(w, &w->replays.list[i]);
	free(w->replays.list);
	w->replays.list = NULL;
}
