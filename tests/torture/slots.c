/* SPDX-License-Identifier: MIT */
/* A job's life, from its draw to its end. slots.h has the DESIGN. */
#include "asks.h"
#include "slots.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>
#include <runnel/more.h>
#include <runnel/replay.h>

/* ---- a job's function ------------------------------------------------------- */

/* Checks the order of a key's jobs.  @again: a guard may have called the function again. */
static void check_order(uint64_t *last, uint64_t number, bool again, const char *where)
{
	if (*last > number || (*last == number && !again))
		tally_wrong(KEY_ORDER, "number %llu came after %llu, on the %s",
			    (unsigned long long)number, (unsigned long long)*last, where);
	*last = number;
}

struct pass_args {
	struct key *key;
	uint64_t number;
	bool again;
};

static void pass_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct pass_args *a = args;

	(void)grid;
	(void)block;
	check_order(&a->key->passed, a->number, a->again, "device");
}
RNL_HOST_KERNEL(pass, pass_host, struct pass_args);

/* Half of the keys name workers; several keys may name the same worker. */
static bool names_worker(const struct key *key)
{
	return (uintptr_t)key / sizeof(*key) % 2;
}

static uint64_t key_of(const struct key *key)
{
	const uint64_t number = (uintptr_t)key / sizeof(*key);

	return names_worker(key) ? RNL_KEY_WORKER(number / 2 % RNL_WORKERS_MAX) : (uintptr_t)key;
}

/* Checks a key's device: a resize only changes it if the key names a worker. */
static void check_device_of_key(struct key *key)
{
	const unsigned device = 1 + (unsigned)rnl_worker().device;

	if (key->ran_on && device != key->ran_on && !names_worker(key))
		tally_wrong(MISPLACED, "a key's job ran on device %u, the one before on %u",
			    device - 1, key->ran_on - 1);
	key->ran_on = device;
}

/* Launches the kernel of the key's order, a host function, on the host device only. */
static int key_issue(const struct slot *slot)
{
	const struct pass_args args = { slot->key, slot->number, slot->round->guarded };
	const struct rnl_dim one = { 1, 1, 1 };

	return slot->key && on_host() ? rnl_launch(&pass, one, one, &args) : 0;
}

static int run(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct shot, job)->slot;
	int ret, issued;

	slot->runs++;
	class_runs(&slot->classed);
	if (!slot->classed.class)
		class_has_none(slot->round);
	if (slot->after)
		group_check_before(slot);
	place_check(slot->round, slot->device, "a job");
	if (slot->key) {
		check_order(&slot->key->ran, slot->number, slot->runs > 1, "host");
		check_device_of_key(slot->key);
	}
	if (slot->number % 16 == 0 && rnl_job_cancel(job) != -EBUSY)
		tally_wrong(RAN_CANCELLED, "a job could be cancelled by its own function");
	dawdle(&slot->random);
	ret = work_issue(&slot->work);
	issued = group_issue(slot);
	issued = issued ? issued : key_issue(slot);
	class_ran(&slot->classed);
	return issued ? issued : ret;
}

/* Overwrites the job before its next life, because a done job's memory belongs to its owner. */
static void shot_init(struct slot *slot)
{
	memset(slot->shot, 0x5a, sizeof(*slot->shot));
	(void)rnl_job_init(&slot->shot->job, run);
	slot->shot->slot = slot;
}

/* ---- its end ---------------------------------------------------------------- */

static bool may_be_cancelled(const struct slot *slot)
{
	return slot->nr_cancelled || slot->after || (slot->way >= AT_SPACE && slot->round->shut);
}

static bool is_allowed(const struct slot *slot, uint64_t now)
{
	const int result = slot->result;
	const bool failed = may_end_so(slot->round, result);
	const int64_t deadline = class_deadline(&slot->classed, slot->deadline);

	/* A job with a deadline of 0 never runs. */
	if (slot->runs)
		return (result == work_result(&slot->work) || failed) && slot->deadline;
	if (result == -ECANCELED)
		return may_be_cancelled(slot);
	if (slot->nr_cancelled)
		return false;
	return failed || (result == -ETIMEDOUT && deadline >= 0 &&
			  (now - slot->begun > (uint64_t)deadline || class_is_hasty(&slot->classed)));
}

/* Checks the end of a life. All cancels have returned. */
static void check_end(const struct slot *slot, uint64_t now)
{
	const unsigned nr_cancelled = slot->nr_cancelled, nr_busy = slot->nr_busy;
	/* A guard may have called the function again. */
	const unsigned runs_max = slot->round->guarded ? 2 : 1;
	enum wrong wrong = WRONG_END;

	if (slot->runs > runs_max)
		wrong = RAN_TWICE;
	else if (nr_cancelled && (slot->runs || nr_busy))
		wrong = RAN_CANCELLED;
	else if (is_allowed(slot, now))
		wrong = NR_WRONGS;
	if (wrong != NR_WRONGS)
		tally_wrong(wrong, "it ran %u times, its result is %d, its work's %d; %u cancels "
			    "returned 0, %u -EBUSY; deadline %lld ns, ended after %llu; way %d, "
			    "end %d, work %d, %s a barrier, class %d", slot->runs, slot->result,
			    work_result(&slot->work), nr_cancelled, nr_busy,
			    (long long)slot->deadline, (unsigned long long)(now - slot->begun),
			    slot->way, slot->end, slot->work.what,
			    slot->after ? "after" : "not after", class_number(&slot->classed));
	if ((slot->result >= 0 || !slot->runs) && !work_right(&slot->work, slot->runs != 0))
		tally_wrong(WRONG_DATA, "%u bytes in %u rows, work %d, ran %u times, in %s, out %s",
			    slot->work.bytes, slot->work.rows, slot->work.what, slot->runs,
			    slot->work.pinned_in ? "pinned" : "pageable",
			    slot->work.pinned_out ? "pinned" : "pageable");
}

static void count(const struct slot *slot)
{
	struct round *r = slot->round;

	r->failed += slot->result < 0;
	r->cancelled += slot->result == -ECANCELED;
	r->timed_out += slot->result == -ETIMEDOUT;
	tally_add(NR_RAN, slot->runs != 0);
	tally_add(NR_CANCELLED, slot->result == -ECANCELED);
	tally_add(NR_TIMED_OUT, slot->result == -ETIMEDOUT);
	tally_add(NR_FAILED, slot->result < 0);
	tally_add(NR_KEYED, slot->key != NULL);
	tally_add(NR_PLACED, slot->device >= 0);
	r->gathered += slot->gathers && slot->runs;
	tally_add(NR_NOTICES, slot->way >= AT_SPACE);
	tally_add(NR_AFTER, slot->after != NULL);
	tally_add(NR_REAPED, slot->end == BY_CQ);
	tally_add(NR_CALLBACKS, slot->end == BY_CALLBACK);
	class_ended(&slot->classed, slot->runs != 0, slot->result);
	/* `ended` last, because a thread that sees all jobs ended may read the other counts. */
	r->ended++;
}

/* Makes the slot ENDING, for this caller only. Returns false if this life has ended before. */
static bool end(struct slot *slot)
{
	uint64_t state = slot->state, now = now_ns();
	struct rnl_job *job = &slot->shot->job;

	do {
		if (phase_of(state) != SUBMITTING && phase_of(state) != ACCEPTED) {
			tally_wrong(slot->end == BY_CQ ? CQ_WRONG : ENDED_TWICE,
				    "phase %d, end %d", phase_of(state), slot->end);
			return false;
		}
	} while (!atomic_compare_exchange_weak(&slot->state, &state, in_phase(state, ENDING)));
	while (slot->pins)
		sched_yield();
	slot->result = job->result;
	if (rnl_job_wait(job, 0) || rnl_job_cancel(job) != -EALREADY)
		tally_wrong(WRONG_END, "a job has ended and is not done: test %d, cancel %d, "
			    "result %d; end %d", is_done(job), rnl_job_cancel(job),
			    slot->result, slot->end);
	check_end(slot, now);
	if (slot->after)
		group_check_notified(slot);
	count(slot);
	work_end(&slot->work, slot->round);
	if (slot->group || slot->after || draw(&slot->random, 2)) {
		free(slot->shot);
		slot->shot = NULL;
	} else if (draw(&slot->random, 2)) {
		shot_init(slot);
	}
	return true;
}

void slot_end(struct slot *slot)
{
	if (end(slot))
		slot->state = in_phase(slot->state, ENDED);
}

static void callback(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct shot, job)->slot;
	struct round *r = slot->round;
	bool again = !slot->group && !slot->after && !r->stop && draw(&slot->random, 2);

	/* The timer thread calls a callback only if the job's function was not called. */
	if (rnl_worker().index < 0 && slot->runs)
		tally_wrong(UNDOCUMENTED, "a callback was called by a thread that is no worker");
	dawdle(&slot->random);
	if (!draw(&slot->random, 4))
		jobs_cancel_some(r, &slot->random);
	if (!again) {
		slot_end(slot);
	} else if (end(slot)) {
		slot_begin(slot, &slot->own_key, NULL, NULL, 0);
		(void)slot_submit(slot);
	}
}

/* ---- its begin --------------------------------------------------------------- */

static void draw_job(struct slot *slot, struct key *keys, bool alone)
{
	const int64_t deadlines[] = { -1, -1, -1, -1, -1, 0, 50000, 10 * long_ns() };
	uint64_t *random = &slot->random;

	slot->end = (enum end)draw(random, NR_ENDS);
	/* Only jobs without a barrier may be notices, because a notice may wait for a long time. */
	slot->way = (enum way)draw(random, alone && !draw(random, 4) ? NR_WAYS : AT_SPACE);
	slot->gathers = draw_gather(slot->round, random);
	slot->deadline = deadlines[draw(random, COUNT(deadlines))];
	slot->key = &keys[draw(random, keys == &slot->own_key ? 1 : NR_KEYS)];
	/* Jobs after a barrier have no order. */
	if (slot->after || (slot->way != KEYED && slot->way != KEYED_WAITS))
		slot->key = NULL;
	slot->device = place_draw(slot->round, random);
	if (slot->key && !slot->key->known) {
		slot->key->known = true;
		slot->key->place = slot->device;
	}
	if (slot->key)
		slot->device = slot->key->place;
	slot->number = slot->key ? ++slot->key->submitted : 1 + draw(random, 1000);
	slot->runs = 0;
	slot->nr_cancelled = slot->nr_busy = 0;
	work_begin(&slot->work, slot->round, random);
}

void slot_begin(struct slot *slot, struct key *keys, struct group *group, struct group *after,
		unsigned place)
{
	struct rnl_job *job;
	unsigned flags;
	uint64_t state;

	if (!slot->shot) {
		slot->shot = must_alloc(sizeof(*slot->shot));
		shot_init(slot);
	}
	job = &slot->shot->job;
	slot->group = group;
	slot->after = after;
	slot->place = place;
	draw_job(slot, keys, !group && !after);
	flags = !slot->gathers ? 0 : slot->place % 2 ? RNL_GATHER | RNL_REPLAY : RNL_GATHER;
	if (rnl_job_set_on_done(job, NULL) ||
	    rnl_job_set_cq(job, slot->end == BY_CQ ? slot->round->cq : NULL) ||
	    rnl_job_set_on_done(job, slot->end == BY_CALLBACK ? callback : NULL) ||
	    rnl_job_set_deadline(job, slot->deadline) || rnl_job_set_flags(job, flags) ||
	    rnl_job_set_after(job, after ? &after->barrier : NULL) ||
	    (group && rnl_barrier_add(&group->barrier, job)) ||
	    (after && rnl_barrier_add(&after->tail, job)))
		tally_wrong(UNDOCUMENTED, "a job that is done could not be changed");
	place_set(job, slot->device);
	/* A notice has no class. */
	class_draw(slot->round, &slot->classed, job, slot->way >= AT_SPACE ? NO_CLASS : ANY_CLASS,
		   &slot->random);
	slot->classed.queued = slot->way != KEYED && slot->way != KEYED_WAITS;
	slot->classed.timed = slot->deadline >= 0;
	slot->begun = now_ns();
	state = (slot->state / LIFE + 1) * LIFE | (slot->end == BY_WAIT ? MINE : 0);
	slot->state = in_phase(state, SUBMITTING);
}

/* Submits with a wait for space.  When it returns, the slot may be in another life. */
static int submit_waiting(struct slot *slot, uint64_t key)
{
	const int64_t patience[] = { 0, 0, 100000, 100000, long_ns() };
	const int64_t timeout = patience[draw(&slot->random, COUNT(patience))];
	struct rnl_pool *pool = slot->round->pool;
	struct rnl_job *job = &slot->shot->job;
	const uint64_t since = now_ns();
	int ret;

	if (slot->way == KEYED_WAITS)
		ret = submit_by_key_wait(pool, job, key, timeout);
	else
		ret = rnl_submit_wait(pool, job, timeout);
	if (timeout == long_ns() && now_ns() - since >= (uint64_t)timeout)
		tally_wrong(TOO_LATE, "a submit that waited was not woken, and returned %d", ret);
	return ret;
}

static int submit(struct slot *slot)
{
	struct rnl_pool *pool = slot->round->pool;
	struct rnl_job *job = &slot->shot->job;
	uint64_t key = slot->key ? key_of(slot->key) : slot->number;

	submit_anew(job);
	switch (slot->way) {
	case KEYED:
		return submit_by_key(pool, job, key);
	case KEYED_WAITS:
	case WAITS:
		return submit_waiting(slot, key);
	case AT_SPACE:
		return submit_when(pool, job, RNL_SPACE);
	default:
		return rnl_submit(pool, job);
	}
}

bool slot_submitted(struct slot *slot, uint64_t state, int ret, bool closed)
{
	struct round *r = slot->round;
	bool waits;

	if (!ret && closed)
		tally_wrong(NOT_REFUSED, "way %d, after a close had returned", slot->way);
	if (!ret) {
		/* Fails if the job has ended by now, or the next life has begun. */
		atomic_compare_exchange_strong(&slot->state, &state, in_phase(state, ACCEPTED));
		r->accepted++;
		tally_add(NR_JOBS, 1);
		return true;
	}
	waits = slot->way == WAITS || slot->way == KEYED_WAITS;
	if (!class_refused(&slot->classed, ret, !slot->after && slot->way != MANY))
		(void)said(r, ret, (slot->way >= AT_SPACE ? 0 : MAY_AGAIN) |
			   (waits ? MAY_TIME_OUT : 0) | MAY_SHUT, "a submit");
	tally_add(NR_REFUSED, 1);
	if (!atomic_compare_exchange_strong(&slot->state, &state, in_phase(state, ENDING))) {
		tally_wrong(RAN_REFUSED, "a submit returned %d, and the job has ended", ret);
		return false;
	}
	while (slot->pins)
		sched_yield();
	if (slot->runs || slot->nr_cancelled || slot->nr_busy)
		tally_wrong(RAN_REFUSED, "a submit returned %d; it ran %u times, %u cancels "
			    "returned 0, %u -EBUSY", ret, slot->runs, slot->nr_cancelled,
			    slot->nr_busy);
	work_end(&slot->work, r);
	free(slot->shot);
	slot->shot = NULL;
	slot->group = slot->after = NULL;
	slot->state = in_phase(slot->state, FREE);
	return false;
}

bool slot_submit(struct slot *slot)
{
	uint64_t state = slot->state;
	const bool closed = slot->round->closed;

	return slot_submitted(slot, state, submit(slot), closed);
}

/* ---- cancels ----------------------------------------------------------------- */

void slot_cancel(struct slot *slot)
{
	uint64_t state;
	int ret;

	atomic_fetch_add(&slot->pins, 1);
	state = slot->state;
	if (phase_of(state) == SUBMITTING || phase_of(state) == ACCEPTED) {
		ret = rnl_job_cancel(&slot->shot->job);
		if (!ret)
			slot->nr_cancelled++;
		else if (ret == -EBUSY)
			slot->nr_busy++;
		else if (ret != -EALREADY && !(ret == -EINVAL && phase_of(state) == SUBMITTING))
			tally_wrong(UNDOCUMENTED, "a cancel returned %d", ret);
	}
	atomic_fetch_sub(&slot->pins, 1);
}

/* ---- its record -------------------------------------------------------------- */

void slot_print(const struct slot *slot)
{
	static const char *const phases[] = { "free", "submitting", "accepted", "ending",
					      "ended" };
	static const char *const ways[] = { "plain", "keyed", "waits", "keyed, waits", "many",
					    "for space" };
	static const char *const ends[] = { "a wait", "the queue", "a callback" };

	fprintf(stderr, "torture:   %s for %.3f s: %s, told by %s, %s %llu, life %llu, ran %u "
		"times, cancels: %u in time, %u too late; deadline %lld ns; work %d of %u "
		"bytes%s%s%s, place %d, class %d\n",
		phases[phase_of(slot->state)], (double)(now_ns() - slot->begun) * 1e-9,
		ways[slot->way], ends[slot->end], slot->key ? "key's number" : "number",
		(unsigned long long)slot->number, (unsigned long long)(slot->state / LIFE),
		slot->runs, slot->nr_cancelled, slot->nr_busy, (long long)slot->deadline,
		slot->work.what, slot->work.bytes, slot->gathers ? ", gathers" : "",
		slot->group ? ", of a barrier" : "", slot->after ? ", after a barrier" : "",
		slot->device, class_number(&slot->classed));
}
