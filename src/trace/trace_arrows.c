/* SPDX-License-Identifier: MIT */
/* Arrows of a trace, from submits to jobs and from jobs to waits; trace_arrows.h has the design. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sys/array.h"
#include "trace/trace.h"
#include "trace/trace_json.h"

/* Length of a submit's span: shorter than a submit takes, so spans of a thread do not overlap. */
#define SUBMIT_NS 10u
#define JOINED_MAX 64		/* most jobs with an arrow to one wait */

/* ---- threads that submit and wait ---------------------------------------- */

/* Returns true for a worker: it begins its track before it submits.  Others may begin now. */
static bool is_worker(const struct rnl__trace *t, uint32_t tid)
{
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (rnl__figure_read(&t->tracks.tids[i]) == tid)
			return true;
	}
	return false;
}

/* Returns the thread's place in the sorted list, or the place to insert it. */
static size_t place_of(const struct rnl__trace_arrows *a, uint32_t tid)
{
	size_t low = 0, high = a->nr_threads;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (a->threads[middle] < tid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Names the thread's track once.  Returns false if there is no memory to remember the thread. */
static bool arrows_name(struct rnl__trace *t, uint32_t tid)
{
	struct rnl__trace_arrows *a = &t->arrows;
	size_t at = place_of(a, tid);
	uint32_t *threads;

	if (at < a->nr_threads && a->threads[at] == tid)
		return true;
	threads = rnl__array_extend(a->threads, a->nr_threads, &a->max_threads, sizeof(*threads));
	if (!threads)
		return false;
	a->threads = threads;
	memmove(threads + at + 1, threads + at, (a->nr_threads++ - at) * sizeof(*threads));
	threads[at] = tid;
	rnl__trace_name_thread(t, tid);
	return true;
}

static void put_span(struct rnl__trace *t, const char *name, uint32_t tid, uint64_t begin,
		     uint64_t end)
{
	rnl__trace_begin_span(t, name, name, tid, begin, end);
	rnl__trace_print(&t->file, "}");
	rnl__trace_mark(&t->file);
}

/* Writes one end of an arrow.  Its name and its job identify the arrow. */
static void put_end(struct rnl__trace *t, const char *name, char ph, uint64_t id, uint32_t tid,
		    uint64_t at)
{
	at = at > t->start ? at - t->start : 0;
	rnl__trace_print(&t->file, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%c\",\"id\":%"
			 PRIu64 ",\"pid\":%d,\"tid\":%" PRIu32 ",\"ts\":" RNL__TRACE_TIME "%s}",
			 name, name, ph, id, t->pid, tid, rnl__trace_time(at),
			 ph == 'f' ? ",\"bp\":\"e\"" : "");
	rnl__trace_mark(&t->file);
}

/* ---- from submits to jobs ------------------------------------------------- */

static void put_submit(struct rnl__trace *t, const struct rnl__track *track,
		       const struct rnl__track_record *r)
{
	struct rnl__trace_arrows *a = &t->arrows;
	uint32_t tid = r->call.producer;

	/* Jobs that a thread submitted at the same time share a span. */
	if (tid != a->submit_tid || r->call.queued != a->submit_at) {
		if (!is_worker(t, tid)) {
			if (!arrows_name(t, tid)) {
				a->lost++;
				return;
			}
			put_span(t, "submit", tid, r->call.queued, r->call.queued + SUBMIT_NS);
		}
		a->submit_tid = tid;
		a->submit_at = r->call.queued;
	}
	put_end(t, "flow", 's', r->id, tid, r->call.queued);
	put_end(t, "flow", 'f', r->id, track->tid, r->call.picked);
}

static void note_job(struct rnl__trace_arrows *a, const struct rnl__track *track,
		     const struct rnl__track_record *r)
{
	struct rnl__trace_job *jobs;

	jobs = rnl__array_extend(a->jobs, a->nr_jobs, &a->max_jobs, sizeof(*jobs));
	if (!jobs) {
		a->lost++;
		return;
	}
	a->jobs = jobs;
	a->jobs[a->nr_jobs++] = (struct rnl__trace_job){
		.id = r->id, .picked = r->call.picked, .job = r->call.job,
		.barrier = r->call.barrier, .tid = track->tid,
	};
}

void rnl__trace_note_after(struct rnl__trace *t, const struct rnl__track *track, const void *barrier,
			   uint64_t picked)
{
	rnl__waits_add(t->pool, &(struct rnl__wait){
		.begin = picked, .end = picked, .what = barrier, .tid = track->tid, .of_job = true,
	});
}

void rnl__trace_note(struct rnl__trace *t, const struct rnl__track *track,
		     const struct rnl__track_record *r)
{
	note_job(&t->arrows, track, r);
	if (r->call.queued)
		put_submit(t, track, r);
	if (r->call.after)
		rnl__trace_note_after(t, track, r->call.after, r->call.picked);
}

/* ---- from jobs to the waits for them -------------------------------------- */

/* Compares by key, then by time. */
static int arrows_compare(uintptr_t x, uintptr_t y, uint64_t x_at, uint64_t y_at)
{
	return x != y ? (x > y) - (x < y) : (x_at > y_at) - (x_at < y_at);
}

static int by_barrier(const void *a, const void *b)
{
	const struct rnl__trace_job *x = *(struct rnl__trace_job *const *)a;
	const struct rnl__trace_job *y = *(struct rnl__trace_job *const *)b;

	return arrows_compare((uintptr_t)x->barrier, (uintptr_t)y->barrier, x->picked, y->picked);
}

static int arrows_by_job(const void *a, const void *b)
{
	const struct rnl__trace_job *x = *(struct rnl__trace_job *const *)a;
	const struct rnl__trace_job *y = *(struct rnl__trace_job *const *)b;

	return arrows_compare((uintptr_t)x->job, (uintptr_t)y->job, x->picked, y->picked);
}

static int by_what(const void *a, const void *b)
{
	const struct rnl__wait *x = a, *y = b;

	return arrows_compare((uintptr_t)x->what, (uintptr_t)y->what, x->end, y->end);
}

static const void *arrows_key_of(const struct rnl__trace_job *job, bool barrier)
{
	return barrier ? job->barrier : job->job;
}

/* Returns the number of sorted jobs up to the last one of @what that was taken by the time @at. */
static size_t count_up_to(struct rnl__trace_job *const *jobs, size_t nr, bool barrier,
			  const void *what, uint64_t at)
{
	size_t low = 0, high = nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const void *key = arrows_key_of(jobs[middle], barrier);

		if ((uintptr_t)key < (uintptr_t)what || (key == what && jobs[middle]->picked <= at))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Returns the end of the previous wait for the same job or barrier; 0: there was none. */
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

/* Writes the wait's span, to which its arrows lead.  Returns false if there is no space. */
static bool put_wait(struct rnl__trace *t, const struct rnl__wait *wait)
{
	if (wait->of_job)
		return true;
	if (!rnl__trace_fits(&t->file, 2 * RNL__TRACE_EVENT_MAX) || !arrows_name(t, wait->tid))
		return false;
	put_span(t, "wait", wait->tid, wait->begin, wait->end);
	return true;
}

/* Writes an answered request, on the track of the thread that ended it. */
static bool put_request(struct rnl__trace *t, const struct rnl__wait *wait, uint64_t id)
{
	if (!rnl__trace_fits(&t->file, 2 * RNL__TRACE_EVENT_MAX) ||
	    (!is_worker(t, wait->tid) && !arrows_name(t, wait->tid)))
		return false;
	rnl__trace_request(t, wait, id);
	return true;
}

/* Writes the arrows to waits for barriers, or else to waits for jobs. */
static void put_joins(struct rnl__trace *t, struct rnl__trace_job **jobs, size_t nr_jobs,
		      bool barrier)
{
	struct rnl__trace_arrows *a = &t->arrows;
	int most = barrier ? JOINED_MAX : 1;

	qsort(jobs, nr_jobs, sizeof(struct rnl__trace_job *), barrier ? by_barrier : arrows_by_job);
	for (size_t i = 0; i < a->waits.nr; i++) {
		const struct rnl__wait *wait = &a->waits.list[i];
		uint64_t after = end_of_wait_before(a->waits.list, i);
		size_t n = count_up_to(jobs, nr_jobs, barrier, wait->what, wait->end);

		for (int nr = 0; nr < most && n--; nr++) {
			struct rnl__trace_job *job = jobs[n];

			if (arrows_key_of(job, barrier) != wait->what || job->picked <= after)
				break;
			if (job->joined)
				continue;
			job->joined = true;
			if (!rnl__trace_fits(&t->file, RNL__TRACE_EVENT_MAX)) {
				a->lost++;
				continue;
			}
			put_end(t, "join", 's', job->id, job->tid, job->picked);
			put_end(t, "join", 'f', job->id, wait->tid, wait->end);
		}
	}
}

static bool is_waited_for(const struct rnl__trace_arrows *a, const void *what)
{
	size_t low = 0, high = a->waits.nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if ((uintptr_t)a->waits.list[middle].what < (uintptr_t)what)
			low = middle + 1;
		else
			high = middle;
	}
	return what && low < a->waits.nr && a->waits.list[low].what == what;
}

/* Finds the jobs that have a wait: few, even among many jobs. */
static size_t find_joined(const struct rnl__trace_arrows *a, struct rnl__trace_job **jobs)
{
	size_t nr = 0;

	for (size_t i = 0; i < a->nr_jobs; i++) {
		if (is_waited_for(a, a->jobs[i].barrier) || is_waited_for(a, a->jobs[i].job))
			jobs[nr++] = &a->jobs[i];
	}
	return nr;
}

static void put_waits(struct rnl__trace *t)
{
	struct rnl__trace_arrows *a = &t->arrows;
	struct rnl__trace_job **jobs = calloc(a->nr_jobs + 1, sizeof(struct rnl__trace_job *));
	size_t nr = 0, nr_jobs;

	for (size_t i = 0; i < a->waits.nr; i++) {
		const struct rnl__wait *wait = &a->waits.list[i];
		const bool fits = wait->kernel[0] ? put_request(t, wait, i + 1) : put_wait(t, wait);

		a->lost += !fits;
		if (fits && !wait->kernel[0])
			a->waits.list[nr++] = *wait;
	}
	a->waits.nr = nr;
	if (!jobs) {
		a->lost += nr;
		return;
	}
	if (nr)
		qsort(a->waits.list, nr, sizeof(*a->waits.list), by_what);
	nr_jobs = find_joined(a, jobs);
	put_joins(t, jobs, nr_jobs, true);
	put_joins(t, jobs, nr_jobs, false);
	free(jobs);
}

void rnl__trace_end_arrows(struct rnl__trace *t)
{
	struct rnl__trace_arrows *a = &t->arrows;

	a->lost += a->waits.lost;
	if (a->waits.nr)
		put_waits(t);
	free(a->threads);
	free(a->jobs);
	free(a->waits.list);
}
