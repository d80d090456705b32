/* SPDX-License-Identifier: MIT */
/*
 * The worker's loop: take a job or steal one, run it, complete what the device
 * has passed, and sleep when there is nothing to do.
 *
 * DESIGN
 *	Waiting for the device: spin, then sleep in steps that grow with the
 *	time waited, so that the last step is late by a fraction of the wait.
 *	A submit ends such a sleep, as it does that of an idle worker.
 *	An urgent worker takes and steals urgent jobs alone.  Where the device
 *	has no priorities, the others take them, too, before all else.
 *	A device that failed never writes: some times in a watchdog period the
 *	worker asks it.
 */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"
#include "guard.h"
#include "latch.h"
#include "loop.h"
#include "pool.h"
#include "ranges.h"
#include "run.h"
#include "self.h"
#include "stream.h"
#include "trace.h"
#include "worker.h"

/*
 * A nap while the device works: an eighth of the time waited so far, so it ends
 * late by no more than that; from 0.1 ms on, which costs some 4 % of a CPU,
 * only as much as a sixty-fourth.
 */
#define NAP_MIN_NS 4000u
#define NAP_MID_NS 100000u
#define NAP_MAX_NS 1000000u
#define ASK_NS 20000u		/* so long a full stream's marks are asked for without a nap */
#define NAP_ASK_NS 20000u	/* at least, if the driver has to be asked: that holds up launches */

#define CHECKS 4u			/* of the device, in a watchdog period, by who waits for it */
#define SPIN_IDLE_NS 20000u
#define SPIN_IDLE_LAST_NS 5000u

/* ---- taking -------------------------------------------------------------- */

static uint32_t orders(struct rnl__worker *w)
{
	/* [worker.O1] acquire: what was made ready for the order; pairs with [worker.O2] */
	return atomic_load_explicit(&w->orders, memory_order_acquire);
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

		if (rnl__run_may_have(w, other) &&
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

/*
 * One more job of the barrier that is owed, if such a one is next.  Before any other is
 * taken the barrier is told: what that lets go may have to go first.
 */
static struct rnl_job *take_of_owed(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_pool *pool = w->pool;

	*from = w;
	if (!w->owed.barrier || pool->nr_urgent)
		return NULL;
	return rnl__queue_take_of(&w->queue, w->owed.barrier, rnl__pool_serving(pool));
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

/* Whether there is an order that it can follow in between jobs: its old keyed lane is done, too. */
static bool may_follow(struct rnl__worker *w)
{
	uint32_t what = orders(w);

	return what & RNL__TRACE ||
	       (what & RNL__HAND_OVER &&
		rnl__queue_lane_done(&w->queue, rnl__pool_serving(w->pool)));
}

static bool holds(struct rnl__worker *w)
{
	return rnl__queue_holds(&w->queue, rnl__pool_serving(w->pool));
}

/* Whether there is something to do but wait. */
static bool busy(struct rnl__worker *w)
{
	return holds(w) || rnl__inflight_passed(&w->inflight) || victim(w) || may_leave(w) ||
	       may_follow(w);
}

/* Now and then: has the device failed under us?  A driver takes some of a period to say so. */
static void check_device(struct rnl__worker *w, uint64_t now)
{
	if (now - w->last_check < w->pool->watchdog_ns / CHECKS)
		return;
	w->last_check = now;
	if (w->pool->device->ops->idle() < 0)
		(void)rnl__run_retire(w, false);
}

/* How long to sleep for the device, having waited until @now. */
static uint64_t nap(struct rnl__worker *w, uint64_t now)
{
	uint64_t waited = now - w->wait_since;
	uint64_t least = rnl__inflight_silent(&w->inflight) ? NAP_ASK_NS : NAP_MIN_NS;

	if (waited / 8 < least)
		return least;
	if (waited / 8 < NAP_MID_NS)
		return waited / 8;
	if (waited / 64 < NAP_MID_NS)
		return NAP_MID_NS;
	return waited / 64 < NAP_MAX_NS ? waited / 64 : NAP_MAX_NS;
}

/*
 * How long to spin with nothing on the stream: by the CPUs that workers who are awake
 * leave.  With one left, we may be where a waiter, just told that its job is done, is to run.
 */
static uint64_t idle_spin(struct rnl_pool *pool)
{
	unsigned awake = pool->nr_urgent + rnl__pool_table(pool).nr, asleep;

	if (!pool->spin_cpus)
		return pool->spin_ns;
	asleep = rnl__lot_nr(&pool->lot) + rnl__lot_nr(&pool->urgent_lot);
	awake = awake > asleep ? awake - asleep : 0;
	if (pool->spin_cpus > awake + 1)
		return SPIN_IDLE_NS;
	return pool->spin_cpus > awake ? SPIN_IDLE_LAST_NS : RNL__SPIN_CROWDED_NS;
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
	rnl__run_look_at_mark(w);
}

/* Nothing queued, nothing passed: waits for a job, or for the device. */
static void idle(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	struct rnl__inflight *f = &w->inflight;
	uint64_t now = rnl__now(), deadline = RNL__NEVER, spin_ns;
	bool away;

	if (!w->wait_since) {
		w->wait_since = w->last_check = now;
		tell_idle(w);
		if (w->track && !f->first)
			rnl__track_idle(w->track, now);
		spin_ns = f->first ? pool->spin_ns : idle_spin(pool);
		/* What has to be asked for, a look does not see. */
		if (spin_ns && !rnl__inflight_silent(f)) {
			bool tell = !f->first && rnl__pool_chooses(pool), found;

			if (tell)
				rnl__park_spins(&w->park, true);
			found = spin(w, now + spin_ns);
			if (tell)
				rnl__park_spins(&w->park, false);
			if (found)
				return;
		}
		now = rnl__now();
	}
	if (f->first) {
		check_device(w, now);
		/* Without words to look at, ask; each nap is longer than the last. */
		if (rnl__run_retire(w, rnl__inflight_silent(f)))
			return;
		deadline = now + nap(w, now);
	}
	away = rnl__queue_away(&w->queue);
	rnl__park_prepare(&w->park, !f->first && !away);
	/*
	 * Brought in since we looked, we would sleep without a bit, and who looks for an idle
	 * worker would not find us.  The resizer looks who sleeps after it: [resize.S1].
	 */
	if (busy(w) || (away && !rnl__queue_away(&w->queue))) {
		w->woken |= rnl__park_leave(&w->park);
		/* Perhaps a job is half put, or its taker was preempted: let them run. */
		sched_yield();
		return;
	}
	if (!f->first) {
		rnl__count(&w->slept, 1);
		w->wait_since = 0;
	}
	w->woken |= rnl__park_sleep(&w->park, deadline);
}

/* The stream is full: waits until the device has passed some of it. */
static void make_room(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	uint64_t start = rnl__now(), now = start;

	if (!f->nr_marks)
		rnl__run_mark_last(w);
	/* The device has failed, and they are all done: we wait for nothing. */
	if (!f->first)
		return;
	w->wait_since = w->last_check = start;
	while (!rnl__run_retire(w, true)) {
		struct timespec ts;

		now = rnl__now();
		check_device(w, now);
		if (!f->first)
			break;
		if (now - start < w->pool->spin_ns && now - start < ASK_NS) {
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
	if (!w->ranges)
		w->ranges = rnl__ranges_create();
	if (!w->timing)
		w->timing = calloc(1, sizeof(*w->timing));
	if (!w->timing)
		return -ENOMEM;
	rnl__scratch_init(&w->scratch, pool->device, pool->scratch_keep);
	if (!w->inflight.marks) {
		rnl__staging_init(&w->staging, pool->device, pool->pinned, pool->staging_max);
		ret = rnl__inflight_init(&w->inflight, pool->device, pool->max_in_flight);
	}
	if (ret)
		rnl__inflight_fini(&w->inflight);
	return ret ? ret : rnl__inflight_begin(&w->inflight);
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

/* Begins to note jobs in the pool's trace, or ceases to. */
static void follow_trace(struct rnl__worker *w)
{
	/* relaxed: the order, or our thread's start, has published it */
	struct rnl__trace *trace = atomic_load_explicit(&w->pool->trace, memory_order_relaxed);

	if (trace && !w->track) {
		w->track = rnl__trace_track(trace, w->index);
		/* A thread that could not begin to serve may have had it. */
		if (!w->track->tid)
			rnl__track_start(w->track);
		else
			w->track = NULL;
	} else if (!trace && w->track) {
		rnl__track_stop(w->track, w->inflight.first);
		w->track = NULL;
	}
}

/* There is an order that it can follow at once. */
static void follow(struct rnl__worker *w)
{
	if (orders(w) & RNL__TRACE) {
		(void)rnl__run_occupy(w);	/* it makes events */
		follow_trace(w);
		rnl__run_attend(w, false);
		followed(w, RNL__TRACE, 0);
	} else {
		followed(w, RNL__HAND_OVER, 0);
	}
}

static void loop(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl__worker *from;
	struct rnl_job *job;

	for (;;) {
		if (rnl__inflight_nr(f) == f->limit) {
			rnl__run_tell_barrier(w);
			(void)rnl__run_occupy(w);
			make_room(w);
			rnl__run_attend(w, false);
		}
		if (may_follow(w))
			follow(w);
		job = take_of_owed(w, &from);
		if (!job) {
			rnl__run_tell_barrier(w);
			job = take(w, &from);
		}
		if (!job) {
			rnl__run_mark_last(w);
			if (rnl__run_retire(w, false))
				continue;
			job = steal(w, &from);
		}
		if (job)
			rnl__run(w, job, from);
		else if (may_leave(w))
			break;
		else
			idle(w);
	}
	/* What it was woken for it does not come for. */
	(void)rnl__run_occupy(w);
}

static int call_on_start(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	int ret;

	if (!pool->on_start)
		return 0;
	if (pool->guard)
		rnl__guard_enter(w);
	ret = pool->on_start(pool->hook_arg, w->index, &w->data);
	if (pool->guard)
		rnl__guard_leave(w);
	return ret;
}

static void call_on_stop(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;

	if (!pool->on_stop)
		return;
	if (pool->guard)
		rnl__guard_enter(w);
	pool->on_stop(pool->hook_arg, w->index, w->data);
	if (pool->guard)
		rnl__guard_leave(w);
}

/* From one order to begin to the next to cease; 0, or why it could not begin. */
static int serve(struct rnl__worker *w)
{
	int ret = call_on_start(w);

	if (ret > 0)
		ret = -EINVAL;
	w->serves = !ret;
	rnl__run_attend(w, false);
	followed(w, RNL__SERVE, ret);
	if (ret)
		return ret;
	loop(w);
	tell_idle(w);
	call_on_stop(w);
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
		(void)rnl__park_leave(&w->park);
	else
		(void)rnl__park_sleep(&w->park, RNL__NEVER);
	if (orders(w) & RNL__TRACE)
		follow(w);
}

/*
 * The pool may be gone as soon as it knows.  When its device has failed the thread stays, and
 * does nothing: CUDA, which ends the thread's own stream, may never come back from that (seen
 * on an H200 with driver 580: a destructor of the thread's waits for another thread of CUDA's).
 */
static void leave(struct rnl__worker *w)
{
	bool stays = rnl__device_failed(w->pool->device);

	w->stays = stays;
	(void)rnl__latch_drop(&w->present, 1);
	while (stays)
		pause();
}

void *rnl__loop_main(void *arg)
{
	struct rnl__worker *w = arg;
	int ret = start(w);

	if (ret)
		followed(w, RNL__SERVE, ret);
	else
		follow_trace(w);
	while (!ret && !(orders(w) & RNL__END)) {
		if (orders(w) & RNL__SERVE)
			(void)serve(w);
		else
			await_order(w);
	}
	w->track = NULL;
	rnl__scratch_fini(&w->scratch);
	rnl__stream_detach();
	leave(w);
	return NULL;
}
