/* SPDX-License-Identifier: MIT */
/* What a worker notes of its jobs while a trace runs; track.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "job.h"
#include "self.h"
#include "track.h"

#define SHARE 20u		/* timing takes a worker one part in so many of its time ... */
#define COST_MAX_NS 50000u	/* ... in which it was not interrupted for longer than this */
#define EVENTS_MAX 512u
#define BASE_NS 1000000000ull	/* how old the base of the clock gets */
#define BASE_TRIES 4

/* ---- the ring ------------------------------------------------------------ */

static void put(struct rnl__track *t, const struct rnl__record *record)
{
	/* relaxed: ours */
	uint64_t head = atomic_load_explicit(&t->head, memory_order_relaxed);

	/* [track.T2] acquire: it was read before it is written over; pairs with [track.T1] */
	if (head - atomic_load_explicit(&t->tail, memory_order_acquire) == t->nr_records) {
		rnl__count(&t->dropped, 1);
		rnl__count(t->dropped_ever, 1);
		return;
	}
	t->records[head & (t->nr_records - 1)] = *record;
	/* [track.H1] release: the record, to who sees the count; pairs with [track.H2] */
	atomic_store_explicit(&t->head, head + 1, memory_order_release);
}

const struct rnl__record *rnl__track_peek(struct rnl__track *t, uint64_t *nr)
{
	/* relaxed: the reader's own */
	uint64_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed);
	/* [track.H2] acquire: the records that it counts; pairs with [track.H1] */
	uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire);
	uint64_t at = tail & (t->nr_records - 1), row = t->nr_records - at;

	*nr = head - tail < row ? head - tail : row;
	return &t->records[at];
}

void rnl__track_skip(struct rnl__track *t, uint64_t nr)
{
	/* relaxed: the reader's own */
	uint64_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed);

	/* [track.T1] release: they were read before they are written over; pairs with [track.T2] */
	atomic_store_explicit(&t->tail, tail + nr, memory_order_release);
}

/* ---- the clock ----------------------------------------------------------- */

/* Whose base is an event that was waited for: right to half of how long that took. */
static int find_base(struct rnl__track *t)
{
	const struct rnl__device_ops *ops = t->device->ops;
	struct rnl__event *event = t->events[t->nr_free - 1];
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < BASE_TRIES; i++) {
		uint64_t before = rnl__now(), after;
		int ret = ops->event_record(event);

		if (!ret)
			ret = ops->wait(RNL__NEVER);
		if (ret)
			return ret;
		after = rnl__now();
		if (after - before >= best)
			continue;
		best = after - before;
		t->base_ns = before + best / 2;
		t->events[t->nr_free - 1] = t->base;
		t->base = event;
		event = t->events[t->nr_free - 1];
	}
	t->based = rnl__now();
	return 0;
}

void rnl__track_idle(struct rnl__track *t, uint64_t now)
{
	if (!t->base || t->exact || now - t->based < BASE_NS || !t->nr_free)
		return;
	/* One that fails leaves the base as it was. */
	(void)find_base(t);
}

/* When an event was reached, by the host's clock; false: it does not say. */
static bool when(struct rnl__track *t, struct rnl__event *event, uint64_t *ns)
{
	int64_t elapsed;

	if (t->device->ops->event_elapsed(t->exact ? NULL : t->base, event, &elapsed))
		return false;
	*ns = t->exact ? (uint64_t)elapsed : t->base_ns + (uint64_t)elapsed;
	return true;
}

/* ---- events -------------------------------------------------------------- */

static struct rnl__event *record(struct rnl__track *t)
{
	struct rnl__event *event;

	if (!t->nr_free)
		return NULL;
	event = t->events[t->nr_free - 1];
	if (t->device->ops->event_record(event))
		return NULL;
	t->nr_free--;
	return event;
}

static void let_go(struct rnl__track *t, struct rnl__event *event)
{
	if (event)
		t->events[t->nr_free++] = event;
}

static void let_go_begin(struct rnl__track *t, struct rnl__track_job *j)
{
	let_go(t, j->begin);
	j->begin = NULL;
}

static void let_all_go(struct rnl__track *t, struct rnl__track_job *j)
{
	let_go(t, j->begin);
	let_go(t, j->end);
	for (unsigned i = 0; i < j->nr_ops; i++)
		let_go(t, j->ops[i]);
	j->begin = j->end = NULL;
	j->nr_ops = 0;
}

/* The share of time that timing may take puts off the next one. */
static void spend(struct rnl__track *t, uint64_t from, uint64_t to)
{
	uint64_t cost = to - from < COST_MAX_NS ? to - from : COST_MAX_NS;

	if (t->next_timed < to)
		t->next_timed = to;
	t->next_timed += (SHARE - 1) * cost;
}

/* ---- life ---------------------------------------------------------------- */

static int make_events(struct rnl__track *t)
{
	unsigned nr = 4 * t->limit + RNL__TRACK_OPS;
	int ret = 0;

	nr = nr < EVENTS_MAX ? nr : EVENTS_MAX;
	t->events = calloc(nr, sizeof(struct rnl__event *));
	if (!t->events)
		return -ENOMEM;
	while (t->nr_events < nr && !ret) {
		ret = rnl__device_event(t->device, true, &t->events[t->nr_events]);
		t->nr_events += !ret;
	}
	t->nr_free = t->nr_events;
	return ret;
}

static int start_timing(struct rnl__track *t)
{
	int64_t now;
	int ret = make_events(t);

	if (ret)
		return ret;
	t->base = t->events[--t->nr_free];
	ret = find_base(t);
	if (!ret)
		t->exact = !t->device->ops->event_elapsed(NULL, t->base, &now);
	return ret;
}

void rnl__track_start(struct rnl__track *t)
{
	t->tid = rnl__self_tid();
	t->jobs = calloc(t->limit, sizeof(*t->jobs));
	if (!t->jobs)
		t->error = -ENOMEM;
	else if (t->timing != RNL_TRACE_HOST)
		t->error = start_timing(t);
	if (t->error)
		t->timing = RNL_TRACE_HOST;
}

void rnl__track_stop(struct rnl__track *t, const struct rnl_job *first)
{
	for (; first && t->jobs; first = first->link) {
		struct rnl__track_job *j = &t->jobs[first->number % t->limit];

		if (j->number != first->number)
			continue;
		put(t, &(struct rnl__record){
			.id = j->id, .kind = RNL__TRACK_CUT, .done = { .issued = j->issued },
		});
		j->number = 0;
	}
}

static void destroy(struct rnl__track *t, struct rnl__event *event)
{
	if (event)
		t->device->ops->event_destroy(event);
}

void rnl__track_free(struct rnl__track *t)
{
	for (unsigned i = 0; t->events && t->jobs && i < t->limit; i++) {
		struct rnl__track_job *j = &t->jobs[i];

		if (j->begin || j->end || j->nr_ops)
			let_all_go(t, j);
	}
	while (t->nr_free)
		destroy(t, t->events[--t->nr_free]);
	destroy(t, t->base);
	free(t->events);
	free(t->jobs);
}

/* ---- jobs ---------------------------------------------------------------- */

static bool wants_time(const struct rnl__track *t, uint64_t now)
{
	return t->timing == RNL_TRACE_EVERY ||
	       (t->timing == RNL_TRACE_SOME && now >= t->next_timed);
}

static uint64_t queued(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_TRACED ? job->stamp_ns : 0;
}

void rnl__track_begin(struct rnl__track *t, const struct rnl_job *job, uint64_t number,
		      uint64_t staged, bool behind)
{
	struct rnl__track_job *j = &t->jobs[number % t->limit];

	j->number = 0;
	j->fn = job->fn;
	j->queued = queued(job);	/* one that is timed has its stamp moved */
	j->picked = rnl__now();
	j->staged = staged;
	j->nr_ops = 0;
	j->timed = false;
	t->now = j;
	if (!wants_time(t, j->picked))
		return;
	/* What is right before it on the stream may tell when it begins. */
	if (!t->tells && (!behind || t->last_number + 1 != number)) {
		j->begin = record(t);
		if (!j->begin)
			return;
	}
	j->at[0] = 0;
	j->timed = true;
}

void rnl__track_issue(struct rnl__track *t)
{
	struct rnl__track_job *j = t->now;

	if (!j || !j->timed || j->nr_ops == RNL__TRACK_OPS || rnl__self.guard)
		return;
	if (j->at[0] || j->nr_ops) {
		j->at[j->nr_ops] = rnl__now();
		return;
	}
	if (!j->begin)
		j->begin = record(t);
	else if (t->device->ops->event_record(j->begin))
		let_go_begin(t, j);
	j->at[0] = rnl__now();
}

void rnl__track_op(struct rnl__track *t, enum rnl__track_kind kind)
{
	struct rnl__track_job *j = t->now;
	struct rnl__event *event;

	/* Those of two jobs are kept for what follows. */
	if (!j || !j->timed || j->nr_ops == RNL__TRACK_OPS || t->nr_free < 4 || rnl__self.guard)
		return;
	event = record(t);
	if (!event)
		return;
	j->ops[j->nr_ops] = event;
	j->kinds[j->nr_ops++] = (uint8_t)kind;
}

void rnl__track_copy(struct rnl__track *t, const struct rnl__copy *c)
{
	const struct rnl__device *device = t->device;

	if (t->now && t->now->timed && !rnl__self.guard)
		rnl__track_op(t, device->ops->kind_of(t->device, c->dst) == RNL__DEVICE ?
			      RNL__TRACK_IN : RNL__TRACK_OUT);
}

static struct rnl__record called(struct rnl__track *t, const struct rnl_job *job, int result)
{
	return (struct rnl__record){
		.id = t->nr_jobs++ * RNL_WORKERS_MAX + t->index + 1,
		.kind = RNL__TRACK_CALL,
		.call = {
			.fn = job->fn, .job = job, .barrier = job->barrier, .after = job->after,
			.producer = job->flags & RNL__JOB_TRACED ? job->producer : 0,
			.result = result,
		},
	};
}

void rnl__track_called(struct rnl__track *t, const struct rnl_job *job, uint64_t number,
		       uint64_t staged, int result)
{
	struct rnl__track_job *j = t->now;
	uint64_t issued = rnl__now();
	struct rnl__record r = called(t, job, result);

	t->now = NULL;
	r.call.queued = j->queued;
	r.call.picked = j->picked;
	r.call.issued = issued;
	r.call.in_flight = number;
	r.call.staged = staged - j->staged;
	put(t, &r);
	j->number = number;
	j->id = r.id;
	j->issued = issued;
	if (!j->timed)
		return;
	t->tells = j->at[0];
	if (number)
		j->end = record(t);
	if (j->end)
		t->last_number = number;
	else
		let_all_go(t, j);
	j->timed = j->end;
	if (t->timing != RNL_TRACE_SOME)
		return;
	spend(t, issued, rnl__now());
	if (j->begin)		/* as much again, before the call */
		spend(t, issued, rnl__now());
}

void rnl__track_unrun(struct rnl__track *t, const struct rnl_job *job, int result)
{
	struct rnl__record r = called(t, job, result);

	r.call.queued = queued(job);
	r.call.picked = r.call.issued = rnl__now();
	put(t, &r);
}

void rnl__track_back(struct rnl__track *t, void (*fn)(struct rnl_job *job), uint64_t begin)
{
	put(t, &(struct rnl__record){
		.kind = RNL__TRACK_BACK, .back = { fn, begin, rnl__now() },
	});
}

void rnl__track_found(struct rnl__track *t, void (*fn)(void), unsigned what)
{
	put(t, &(struct rnl__record){
		.kind = RNL__TRACK_FOUND, .found = { fn, rnl__now(), what },
	});
}

/* Where the clocks say what cannot be, it is the device's that is moved. */
static void fit(struct rnl__track *t, uint64_t begin, uint64_t end, uint64_t picked, uint64_t done)
{
	if (t->exact)
		return;
	if (end > done)
		t->base_ns -= end - done;
	else if (begin < picked)
		t->base_ns += picked - begin < done - end ? picked - begin : done - end;
}

static uint64_t between(uint64_t x, uint64_t low, uint64_t high)
{
	x = x < low ? low : x;
	return x > high ? high : x;
}

/* Its operations come one after the other, and fill no more than its own time. */
static void put_ops(struct rnl__track *t, struct rnl__track_job *j, uint64_t begin, uint64_t end)
{
	for (unsigned i = 0; i < j->nr_ops; i++) {
		uint64_t until;

		if (!when(t, j->ops[i], &until))
			continue;
		begin = between(begin, j->at[i], end);
		until = between(until, begin, end);
		put(t, &(struct rnl__record){
			.id = j->id, .kind = j->kinds[i], .op = { begin, until },
		});
		begin = until;
	}
}

static void read_times(struct rnl__track *t, struct rnl__track_job *j, uint64_t done,
		       uint64_t *begin, uint64_t *end)
{
	uint64_t from = t->last_end, to, earliest = j->picked;

	if (!when(t, j->end, &to) || (j->begin && !when(t, j->begin, &from)))
		return;
	fit(t, j->begin ? from : j->picked, to, j->picked, done);
	if (!when(t, j->end, &to) || (j->begin && !when(t, j->begin, &from)))
		return;
	if (j->at[0])
		earliest = j->at[0];
	/* A stream does one after the other. */
	if (earliest < t->last_end)
		earliest = t->last_end;
	*begin = between(from, earliest, done);
	*end = between(to, *begin, done);
	t->last_end = *end;
}

/* Counts from a later event, before the count gets coarse. */
static void move_base(struct rnl__track *t, struct rnl__track_job *j, uint64_t end)
{
	struct rnl__event *base = t->base;

	if (t->exact || end < t->base_ns + BASE_NS)
		return;
	t->base = j->end;
	t->base_ns = end;
	j->end = base;
}

void rnl__track_done(struct rnl__track *t, uint64_t number, bool passed)
{
	struct rnl__track_job *j = &t->jobs[number % t->limit];
	struct rnl__record r = { .id = j->id, .kind = RNL__TRACK_DONE };

	if (j->number != number)
		return;
	j->number = 0;
	r.done.fn = j->fn;
	r.done.issued = j->issued;
	r.done.done = rnl__now();
	if (j->timed && passed) {
		read_times(t, j, r.done.done, &r.done.begin, &r.done.end);
		/* The job's span comes before those in it. */
		put(t, &r);
		if (r.done.end) {
			put_ops(t, j, r.done.begin, r.done.end);
			move_base(t, j, r.done.end);
		}
		if (t->timing == RNL_TRACE_SOME)
			spend(t, r.done.done, rnl__now());
	} else {
		put(t, &r);
	}
	let_all_go(t, j);
}
