/* SPDX-License-Identifier: MIT */
/* Submits of all kinds, chains, cancels, holds, and polls of jobs. */
#include "tests/lib/asks.h"
#include "config.h"

#include <runnel/hold.h>
#include <runnel/more.h>
#include <runnel/replay.h>

#include "tests/fuzz/calls.h"

#define DEADLINE_NS MS
#define CHAIN_MAX 4

/* ---- questions ---------------------------------------------------------------------- */

bool jobs_any(bool (*is)(const struct work *w))
{
	for (unsigned i = 0; i < JOBS; i++)
		if (s.works[i].owned && (!is || is(&s.works[i])))
			return true;
	return false;
}

/* Returns true if the job needs a later call of this thread, which must not wait for it. */
bool job_waits_for_caller(const struct work *w)
{
	return w->act == ACT_HOLD || (w->way >= FOR_SPACE && w->way <= AT_EMPTY);
}

/* Returns true if a job can be reused: later jobs may still check its result and copies. */
static bool is_free(const struct work *w)
{
	for (unsigned i = 0; i < JOBS; i++)
		if (s.works[i].owned && s.works[i].waits[w - s.works])
			return false;
	return !w->owned;
}

/* ---- a job -------------------------------------------------------------------------- */

static void set_memory(struct work *w, unsigned how)
{
	const unsigned i = (unsigned)(w - s.works);

	w->from = how >> 15 ? s.pinned + i * 2 * WORDS : s.pageable[i][0];
	w->to = how >> 15 ? w->from + WORDS : s.pageable[i][1];
	for (unsigned k = 0; k < WORDS; k++) {
		w->from[k] = how * 2654435761u + k;
		w->to[k] = 0;
	}
}

static void set_told(struct work *w, unsigned how)
{
	static const enum notified tolds[] = { BY_WAIT, BY_QUEUE, BY_CALLBACK, BY_CALLBACK };

	w->notified = tolds[how >> 3 & 3];
	if (w->notified == BY_QUEUE)
		must(!rnl_job_set_cq(&w->job, s.cq));
	else if (w->notified == BY_CALLBACK)
		must(!rnl_job_set_on_done(&w->job, work_notified));
}

/* Notes the jobs that the barrier counts now, as jobs that @w waits for. */
static void set_waits(struct work *w)
{
	for (unsigned i = 0; i < JOBS; i++)
		if (s.works[i].owned && s.works[i].in == w->after)
			w->waits[i] = true;
	w->map = map_now(w->after);
}

static void set_barriers(struct work *w, unsigned how)
{
	const unsigned in = how >> 8 & 3, after = how >> 10 & 7;

	if (in < 2 && w->way != AT_EMPTY && w->way != FOR_SPACE) {
		w->in = (int)in;
		must(!rnl_barrier_add(barrier(w->in), &w->job));
	}
	if (after >= 4 && (int)after - 4 != w->in && (w->way <= ORDERED) && !w->before) {
		w->after = (int)after - 4;
		must(!rnl_job_set_after(&w->job, barrier(w->after)));
		set_waits(w);
	}
}

static void set_last(struct work *w, unsigned key)
{
	if (w->way == ORDERED)
		w->last = &s.last_of_order[key % ORDERS];
	else if (w->way == KEYED && w->after < 0)
		w->last = &s.last_of_key[key][w->place + 1];
}

static void prepare(struct work *w, enum way way, unsigned how, struct work *before)
{
	static const enum act acts[] = { ACT_NOTHING, ACT_COPY, ACT_KERNEL, ACT_HOLD, ACT_POSITIVE,
					 ACT_FAIL, ACT_COPY, ACT_KERNEL };
	unsigned flags = 0;

	*w = (struct work){ .way = way, .act = acts[how & 7], .in = -1, .after = -1,
			    .place = -1, .before = before, .released_with = NOT_RELEASED,
			    .number = ++s.last_number };
	set_memory(w, how);
	must(!rnl_job_init(&w->job, way == TELLS_BARRIER && how & 1 ? NULL : work_fn));
	set_told(w, how);
	if (way == TELLS_BARRIER) {
		w->after = how >> 10 & 3;
		set_waits(w);
		return;
	}
	set_barriers(w, how);
	w->late = how >> 5 & how & 1;
	if (w->late)
		must(!rnl_job_set_deadline(&w->job, DEADLINE_NS));
	if (how >> 6 & 1)
		flags |= how >> 4 & 1 ? RNL_GATHER | RNL_REPLAY : RNL_GATHER;	/* with both: a group of its own */
	must(!rnl_job_set_flags(&w->job, flags));
	if (way < FOR_SPACE)
		class_set(w);
	if (how >> 13 & 3 && way != ORDERED && !before) {
		w->place = (int)((how >> 13 & 3) - 1) % (int)s.nr_devices;
		must(!rnl_job_set_device(&w->job, w->place));
	}
}

static void make_chain(struct work *const *chain, unsigned nr)
{
	for (unsigned i = 1; i < nr; i++) {
		must(!rnl_job_set_then(&chain[i - 1]->job, &chain[i]->job));
		chain[i]->waits[chain[i - 1] - s.works] = true;
	}
}

static int submit(struct work *w, unsigned key, unsigned how, bool waits)
{
	const int64_t ns = 200000;

	w->start_ns = rnl_clock() + (int64_t)(how >> 8) * 10000;
	switch (w->way) {
	case PLAIN:
		return waits ? rnl_submit_wait(s.pool, &w->job, ns) : rnl_submit(s.pool, &w->job);
	case KEYED:
		return waits ? submit_by_key_wait(s.pool, &w->job, key, ns) :
			       submit_by_key(s.pool, &w->job, key);
	case ORDERED:
		return waits ? submit_in_order_wait(&s.orders[key % ORDERS], &w->job, ns) :
			       submit_in_order(&s.orders[key % ORDERS], &w->job);
	case DELAYED:
		return submit_at(s.pool, &w->job, w->start_ns);
	case KEYED_DELAYED:
		return submit_by_key_at(s.pool, &w->job, key, w->start_ns);
	case FOR_SPACE:
		return submit_when(s.pool, &w->job, RNL_SPACE);
	case AT_EMPTY:
		return submit_when(s.pool, &w->job, RNL_EMPTY);
	case TELLS_BARRIER:
		return rnl_barrier_notify(barrier(w->after), &w->job);
	}
	return -EINVAL;
}

/* Returns true if only the job's class limits its submit. */
static bool is_limited_by_class(const struct work *w)
{
	return w->class && (w->way == PLAIN || w->way == DELAYED) && w->in < 0 && w->after < 0;
}

static void check_submit(const struct work *w, int ret, bool waits, bool alone)
{
	/* Also before it finds the pool closed. */
	if (ret == -ETIME)
		must(alone && class_may_refuse(w));
	else if (s.closed && w->way != AT_EMPTY)
		must(ret == -ESHUTDOWN || (s.lost && ret == -EIO));
	else
		must(ret == 0 || (ret == -EAGAIN && !waits) || (ret == -ETIMEDOUT && waits) ||
		     (s.lost && ret == -EIO));
	if (ret && ret != -ESHUTDOWN && ret != -ETIME && alone && !s.lost && is_limited_by_class(w))
		must(class_may_be_full(w));
	/* A round of a barrier may last for a moment after the notifications of its jobs. */
	if (ret == -EAGAIN || ret == -ETIMEDOUT)
		must(jobs_any(NULL) || s.others || w->after >= 0);
}

/* Chooses the jobs.  A closed pool gets an extra job: a job AT_EMPTY checks all other jobs. */
static unsigned choose(struct work **chain, enum way way, unsigned which, unsigned nr)
{
	unsigned nr_free = 0;

	if (s.closed && way != AT_EMPTY) {
		chain[0] = &s.works[JOBS];
		return 1;
	}
	if (way == AT_EMPTY || way == FOR_SPACE || way == TELLS_BARRIER)
		nr = 1;
	for (unsigned i = 0; i < JOBS && nr_free < nr; i++) {
		struct work *w = &s.works[(which + i) % JOBS];

		if (is_free(w) && (!s.closed || !w->number))
			chain[nr_free++] = w;
		else if (!i)
			return 0;
	}
	return nr_free;
}

/* Returns true if its callback may submit it again: no job checks its end, and it has no order. */
static bool may_come_again(const struct work *w)
{
	return w->notified == BY_CALLBACK && w->way == PLAIN && w->in < 0 && w->after < 0 &&
	       w->act != ACT_HOLD && w->act != ACT_FAIL;
}

static void was_submitted(struct work *w, bool accepted)
{
	w->owned = accepted;
	if (accepted) {
		atomic_fetch_add(&s.nr_accepted, 1);
		class_accepted(w);
		return;
	}
	must(!atomic_load(&w->nr_run) && !atomic_load(&w->nr_notified));
	w->number = 0;
}

/* @extra: the chain's length, and whether the submit waits for space. */
void jobs_submit(enum way way, unsigned which, unsigned how, unsigned extra)
{
	const unsigned key = which >> 6;
	const bool waits = extra >> 2 && way <= ORDERED;
	struct work *chain[CHAIN_MAX];
	unsigned nr = choose(chain, way, which % JOBS, 1 + (extra & 3));
	int ret;

	if (!nr)
		return;
	for (unsigned i = 0; i < nr; i++)
		prepare(chain[i], way, (how + i * 40503) & 0xffff, i ? chain[i - 1] : NULL);
	if (nr == 1 && may_come_again(chain[0]))
		atomic_store(&chain[0]->again, which >> 6);
	set_last(chain[0], key);
	make_chain(chain, nr);
	ret = submit(chain[0], key, how, waits);
	check_submit(chain[0], ret, waits, nr == 1);
	for (unsigned i = 0; i < nr; i++)
		was_submitted(chain[i], !ret);
}

void jobs_submit_many(unsigned which, unsigned how, unsigned nr)
{
	struct work *works[CHAIN_MAX];
	struct rnl_job *jobs[CHAIN_MAX];
	int ret;

	nr = choose(works, PLAIN, which % JOBS, nr);
	for (unsigned i = 0; i < nr; i++) {
		prepare(works[i], PLAIN, (how + i * 40503) & 0xffff, NULL);
		jobs[i] = &works[i]->job;
	}
	ret = rnl_submit_many(s.pool, jobs, nr);
	must(nr ? ret && ret <= (int)nr : !ret);
	if (nr)
		check_submit(works[0], ret < 0 ? ret : 0, false, true);
	for (unsigned i = 0; i < nr; i++)
		was_submitted(works[i], (int)i < ret);
}

/* ---- the end of jobs ----------------------------------------------------------------------- */

void jobs_cancel(struct work *w)
{
	int ret;

	if (!w->owned)
		return;
	ret = rnl_job_cancel(&w->job);
	must(ret == 0 || ret == -EBUSY || ret == -EALREADY);
	if (!ret) {
		must(!atomic_load(&w->nr_run) && w->way != TELLS_BARRIER);
		w->cancelled = true;
	}
}

void jobs_cancel_all(void)
{
	for (unsigned i = 0; i < JOBS; i++)
		s.works[i].may_cancel |= s.works[i].owned && s.works[i].way != TELLS_BARRIER;
	must(rnl_pool_cancel(s.pool) >= 0);
}

void pool_close(void)
{
	for (unsigned i = 0; i < JOBS; i++) {
		struct work *w = &s.works[i];

		while (w->before)	/* waits with the first job of its chain */
			w = w->before;
		s.works[i].may_cancel |= w->way >= DELAYED && w->way <= FOR_SPACE;
	}
	s.closed = true;
	must(!rnl_pool_close(s.pool));
}

void jobs_release(struct work *w, int result)
{
	const bool released = atomic_load(&w->released_with) != NOT_RELEASED;
	int ret;

	if (!atomic_load(&w->held))
		return;
	if (!released)
		atomic_store(&w->released_with, result);
	ret = rnl_hold_release(&w->hold, result);
	must(ret == 0 || ret == -EALREADY || ret == -ESTALE);
	must(ret == 0 ? !released : released || w->late);
}

void jobs_look(struct work *w)
{
	int done;

	if (!w->owned || w->notified == BY_QUEUE)
		return;		/* a job of a queue is owned until it is reaped */
	done = w->notified == BY_CALLBACK ? (int)atomic_load(&w->nr_notified) : is_done(&w->job);
	must(done == 0 || done == 1);
	if (done)
		work_ended(w);
}

void jobs_reap(void)
{
	struct rnl_job *jobs[8];
	int nr;

	do {
		nr = rnl_cq_reap(s.cq, jobs, 8, 0);
		must(nr >= 0);
		for (int i = 0; i < nr; i++) {
			struct work *w = rnl_container_of(jobs[i], struct work, job);

			must(w->notified == BY_QUEUE);
			work_ended(w);
		}
	} while (nr == 8);
}

void jobs_wait(struct work *w, int64_t ns)
{
	int ret;

	if (!w->owned || w->notified != BY_WAIT)
		return;
	ret = rnl_job_wait(&w->job, ns);
	must(ret == 0 || ret == -ETIMEDOUT);
	if (!ret)
		work_ended(w);
}
