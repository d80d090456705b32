/* SPDX-License-Identifier: MIT */
/* Completes a worker's jobs; complete.h has the design.  The layers are in reverse order. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "job/barrier.h"
#include "job/cq.h"
#include "job/job.h"
#include "job/rounds.h"
#include "pool/guard.h"
#include "pool/holds.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "sys/clock.h"
#include "sys/flat.h"
#include "sys/probe.h"
#include "sys/tsan.h"
#include "worker/chain.h"
#include "worker/charge.h"
#include "worker/complete.h"
#include "worker/share.h"

/* ---- hand over ----------------------------------------------------------- */

static void call_on_done(struct rnl__worker *w, struct rnl_job *job,
			 void (*on_done)(struct rnl_job *job))
{
	bool was = rnl__share_occupy(w);
	uint64_t begin;

	if (w->pool->guard)
		rnl__guard_enter(w);
	rnl__share_running(w, job);
	begin = w->track ? rnl__now() : 0;
	on_done(job);
	memset(rnl__thread.trace_id, 0, sizeof(rnl__thread.trace_id));
	rnl__unit_forgive(w);
	if (w->track)
		rnl__track_back(w->track, on_done, begin);
	rnl__share_running(w, NULL);
	if (w->pool->guard)
		rnl__guard_leave(w);
	rnl__share_attend(w, was);
}

/*
 * Sets the result and hands the job over, or collects it for its completion queue.  Its memory is not
 * accessed after that, except by the push of what is collected.
 */
static void hand_over(struct rnl__worker *w, struct rnl_job *job, int result)
{
	void (*on_done)(struct rnl_job *job) = rnl__job_callback_of(job);
	struct rnl_cq *cq = rnl__job_cq_of(job);

	rnl__job_set_result(job, result);
	RNL__PROBE_COMPLETE(w, job);
	if (cq) {
		rnl__cq_collect(&w->collected, cq, job);
		return;
	}
	/* Jobs before it are seen done before it, and before a callback, which may take long. */
	rnl__cq_push_all(&w->collected);
	if (on_done && job->flags & RNL__JOB_MORE)
		memcpy(rnl__thread.trace_id, job->more->carried_id, sizeof(rnl__thread.trace_id));
	rnl__job_drop(job);
	if (on_done)
		call_on_done(w, job, on_done);
}

/* ---- deferred notifications of a barrier --------------------------------- */

/* Counts jobs as released: the worker no longer accesses them or their barrier. */
static void count_released(struct rnl__worker *w, uint32_t nr)
{
	rnl__tsan_release(&w->released);
	/*
	 * [worker.D1] release: the job is handed over, and its barrier notified, before a drain
	 * counts the job; pairs with [pool.D1].
	 */
	atomic_store_explicit(&w->released, rnl__own_read(&w->released) + nr, memory_order_release);
}

/* Records the event for jobs of the barrier in `owed` that are on the stream. */
static void owed_mark(struct rnl__worker *w)
{
	if (!w->owed.unmarked)
		return;
	w->owed.unmarked = false;
	rnl__barrier_note(w->owed.barrier, rnl__inflight_mark(&w->inflight, true, false));
}

void rnl__owed_issued(struct rnl__worker *w, struct rnl_job *job)
{
	if (w->owed.barrier != job->barrier || w->owed.round != rnl__job_round(job))
		rnl__owed_tell(w);
	rnl__barrier_note(job->barrier, job->result);
	w->owed.barrier = job->barrier;
	w->owed.round = rnl__job_round(job);
	w->owed.nr_issued++;
	w->owed.unmarked = true;
}

void rnl__owed_tell(struct rnl__worker *w)
{
	struct rnl__owed owed;

	rnl__cq_push_all(&w->collected);
	owed_mark(w);
	owed = w->owed;
	if (!owed.barrier && !owed.nr_released)
		return;
	w->owed = (struct rnl__owed){ 0 };
	if (owed.barrier)
		rnl__barrier_drop(owed.barrier, owed.round, owed.nr_issued, owed.nr_done);
	count_released(w, owed.nr_released);
}

/*
 * Records a job's result in its barrier, before the job is handed over.  If the job has a
 * callback, which may take long, first notifies the barrier that this job and earlier ones are
 * issued: jobs after the barrier need not wait for the callback.
 * @issued: the notification that this job is issued is due.  Returns true if it remains due.
 */
static bool owed_before(struct rnl__worker *w, struct rnl_job *job, int result, bool issued)
{
	struct rnl_barrier *barrier = job->barrier;

	if (w->owed.barrier != barrier || w->owed.round != rnl__job_round(job))
		rnl__owed_tell(w);
	if (!barrier)
		return false;
	rnl__barrier_note(barrier, result);
	if (!rnl__job_callback_of(job) || !(w->owed.nr_issued + issued))
		return issued;
	owed_mark(w);
	rnl__barrier_drop(barrier, rnl__job_round(job), w->owed.nr_issued + issued, 0);
	w->owed.nr_issued = 0;
	return false;
}

/* After a job was handed over, adds it to the notifications that its barrier is owed. */
static void owed_after(struct rnl__worker *w, struct rnl_barrier *barrier, unsigned round,
		       bool issued)
{
	w->owed.barrier = barrier;
	w->owed.round = round;
	w->owed.nr_issued += issued;
	w->owed.nr_done++;
}

/* ---- complete ------------------------------------------------------------ */

/*
 * Holds back a job that comes after jobs which are not done.  Its own barrier is notified
 * immediately that the job is issued, because jobs after that barrier may start then.
 * @issued: this notification is still due.
 * Returns true if the job is held back.
 */
static bool hold_back(struct rnl__worker *w, struct rnl_job *job, int result, bool issued)
{
	if (job->barrier && issued) {
		rnl__barrier_note(job->barrier, result);
		rnl__barrier_drop(job->barrier, rnl__job_round(job), 1, 0);
	}
	job->result = result;
	job->worker = (uint16_t)w->index;
	if (!rnl__barrier_holds(job))
		return false;
	w->nr_held_back++;
	return true;
}

static void count_unrun(struct rnl__worker *w, int result)
{
	if (result == -ECANCELED)
		rnl__figure_add(&w->cancelled, 1);
	if (result == -ETIMEDOUT)
		rnl__figure_add(&w->timed_out, 1);
}

/* @issued: the job's barrier must still be notified that the job is issued. */
static void finish(struct rnl__worker *w, struct rnl_job *job, int result, bool issued)
{
	struct rnl_barrier *barrier = job->barrier;
	struct rnl_job *next = rnl__job_then(job), *then = job->flags & RNL__JOB_LED ? NULL : next;
	const unsigned flags = job->flags, round = rnl__job_round(job);
	const uint32_t staff = flags & RNL__JOB_KEYED ? job->staff : 0;
	const unsigned class = flags & RNL__JOB_CLASSED ? job->class_index & RNL__CLASS_INDEX : 0;

	if (class)
		rnl__job_set_class_index(job, 0);
	rnl__figure_add(&w->completed, 1);
	if (result < 0)
		rnl__figure_add(&w->failed, 1);
	if (flags & RNL__JOB_UNRUN)
		count_unrun(w, result);
	issued = owed_before(w, job, result, issued);
	hand_over(w, job, result);
	if (barrier)
		owed_after(w, barrier, round, issued);
	/* The next job of the chain or of the key, and who waits for the class's jobs, find it on its queue. */
	if (next || flags & RNL__JOB_KEYED || class)
		rnl__cq_push_all(&w->collected);
	if (flags & RNL__JOB_KEYED)
		rnl__queue_keyed_done(&w->queue, staff);
	if (barrier || w->collected.any)
		w->owed.nr_released++;
	else
		count_released(w, 1);
	if (then)
		rnl__chain_push(w, then, class, result < 0);
	if (class)
		rnl__classes_done(w->pool, class);
}

/* Returns true if the job waits for its holds.  If not, sets @result to the combined result. */
static bool await_holds(struct rnl__worker *w, struct rnl_job *job, int *result)
{
	const unsigned keyed = job->flags & RNL__JOB_KEYED;
	const uint32_t staff = keyed ? job->staff : 0;

	rnl__holds_note(job, *result);
	job->flags &= ~keyed;
	if (rnl__holds_await(w, job)) {
		w->nr_held_back++;
		rnl__figure_add(&w->held, 1);
		/* Issued: its key's next jobs may start, after a resize also on another worker. */
		if (keyed)
			rnl__queue_keyed_done(&w->queue, staff);
		return true;
	}
	rnl__tsan_acquire(job);
	job->flags = (job->flags & ~RNL__JOB_HELD) | keyed;
	*result = rnl__holds_result(job);
	return false;
}

static void complete_job(struct rnl__worker *w, struct rnl_job *job, int result, bool issued)
{
	if (job->flags & RNL__JOB_HELD && await_holds(w, job, &result))
		return;
	if (!rnl__job_follows(job) || rnl__barrier_over(job))
		finish(w, job, result, issued);
	else if (!hold_back(w, job, result, issued))
		finish(w, job, result, false);
}

/* Completes a job whose last hold was released.  Its barrier counts the job as not issued yet. */
static void complete_released(struct rnl__worker *w, struct rnl_job *job)
{
	uint64_t since = rnl__holds_over(w, job);

	rnl__figure_write(&w->held, rnl__figure_read(&w->held) - 1);
	job->flags &= ~RNL__JOB_HELD;
	if (w->track && since)
		rnl__track_held(w->track, job->fn, since);
	complete_job(w, job, rnl__holds_result(job), true);
}

void rnl__complete_returned(struct rnl__worker *w)
{
	struct rnl_job *job, *next;

	for (job = rnl__job_in_order(rnl__inbox_take_all(&w->returned)); job; job = next) {
		next = job->link;
		rnl__tsan_acquire(job);
		if (job->flags & RNL__JOB_TELLS) {
			rnl__outside_leave(w->pool, RNL__CHAINED);
			finish(w, job, job->result, true);
			continue;
		}
		w->nr_held_back--;
		if (job->flags & RNL__JOB_HELD)
			complete_released(w, job);
		else
			complete_job(w, job, job->result, false);
	}
	w->wait_since = 0;
	rnl__owed_tell(w);
}

RNL__FLAT
void rnl__complete(struct rnl__worker *w, struct rnl_job *job, int result)
{
	complete_job(w, job, result, true);
	rnl__cq_push_all(&w->collected);
}

void rnl__complete_note_unrun(struct rnl__worker *w, struct rnl_job *job, int result)
{
	rnl__tsan_acquire(job);
	job->device_error = 0;
	if (w->track)
		rnl__track_unrun(w->track, job, rnl__classes_id(w->pool, job), result);
	job->flags |= RNL__JOB_UNRUN;
}

void rnl__complete_unrun(struct rnl__worker *w, struct rnl_job *job, int result)
{
	rnl__complete_note_unrun(w, job, result);
	complete_job(w, job, result, true);
	rnl__cq_push_all(&w->collected);
}

void rnl__complete_request(struct rnl__worker *w, struct rnl_job *job, int result)
{
	struct rnl_barrier *barrier = job->barrier;
	const unsigned round = rnl__job_round(job);
	bool issued = owed_before(w, job, result, true);

	hand_over(w, job, result);
	if (barrier)
		owed_after(w, barrier, round, issued);
}

/* ---- reached ------------------------------------------------------------- */

RNL__FLAT
static void passed(struct rnl__worker *w, struct rnl_job *job)
{
	RNL__PROBE_REACH(w, job);
	if (w->staging.nr) {
		bool was = rnl__share_occupy(w);

		/* It may copy much. */
		rnl__owed_tell(w);
		rnl__staging_reached(&w->staging, job->seq);
		rnl__share_attend(w, was);
	}
	if (w->track)
		rnl__track_done(w->track, job->seq, true);
	if (job->flags & RNL__JOB_TIMED)
		rnl__hist_count(&w->timing->device, rnl__now() - rnl__inflight_since(&w->inflight, job->seq));
	rnl__charge_passed(w, job);
	complete_job(w, job, rnl__holds_result(job), job->flags & RNL__JOB_OWES);
}

static void log_failure(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	const int code = rnl__figure_read(w->device->failed);
	char name[RNL__DEVICE_NAME_BYTES], reason[RNL__WHY_BYTES];

	/* relaxed: it does not matter which of the workers logs it */
	if (atomic_exchange_explicit(&pool->failure_logged, true, memory_order_relaxed))
		return;
	rnl__device_name(w->device, name);
	rnl__pool_log(pool, RNL_LOG_ERROR,
		      "device %s (%s) failed (CUDA error %d): every job gets -EIO, "
		      "start a new process%s", name, w->device->info.name, code,
		      rnl__device_reason(w->device, code, reason));
}

/* The device has failed: all jobs on the stream get -EIO, except those that failed before. */
static void complete_failed(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl_job *job;

	/* Returns immediately if the device has failed, and otherwise waits for the stream. */
	(void)w->device->ops->wait(RNL__NEVER);
	log_failure(w);
	for (job = f->first; job; job = job->link)
		rnl__holds_note(job, -EIO);
	rnl__staging_forget(&w->staging);
	rnl__inflight_forget(f);
	w->charge_nr = 0;
	while ((job = rnl__inflight_drop(f)) != NULL) {
		rnl__charge_passed(w, job);
		if (w->track)
			rnl__track_done(w->track, job->seq, false);
		complete_job(w, job, rnl__holds_result(job), job->flags & RNL__JOB_OWES);
	}
}

bool rnl__complete_reached(struct rnl__worker *w, unsigned query)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl_job *job;
	bool any = false;
	int ret;

	if (!f->first)
		return false;
	ret = rnl__inflight_poll(f, query);
	rnl__charge_reached(w);
	while ((job = rnl__inflight_pop(f)) != NULL) {
		passed(w, job);
		any = true;
	}
	if ((ret || rnl__device_failed(w->device)) && f->first) {
		complete_failed(w);
		any = true;
	}
	if (any) {
		w->wait_since = 0;
		rnl__owed_tell(w);
	}
	return any;
}
