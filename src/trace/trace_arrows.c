/* SPDX-License-Identifier: MIT */
/* Arrows of a trace: from submits to jobs, to waits; trace_arrows.h has the design. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/array.h"
#include "trace/trace.h"
#include "trace/trace_json.h"

#define SUBMIT_NS 1000u		/* the longest span of a submit */
#define JOINED_MAX 64		/* jobs that get an arrow to one wait */
#define JOBS_MAX (1u << 29)

/* A submit or a wait. */
struct item {
	uint64_t at;
	uint32_t tid;
	uint32_t index;		/* of a job: its submit; of a join, behind all jobs: the wait */
};

/* ---- noting -------------------------------------------------------------- */

static void note_job(struct rnl__trace_arrows *a, const struct rnl__track *track,
		     const struct rnl__track_record *r)
{
	struct rnl__trace_job *jobs = NULL;

	if (a->nr_jobs < JOBS_MAX)
		jobs = rnl__array_extend(a->jobs, a->nr_jobs, &a->max_jobs, sizeof(*jobs));
	if (!jobs) {
		a->lost++;
		return;
	}
	a->jobs = jobs;
	a->jobs[a->nr_jobs++] = (struct rnl__trace_job){
		.id = r->id, .queued = r->call.queued, .picked = r->call.picked,
		.job = r->call.job, .barrier = r->call.barrier,
		.producer = r->call.producer, .worker = (uint16_t)track->index,
	};
}

void rnl__trace_note(struct rnl__trace *t, const struct rnl__track *track,
		     const struct rnl__track_record *r)
{
	note_job(&t->arrows, track, r);
	if (!r->call.after)
		return;
	rnl__waits_add(t->pool, &(struct rnl__wait){
		.begin = r->call.picked, .end = r->call.picked, .what = r->call.after,
		.tid = track->tid, .of_job = true,
	});
}

/* ---- jobs and the waits for them ----------------------------------------- */

/* By a key, then by time. */
static int compare(uintptr_t x, uintptr_t y, uint64_t x_at, uint64_t y_at)
{
	return x != y ? (x > y) - (x < y) : (x_at > y_at) - (x_at < y_at);
}

static int by_barrier(const void *a, const void *b)
{
	const struct rnl__trace_job *x = *(struct rnl__trace_job *const *)a;
	const struct rnl__trace_job *y = *(struct rnl__trace_job *const *)b;

	return compare((uintptr_t)x->barrier, (uintptr_t)y->barrier, x->picked, y->picked);
}

static int by_job(const void *a, const void *b)
{
	const struct rnl__trace_job *x = *(struct rnl__trace_job *const *)a;
	const struct rnl__trace_job *y = *(struct rnl__trace_job *const *)b;

	return compare((uintptr_t)x->job, (uintptr_t)y->job, x->picked, y->picked);
}

static int by_what(const void *a, const void *b)
{
	const struct rnl__wait *x = a, *y = b;

	return compare((uintptr_t)x->what, (uintptr_t)y->what, x->end, y->end);
}

static const void *key_of(const struct rnl__trace_job *job, bool barrier)
{
	return barrier ? job->barrier : job->job;
}

/* How many of the sorted jobs come up to the last one that is of @what and was taken by @at. */
static size_t count_up_to(struct rnl__trace_job *const *jobs, size_t nr, bool barrier,
			  const void *what, uint64_t at)
{
	size_t low = 0, high = nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const void *key = key_of(jobs[middle], barrier);

		if ((uintptr_t)key < (uintptr_t)what || (key == what && jobs[middle]->picked <= at))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void put_flow(struct rnl__trace *t, char ph, uint64_t id, uint32_t tid, uint64_t at)
{
	at = at > t->start ? at - t->start : 0;
	rnl__trace_print(&t->file, ",\n{\"name\":\"flow\",\"cat\":\"flow\",\"ph\":\"%c\",\"id\":%"
			 PRIu64 ",\"pid\":%d,\"tid\":%" PRIu32 ",\"ts\":" RNL__TRACE_TIME "%s}", ph,
			 id, (int)getpid(), tid, rnl__trace_time(at),
			 ph == 'f' ? ",\"bp\":\"e\"" : "");
	rnl__trace_mark(&t->file);
}

/* When the wait before this one, for the same job or barrier, ended; 0: there was none. */
static uint64_t end_of_wait_before(const struct rnl__wait *waits, size_t i)
{
	for (size_t before = i; before--;) {
		if (waits[before].what != waits[i].what)
			break;
		if (waits[before].end <= waits[i].begin)
			return waits[before].end;
	}
	return 0;
}

/* Writes the arrows to waits for barriers, or else to waits for jobs. */
static void put_arrows_to_waits(struct rnl__trace *t, struct rnl__trace_job **jobs, bool barrier)
{
	struct rnl__trace_arrows *a = &t->arrows;
	int most = barrier ? JOINED_MAX : 1;

	qsort(jobs, a->nr_jobs, sizeof(struct rnl__trace_job *), barrier ? by_barrier : by_job);
	for (size_t i = 0; i < a->waits.nr; i++) {
		const struct rnl__wait *wait = &a->waits.list[i];
		uint64_t after = end_of_wait_before(a->waits.list, i);
		size_t n = count_up_to(jobs, a->nr_jobs, barrier, wait->what, wait->end);

		for (int nr = 0; nr < most && n--; nr++) {
			struct rnl__trace_job *job = jobs[n];

			if (key_of(job, barrier) != wait->what || job->picked <= after)
				break;
			if (!job->joined && job->queued)
				put_flow(t, 'f', job->id, wait->tid, wait->end);
			job->joined = true;
		}
	}
}

/* ---- tracks of threads that submit and wait ------------------------------- */

static bool is_worker(const struct rnl__trace *t, uint32_t tid)
{
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (t->tracks[i].tid == tid)
			return true;
	}
	return false;
}

static int by_thread(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return compare(x->tid, y->tid, x->at, y->at);
}

static size_t find_items(struct rnl__trace *t, struct item *items)
{
	const struct rnl__trace_arrows *a = &t->arrows;
	size_t nr = 0;

	for (size_t i = 0; i < a->nr_jobs; i++) {
		if (a->jobs[i].queued)
			items[nr++] = (struct item){ a->jobs[i].queued, a->jobs[i].producer,
						     (uint32_t)i };
	}
	for (size_t i = 0; i < a->waits.nr; i++) {
		if (!a->waits.list[i].of_job)
			items[nr++] = (struct item){ a->waits.list[i].begin, a->waits.list[i].tid,
						     (uint32_t)(a->nr_jobs + i) };
	}
	qsort(items, nr, sizeof(*items), by_thread);
	return nr;
}

static void put_span(struct rnl__trace *t, const char *name, uint32_t tid, uint64_t begin,
		     uint64_t end)
{
	rnl__trace_begin_span(t, name, name, tid, begin, end);
	rnl__trace_print(&t->file, "}");
	rnl__trace_mark(&t->file);
}

/*
 * Nothing was reserved for waits.  Without space for all of them, none is written, and no
 * arrow leads to one.
 */
static void make_space_for_waits(struct rnl__trace *t)
{
	if (rnl__trace_fits(&t->file, 0, t->arrows.waits.nr * RNL__TRACE_EVENT_MAX))
		return;
	t->arrows.lost += t->arrows.waits.nr;
	t->arrows.waits.nr = 0;
}

static void put_item(struct rnl__trace *t, const struct item *item, const struct item *next,
		     bool worker)
{
	const struct rnl__trace_arrows *a = &t->arrows;
	const struct rnl__trace_job *job;
	uint64_t end = item->at + SUBMIT_NS;

	if (item->index >= a->nr_jobs) {
		put_span(t, "wait", item->tid, item->at,
			 a->waits.list[item->index - a->nr_jobs].end);
		return;
	}
	t->file.reserved -= RNL__TRACE_ARROWS_MAX;
	job = &a->jobs[item->index];
	if (next && next->tid == item->tid && next->at < end)
		end = next->at;
	if (!worker)
		put_span(t, "submit", item->tid, item->at, end);
	put_flow(t, 's', job->id, item->tid, item->at);
	put_flow(t, job->joined ? 't' : 'f', job->id, t->tracks[job->worker].tid, job->picked);
}

static void put_items(struct rnl__trace *t, const struct item *items, size_t nr)
{
	bool worker = false;
	unsigned nr_names = 0;

	for (size_t i = 0; i < nr; i++) {
		if (!i || items[i].tid != items[i - 1].tid) {
			worker = is_worker(t, items[i].tid);
			if (!worker && (nr_names++ < RNL__TRACE_NAMES_MAX ||
					rnl__trace_fits(&t->file, RNL__TRACE_EVENT_MAX, 0)))
				rnl__trace_name_thread(t, items[i].tid);
		}
		put_item(t, &items[i], i + 1 < nr ? &items[i + 1] : NULL, worker);
	}
}

void rnl__trace_arrows(struct rnl__trace *t)
{
	struct rnl__trace_arrows *a = &t->arrows;
	struct rnl__trace_job **jobs = calloc(a->nr_jobs + 1, sizeof(struct rnl__trace_job *));
	struct item *items = calloc(a->nr_jobs + a->waits.nr + 1, sizeof(*items));

	a->lost += a->waits.lost;
	if (!jobs || !items) {
		a->lost += a->nr_jobs;
	} else {
		for (size_t i = 0; i < a->nr_jobs; i++)
			jobs[i] = &a->jobs[i];
		make_space_for_waits(t);
		if (a->waits.nr)
			qsort(a->waits.list, a->waits.nr, sizeof(*a->waits.list), by_what);
		put_arrows_to_waits(t, jobs, true);
		put_arrows_to_waits(t, jobs, false);
		put_items(t, items, find_items(t, items));
	}
	free(items);
	free(jobs);
	free(a->jobs);
	free(a->waits.list);
}
