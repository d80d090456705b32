/* SPDX-License-Identifier: MIT */
/* A job on its worker, from its start to its end; run.h has the design. */
#include "config.h"

#include <errno.h>

#include "barrier.h"
#include "clock.h"
#include "cq.h"
#include "guard.h"
#include "job.h"
#include "pool.h"
#include "ranges.h"
#include "run.h"
#include "self.h"
#include "water.h"
#include "worker.h"

#define MARK_EVERY 8		/* jobs that one event stands for under backlog */
#define LARGE_MOVE (4u << 20)	/* bytes copied by one that is marked for itself */

/* ---- what comes to the queue meanwhile ----------------------------------- */

/* A full barrier has to stand between this and share(). */
static void occupy(struct rnl__worker *w)
{
	/*
	 * [run.O1] relaxed: a full barrier follows, then we look at our queue; who puts a job
	 * there looks at this after [queue.E1]: one of us sees the other.
	 */
	atomic_store_explicit(&w->occupied, true, memory_order_relaxed);
}

/*
 * Whether one job is all that a worker has, and it is about to take it.  On a GPU: who stole
 * it would have two when its own comes, behind each other, and the worker none.
 */
static bool comes_for_it(struct rnl__worker *w)
{
	/* If it is occupied after this, it looks at its queue and wakes us. */
	return rnl__pool_chooses(w->pool) && rnl__queue_length(&w->queue) <= 1 &&
	       rnl__worker_attends(w);
}

bool rnl__run_may_have(struct rnl__worker *w, struct rnl__worker *other)
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
		if (i != w->index && rnl__run_may_have(w, &pool->workers[i]))
			return true;
	return false;
}

/*
 * What is in our queue, somebody who sleeps can have.  Whoever put it there woke us,
 * or saw that we attend, and left the others asleep.  And whoever woke us did it for a
 * job in any queue, which need not be the one that we took: somebody is to come for that.
 */
static void share(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	struct rnl__lot *lot = w->urgent ? &pool->urgent_lot : &pool->lot;
	/* Without priorities the others take urgent jobs, too. */
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

bool rnl__run_occupy(struct rnl__worker *w)
{
	/* relaxed: our own store */
	bool was = atomic_load_explicit(&w->occupied, memory_order_relaxed);

	occupy(w);
	/* [run.O2] full barrier: as [job.P1] for [run.O1]; pairs with [queue.E1] */
	rnl__full_barrier();
	share(w);
	return was;
}

/* ---- completing ---------------------------------------------------------- */

/* For who looks whether the worker gets on: what of the caller's runs on it. */
static void note_running(struct rnl__worker *w, struct rnl_job *job)
{
	if (job)
		/* relaxed: the store below publishes it */
		atomic_store_explicit(&w->running_since, rnl__now_coarse(), memory_order_relaxed);
	/* [worker.H1] release: since when, to who sees the job; pairs with [stats.H1] */
	atomic_store_explicit(&w->running, job, memory_order_release);
}

/* Lets go of a finished job, which is its caller's then: nobody else touches it. */
static void let_go(struct rnl__worker *w, struct rnl_job *job, int result)
{
	void (*on_done)(struct rnl_job *job) = job->on_done;
	struct rnl_cq *cq = job->cq;
	uint64_t begin;
	bool was;

	rnl__job_finish(job, result);
	if (cq)
		rnl__cq_push(cq, job);
	else
		rnl__job_drop(job);
	if (!on_done)
		return;
	was = rnl__run_occupy(w);
	if (w->pool->guard)
		rnl__guard_enter(w);
	note_running(w, job);
	begin = w->track ? rnl__now() : 0;
	on_done(job);
	if (w->track)
		rnl__track_back(w->track, on_done, begin);
	note_running(w, NULL);
	if (w->pool->guard)
		rnl__guard_leave(w);
	rnl__run_attend(w, was);
}

/* So many jobs, and their barrier, will not be touched again. */
static void settle(struct rnl__worker *w, uint32_t nr)
{
	/*
	 * [worker.D1] release: the job and its barrier are let go before a
	 * drain counts them; pairs with [pool.D1].
	 */
	atomic_store_explicit(&w->settled,
			      /* relaxed: our own counter */
			      atomic_load_explicit(&w->settled, memory_order_relaxed) + nr,
			      memory_order_release);
}

void rnl__run_tell_barrier(struct rnl__worker *w)
{
	const struct rnl__owed owed = w->owed;

	if (!owed.barrier)
		return;
	w->owed = (struct rnl__owed){ 0 };
	if (owed.nr_issued)
		rnl__barrier_issued(owed.barrier, owed.nr_issued);
	rnl__barrier_done(owed.barrier, owed.nr_done);
	settle(w, owed.nr_settled);
}

/* Lets go of a job, and owes it to its barrier; @issued: that does not know that it is, either. */
static void finish(struct rnl__worker *w, struct rnl_job *job, int result, bool issued)
{
	struct rnl_barrier *barrier = job->barrier;

	if (w->owed.barrier != barrier)
		rnl__run_tell_barrier(w);
	if (barrier)
		rnl__barrier_note(barrier, result);
	/* That it is issued does not wait for its callback, nor for another's. */
	if (barrier && job->on_done && w->owed.nr_issued + issued) {
		rnl__barrier_issued(barrier, w->owed.nr_issued + issued);
		w->owed.nr_issued = 0;
		issued = false;
	}
	let_go(w, job, result);
	if (!barrier)
		return;
	w->owed.barrier = barrier;
	w->owed.nr_issued += issued;
	w->owed.nr_done++;
}

void rnl__run_finish(struct rnl__worker *w, struct rnl_job *job, int result)
{
	finish(w, job, result, true);
}

static void complete(struct rnl__worker *w, struct rnl_job *job, int result, bool issued)
{
	bool told_later = job->barrier;
	unsigned flags = job->flags;
	uint32_t table = job->table;

	rnl__count(&w->completed, 1);
	if (result < 0)
		rnl__count(&w->failed, 1);
	finish(w, job, result, issued);
	if (flags & RNL__JOB_KEYED)
		rnl__queue_keyed_done(&w->queue, table);
	if (told_later)
		w->owed.nr_settled++;
	else
		settle(w, 1);
}

/* A job that left nothing on the stream. */
static void complete_now(struct rnl__worker *w, struct rnl_job *job, int result)
{
	complete(w, job, result, true);
}

/* A job that left something there, of which nothing is left to do. */
static void complete_issued(struct rnl__worker *w, struct rnl_job *job)
{
	complete(w, job, job->result, job->flags & RNL__JOB_OWES);
}

/* A job whose function does not run. */
static void complete_unrun(struct rnl__worker *w, struct rnl_job *job, int result)
{
	job->device_error = 0;
	if (w->track)
		rnl__track_unrun(w->track, job, result);
	if (result == -ECANCELED)
		rnl__count(&w->cancelled, 1);
	if (result == -ETIMEDOUT)
		rnl__count(&w->timed_out, 1);
	complete_now(w, job, result);
}

/* A job that the device has passed. */
static void complete_passed(struct rnl__worker *w, struct rnl_job *job)
{
	if (w->staging.nr) {
		bool was = rnl__run_occupy(w);

		rnl__staging_passed(&w->staging, job->number);
		rnl__run_attend(w, was);
	}
	if (w->track)
		rnl__track_done(w->track, job->number, true);
	if (job->flags & RNL__JOB_TIMED)
		rnl__hist_count(&w->timing->device, rnl__now() - job->stamp_ns);
	complete_issued(w, job);
}

/* The device has failed: every job that it has gets that for a result. */
static void fail_all(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl_pool *pool = w->pool;
	struct rnl_job *job;

	/* A stream of a failed device is at its end at once; a well one is not done before. */
	(void)pool->device->ops->wait(RNL__NEVER);
	/* relaxed: which of the workers says it does not matter */
	if (!atomic_exchange_explicit(&pool->failure_logged, true, memory_order_relaxed))
		rnl__pool_log(pool, RNL_LOG_ERROR,
			      "device %s failed (CUDA error %d): every job gets -EIO, "
			      "start a new process",
			      pool->device->info.name,
			      /* relaxed: a figure */
			      atomic_load_explicit(&pool->device->failed, memory_order_relaxed));
	for (job = f->first; job; job = job->link)
		job->result = job->result < 0 ? job->result : -EIO;
	rnl__staging_forget(&w->staging);
	rnl__inflight_forget(f);
	while ((job = rnl__inflight_drop(f)) != NULL) {
		if (w->track)
			rnl__track_done(w->track, job->number, false);
		complete_issued(w, job);
	}
}

bool rnl__run_retire(struct rnl__worker *w, bool query)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl_job *job;
	bool any = false;
	int ret;

	if (!f->first)
		return false;
	ret = rnl__inflight_poll(f, query);
	while ((job = rnl__inflight_pop(f)) != NULL) {
		complete_passed(w, job);
		any = true;
	}
	if ((ret || rnl__device_failed(w->pool->device)) && f->first) {
		fail_all(w);
		any = true;
	}
	if (any) {
		w->wait_since = 0;
		rnl__run_tell_barrier(w);
	}
	return any;
}

void rnl__run_mark_last(struct rnl__worker *w)
{
	if (w->inflight.first && !rnl__inflight_asks(&w->inflight) &&
	    rnl__inflight_mark(&w->inflight, false, true))
		(void)rnl__run_retire(w, false);
}

/* Several jobs are behind the last mark, or one that streams may join. */
static void mark_event(struct rnl__worker *w, struct rnl_job *job)
{
	int ret = rnl__inflight_mark(&w->inflight, true, false);

	if (job->barrier && !(job->flags & RNL__JOB_OWES)) {
		rnl__barrier_note(job->barrier, ret ? ret : job->result);
		rnl__barrier_issued(job->barrier, 1);
	}
	if (ret)
		(void)rnl__run_retire(w, false);
}

/* ---- running ------------------------------------------------------------- */

static int call_fn(void *job)
{
	return ((struct rnl_job *)job)->fn(job);
}

/* What the library calls for a job of its own, it has guarded there. */
static int call_guarded(struct rnl__worker *w, struct rnl_job *job, int (*check)(void))
{
	const struct rnl__guard_call is = { (rnl__function *)job->fn, call_fn, job, check };
	int ret;

	rnl__guard_enter(w);
	ret = job->flags & RNL__JOB_OWN ? job->fn(job) : rnl__guard_call(w, &is);
	rnl__guard_leave(w);
	return ret;
}

/* Calls the job's function; its result, or the error of a call in it. */
static int call(struct rnl__worker *w, struct rnl_job *job)
{
	struct rnl__device *device = w->pool->device;
	int (*check)(void) = device->info.cuda ? job->check : NULL;
	int code, ret;

	if (check)
		(void)check();	/* what others left on this thread is not the job's */
	job->device_error = 0;
	rnl__self.job = job;
	rnl__self.error = 0;
	if (w->ranges)
		rnl__ranges_begin(w->ranges, (const void *)(uintptr_t)job->fn);
	ret = w->pool->guard ? call_guarded(w, job, check) : job->fn(job);
	if (w->ranges)
		rnl__ranges_end();
	rnl__self.job = NULL;
	code = check ? check() : 0;
	if (code) {
		job->device_error = code;
		code = device->ops->errno_of(device, code);
	}
	if (ret < 0)
		return ret;
	if (rnl__self.error)
		return rnl__self.error;
	return code ? code : ret;
}

void rnl__run_look_at_mark(struct rnl__worker *w)
{
	w->look_in = rnl__pool_noticed(w->pool, RNL_LOW_WATER) ? rnl__water_fell(w->pool) : 0;
}

/*
 * A job was taken off a worker's queue: who waits for that?  A full barrier
 * stands between the taking and this.
 */
static void tell_taken(struct rnl__worker *w, struct rnl__worker *from)
{
	rnl__pool_made_room(from);
	if (from != w)
		/* It may be about to leave, and have seen the job counted. */
		(void)rnl__park_wake(&from->park);
	if (w->look_in)
		w->look_in--;
	else
		rnl__run_look_at_mark(w);
}

/* Why the job's function is not to run, or 0. */
static int refuse(struct rnl__worker *w, struct rnl_job *job, uint64_t now)
{
	if (rnl__device_failed(w->pool->device))
		return -EIO;
	if (job->flags & RNL__JOB_DEADLINE && now - job->stamp_ns > job->deadline_ns)
		return -ETIMEDOUT;
	return job->after ? rnl__barrier_follow(job->after) : 0;
}

/* As call(), for who looks at the worker or asks for times; @now: when a timed job started. */
static int call_watched(struct rnl__worker *w, struct rnl_job *job, uint64_t now)
{
	bool timed = job->flags & RNL__JOB_TIMED;
	int ret;

	if (timed)
		rnl__hist_count(&w->timing->queue_wait, now - job->stamp_ns);
	note_running(w, job);
	ret = call(w, job);
	note_running(w, NULL);
	if (timed) {
		job->stamp_ns = rnl__now();
		rnl__hist_count(&w->timing->host, job->stamp_ns - now);
	}
	return ret;
}

static uint64_t staged_by(struct rnl__worker *w)
{
	/* relaxed: our own counter */
	return atomic_load_explicit(&w->staging.staged, memory_order_relaxed);
}

void rnl__run(struct rnl__worker *w, struct rnl_job *job, struct rnl__worker *from)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl__stream *stream = rnl__self.stream;
	uint64_t issued = stream->issued, now = 0;
	bool start, large, empty;
	int ret;

	occupy(w);
	start = rnl__job_start(job);
	w->wait_since = 0;
	tell_taken(w, from);
	share(w);
	if (job->flags & (RNL__JOB_TIMED | RNL__JOB_DEADLINE))
		now = rnl__now();
	ret = start ? refuse(w, job, now) : -ECANCELED;
	if (ret) {
		rnl__run_attend(w, false);
		complete_unrun(w, job, ret);
		return;
	}
	/* What is small, and before it, is not to wait for its end. */
	if (job->flags & RNL__JOB_LARGE && f->marked != f->issued &&
	    rnl__inflight_mark(f, true, false))
		(void)rnl__run_retire(w, false);
	w->moved = 0;
	if (w->track) {
		/* What that issues is not the job's. */
		issued -= stream->issued;
		rnl__track_begin(w->track, job, rnl__inflight_next(f), staged_by(w), f->first);
		issued += stream->issued;
	}
	ret = call_watched(w, job, now);
	if (w->scratch.wanted)
		rnl__scratch_end(&w->scratch);
	/* One that came after others is not done before them, issue what it may. */
	empty = stream->device->counts && stream->issued == issued && !(job->after && f->first);
	if (w->track)
		rnl__track_called(w->track, job, empty ? 0 : rnl__inflight_next(f), staged_by(w),
				  ret);
	if (empty) {
		rnl__run_attend(w, false);
		complete_now(w, job, ret);
		return;
	}
	job->result = ret;
	rnl__inflight_push(f, job);
	rnl__run_attend(w, false);
	if (job->barrier) {
		rnl__barrier_place(job->barrier, w->index, job->number);
		/* Streams that are past the event would not find it yet. */
		if (rnl__staging_owes(&w->staging, job->number))
			job->flags |= RNL__JOB_OWES;
	}
	large = job->flags & RNL__JOB_LARGE || w->moved >= LARGE_MOVE;
	if (large)
		rnl__inflight_ask(f);
	if (large || job->barrier || f->issued - f->marked >= MARK_EVERY)
		mark_event(w, job);
}
