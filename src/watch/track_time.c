/* SPDX-License-Identifier: MIT */
/* The times of jobs' work on the device; track_time.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include <runnel/trace.h>

#include "sys/clock.h"
#include "sys/sizes.h"
#include "watch/track_time.h"

#define SHARE 20u		/* timing may take one part in 20 of a worker's time */
#define COST_MAX_NS 50000u	/* most that counts for one job: more was an interruption */
#define EVENTS_MAX 512u
#define BASE_NS 1000000000ull	/* the oldest age of the clock's base */
#define BASE_TRIES 4

/* ---- the clock ----------------------------------------------------------- */

/* Makes a base: an event that the host waits for, so its time is known within half of the wait. */
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

bool rnl__track_time_of(struct rnl__track *t, struct rnl__event *event, uint64_t *ns)
{
	int64_t elapsed;

	if (t->device->ops->event_elapsed(t->exact ? NULL : t->base, event, &elapsed))
		return false;
	*ns = t->exact ? (uint64_t)elapsed : t->base_ns + (uint64_t)elapsed;
	return true;
}

/* ---- events -------------------------------------------------------------- */

struct rnl__event *rnl__track_time_record(struct rnl__track *t)
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

void rnl__track_time_begin(struct rnl__track *t, struct rnl__track_job *j)
{
	if (!j->begin) {
		j->begin = rnl__track_time_record(t);
	} else if (t->device->ops->event_record(j->begin)) {
		put_event(t, j->begin);
		j->begin = NULL;
	}
}

void rnl__track_time_put(struct rnl__track *t, struct rnl__track_job *j)
{
	put_event(t, j->begin);
	put_event(t, j->end);
	for (unsigned i = 0; i < j->nr_ops; i++)
		put_event(t, j->ops[i]);
	j->begin = j->end = NULL;
	j->nr_ops = 0;
}

void rnl__track_time_spend(struct rnl__track *t, uint64_t from, uint64_t to)
{
	const uint64_t cost = rnl__smaller(to - from, COST_MAX_NS);

	if (t->nr_jobs < RNL__TRACK_FIRST)
		return;
	if (t->next_timed < to)
		t->next_timed = to;
	t->next_timed += (SHARE - 1) * cost;
}

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

int rnl__track_time_start(struct rnl__track *t)
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

void rnl__track_time_free(struct rnl__track *t)
{
	while (t->nr_free)
		t->device->ops->event_destroy(t->events[--t->nr_free]);
	if (t->base)
		t->device->ops->event_destroy(t->base);
	free(t->events);
}

/* ---- jobs ---------------------------------------------------------------- */

bool rnl__track_time_wanted(const struct rnl__track *t, uint64_t now)
{
	return t->timing == RNL_TRACE_EVERY ||
	       (t->timing == RNL_TRACE_SOME && (t->nr_jobs < RNL__TRACK_FIRST || now >= t->next_timed));
}

/* Moves the base if a job begins before its function, or ends after the worker saw it done. */
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
	return rnl__smaller(rnl__larger(x, low), high);
}

void rnl__track_time_read(struct rnl__track *t, struct rnl__track_job *j, uint64_t done,
			  uint64_t *begin, uint64_t *end)
{
	uint64_t from = t->last_end, to, earliest = j->picked;

	if (!rnl__track_time_of(t, j->end, &to) ||
	    (j->begin && !rnl__track_time_of(t, j->begin, &from)))
		return;
	fit(t, j->begin ? from : j->picked, to, j->picked, done);
	if (!rnl__track_time_of(t, j->end, &to) ||
	    (j->begin && !rnl__track_time_of(t, j->begin, &from)))
		return;
	if (j->at[0])
		earliest = j->at[0];
	/* A stream runs its jobs one after the other. */
	if (earliest < t->last_end)
		earliest = t->last_end;
	*begin = between(from, earliest, done);
	*end = between(to, *begin, done);
	t->last_end = *end;
}

void rnl__track_time_move(struct rnl__track *t, struct rnl__track_job *j, uint64_t end)
{
	struct rnl__event *base = t->base;

	if (t->exact || end < t->base_ns + BASE_NS)
		return;
	t->base = j->end;
	t->base_ns = end;
	j->end = base;
}
