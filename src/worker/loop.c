/* SPDX-License-Identifier: MIT */
/*
 * The worker's loop: take a job or steal one, run it, complete what the device has passed, and
 * sleep when there is nothing to do.  It is read from its end: rnl__loop_main().
 *
 * DESIGN
 *	To wait for the device, a worker spins, then sleeps in steps that grow with the time
 *	waited: so the last step ends late by a fraction of the wait.  A submit ends such a
 *	step, as it ends the sleep of an idle worker.
 *	With jobs queued behind, a worker looks at its stream from time to time: so what the
 *	device has passed is told soon, however much is queued.
 *	A worker starts no more jobs than keep its stream busy for a while.  The others wait in
 *	its queue, where they can be stolen, or cancelled.  Behind a long job it starts none that
 *	a worker with nothing to do can have.
 *	An urgent worker takes and steals urgent jobs alone.  Where the device has no
 *	priorities, the other workers take urgent jobs as well, before all other jobs.
 *	A device that has failed never writes the word that a worker waits for: so the worker
 *	asks the driver, a few times in each watchdog period.
 */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/cpus.h"
#include "sys/sizes.h"
#include "pool/guard.h"
#include "sys/latch.h"
#include "worker/loop.h"
#include "pool/pool.h"
#include "watch/nvtx.h"
#include "worker/chain.h"
#include "worker/complete.h"
#include "worker/group.h"
#include "worker/replay.h"
#include "worker/run.h"
#include "worker/share.h"
#include "sys/thread.h"
#include "sys/thread_state.h"
#include "sys/tsan.h"
#include "pool/attach.h"
#include "stream/stream.h"
#include "pool/unit_check.h"
#include "pool/worker.h"

/*
 * A nap while the device works lasts an eighth of the time waited so far: it ends late by no
 * more than that.  Naps of 0.1 ms cost 4 % of a CPU, so longer ones are a sixty-fourth.
 */
#define NAP_MIN_NS 4000u
#define NAP_MID_NS 100000u
#define NAP_MAX_NS 1000000u
#define YIELD_NS 50000u	/* then a worker naps until a job is put as a whole */
#define ASK_NS 20000u		/* for this long a full stream is asked without a nap */
#define NAP_ASK_NS 20000u	/* the shortest nap between questions: they hold up launches */

/*
 * With jobs queued behind: a job has its mark after RNL__MARK_NS and a function at most, and the worker
 * looks for that mark after LOOK_NS and a function.  A function that takes longer than either is
 * waited for once: so a job is told within 1 ms, or one function.
 */
#define LOOK_NS 400000u

#define OWED_MAX 256u		/* jobs of a barrier that it has not been told of */
#define CHECKS 4u		/* of the device, in a watchdog period, by a worker that waits */
#define SPIN_IDLE_NS 20000u
#define SPIN_IDLE_LAST_NS 5000u

/* ---- taking -------------------------------------------------------------- */

static uint32_t commands(struct rnl__worker *w)
{
	/* [worker.O1] acquire: what was made ready for the command; pairs with [worker.O2] */
	return atomic_load_explicit(&w->commands, memory_order_acquire);
}

/*
 * Whether the pool counts the worker.  One that it does not count yet takes no job from others:
 * should the resize fail, its figures would be lost.
 */
static bool is_counted(struct rnl__worker *w)
{
	return w->index < rnl__pool_nr_workers(w->pool);
}

/*
 * A worker to steal from, or NULL.  If our stream is empty, any worker; else only one that has
 * more jobs queued than we have in flight: a job that waits until its own worker has woken
 * runs beside our jobs there, and would run behind them here.  A job that another worker could have
 * at once does not go behind a long one.
 */
static struct rnl__worker *victim(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	unsigned nr = rnl__pool_nr_workers(pool), load = rnl__inflight_nr(&w->inflight);

	/* A worker that leaves does not steal. */
	if (commands(w) & (RNL__LEAVE | RNL__END) || !is_counted(w) ||
	    rnl__inflight_enough(&w->inflight))
		return NULL;
	for (unsigned i = 1; i < nr; i++) {
		struct rnl__worker *other = &pool->workers[(w->index + i) % nr];

		if (rnl__share_may_have(w, other) &&
		    (!load || rnl__queue_length(&other->queue) > load))
			return rnl__inflight_one_long(&w->inflight) && rnl__share_one_idles(w) ?
			       NULL : other;
	}
	return NULL;
}

/* A job that is queued at an urgent worker, and goes before all other jobs here as well. */
static struct rnl_job *take_urgent(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_pool *pool = w->pool;

	if (!is_counted(w))
		return NULL;
	for (unsigned i = 0; i < pool->nr_urgent; i++) {
		struct rnl_job *job = NULL;
		bool placed;

		*from = &pool->workers[i];
		placed = rnl__worker_takes_placed(w, *from);
		if (rnl__queue_holds_urgent(&(*from)->queue, placed))
			job = rnl__queue_take_urgent(&(*from)->queue, placed);
		if (job) {
			rnl__figure_add(&w->stolen, 1);
			return job;
		}
	}
	return NULL;
}

/* A job of our own queue, or an urgent one; @from: the worker in whose queue it was. */
static struct rnl_job *take(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_pool *pool = w->pool;
	struct rnl_job *job = NULL;

	if (rnl__inflight_enough(&w->inflight))
		return NULL;
	*from = w;
	job = rnl__chain_take(w);
	if (job)
		return job;
	/* An urgent job does not go behind the jobs on our stream. */
	if (pool->nr_urgent && !w->urgent && !w->device->priorities && !w->inflight.first)
		job = take_urgent(w, from);
	if (job)
		return job;
	*from = w;
	return rnl__queue_take(&w->queue, rnl__pool_serving(pool));
}

/*
 * The next job, if it is one of the round that `owed` names; else NULL.  Before any other job
 * is taken the barrier is told, since a job after it may have to go first.
 */
static struct rnl_job *take_of_owed(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_pool *pool = w->pool;

	*from = w;
	if (!w->owed.barrier || w->next || pool->nr_urgent || w->owed.nr_done >= OWED_MAX ||
	    rnl__inflight_enough(&w->inflight))
		return NULL;
	return rnl__queue_take_of(&w->queue, w->owed.barrier, w->owed.round,
				  rnl__pool_serving(pool));
}

static struct rnl_job *steal(struct rnl__worker *w, struct rnl__worker **from)
{
	struct rnl_job *job;

	*from = victim(w);
	job = *from ? rnl__queue_steal(&(*from)->queue, rnl__worker_takes_placed(w, *from)) : NULL;
	if (job)
		rnl__figure_add(&w->stolen, 1);
	return job;
}

/* ---- waiting ------------------------------------------------------------- */

/*
 * Whether the worker is to cease, and has no job, and no reservation that a submit may fill.  The
 * barrier that it has just told may have given it a notice to tell.
 */
static bool may_leave(struct rnl__worker *w)
{
	return commands(w) & (RNL__LEAVE | RNL__END) && !w->inflight.first &&
	       !w->nr_held_back && !w->next && !rnl__worker_has_returned(w) &&
	       !rnl__queue_length(&w->queue);
}

/*
 * Whether there is a command that can be obeyed between jobs.  To hand over, all jobs of the old
 * keyed lane have to be done.
 */
static bool may_obey(struct rnl__worker *w)
{
	uint32_t given = commands(w);

	return given & RNL__TRACE ||
	       (given & RNL__HAND_OVER &&
		rnl__queue_lane_done(&w->queue, rnl__pool_serving(w->pool)));
}

static bool has_job(struct rnl__worker *w)
{
	return w->next || rnl__queue_holds(&w->queue, rnl__pool_serving(w->pool));
}

/* Whether there is something to do. */
static bool busy(struct rnl__worker *w)
{
	return has_job(w) || rnl__inflight_passed(&w->inflight) || victim(w) || may_leave(w) ||
	       may_obey(w) || rnl__worker_has_returned(w);
}

/* A few times in a watchdog period: has the device failed?  A driver takes long to say so. */
static void check_device(struct rnl__worker *w, uint64_t now)
{
	if (now - w->last_check < w->pool->watchdog_ns / CHECKS)
		return;
	w->last_check = now;
	if (w->device->ops->idle() < 0)
		(void)rnl__complete_passed(w, 0);
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
 * How long to spin with nothing on the stream: the fewer CPUs the awake workers leave, the
 * shorter.  If they leave one, a thread whose job we have just completed may need our CPU.
 */
static uint64_t idle_spin(struct rnl_pool *pool)
{
	unsigned awake = pool->nr_urgent + rnl__pool_staff(pool).nr, asleep;

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
	const uint32_t generation = rnl__pool_serving(w->pool);

	do {
		for (int i = 0; i < 16; i++) {
			if (rnl__queue_shows(&w->queue, generation) ||
			    rnl__inflight_passed(&w->inflight))
				return true;
			rnl__pause();
		}
		if (busy(w))
			return true;
	} while (rnl__now() < until);
	return false;
}

/* This worker may have completed the last job that a drain waits for. */
static void tell_idle(struct rnl__worker *w)
{
	/*
	 * [worker.D2] full barrier: our counts are written before we look for drains and
	 * notices; pairs with [bell.L2].
	 */
	rnl__full_barrier();
	rnl__pool_ring_drained(w->pool);
}

/* A wait begins: tells those that wait for an idle worker, and spins; true if that was enough. */
static bool begin_wait(struct rnl__worker *w, uint64_t now)
{
	struct rnl_pool *pool = w->pool;
	struct rnl__inflight *f = &w->inflight;
	uint64_t spin_ns;
	bool tell, found;

	w->wait_since = w->last_check = now;
	tell_idle(w);
	if (w->track && !f->first)
		rnl__track_idle(w->track, now);
	spin_ns = f->first ? pool->spin_ns : idle_spin(pool);
	/* A mark that only the driver tells of is not seen by a spin. */
	if (!spin_ns || rnl__inflight_silent(f))
		return false;
	tell = !f->first && rnl__pool_on_gpu(pool);
	if (tell)
		rnl__park_spins(&w->park, true);
	found = spin(w, now + spin_ns);
	if (tell)
		rnl__park_spins(&w->park, false);
	return found;
}

/*
 * There is something to do, but perhaps not yet: a thread may have half put a job, or takes one.
 * That thread may need our CPU, and a yield gives the CPU to no thread of a lower priority.
 */
static void await_put(struct rnl__worker *w)
{
	const uint64_t now = rnl__now();

	if (!w->half_since)
		w->half_since = now;
	if (now - w->half_since < YIELD_NS)
		sched_yield();
	else
		rnl__nap(rnl__smaller((now - w->half_since) / 8, NAP_MAX_NS));
}

/* Nothing is queued, nothing has passed: waits for a job, or for the device. */
static void idle(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	uint64_t now = rnl__inflight_clock(f), deadline = RNL__NEVER;
	bool away;

	if (!w->wait_since) {
		w->half_since = 0;
		if (begin_wait(w, now))
			return;
		now = rnl__inflight_clock(f);
	}
	if (f->first) {
		check_device(w, now);
		/* Asks the driver if no word tells; each nap is longer than the last. */
		if (rnl__complete_passed(w, rnl__inflight_silent(f)))
			return;
		deadline = now + nap(w, now);
	}
	away = rnl__queue_away(&w->queue);
	rnl__park_prepare(&w->park, !f->first && !away);
	/*
	 * If a resize has brought us in since we looked, we would sleep without a bit in the
	 * lot, and no submit would find us.  The resizer looks for sleepers after that: [staff.S1].
	 */
	if (busy(w) || (away && !rnl__queue_away(&w->queue))) {
		w->woken |= rnl__park_leave(&w->park);
		await_put(w);
		return;
	}
	w->half_since = 0;
	if (!f->first) {
		rnl__figure_add(&w->slept, 1);
		w->wait_since = 0;
	}
	w->woken |= rnl__park_sleep(&w->park, deadline);
}

/*
 * Whether the worker is to wait for its stream alone: it can have no more jobs there, or has enough
 * for now and others queued.  With none queued it waits for a job, too.  A second job behind a long
 * one keeps the device busy, but is itself done sooner on the empty stream of another worker.
 */
static bool full(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;

	if (rnl__inflight_enough(f))
		return rnl__inflight_nr(f) == f->limit || has_job(w);
	return rnl__inflight_one_long(f) && !w->next && rnl__share_leave(w);
}

/*
 * The stream is full: waits until the device has passed a job of it, for a command, or for a job
 * that was held back.
 */
static void await_space(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	uint64_t start = rnl__inflight_clock(f), now = start;

	if (!f->nr_marks)
		rnl__run_mark_last(w);
	/* The device has failed, and all jobs are done. */
	if (!f->first)
		return;
	w->wait_since = w->last_check = start;
	while (!rnl__complete_passed(w, 1) && !may_obey(w) && !rnl__worker_has_returned(w) &&
	       full(w)) {
		now = rnl__inflight_clock(f);
		check_device(w, now);
		if (!f->first)
			break;
		if (now - start < w->pool->spin_ns && now - start < ASK_NS) {
			for (uint64_t until = now + 500 + (now - start) / 4; rnl__now() < until;)
				rnl__pause();
			continue;
		}
		rnl__nap(nap(w, now));
	}
}

/*
 * Looks at the stream if the worker has not for a while: at the latest mark, which speaks for all;
 * if it is not reached, for the latest one that is, by halves.  Each question holds up all threads
 * that call the driver.
 */
static void look_on_time(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	unsigned nr, before, half;

	if (rnl__inflight_clock(f) - f->looked < LOOK_NS || !f->nr_marks)
		return;
	rnl__group_end(w);
	nr = f->nr_marks;
	if (rnl__complete_passed(w, nr))
		return;
	/* The nr-th mark is not reached. */
	while (nr > 1) {
		before = f->nr_marks;
		half = nr / 2;
		if (!rnl__complete_passed(w, half))
			nr = half;
		else if (before - f->nr_marks < nr)
			nr -= before - f->nr_marks;
		else
			break;
	}
}

/* ---- the thread ---------------------------------------------------------- */

static int set_affinity(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	unsigned i;
	int ret;

	if (!pool->nr_cpus)
		return 0;
	i = w->index % pool->nr_cpus;
	ret = rnl__cpus_keep_on(pool->cpus[i]);
	if (ret == -EINVAL)
		return rnl__invalid(&pool->log, "worker %u: cpus[%u] is %u, where the process may not "
				    "run", w->index, i, pool->cpus[i]);
	return ret ? rnl__system_refused(&pool->log, "the attribute cpus", "sched_setaffinity", ret) : 0;
}

/* Before the thread first serves.  What an earlier thread of this worker made stays in use. */
static int set_up(struct rnl__worker *w)
{
	struct rnl_pool *pool = w->pool;
	char index[12];
	int ret;

	snprintf(index, sizeof(index), "%u", w->index);
	rnl__thread_name(pool->name, index);
	/* By default a short sleep may end 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	ret = set_affinity(w);
	if (!ret)
		ret = rnl__stream_attach_to(pool, w->device, w->urgent, "a worker's stream");
	if (ret)
		return ret;
	rnl__thread.worker = w;
	/* The stream is new. */
	rnl__worker_forget_joins(w);
	rnl__thread.stream->gather = &w->gather;
	if (!w->ranges)
		w->ranges = rnl__nvtx_create();
	if (!w->timing)
		w->timing = calloc(1, sizeof(*w->timing));
	if (!w->timing)
		return -ENOMEM;
	rnl__scratch_init(&w->scratch, w->device, pool->scratch_keep);
	if (!w->gather.noted)
		ret = rnl__gather_init(&w->gather, rnl__group_failed, rnl__group_left_out);
	if (!ret && !w->inflight.marks) {
		rnl__staging_init(&w->staging, w->device, pool->pinned, pool->staging_max);
		ret = rnl__inflight_init(&w->inflight, w->device, pool->max_in_flight,
					 pool->enough_ns);
	}
	if (ret)
		rnl__inflight_fini(&w->inflight);
	return ret ? ret : rnl__inflight_begin(&w->inflight);
}

/* Takes a command off: it was obeyed, or could not be, for @error. */
static void obeyed(struct rnl__worker *w, uint32_t command, int error)
{
	struct rnl_pool *pool = w->pool;
	int none = 0;

	if (error)
		/* relaxed: the latch publishes it */
		atomic_compare_exchange_strong_explicit(&pool->start_error, &none, error,
							memory_order_relaxed, memory_order_relaxed);
	/* relaxed: the latch publishes it */
	atomic_fetch_and_explicit(&w->commands, ~command, memory_order_relaxed);
	(void)rnl__latch_drop(&pool->moving, 1);
}

/* Begins to note jobs in the worker's track, or ceases to. */
static void set_track(struct rnl__worker *w)
{
	/* relaxed: the command, or our thread's start, has published it */
	struct rnl__track *tracks = atomic_load_explicit(&w->pool->tracks, memory_order_relaxed);

	if (tracks && !w->track) {
		w->track = &tracks[w->index];
		/* A thread that could not begin to serve may have had the track. */
		if (w->track->tid || !rnl__track_start(w->track))
			w->track = NULL;
	} else if (!tracks && w->track) {
		rnl__track_stop(w->track, w->inflight.first);
		w->track = NULL;
	}
}

/* There is a command that can be obeyed at once. */
static void obey(struct rnl__worker *w)
{
	rnl__tsan_acquire(&w->commands);
	if (commands(w) & RNL__TRACE) {
		(void)rnl__share_occupy(w);	/* it creates events */
		set_track(w);
		rnl__share_attend(w, false);
		obeyed(w, RNL__TRACE, 0);
	} else {
		obeyed(w, RNL__HAND_OVER, 0);
	}
}

static void loop(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	struct rnl__worker *from;
	struct rnl_job *job;

	for (;;) {
		if (f->first)
			look_on_time(w);
		if (may_obey(w)) {
			rnl__group_end(w);
			obey(w);
		}
		if (rnl__worker_has_returned(w)) {
			rnl__group_end(w);
			rnl__complete_returned(w);
		}
		if (full(w)) {
			rnl__group_end(w);
			rnl__owed_tell(w);
			(void)rnl__share_occupy(w);
			await_space(w);
			rnl__share_attend(w, false);
			continue;
		}
		job = take_of_owed(w, &from);
		if (!job) {
			rnl__owed_tell(w);
			job = take(w, &from);
		}
		if (!job) {
			rnl__group_end(w);
			rnl__run_mark_last(w);
			if (rnl__complete_passed(w, 0))
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
	/* The worker leaves: it passes a pending wake-up on to another worker. */
	(void)rnl__share_occupy(w);
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
	rnl__unit_forgive(w);
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

/* Serves until a command ends it; 0, or why the worker could not begin. */
static int serve(struct rnl__worker *w)
{
	int ret;

	rnl__tsan_acquire(&w->commands);
	ret = call_on_start(w);
	if (ret)
		rnl__pool_log(w->pool, RNL_LOG_ERROR, "worker %u: on_start returned %d%s", w->index,
			      ret, ret > 0 ? "; it must return 0 or a negative errno" : "");
	if (ret > 0)
		ret = -EINVAL;
	w->serves = !ret;
	rnl__share_attend(w, false);
	obeyed(w, RNL__SERVE, ret);
	if (ret)
		return ret;
	loop(w);
	rnl__tsan_acquire(&w->commands);
	tell_idle(w);
	w->serves = false;
	call_on_stop(w);
	w->data = NULL;
	if (commands(w) & RNL__LEAVE)
		obeyed(w, RNL__LEAVE, 0);
	return 0;
}

/* The worker is away: it sleeps until there is a command. */
static void await_command(struct rnl__worker *w)
{
	rnl__park_prepare(&w->park, false);
	if (commands(w))
		(void)rnl__park_leave(&w->park);
	else
		(void)rnl__park_sleep(&w->park, RNL__NEVER);
	if (commands(w) & RNL__TRACE)
		obey(w);
}

/*
 * Once `present` is dropped the pool may be gone.  If the device has failed, the thread stays
 * and does nothing: at a thread's end CUDA destroys the thread's stream, and may never return
 * (seen on an H200 with driver 580: a destructor waits for another thread of CUDA).
 */
static void end_thread(struct rnl__worker *w)
{
	bool stays = rnl__device_failed(w->device);

	w->stays = stays;
	(void)rnl__latch_drop(&w->present, 1);
	while (stays)
		pause();
}

void *rnl__loop_main(void *arg)
{
	struct rnl__worker *w = arg;
	int ret;

	/* A job that cancels its own thread would end the worker. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	ret = set_up(w);

	if (ret)
		obeyed(w, RNL__SERVE, ret);
	else
		set_track(w);
	while (!ret && !(commands(w) & RNL__END)) {
		if (commands(w) & RNL__SERVE)
			(void)serve(w);
		else
			await_command(w);
	}
	w->track = NULL;
	rnl__replays_fini(w);
	rnl__scratch_fini(&w->scratch);
	rnl__stream_detach();
	end_thread(w);
	return NULL;
}
