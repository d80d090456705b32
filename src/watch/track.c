/* SPDX-License-Identifier: MIT */
/* A worker's notes on its jobs while a trace runs; track.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <runnel/trace.h>

#include "sys/clock.h"
#include "stream/job_flags.h"
#include "sys/sizes.h"
#include "sys/thread_state.h"
#include "watch/track.h"
#include "watch/track_time.h"

/* ---- the ring ------------------------------------------------------------ */

static void track_put(struct rnl__track *t, const struct rnl__track_record *record)
{
	uint64_t head = rnl__own_read(&t->head);

	/* [track.T2] acquire: a record is read before it is overwritten; pairs with [track.T1] */
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

const struct rnl__track_record *rnl__track_peek(struct rnl__track *t, uint64_t *nr)
{
	/* [track.H2] acquire: the counted records; pairs with [track.H1] */
	uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire);
	uint64_t from = rnl__own_read(&t->tail), at = from & (t->nr_records - 1), row = t->nr_records - at;

	*nr = head - from < row ? head - from : row;
	return &t->records[at];
}

void rnl__track_skip(struct rnl__track *t, uint64_t nr)
{
	uint64_t tail = rnl__own_read(&t->tail);

	/*
	 * [track.T1] release: the records are read before they are overwritten;
	 * pairs with [track.T2]
	 */
	atomic_store_explicit(&t->tail, tail + nr, memory_order_release);
}

/* ---- life ---------------------------------------------------------------- */

bool rnl__track_start(struct rnl__track *t)
{
	t->tid = rnl__thread_tid();
	t->jobs = calloc(t->limit, sizeof(*t->jobs));
	if (!t->jobs)
		t->error = -ENOMEM;
	else if (t->timing != RNL_TRACE_HOST)
		t->error = rnl__track_time_start(t);
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
		track_put(t, &(struct rnl__track_record){
			.id = j->id, .kind = RNL__TRACK_CUT,
			.done = { .issued = j->issued, .done = rnl__now() },
		});
		j->seq = 0;
	}
}

void rnl__track_free(struct rnl__track *t)
{
	for (unsigned i = 0; t->events && t->jobs && i < t->limit; i++) {
		struct rnl__track_job *j = &t->jobs[i];

		if (j->begin || j->end || j->nr_ops)
			rnl__track_time_put(t, j);
	}
	rnl__track_time_free(t);
	free(t->jobs);
}

/* ---- the tracks of a trace ----------------------------------------------- */

static void track_destroy(struct rnl__track *t)
{
	rnl__track_free(t);
	munmap(t->records, t->nr_records * sizeof(*t->records));
	free(t);
}

/* A page of the ring uses memory only once it is written. */
static struct rnl__track *track_create(struct rnl__tracks *tracks, const struct rnl__track *like)
{
	struct rnl__track *t = aligned_alloc(RNL__CACHE_LINE, sizeof(*t));

	if (!t)
		return NULL;
	*t = *like;
	t->timing = tracks->timing;
	t->limit = tracks->limit;
	t->nr_records = tracks->nr_records;
	t->records = mmap(NULL, t->nr_records * sizeof(*t->records), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t->records == MAP_FAILED) {
		free(t);
		return NULL;
	}
	if (rnl__track_start(t))
		return t;
	track_destroy(t);
	return NULL;
}

struct rnl__track *rnl__tracks_begin(struct rnl__tracks *tracks, const struct rnl__track *like)
{
	struct rnl__track *t = rnl__tracks_at(tracks, like->index);
	int none = 0, error;

	if (t) {
		rnl__figure_write(&tracks->tids[t->index], rnl__thread_tid());
		return t;
	}
	t = track_create(tracks, like);
	error = t ? t->error : -ENOMEM;
	if (error)
		/* relaxed: the command's latch publishes it */
		atomic_compare_exchange_strong_explicit(&tracks->error, &none, error,
							memory_order_relaxed, memory_order_relaxed);
	if (!t)
		return NULL;
	/* The trace's writer may look up which threads are workers. */
	rnl__figure_write(&tracks->tids[t->index], t->tid);
	/* [track.N1] release: the track, as it was made; pairs with [track.N2] */
	atomic_store_explicit(&tracks->of[t->index], t, memory_order_release);
	return t;
}

void rnl__tracks_free(struct rnl__tracks *tracks)
{
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		struct rnl__track *t = rnl__tracks_at(tracks, i);

		if (t)
			track_destroy(t);
	}
}

/* ---- jobs ---------------------------------------------------------------- */

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
	/* Later, the job's `seq` overwrites `submit_ns`, and its `holds` overwrites `producer`. */
	j->queued = queued(job);
	j->producer = producer(job);
	j->picked = rnl__now();
	j->staged = staged;
	j->nr_ops = 0;
	j->timed = false;
	t->now = j;
	if (!rnl__track_time_wanted(t, j->picked))
		return;
	/* If a timed job is right before this one on the stream, its end is this job's begin. */
	if (!t->tells && (!behind || t->last_seq + 1 != seq)) {
		j->begin = rnl__track_time_record(t);
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
	rnl__track_time_begin(t, j);
	j->at[0] = rnl__now();
}

void rnl__track_op(struct rnl__track *t, enum rnl__track_kind kind)
{
	struct rnl__track_job *j = t->now;
	struct rnl__event *event;

	/* The events of two jobs are kept for the next jobs. */
	if (!j || !j->timed || j->nr_ops == RNL__TRACK_OPS || t->nr_free < 4 || rnl__thread.guard)
		return;
	event = rnl__track_time_record(t);
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

/* Returns an id that no other record of the trace has. */
static uint64_t new_id(struct rnl__track *t)
{
	return t->nr_jobs++ * RNL_WORKERS_MAX + t->index + 1;
}

static struct rnl__track_record called(struct rnl__track *t, const struct rnl_job *job,
				       uint32_t class, uint32_t tid, int result)
{
	struct rnl__track_record r = {
		.id = new_id(t),
		.kind = RNL__TRACK_CALL,
		.call = {
			.fn = job->fn, .job = job, .barrier = job->barrier, .after = rnl__job_first_after(job),
			.producer = tid,
			.result = result, .class = class,
		},
	};

	if (job->flags & RNL__JOB_MORE)
		memcpy(r.call.trace_id, job->more->carried_id, sizeof(r.call.trace_id));
	return r;
}

/* Puts a call, and the further barriers that its job came after. */
static void track_put_call(struct rnl__track *t, const struct rnl_job *job, const struct rnl__track_record *r)
{
	track_put(t, r);
	for (unsigned i = 0; i < rnl__job_nr_more_after(job); i++)
		track_put(t, &(struct rnl__track_record){
			.kind = RNL__TRACK_AFTER, .after = { job->more->after[i].barrier, r->call.picked },
		});
}

void rnl__track_called(struct rnl__track *t, const struct rnl_job *job, uint32_t class,
		       uint64_t seq, uint64_t staged, int result)
{
	struct rnl__track_job *j = t->now;
	uint64_t issued = rnl__now();
	struct rnl__track_record r = called(t, job, class, j->producer, result);

	t->now = NULL;
	r.call.queued = j->queued;
	r.call.picked = j->picked;
	r.call.issued = issued;
	r.call.in_flight = seq;
	r.call.staged = staged - j->staged;
	track_put_call(t, job, &r);
	j->seq = seq;
	j->id = r.id;
	j->issued = issued;
	if (!j->timed)
		return;
	t->tells = j->at[0];
	if (seq)
		j->end = rnl__track_time_record(t);
	if (j->end)
		t->last_seq = seq;
	else
		rnl__track_time_put(t, j);
	j->timed = j->end;
	if (t->timing != RNL_TRACE_SOME)
		return;
	rnl__track_time_spend(t, issued, rnl__now());
	if (j->begin)		/* to record the begin took as long */
		rnl__track_time_spend(t, issued, rnl__now());
}

void rnl__track_unrun(struct rnl__track *t, const struct rnl_job *job, uint32_t class, int result)
{
	struct rnl__track_record r = called(t, job, class, producer(job), result);

	r.call.queued = queued(job);
	r.call.picked = r.call.issued = rnl__now();
	track_put_call(t, job, &r);
}

void rnl__track_back(struct rnl__track *t, void (*fn)(struct rnl_job *job), uint64_t begin)
{
	track_put(t, &(struct rnl__track_record){
		.kind = RNL__TRACK_BACK, .back = { fn, begin, rnl__now() },
	});
}

void rnl__track_held(struct rnl__track *t, int (*fn)(struct rnl_job *job), uint64_t begin)
{
	track_put(t, &(struct rnl__track_record){
		.id = new_id(t), .kind = RNL__TRACK_HELD, .held = { fn, begin, rnl__now() },
	});
}

void rnl__track_found(struct rnl__track *t, void (*fn)(void), unsigned what)
{
	track_put(t, &(struct rnl__track_record){
		.kind = RNL__TRACK_FOUND, .found = { fn, rnl__now(), what },
	});
}

/* Puts a job's operations, one after the other, within the job's own time. */
static void put_ops(struct rnl__track *t, struct rnl__track_job *j, uint64_t begin, uint64_t end)
{
	for (unsigned i = 0; i < j->nr_ops; i++) {
		uint64_t until;

		if (!rnl__track_time_of(t, j->ops[i], &until))
			continue;
		begin = rnl__smaller(rnl__larger(begin, j->at[i]), end);
		until = rnl__smaller(rnl__larger(until, begin), end);
		track_put(t, &(struct rnl__track_record){
			.id = j->id, .kind = j->kinds[i], .op = { begin, until },
		});
		begin = until;
	}
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
		rnl__track_time_read(t, j, r.done.done, &r.done.begin, &r.done.end);
		/* The job's span comes before the spans inside it. */
		track_put(t, &r);
		if (r.done.end) {
			put_ops(t, j, r.done.begin, r.done.end);
			rnl__track_time_move(t, j, r.done.end);
		}
		if (t->timing == RNL_TRACE_SOME)
			rnl__track_time_spend(t, r.done.done, rnl__now());
	} else {
		track_put(t, &r);
	}
	rnl__track_time_put(t, j);
}
