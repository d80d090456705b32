/* SPDX-License-Identifier: MIT */
/* A worker's waits for a job or for its stream; idle.h has the design. */
#include "config.h"

#include <sched.h>

#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/sizes.h"
#include "worker/charge.h"
#include "worker/command.h"
#include "worker/complete.h"
#include "worker/idle.h"
#include "worker/run.h"
#include "worker/share.h"

/*
 * A nap while the device works lasts an eighth of the time waited so far, so the worker wakes late
 * by no more than that.  Naps of 0.1 ms cost 4 % of a CPU, so longer naps last a sixty-fourth.
 */
#define NAP_MIN_NS 4000u
#define NAP_MID_NS 100000u
#define NAP_MAX_NS 1000000u
#define YIELD_NS 50000u	/* how long a worker that waits for a put yields, before it naps */
#define ASK_NS 20000u		/* how long a full stream is queried without a nap */
#define NAP_ASK_NS 20000u	/* the shortest nap between queries, which delay launches */
#define CHECKS 4u		/* device checks per watchdog period, by a worker that waits */
#define SPIN_IDLE_NS 20000u
#define SPIN_IDLE_LAST_NS 5000u

/* ---- for a job ----------------------------------------------------------- */

static bool has_job(struct rnl__worker *w)
{
	return w->next || rnl__queue_holds(&w->queue, rnl__pool_serving(w->pool));
}

/* Returns true if there is something to do. */
static bool idle_busy(struct rnl__worker *w)
{
	return has_job(w) || rnl__inflight_reached(&w->inflight) || rnl__share_victim(w) ||
	       rnl__share_has_classed(w) || rnl__command_may_leave(w) ||
	       rnl__command_may_obey(w) || rnl__worker_has_returned(w);
}

/* Checks a few times per watchdog period for a device failure, which drivers report late. */
static void check_device(struct rnl__worker *w, uint64_t now)
{
	if (now - w->last_check < w->pool->watchdog_ns / CHECKS)
		return;
	w->last_check = now;
	if (w->device->ops->idle() < 0)
		(void)rnl__complete_reached(w, 0);
}

/* Returns how long to sleep for the device, if the wait has lasted until @now. */
static uint64_t idle_nap(struct rnl__worker *w, uint64_t now)
{
	const uint64_t waited = now - w->wait_since;
	const uint64_t least = rnl__inflight_silent(&w->inflight) ? NAP_ASK_NS : NAP_MIN_NS;
	uint64_t nap = waited / 8;

	if (nap >= NAP_MID_NS)
		nap = rnl__smaller(rnl__larger(waited / 64, NAP_MID_NS), NAP_MAX_NS);
	return rnl__larger(rnl__charge_nap(w, now, nap), least);
}

/*
 * Returns how long to spin with an empty stream: the fewer CPUs the awake workers leave free, the
 * shorter.  If they leave only one, a thread whose job has just completed may need this CPU.
 */
static uint64_t idle_spin(struct rnl_pool *pool)
{
	unsigned awake = rnl__pool_nr_own(pool) + rnl__pool_staff(pool).nr, asleep;

	if (!pool->spin_cpus)
		return pool->spin_ns;
	asleep = rnl__idle_set_nr(&pool->idle_set) + rnl__idle_set_nr(&pool->class_idle_set);
	awake = awake > asleep ? awake - asleep : 0;
	if (pool->spin_cpus > awake + 1)
		return SPIN_IDLE_NS;
	return pool->spin_cpus > awake ? SPIN_IDLE_LAST_NS : RNL__SPIN_CROWDED_NS;
}

/*
 * Spins until there is something to do, and looks for @s, unless that is NULL.  Returns false if the
 * time is up, which is that of @s.
 */
static bool idle_spin_until(struct rnl__worker *w, uint64_t until, struct rnl__spinner *s)
{
	const uint32_t generation = rnl__pool_serving(w->pool);
	/* Without a CPU to spare, the threads that send and answer may need this one. */
	const bool crowded = s && idle_spin(w->pool) <= RNL__SPIN_CROWDED_NS;

	do {
		if (crowded)
			sched_yield();
		for (int i = 0; i < 16; i++) {
			if (rnl__queue_shows(&w->queue, generation) ||
			    rnl__inflight_reached(&w->inflight))
				return true;
			if (s)
				s->look(s);
			rnl__pause();
		}
		if (idle_busy(w))
			return true;
		if (s) {
			rnl__spinner_set(s, true);
			until = rnl__figure_read(&s->until);
		}
	} while (rnl__now() < until);
	return false;
}

bool rnl__idle_soon(struct rnl__worker *w)
{
	return w->in_staff && !w->inflight.first && !has_job(w);
}

/* Begins a wait: wakes waiters for idle workers, and spins.  Returns true if work came. */
static bool begin_wait(struct rnl__worker *w, uint64_t now)
{
	struct rnl_pool *pool = w->pool;
	struct rnl__inflight *f = &w->inflight;
	struct rnl__spinner *spinner;
	uint64_t spin_ns;
	bool tell, found;

	w->wait_since = w->last_check = now;
	if (!f->first)
		rnl__charge_idle(w);
	rnl__pool_wake_counts(w->pool);
	if (w->track && !f->first)
		rnl__track_idle(w->track, now);
	spin_ns = f->first ? pool->spin_ns : w->own.spin_ns ? w->own.spin_ns : idle_spin(pool);
	spinner = rnl__idle_soon(w) ? rnl__spinner_take(pool) : NULL;
	/* A spin does not see a mark that only the driver reports. */
	if (!spinner && (!spin_ns || rnl__inflight_silent(f)))
		return false;
	tell = !f->first && rnl__pool_on_gpu(pool);
	if (tell)
		rnl__park_spins(&w->park, true);
	found = idle_spin_until(w, now + spin_ns, spinner);
	if (tell)
		rnl__park_spins(&w->park, false);
	if (spinner)
		rnl__spinner_leave(spinner);
	return found;
}

/*
 * Work is visible but perhaps cannot be taken yet: another thread may be in the middle of a put or
 * a take.  That thread may need this CPU, and a yield does not help a thread of lower priority.
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

void rnl__idle(struct rnl__worker *w)
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
		/* Queries the driver if no word reports the mark; naps become longer. */
		if (rnl__complete_reached(w, rnl__inflight_silent(f)))
			return;
		deadline = now + idle_nap(w, now);
	}
	away = rnl__queue_away(&w->queue);
	rnl__park_prepare(&w->park, !f->first && !away);
	/*
	 * If a resize has brought this worker in since `away` was read, it would sleep without an
	 * idle bit, and no submit would find it.  The resizer then wakes sleepers: [staff.S1].
	 */
	if (idle_busy(w) || (away && !rnl__queue_away(&w->queue))) {
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

/* ---- for the stream ------------------------------------------------------ */

bool rnl__idle_full(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;

	if (rnl__inflight_enough(f))
		return rnl__inflight_nr(f) == f->limit || has_job(w) || rnl__share_awaits_classed(w);
	return rnl__inflight_one_long(f) && !w->next && rnl__share_leave(w);
}

void rnl__idle_await_space(struct rnl__worker *w)
{
	struct rnl__inflight *f = &w->inflight;
	uint64_t start = rnl__inflight_clock(f), now = start;

	if (!f->nr_marks)
		rnl__run_mark_last(w);
	/* The device has failed, and all jobs are done. */
	if (!f->first)
		return;
	w->wait_since = w->last_check = start;
	while (!rnl__complete_reached(w, 1) && !rnl__command_may_obey(w) &&
	       !rnl__worker_has_returned(w) && rnl__idle_full(w)) {
		now = rnl__inflight_clock(f);
		check_device(w, now);
		if (!f->first)
			break;
		if (now - start < w->pool->spin_ns && now - start < ASK_NS) {
			for (uint64_t until = now + 500 + (now - start) / 4; rnl__now() < until;)
				rnl__pause();
			continue;
		}
		rnl__nap(idle_nap(w, now));
	}
}
