/* SPDX-License-Identifier: MIT */
/* What a worker notes of its jobs while a trace runs; track.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/clock.h"
#include "stream/job_flags.h"
#include "pool/track.h"
#include "sys/thread_state.h"

#define SHARE 20u		/* timing may take one part in 20 of a worker's time ... */
#define COST_MAX_NS 50000u	/* ... where more than this for one job counts as an interruption */
#define EVENTS_MAX 512u
#define BASE_NS 1000000000ull	/* the base of the clock gets no older */
#define BASE_TRIES 4

/* ---- the ring ------------------------------------------------------------ */

static void put(struct rnl__track *t, const struct rnl__track_record *record)
{
	uint64_t head = rnl__own_read(&t->head);

	/* [track.T2] acquire: a record was read before it is written over; pairs with [track.T1] */
	if (head - atomic_load_explicit(&t->tail, memory_order_acquire) == t->nr_records) {
		rnl__figure_add(&t->dropped, 1);
		rnl__figure_add(t->dropped_ever, 1);
		return;
	}
	t->records[head & (t->nr_records - 1)] = *record;
	/*
	 * [track.H1] release: a reader that sees the count sees the record; pairs with [track.H2]
	 */
	atomic_store_explicit(&t->head, head + 1, memory_order_release);
}

/* The records from the @from-th on, @nr in a row. */
static const struct rnl__track_record *peek_from(struct rnl__track *t, uint64_t from, uint64_t *nr)
{
	/* [track.H2] acquire: the records that the count has; pairs with [track.H1] */
	uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire);
	uint64_t at = from & (t->nr_records - 1), row = t->nr_records - at;

	*nr = head - from < row ? head - from : row;
	return &t->records[at];
}

const struct rnl__track_record *rnl__track_peek(struct rnl__track *t, uint64_t *nr)
{
	return peek_from(t, rnl__own_read(&t->tail), nr);
}

const struct rnl__track_record *rnl__track_count(struct rnl__track *t, uint64_t *nr)
{
	const struct rnl__track_record *records = peek_from(t, t->counted, nr);

	t->counted += *nr;
	return records;
}

void rnl__track_skip(struct rnl__track *t, uint64_t nr)
{
	uint64_t tail = rnl__own_read(&t->tail);

	/*
	 * [track.T1] release: the records were read before they are written over;
	 * pairs with [track.T2]
	 */
	atomic_store_explicit(&t->tail, tail + nr, memory_order_release);
}

/* ---- the clock ----------------------------------------------------------- */

/* Makes a base: an event that the host waits for, so its time is right to half of the wait. */
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
	/* A failure leaves the base as it was. */
	(void)find_base(t);
}

/* When an event was reached, by the host's clock; false: the device does not say. */
static bool time_of(struct rnl__track *t, struct rnl__event *event, uint64_t *ns)
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

static void put_event(struct rnl__track *t, struct rnl__event *event)
{
	if (event)
		t->events[t->nr_free++] = event;
}

static void put_begin(struct rnl__track *t, struct rnl__track_job *j)
{
	put_event(t, j->begin);
	j->begin = NULL;
}

static void put_events(struct rnl__track *t, struct rnl__track_job *j)
{
	put_event(t, j->begin);
	put_event(t, j->end);
	for (unsigned i = 0; i < j->nr_ops; i++)
		put_event(t, j->ops[i]);
	j->begin = j->end = NULL;
	j->nr_ops = 0;
}

/* Timing took from @from to @to: the next timed job comes when that is one part in SHARE. */
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

bool rnl__track_start(struct rnl__track *t)
{
	/* The trace's writer may look which threads are workers. */
	rnl__figure_write(rnl__atomic(&t->tid), rnl__thread_tid());
	t->jobs = calloc(t->limit, sizeof(*t->jobs));
	if (!t->jobs)
		t->error = -ENOMEM;
	else if (t->timing != RNL_TRACE_HOST)
		t->error = start_timing(t);
	if (t->error)
		t->timing = RNL_TRACE_HOST;
	return t->jobs != NULL;
}

void rnl__track_stop(struct rnl__track *t, const struct rnl_job *first)
{
	for (; first; first = first->link) {
		struct rnl__track_job *j = &t->jobs[first->seq % t->limit];

		if (j->seq != first->seq)
			continue;
		put(t, &(struct rnl__track_record){
			.id = j->id, .kind = RNL__TRACK_CUT,
			.done = { .issued = j->issued, .done = rnl__now() },
		});
		j->seq = 0;
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
			put_events(t, j);
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
	return job->flags & RNL__JOB_TRACED ? job->submit_ns : 0;
}

static uint32_t producer(const struct rnl_job *job)
{
	return job->flags & RNL__JOB_TRACED ? job->producer : 0;
}

void rnl__track_begin(struct rnl__track *t, const struct rnl_job *job, uint64_t seq,
		      uint64_t staged, bool behind)
{
	struct rnl__track_job *j = &t->jobs[seq % t->limit];

	j->seq = 0;
	j->fn = job->fn;
	/* In a job, return_ns takes the place of the first, and `holds` that of the second. */
	j->queued = queued(job);
	j->producer = producer(job);
	j->picked = rnl__now();
	j->staged = staged;
	j->nr_ops = 0;
	j->timed = false;
	t->now = j;
	if (!wants_time(t, j->picked))
		return;
	/* The end of a timed job right before it on the stream is its begin. */
	if (!t->tells && (!behind || t->last_seq + 1 != seq)) {
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

	if (!j || !j->timed || j->nr_ops == RNL__TRACK_OPS || rnl__thread.guard)
		return;
	if (j->at[0] || j->nr_ops) {
		j->at[j->nr_ops] = rnl__now();
		return;
	}
	if (!j->begin)
		j->begin = record(t);
	else if (t->device->ops->event_record(j->begin))
		put_begin(t, j);
	j->at[0] = rnl__now();
}

void rnl__track_op(struct rnl__track *t, enum rnl__track_kind kind)
{
	struct rnl__track_job *j = t->now;
	struct rnl__event *event;

	/* The events of two jobs are kept for the jobs that follow. */
	if (!j || !j->timed || j->nr_ops == RNL__TRACK_OPS || t->nr_free < 4 || rnl__thread.guard)
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

	if (t->now && t->now->timed && !rnl__thread.guard)
		rnl__track_op(t, device->ops->kind_of(t->device, c->dst) == RNL__DEVICE ?
			      RNL__TRACK_IN : RNL__TRACK_OUT);
}

/* An id that no other record of the trace has. */
static uint64_t new_id(struct rnl__track *t)
{
	return t->nr_jobs++ * RNL_WORKERS_MAX + t->index + 1;
}

static struct rnl__track_record called(struct rnl__track *t, const struct rnl_job *job, uint32_t tid,
				 int result)
{
	return (struct rnl__track_record){
		.id = new_id(t),
		.kind = RNL__TRACK_CALL,
		.call = {
			.fn = job->fn, .job = job, .barrier = job->barrier, .after = job->after,
			.producer = tid,
			.result = result,
		},
	};
}

void rnl__track_called(struct rnl__track *t, const struct rnl_job *job, uint64_t seq,
		       uint64_t staged, int result)
{
	struct rnl__track_job *j = t->now;
	uint64_t issued = rnl__now();
	struct rnl__track_record r = called(t, job, j->producer, result);

	t->now = NULL;
	r.call.queued = j->queued;
	r.call.picked = j->picked;
	r.call.issued = issued;
	r.call.in_flight = seq;
	r.call.staged = staged - j->staged;
	put(t, &r);
	j->seq = seq;
	j->id = r.id;
	j->issued = issued;
	if (!j->timed)
		return;
	t->tells = j->at[0];
	if (seq)
		j->end = record(t);
	if (j->end)
		t->last_seq = seq;
	else
		put_events(t, j);
	j->timed = j->end;
	if (t->timing != RNL_TRACE_SOME)
		return;
	spend(t, issued, rnl__now());
	if (j->begin)		/* the begin took as much, before the call */
		spend(t, issued, rnl__now());
}

void rnl__track_unrun(struct rnl__track *t, const struct rnl_job *job, int result)
{
	struct rnl__track_record r = called(t, job, producer(job), result);

	r.call.queued = queued(job);
	r.call.picked = r.call.issued = rnl__now();
	put(t, &r);
}

void rnl__track_back(struct rnl__track *t, void (*fn)(struct rnl_job *job), uint64_t begin)
{
	put(t, &(struct rnl__track_record){
		.kind = RNL__TRACK_BACK, .back = { fn, begin, rnl__now() },
	});
}

void rnl__track_held(struct rnl__track *t, int (*fn)(struct rnl_job *job), uint64_t begin)
{
	put(t, &(struct rnl__track_record){
		.id = new_id(t), .kind = RNL__TRACK_HELD, .held = { fn, begin, rnl__now() },
	});
}

void rnl__track_found(struct rnl__track *t, void (*fn)(void), unsigned what)
{
	put(t, &(struct rnl__track_record){
		.kind = RNL__TRACK_FOUND, .found = { fn, rnl__now(), what },
	});
}

/* Moves the base if a job's times are before its function, or after it was seen done. */
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

/* Puts a job's operations: one after the other, within the job's own time. */
static void put_ops(struct rnl__track *t, struct rnl__track_job *j, uint64_t begin, uint64_t end)
{
	for (unsigned i = 0; i < j->nr_ops; i++) {
		uint64_t until;

		if (!time_of(t, j->ops[i], &until))
			continue;
		begin = between(begin, j->at[i], end);
		until = between(until, begin, end);
		put(t, &(struct rnl__track_record){
			.id = j->id, .kind = j->kinds[i], .op = { begin, until },
		});
		begin = until;
	}
}

static void read_times(struct rnl__track *t, struct rnl__track_job *j, uint64_t done,
		       uint64_t *begin, uint64_t *end)
{
	uint64_t from = t->last_end, to, earliest = j->picked;

	if (!time_of(t, j->end, &to) || (j->begin && !time_of(t, j->begin, &from)))
		return;
	fit(t, j->begin ? from : j->picked, to, j->picked, done);
	if (!time_of(t, j->end, &to) || (j->begin && !time_of(t, j->begin, &from)))
		return;
	if (j->at[0])
		earliest = j->at[0];
	/* A stream runs one job after the other. */
	if (earliest < t->last_end)
		earliest = t->last_end;
	*begin = between(from, earliest, done);
	*end = between(to, *begin, done);
	t->last_end = *end;
}

/* Makes a later event the base, before the float that counts from it gets coarse. */
static void move_base(struct rnl__track *t, struct rnl__track_job *j, uint64_t end)
{
	struct rnl__event *base = t->base;

	if (t->exact || end < t->base_ns + BASE_NS)
		return;
	t->base = j->end;
	t->base_ns = end;
	j->end = base;
}

void rnl__track_done(struct rnl__track *t, uint64_t seq, bool passed)
{
	struct rnl__track_job *j = &t->jobs[seq % t->limit];
	struct rnl__track_record r = { .id = j->id, .kind = RNL__TRACK_DONE };

	if (j->seq != seq)
		return;
	j->seq = 0;
	r.done.fn = j->fn;
	r.done.issued = j->issued;
	r.done.done = rnl__now();
	if (j->timed && passed) {
		read_times(t, j, r.done.done, &r.done.begin, &r.done.end);
		/* The job's span comes before the spans in it. */
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
	put_events(t, j);
}
