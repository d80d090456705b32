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
 *	An urgent worker takes and steals urgent jobs alone.  Where the device
 *	has no priorities, the others take them, too, before all else.
 *	A device that failed never writes: once in a watchdog period the worker
 *	asks it, and then every job gets -EIO.
 */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "barrier.h"
#include "clock.h"
#include "cq.h"
#include "job.h"
#include "pool.h"
#include "self.h"
#include "stream.h"
#include "water.h"
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

	rnl__job_finish(job, result);
	if (cq)
		rnl__cq_push(cq, job);
	else
		rnl__job_drop(job);
	if (!on_done)
		return;
	note_running(w, job);
	on_done(job);
	note_running(w, NULL);
}

static void complete(struct rnl__worker *w, struct rnl_job *job, int result)
{
	struct rnl_barrier *barrier = job->barrier;
	unsigned flags = job->flags;
	uint32_t table = job->table;

	rnl__count(&w->completed, 1);
	if (result < 0)
		rnl__count(&w->failed, 1);
	let_go(w, job, result);
	if (barrier)
		rnl__barrier_done(barrier, result);
	if (flags & RNL__JOB_KEYED)
		rnl__queue_keyed_done(&w->queue, table);
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

/* A job whose function does not run. */
static void complete_unrun(struct rnl__worker *w, struct rnl_job *job, int result)
{
	job->device_error = 0;
	if (result == -ECANCELED)
		rnl__count(&w->cancelled, 1);
	if (result == -ETIMEDOUT)
		rnl__count(&w->timed_out, 1);
	complete_now(w, job, result);
}

/* A job that the device has passed. */
static void complete_passed(struct rnl__worker *w, struct rnl_job *job)
{
	if (job->flags & RNL__JOB_TIMED)
		rnl__hist_count(&w->timing->device, rnl__now() - job->stamp_ns);
	complete(w, job, job->result);
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
		complete_passed(w, job);
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
	struct rnl__lot *lot = w->urgent ? &w->pool->urgent_lot : &w->pool->lot;

	if (rnl__lot_idle(lot) && rnl__queue_stealable(&w->queue))
		rnl__lot_wake_one(lot);
}

static void look_at_mark(struct rnl__worker *w)
{
	w->look_in = rnl__pool_noticed(w->pool, RNL_LOW_WATER) ? rnl__water_fell(w->pool) : 0;
}

void rnl__worker_made_room(struct rnl__worker *w)
{
	struct rnl__bell *room = &w->pool->room[w->urgent], *put_off = &w->pool->room_put_off;

	if (!rnl__bell_heard(room) && !rnl__bell_heard(&w->room) && !rnl__bell_heard(put_off))
		return;
	if (!rnl__queue_roomy(&w->queue))
		return;
	rnl__bell_ring_once(room);
	rnl__bell_ring_once(&w->room);
	rnl__bell_ring_once(put_off);
}

/*
 * A job was taken off a worker's queue: who waits for that?  A full barrier
 * stands between the taking and this.
 */
static void tell_taken(struct rnl__worker *w, struct rnl__worker *from)
{
	rnl__worker_made_room(from);
	if (from != w)
		/* It may be about to leave, and have seen the job counted. */
		(void)rnl__park_wake(&from->park);
	if (w->look_in)
		w->look_in--;
	else
		look_at_mark(w);
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

/* Runs a job that was taken from a queue. */
static void run(struct rnl__worker *w, struct rnl_job *job, struct rnl__worker *from)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl__stream *stream = rnl__self.stream;
	uint64_t issued = stream->issued, now = 0;
	bool start = rnl__job_start(job);
	int ret;

	w->wait_since = 0;
	tell_taken(w, from);
	share(w);
	if (job->flags & (RNL__JOB_TIMED | RNL__JOB_DEADLINE))
		now = rnl__now();
	ret = start ? refuse(w, job, now) : -ECANCELED;
	if (ret) {
		complete_unrun(w, job, ret);
		return;
	}
	ret = call_watched(w, job, now);
	/* One that came after others is not done before them, issue what it may. */
	if (stream->device->counts && stream->issued == issued && !(job->after && f->first)) {
		complete_now(w, job, ret);
		return;
	}
	job->result = ret;
	rnl__inflight_push(f, job);
	if (job->barrier)
		rnl__barrier_place(job->barrier, w->index, job->number);
	if (job->barrier || f->issued - f->marked >= MARK_EVERY)
		mark_event(w, job);
}

/* ---- taking -------------------------------------------------------------- */

static uint32_t orders(struct rnl__worker *w)
{
	/* [worker.O1] acquire: what was made ready for the order; pairs with [worker.O2] */
	return atomic_load_explicit(&w->orders, memory_order_acquire);
}

/* Whether a worker may take the other's jobs. */
static bool may_help(struct rnl__worker *w, struct rnl__worker *other)
{
	return w->urgent == other->urgent || (!w->urgent && !w->pool->device->priorities);
}

/*
 * Whom to steal from, or NULL.  With nothing on our stream, anybody.  Else only
 * who has more queued than we have in flight: a job that waits for its waking
 * worker comes to run beside ours, taken to our stream it would run behind.
 */
static struct rnl__worker *victim(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	unsigned nr = rnl__pool_nr_workers(pool), load = rnl__inflight_nr(&w->inflight);

	/* One that leaves helps nobody, nor does one that is not yet counted with. */
	if (orders(w) & (RNL__LEAVE | RNL__END) || w->index >= nr)
		return NULL;
	for (unsigned i = 1; i < nr; i++) {
		struct rnl__worker *other = &pool->workers[(w->index + i) % nr];

		if (rnl__queue_stealable(&other->queue) && may_help(w, other) &&
		    (!load || rnl__queue_length(&other->queue) > load))
			return other;
	}
	return NULL;
}

/* A job that came to an urgent worker, and is to go before all others here, too. */
static struct rnl_job *take_urgent(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_pool *pool = w->pool;

	for (unsigned i = 0; i < pool->nr_urgent; i++) {
		struct rnl_job *job = NULL;

		*from = &pool->workers[i];
		if (rnl__queue_holds_urgent(&(*from)->queue))
			job = rnl__queue_take_urgent(&(*from)->queue);
		if (job) {
			rnl__count(&w->stolen, 1);
			return job;
		}
	}
	return NULL;
}

/* A job of our own queue, but urgent ones first; @from: where it was. */
static struct rnl_job *take(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_pool *pool = w->pool;
	struct rnl_job *job = NULL;

	/* Not behind what is on our stream. */
	if (pool->nr_urgent && !w->urgent && !pool->device->priorities && !w->inflight.first)
		job = take_urgent(w, from);
	if (job)
		return job;
	*from = w;
	return rnl__queue_take(&w->queue, rnl__pool_serving(pool));
}

static struct rnl_job *steal(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_job *job;

	*from = victim(w);
	job = *from ? rnl__queue_steal(&(*from)->queue) : NULL;
	if (job)
		rnl__count(&w->stolen, 1);
	return job;
}

/* ---- waiting ------------------------------------------------------------- */

/* Whether it is to cease, and holds nothing: not even room that a submit may fill yet. */
static bool may_leave(struct rnl__worker *w)
{
	return orders(w) & (RNL__LEAVE | RNL__END) && !w->inflight.first &&
	       !rnl__queue_length(&w->queue);
}

/* Whether it is to tell that its old keyed lane is done, and can. */
static bool may_hand_over(struct rnl__worker *w)
{
	return orders(w) & RNL__HAND_OVER &&
	       rnl__queue_lane_done(&w->queue, rnl__pool_serving(w->pool));
}

static bool holds(struct rnl__worker *w)
{
	return rnl__queue_holds(&w->queue, rnl__pool_serving(w->pool));
}

/* Whether there is something to do but wait. */
static bool busy(struct rnl__worker *w)
{
	return holds(w) || rnl__inflight_passed(&w->inflight) || victim(w) || may_leave(w) ||
	       may_hand_over(w);
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
			if (holds(w) || rnl__inflight_passed(&w->inflight))
				return true;
			rnl__pause();
		}
		if (busy(w))
			return true;
	} while (rnl__now() < until);
	return false;
}

/* Perhaps ours was the last job that somebody waits for. */
static void tell_idle(struct rnl__worker *w)
{
	/*
	 * [worker.D2] full barrier: our counts before we look for drains and
	 * notices; pairs with [bell.L2], [water.W1].
	 */
	rnl__full_barrier();
	rnl__bell_ring(&w->pool->settled);
	look_at_mark(w);
}

/* Nothing queued, nothing passed: waits for a job, or for the device. */
static void idle(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	struct rnl__inflight *f = &w->inflight;
	uint64_t now = rnl__now(), deadline = RNL__NEVER;

	if (!w->wait_since) {
		w->wait_since = w->last_check = now;
		tell_idle(w);
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
	rnl__park_prepare(&w->park, !f->first && !rnl__queue_away(&w->queue));
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

static int set_affinity(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	cpu_set_t set;

	if (!pool->nr_cpus)
		return 0;
	CPU_ZERO(&set);
	CPU_SET(pool->cpus[w->index % pool->nr_cpus], &set);
	return -pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* Before the worker first serves; what its slot had from a thread before stays in use. */
static int start(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	char name[16];
	int ret;

	snprintf(name, sizeof(name), "%.12s-%u", pool->name, w->index);
	pthread_setname_np(pthread_self(), name);
	/* Short sleeps: the default lets the kernel be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	ret = set_affinity(w);
	if (!ret)
		ret = rnl__stream_attach(pool->device, pool->stream, w->urgent);
	if (ret)
		return ret;
	rnl__self.worker = w;
	if (!w->timing)
		w->timing = calloc(1, sizeof(*w->timing));
	if (!w->timing)
		return -ENOMEM;
	if (w->inflight.marks)
		return 0;
	ret = rnl__inflight_init(&w->inflight, pool->device, pool->max_in_flight);
	if (ret)
		rnl__inflight_fini(&w->inflight);
	return ret;
}

void rnl__worker_order(struct rnl__worker *w, uint32_t what)
{
	/* [worker.O2] release: what was made ready for the order; pairs with [worker.O1] */
	atomic_fetch_or_explicit(&w->orders, what, memory_order_release);
	/* [worker.O3] full barrier: the order is given before we look who sleeps; pairs with [park.S1] */
	rnl__full_barrier();
	(void)rnl__park_wake(&w->park);
}

/* Takes an order off, which was followed; @error: it could not be. */
static void followed(struct rnl__worker *w, uint32_t what, int error)
{
	struct rnl_pool *pool = w->pool;
	int none = 0;

	if (error)
		/* relaxed: the latch publishes it */
		atomic_compare_exchange_strong_explicit(&pool->start_error, &none, error,
							memory_order_relaxed, memory_order_relaxed);
	/* relaxed: the latch publishes it */
	atomic_fetch_and_explicit(&w->orders, ~what, memory_order_relaxed);
	(void)rnl__latch_drop(&pool->moving, 1);
}

static void loop(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl__worker *from;
	struct rnl_job *job;

	for (;;) {
		if (rnl__inflight_nr(f) == f->limit)
			make_room(w);
		if (may_hand_over(w))
			followed(w, RNL__HAND_OVER, 0);
		job = take(w, &from);
		if (!job) {
			mark_last(w);
			if (retire(w, false))
				continue;
			job = steal(w, &from);
		}
		if (job)
			run(w, job, from);
		else if (may_leave(w))
			break;
		else
			idle(w);
	}
}

/* From one order to begin to the next to cease; 0, or why it could not begin. */
static int serve(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	int ret = pool->on_start ? pool->on_start(pool->hook_arg, w->index, &w->data) : 0;

	if (ret > 0)
		ret = -EINVAL;
	w->serves = !ret;
	followed(w, RNL__SERVE, ret);
	if (ret)
		return ret;
	loop(w);
	tell_idle(w);
	if (pool->on_stop)
		pool->on_stop(pool->hook_arg, w->index, w->data);
	w->data = NULL;
	w->serves = false;
	if (orders(w) & RNL__LEAVE)
		followed(w, RNL__LEAVE, 0);
	return 0;
}

/* Away: sleeps until there is an order. */
static void await_order(struct rnl__worker *w)
{
	rnl__park_prepare(&w->park, false);
	if (orders(w))
		rnl__park_leave(&w->park);
	else
		rnl__park_sleep(&w->park, RNL__NEVER);
}

void *rnl__worker_main(void *arg)
{
	struct rnl__worker *w = arg;
	int ret = start(w);

	if (ret)
		followed(w, RNL__SERVE, ret);
	while (!ret && !(orders(w) & RNL__END)) {
		if (orders(w) & RNL__SERVE)
			(void)serve(w);
		else
			await_order(w);
	}
	rnl__stream_detach();
	return NULL;
}
