/* SPDX-License-Identifier: MIT */
/* A job on its worker, from its start to its mark on the stream; run.h has the design. */
#include "config.h"

#include <errno.h>

#include "job/barrier.h"
#include "job/job.h"
#include "job/rounds.h"
#include "pool/guard.h"
#include "pool/holds.h"
#include "watch/nvtx.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "sys/clock.h"
#include "sys/flat.h"
#include "sys/probe.h"
#include "sys/symbol.h"
#include "sys/tsan.h"
#include "worker/chain.h"
#include "worker/charge.h"
#include "worker/complete.h"
#include "worker/group.h"
#include "worker/replay.h"
#include "worker/run.h"
#include "worker/share.h"

/* ---- the call of its function -------------------------------------------- */

static int run_call_fn(rnl__function *fn, const void *job)
{
	return ((int (*)(struct rnl_job *))fn)((struct rnl_job *)(uintptr_t)job);
}

static bool replays(const struct rnl_job *job)
{
	return (job->flags & (RNL__JOB_REPLAYS | RNL__JOB_GATHERS | RNL__JOB_INTERNAL)) ==
	       RNL__JOB_REPLAYS;
}

/* The functions of internal jobs guard the caller's code themselves: they are called directly. */
static int call_guarded(struct rnl__worker *w, struct rnl_job *job)
{
	const struct rnl__guard_call guarded = {
		(rnl__function *)job->fn, run_call_fn, job,
	};
	int ret;

	if (w->pool->guard)
		rnl__guard_enter(w);
	if (job->flags & RNL__JOB_INTERNAL)
		ret = job->fn(job);
	else
		ret = replays(job) ? rnl__replay_call(w, &guarded) : rnl__guard_call(w, &guarded);
	if (w->pool->guard)
		rnl__guard_leave(w);
	return ret;
}

/* Returns the function's result, or the error of a call in it. */
static int call(struct rnl__worker *w, struct rnl_job *job)
{
	rnl__function *fn = job->flags & RNL__JOB_INTERNAL ? NULL : (rnl__function *)job->fn;
	struct rnl__device *device = w->device;
	int code, ret;

	job->device_error = 0;
	rnl__thread.job = job;
	rnl__thread.error = 0;
	if (w->ranges)
		rnl__nvtx_begin(w->ranges, (const void *)(uintptr_t)job->fn);
	ret = w->pool->guard || replays(job) ? call_guarded(w, job) : job->fn(job);
	if (fn)
		ret = rnl__unit_check(w, fn, ret);
	if (w->ranges)
		rnl__nvtx_end();
	rnl__thread.job = NULL;
	code = device->info.cuda ? rnl__units_error() : 0;
	if (code) {
		job->device_error = code;
		rnl__unit_tell_failed(w, fn, code);
		code = device->ops->errno_of(device, code);
	}
	if (ret >= 0 && rnl__thread.error)
		ret = rnl__thread.error;
	else if (ret >= 0 && code)
		ret = code;
	/* A job that succeeded has handled the CUDA errors in its function. */
	if (ret >= 0)
		job->device_error = 0;
	return ret;
}

/* Returns true if a positive result is probably meant as an error. */
static bool run_is_errno(int result)
{
	switch (result) {
	case EIO:
	case ENOMEM:
	case EINVAL:
	case ENODEV:
	case ENOTSUP:
	case ETIMEDOUT:
	case ECANCELED:
		return true;
	default:
		return false;
	}
}

/*
 * A positive result is a value.  If a function means an error by it, its job succeeds by mistake,
 * so the pool logs once that the result is taken for a value.
 */
static void run_log_positive(struct rnl__worker *w, struct rnl_job *job, int result)
{
	char name[128];

	if (job->flags & RNL__JOB_INTERNAL ||
	    /* relaxed: it does not matter which of the workers logs it */
	    atomic_exchange_explicit(&w->pool->positive_logged, true, memory_order_relaxed))
		return;
	rnl__symbol((const void *)(uintptr_t)job->fn, name, sizeof(name));
	rnl__pool_log(w->pool, run_is_errno(result) ? RNL_LOG_WARNING : RNL_LOG_INFO,
		      "%s returned %d, a value: its job has succeeded, and so do others with such "
		      "results. An error is a negative number: return -EIO, not EIO", name, result);
}

/* Like call(), but also records the call for health and statistics.  @now: a timed job's start. */
static int run_call_noted(struct rnl__worker *w, struct rnl_job *job, uint64_t now)
{
	bool timed = job->flags & RNL__JOB_TIMED;
	int ret;

	if (timed)
		rnl__hist_count(&w->timing->queue_wait, now - job->submit_ns);
	rnl__share_running(w, job);
	RNL__PROBE_START(w, job);
	ret = call(w, job);
	RNL__PROBE_ISSUE(w, job, ret);
	rnl__share_running(w, NULL);
	if (__builtin_expect(ret > 0, false) && !rnl__own_read(&w->pool->positive_logged))
		run_log_positive(w, job, ret);
	if (timed)
		rnl__hist_count(&w->timing->host, rnl__now() - now);
	return ret;
}

/* ---- its mark on the stream ---------------------------------------------- */

void rnl__run_mark_last(struct rnl__worker *w)
{
	if (w->inflight.first && !rnl__inflight_asks(&w->inflight) &&
	    rnl__inflight_mark(&w->inflight, w->owed.unmarked, true))
		(void)rnl__complete_reached(w, 0);
}

/*
 * Before the next job starts, marks the earlier jobs if there are many, if they have waited for a
 * while, or if the next job would delay their completion, because it keeps the stream busy for
 * long.  If it waits for other streams, they are marked before that wait: rnl__inflight_join().
 */
static void mark_before(struct rnl__worker *w, struct rnl_job *job)
{
	struct rnl__inflight *f = &w->inflight;
	uint64_t unmarked = f->issued - f->marked;

	if (unmarked && (unmarked >= RNL__MARK_EVERY || job->flags & RNL__JOB_LARGE ||
			 f->now - f->unmarked_since >= RNL__MARK_NS ||
			 f->unmarked_ns + rnl__pace_guess(&f->pace, job) >= RNL__MARK_NS) &&
	    rnl__inflight_mark(f, true, false))
		(void)rnl__complete_reached(w, 0);
}

/*
 * Adds a job that has left work on the stream, or will leave it with its group.  If a mark fails,
 * the job may be completed and gone on return.
 */
static void issued(struct rnl__worker *w, struct rnl_job *job, bool grouped)
{
	struct rnl__inflight *f = &w->inflight;
	bool large;

	rnl__inflight_push(f, job);
	rnl__share_attend(w, false);
	if (job->barrier) {
		rnl__barrier_place(job->barrier, w->index, job->seq);
		/*
		 * A stream that waited for the event could miss the staged copy, or the outside
		 * work that a hold stands for.
		 */
		if (rnl__staging_owes(&w->staging, job->seq) || job->flags & RNL__JOB_HELD)
			job->flags |= RNL__JOB_OWES;
	}
	if (rnl__job_then(job) && rnl__chain_leads(w, job))
		rnl__chain_push(w, rnl__job_then(job), job->class_index & RNL__CLASS_INDEX, false);
	large = job->flags & RNL__JOB_LARGE || w->moved >= RNL__LARGE_MOVE;
	if (large)
		rnl__inflight_ask(f);
	if (grouped) {
		rnl__group_issued(w, job, large || job->barrier);
		if (large)
			rnl__group_end(w);
	} else if (job->barrier && !(job->flags & RNL__JOB_OWES)) {
		rnl__owed_issued(w, job);
		if (large)
			rnl__owed_tell(w);
	} else if ((large || job->barrier) && rnl__inflight_mark(f, true, false)) {
		(void)rnl__complete_reached(w, 0);
	}
}

/* ---- its start ----------------------------------------------------------- */

/*
 * Returns true if the job would end after its deadline, by its class's estimate.  Jobs that were not queued
 * in a class have no estimate.
 */
static bool is_late(struct rnl__worker *w, const struct rnl_job *job, uint64_t now)
{
	const void *fn = (const void *)(uintptr_t)job->fn;
	struct rnl__share_clock *clock;
	struct rnl_class *c;

	if (!rnl__job_in_class(job) || job->flags & RNL__JOB_CHAINED)
		return false;
	c = rnl__class_at(rnl__classes_of(w->pool), job->class_index & RNL__CLASS_INDEX);
	clock = &rnl__classes_of(w->pool)->clocks[w->device_index];
	if (rnl__figure_read(&c->flags) & RNL_CLASS_LATE ||
	    now - job->submit_ns + rnl__cost_elapsed(&c->costs, clock, fn) <= job->deadline_ns)
		return false;
	rnl__cost_doubt(&c->costs, fn);
	return true;
}

/* Returns the reason why the job's function must not be called, or 0. */
static int refuse(struct rnl__worker *w, struct rnl_job *job, uint64_t now)
{
	if (rnl__device_failed(w->device))
		return -EIO;
	if (rnl__job_cancelled_with_all(job))
		return -ECANCELED;
	if (job->flags & RNL__JOB_DEADLINE &&
	    (now - job->submit_ns > job->deadline_ns || is_late(w, job, now))) {
		rnl__charge_expired(w, job, now - job->submit_ns <= job->deadline_ns);
		return -ETIMEDOUT;
	}
	return rnl__job_follows(job) ? rnl__barrier_follow(job) : 0;
}

/* Returns how many operations the trace has issued, which are not the job's. */
static uint64_t track_begin(struct rnl__worker *w, struct rnl_job *job)
{
	struct rnl__inflight *f = &w->inflight;
	uint64_t before = rnl__thread.stream->issued;

	rnl__track_begin(w->track, job, rnl__inflight_next(f), rnl__own_read(&w->staging.staged),
			 f->first);
	return rnl__thread.stream->issued - before;
}

static void track_called(struct rnl__worker *w, struct rnl_job *job, bool empty, int result)
{
	rnl__track_called(w->track, job, rnl__classes_id(w->pool, job),
			  empty ? 0 : rnl__inflight_next(&w->inflight),
			  rnl__own_read(&w->staging.staged), result);
}

/*
 * Completes a job whose function is not called.  A job of a chain must be done after the job before
 * it.  So if the stream is not empty, the job goes on the stream as well, without work.
 */
static void leave_out(struct rnl__worker *w, struct rnl_job *job, int result)
{
	rnl__group_end(w);
	rnl__charge_unrun(w, job);
	if (!(job->flags & RNL__JOB_CHAINED) || !w->inflight.first) {
		rnl__share_attend(w, false);
		rnl__complete_unrun(w, job, result);
		return;
	}
	rnl__complete_note_unrun(w, job, result);
	job->result = result;
	w->moved = 0;
	issued(w, job, false);
}

/* Shows ThreadSanitizer what precedes a job: its submit, and its key's jobs on other workers. */
static void show_order(struct rnl__worker *w, struct rnl_job *job)
{
	rnl__tsan_acquire(job);
	if (job->flags & RNL__JOB_KEYED)
		rnl__tsan_acquire(&w->pool->serving);
}

RNL__FLAT
void rnl__run(struct rnl__worker *w, struct rnl_job *job, struct rnl__worker *from)
{
	const struct rnl__stream *stream = rnl__thread.stream;
	uint64_t before, now = 0;
	const bool gathers = (w->group.nr || job->flags & RNL__JOB_GATHERS) &&
			     rnl__group_prepare(w, job);
	bool start, empty, grouped;
	int ret;

	rnl__share_occupied(w);
	if (__builtin_expect(rnl__tsan_runs, false))
		show_order(w, job);
	start = rnl__job_start(job);
	w->wait_since = 0;
	rnl__share_taken(w, from);
	if (job->flags & (RNL__JOB_TIMED | RNL__JOB_DEADLINE))
		now = rnl__now();
	if (!w->group.nr)
		mark_before(w, job);
	before = stream->issued;
	ret = start ? refuse(w, job, now) : -ECANCELED;
	if (ret) {
		leave_out(w, job, ret);
		return;
	}
	rnl__charge_begin(w, job);
	w->moved = 0;
	if (w->track)
		before += track_begin(w, job);
	grouped = gathers && rnl__group_join(w, job);
	ret = run_call_noted(w, job, now);
	if (grouped)
		rnl__gather_end(&w->gather);
	else if (w->scratch.wanted)
		rnl__scratch_end(&w->scratch);
	/* A job that comes after others ends after them, even if it issued nothing. */
	empty = stream->device->counts && stream->issued == before &&
		!((rnl__job_follows(job) || job->flags & RNL__JOB_CHAINED) && w->inflight.first);
	if (w->track)
		track_called(w, job, empty, ret);
	if (empty) {
		if (w->group.nr)
			rnl__group_end(w);
		rnl__share_attend(w, false);
		rnl__charge_empty(w, job);
		rnl__complete(w, job, ret);
		return;
	}
	if (job->flags & RNL__JOB_HELD)
		rnl__holds_note(job, ret);
	else
		job->result = ret;
	issued(w, job, grouped);
}
