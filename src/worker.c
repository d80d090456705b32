/* SPDX-License-Identifier: MIT */
/*
 * The worker's loop: take a job, run it, mark its end on the stream, complete
 * what the device has passed, and sleep when there is nothing to do.
 *
 * DESIGN
 *	With jobs queued behind, one event stands for MARK_EVERY jobs, and the
 *	driver is asked only when the stream is full.  With none queued, the
 *	stream writes a word, and the worker looks at that.
 *	A job that was added to a barrier gets an event of its own, at once:
 *	jobs that come after it, and streams that join it, wait for no function
 *	but those of the barrier's own jobs.
 *	Waiting for the device: spin, then sleep in steps that grow with the
 *	time waited, so that the last step is late by a fraction of the wait.
 *	A submit ends such a sleep, as it does that of an idle worker.
 *	A device that failed never writes: once in a watchdog period the worker
 *	asks it, and then every job gets -EIO.
 */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "barrier.h"
#include "clock.h"
#include "job.h"
#include "pool.h"
#include "self.h"
#include "stream.h"
#include "worker.h"

#define MARK_EVERY 8		/* jobs that one event stands for under backlog */
/*
 * A nap while the device works: an eighth of the time waited so far, so it ends
 * late by no more than that; from 0.1 ms on, which costs some 4 % of a CPU,
 * only as much as a sixty-fourth.
 */
#define NAP_MIN_NS 4000u
#define NAP_MID_NS 100000u
#define NAP_MAX_NS 1000000u

/* ---- completing ---------------------------------------------------------- */

static void complete(struct rnl__worker *w, struct rnl_job *job, int result)
{
	struct rnl_barrier *barrier = job->barrier;

	rnl__count(&w->completed, 1);
	if (result < 0)
		rnl__count(&w->failed, 1);
	rnl__job_complete(job, result);
	if (barrier)
		rnl__barrier_done(barrier, result);
	/*
	 * [worker.D1] release: the job and its barrier are let go before a
	 * drain counts them; pairs with [pool.D1].
	 */
	atomic_store_explicit(&w->settled,
			      /* relaxed: our own counter */
			      atomic_load_explicit(&w->settled, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* A job that left nothing on the stream. */
static void complete_now(struct rnl__worker *w, struct rnl_job *job, int result)
{
	if (job->barrier)
		rnl__barrier_issued(job->barrier, result);
	complete(w, job, result);
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
	rnl__inflight_forget(f);
	while ((job = rnl__inflight_drop(f)) != NULL)
		complete(w, job, job->result);
}

/* Completes what the device has passed; true if that was any. */
static bool retire(struct rnl__worker *w, bool query)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl_job *job;
	bool any = false;
	int ret;

	if (!f->first)
		return false;
	ret = rnl__inflight_poll(f, query);
	while ((job = rnl__inflight_pop(f)) != NULL) {
		complete(w, job, job->result);
		any = true;
	}
	if ((ret || rnl__device_failed(w->pool->device)) && f->first) {
		fail_all(w);
		any = true;
	}
	if (any)
		w->wait_since = 0;
	return any;
}

/* Nothing is queued behind: somebody may wait for what was issued last. */
static void mark_last(struct rnl__worker *w)
{
	if (w->inflight.first && rnl__inflight_mark(&w->inflight, false, true))
		(void)retire(w, false);
}

/* Several jobs are behind the last mark, or one that streams may join. */
static void mark_event(struct rnl__worker *w, struct rnl_job *job)
{
	int ret = rnl__inflight_mark(&w->inflight, true, false);

	if (job->barrier)
		rnl__barrier_issued(job->barrier, ret ? ret : job->result);
	if (ret)
		(void)retire(w, false);
}

/* ---- running ------------------------------------------------------------- */

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
	ret = job->fn(job);
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

/*
 * We are about to be busy: what else is in our queue, somebody who sleeps can
 * have.  Whoever put it there woke us, and left the others asleep.
 */
static void share(struct rnl__worker *w)
{
	if (rnl__lot_idle(&w->pool->lot) && rnl__queue_stealable(&w->queue))
		rnl__lot_wake_one(&w->pool->lot);
}

static void run(struct rnl__worker *w, struct rnl_job *job)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl__stream *stream = rnl__self.stream;
	uint64_t issued = stream->issued;
	int ret;

	w->wait_since = 0;
	share(w);
	ret = rnl__device_failed(w->pool->device) ? -EIO : 0;
	if (!ret && job->after)
		ret = rnl__barrier_follow(job->after);
	if (ret) {
		complete_now(w, job, ret);
		return;
	}
	ret = call(w, job);
	/* One that came after others is not done before them, issue what it may. */
	if (stream->device->counts && stream->issued == issued && !(job->after && f->first)) {
		complete_now(w, job, ret);
		return;
	}
	job->result = ret;
	rnl__inflight_push(f, job);
	if (job->barrier)
		rnl__barrier_place(job->barrier, w->index, job->seq);
	if (job->barrier || f->issued - f->marked >= MARK_EVERY)
		mark_event(w, job);
}

/*
 * Whom to steal from, or NULL.  With nothing on our stream, anybody.  Else only
 * who has more queued than we have in flight: a job that waits for its waking
 * worker comes to run beside ours, taken to our stream it would run behind.
 */
static struct rnl__worker *victim(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	unsigned nr = rnl__inflight_nr(&w->inflight);

	for (unsigned i = 1; i < pool->nr_workers; i++) {
		struct rnl__worker *other = &pool->workers[(w->index + i) % pool->nr_workers];

		if (rnl__queue_stealable(&other->queue) &&
		    (!nr || rnl__queue_length(&other->queue) > nr))
			return other;
	}
	return NULL;
}

static struct rnl_job *steal(struct rnl__worker *w)
{
	struct rnl__worker *other = victim(w);
	struct rnl_job *job = other ? rnl__queue_steal(&other->queue) : NULL;

	if (job)
		rnl__count(&w->stolen, 1);
	return job;
}

/* ---- waiting ------------------------------------------------------------- */

static bool stopping(struct rnl__worker *w)
{
	/* relaxed: the pool was drained before, there is nothing more to see */
	return atomic_load_explicit(&w->pool->stop, memory_order_relaxed);
}

/* Whether there is something to do but wait. */
static bool busy(struct rnl__worker *w)
{
	return rnl__queue_holds(&w->queue) || rnl__inflight_passed(&w->inflight) || victim(w) ||
	       stopping(w);
}

/* Once in a watchdog period: has the device failed under us? */
static void check_device(struct rnl__worker *w, uint64_t now)
{
	if (now - w->last_check < w->pool->watchdog_ns)
		return;
	w->last_check = now;
	if (w->pool->device->ops->idle() < 0)
		(void)retire(w, false);
}

/* How long to sleep for the device, having waited until @now. */
static uint64_t nap(struct rnl__worker *w, uint64_t now)
{
	uint64_t waited = now - w->wait_since;

	if (waited / 8 < NAP_MIN_NS)
		return NAP_MIN_NS;
	if (waited / 8 < NAP_MID_NS)
		return waited / 8;
	if (waited / 64 < NAP_MID_NS)
		return NAP_MID_NS;
	return waited / 64 < NAP_MAX_NS ? waited / 64 : NAP_MAX_NS;
}

/* Spins until there is something to do; false if the time is up. */
static bool spin(struct rnl__worker *w, uint64_t until)
{
	do {
		for (int i = 0; i < 16; i++) {
			if (rnl__queue_holds(&w->queue) || rnl__inflight_passed(&w->inflight))
				return true;
			rnl__pause();
		}
		if (busy(w))
			return true;
	} while (rnl__now() < until);
	return false;
}

/* Nothing queued, nothing passed: waits for a job, or for the device. */
static void idle(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	struct rnl__inflight *f = &w->inflight;
	uint64_t now = rnl__now(), deadline = RNL__NEVER;

	if (!w->wait_since) {
		w->wait_since = w->last_check = now;
		/* [worker.D2] full barrier: our counts before we look for drains; pairs with [pool.D2] */
		rnl__full_barrier();
		rnl__pool_settle(pool);
		if (pool->spin_ns && (f->writes || !f->first) && spin(w, now + pool->spin_ns))
			return;
		now = rnl__now();
	}
	if (f->first) {
		check_device(w, now);
		/* Without words to look at, ask; each nap is longer than the last. */
		if (retire(w, !f->writes))
			return;
		deadline = now + nap(w, now);
	}
	rnl__park_prepare(&w->park, !f->first);
	if (busy(w)) {
		rnl__park_leave(&w->park);
		/* Perhaps a job is half put, or its taker was preempted: let them run. */
		sched_yield();
		return;
	}
	if (!f->first) {
		rnl__count(&w->slept, 1);
		w->wait_since = 0;
	}
	rnl__park_sleep(&w->park, deadline);
}

/* The stream is full: waits until the device has passed some of it. */
static void make_room(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	uint64_t start = rnl__now(), now = start;

	if (!f->nr_marks)
		mark_last(w);
	w->wait_since = w->last_check = start;
	while (!retire(w, true)) {
		struct timespec ts;

		now = rnl__now();
		check_device(w, now);
		if (!f->first)
			break;
		if (now - start < w->pool->spin_ns) {
			for (uint64_t until = now + 500 + (now - start) / 4; rnl__now() < until;)
				rnl__pause();
			continue;
		}
		ts = (struct timespec){ .tv_nsec = (long)nap(w, now) };
		nanosleep(&ts, NULL);
	}
}

/* ---- the thread ---------------------------------------------------------- */

static int start(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	char name[16];
	int ret;

	snprintf(name, sizeof(name), "rnl-worker-%u", w->index);
	pthread_setname_np(pthread_self(), name);
	/* Short sleeps: the default lets the kernel be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	ret = rnl__stream_attach(pool->device, pool->stream);
	if (ret)
		return ret;
	rnl__self.worker = w;
	return rnl__inflight_init(&w->inflight, pool->device, pool->max_in_flight);
}

static void loop(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl_job *job;

	for (;;) {
		if (rnl__inflight_nr(f) == f->limit)
			make_room(w);
		job = rnl__queue_take(&w->queue);
		if (!job) {
			mark_last(w);
			if (retire(w, false))
				continue;
			job = steal(w);
		}
		if (job)
			run(w, job);
		else if (stopping(w) && !f->first && !rnl__queue_holds(&w->queue))
			break;
		else
			idle(w);
	}
}

void *rnl__worker_main(void *arg)
{
	struct rnl__worker *w = arg;
	struct rnl_pool *pool = w->pool;
	int none = 0, ret;

	ret = start(w);
	if (ret)
		/* relaxed: the latch publishes it */
		atomic_compare_exchange_strong_explicit(&pool->start_error, &none, ret,
							memory_order_relaxed, memory_order_relaxed);
	rnl__latch_drop(&pool->starting, 1);
	if (!ret)
		loop(w);
	rnl__inflight_fini(&w->inflight);
	rnl__stream_detach();
	return NULL;
}
