/* SPDX-License-Identifier: MIT */
/*
 * runnel report: likely causes of missing overlap.
 *
 * DESIGN
 * A cause is named only if the trace has evidence of it.  So each named cause is likely, but there
 * may be other causes.  The text of a cause includes the remedy.
 */
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include <runnel/trace.h>

#include "experiment.h"
#include "text.h"

#define WAITS_MIN_NS 50000u	/* jobs with less device work do not show a wait */
#define LOADS_MIN_NS 1000000u	/* loading a kernel takes longer */
#define LOADS_TIMES 5		/* a first call longer than this many medians loads a kernel */
#define STARVED 4		/* a worker with under 1/4 of its share of jobs and time starves */
#define MB 1000000.0

__attribute__((format(printf, 2, 3)))
static void add(struct report *r, const char *format, ...)
{
	char text[2 * sizeof(r->causes[0].text)];
	va_list args;

	if (r->nr_causes == REPORT_CAUSES)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	tool_text(r->causes[r->nr_causes++].text, sizeof(r->causes[0].text), text);
}

static bool is_call(const struct report_span *s)
{
	return s->kind == REPORT_CALL;
}

/* ---- signs --------------------------------------------------------------- */

static void look_at_guard(struct report *r)
{
	for (unsigned i = 0; i < r->nr_findings; i++)
		add(r, "the guard found that %s", r->findings[i].text);
}

static void look_at_connections(struct report *r)
{
	int nr = r->nr_workers;

	if (r->cuda && nr > r->connections)
		add(r, "%d workers share %" PRId64 " hardware queues, and streams that share one "
		    "wait for each other: call rnl_setup() first in main(), or set "
		    "CUDA_DEVICE_MAX_CONNECTIONS=32", nr, r->connections);
}

static void look_at_staging(struct report *r)
{
	uint64_t bytes = 0, jobs = 0;

	for (size_t i = 0; i < r->nr; i++) {
		bytes += is_call(&r->spans[i]) ? r->spans[i].staged : 0;
		jobs += is_call(&r->spans[i]) && r->spans[i].staged;
	}
	if (bytes)
		add(r, "%" PRIu64 " jobs copied %.1f MB from or to pageable memory, by a CPU: "
		    "use pinned memory, from rnl_memory_get()", jobs, (double)bytes / MB);
}

/* Sorts spans by job; the call precedes the device work. */
static int by_id(const void *a, const void *b)
{
	const struct report_span *x = *(struct report_span *const *)a;
	const struct report_span *y = *(struct report_span *const *)b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (is_call(y) - is_call(x));
}

/* Finds functions that return only when the device has done their work. */
static void look_at_waits(struct report *r)
{
	const struct report_span **spans = malloc((r->nr + 1) * sizeof(*spans));
	uint64_t nr = 0, nr_both = 0, name = 0, ns = 0;
	size_t n = 0;

	if (!spans)
		return;
	for (size_t i = 0; i < r->nr; i++) {
		if (is_call(&r->spans[i]) || r->spans[i].kind == REPORT_JOB)
			spans[n++] = &r->spans[i];
	}
	qsort(spans, n, sizeof(*spans), by_id);
	for (size_t i = 0; i + 1 < n; i++) {
		const struct report_span *call = spans[i], *job = spans[i + 1];

		if (call->id != job->id || !is_call(call) || is_call(job) ||
		    job->end - job->begin < WAITS_MIN_NS)
			continue;
		nr_both++;
		if (call->end < job->end - (job->end - job->begin) / 10)
			continue;
		nr++;
		name = call->name;
		ns += call->end - call->begin;
	}
	free(spans);
	if (nr && nr * 2 >= nr_both)
		add(r, "%" PRIu64 " functions, such as %s, returned only when the device was done, and "
		    "took %.1f ms for that: a wait in them (cudaStreamSynchronize, cudaMalloc, "
		    "cudaMemcpy), or cudaMemcpyAsync with pageable memory, blocks their worker",
		    nr, r->names[name].text, (double)ns / 1e6);
}

/* Compares the first call of a function with the median call. */
static void look_at_first(struct report *r, unsigned name, double *values)
{
	const struct report_span *first = NULL;
	double median, took;
	unsigned nr = 0;

	for (size_t i = 0; i < r->nr; i++) {
		const struct report_span *s = &r->spans[i];

		if (!is_call(s) || s->name != name)
			continue;
		if (!first || s->begin < first->begin)
			first = s;
		values[nr++] = (double)(s->end - s->begin);
	}
	if (nr < 4)
		return;
	tool_sort(values, nr);
	median = values[nr / 2];
	took = (double)(first->end - first->begin);
	if (took > LOADS_MIN_NS && took > LOADS_TIMES * median)
		add(r, "the first call of %s took %.2f ms, others %.3f ms: CUDA loads a kernel at "
		    "its first launch, and blocks other threads' launches meanwhile: launch each "
		    "kernel once at the start, or set CUDA_MODULE_LOADING=EAGER", r->names[name].text,
		    took / 1e6, median / 1e6);
}

static void look_at_loading(struct report *r)
{
	double *values = malloc((r->nr + 1) * sizeof(*values));

	for (unsigned name = 0; values && r->cuda && name < r->nr_names; name++)
		look_at_first(r, name, values);
	free(values);
}

/* Finds starved workers: few jobs and little time.  One long job may be a fair share. */
static void look_at_shares(struct report *r)
{
	uint64_t jobs[RNL_WORKERS_MAX] = { 0 };
	double ns[RNL_WORKERS_MAX] = { 0 }, all_ns = 0;
	int nr = r->nr_workers;

	for (size_t i = 0; i < r->nr; i++) {
		const struct report_span *s = &r->spans[i];

		if (s->kind == REPORT_SUBMIT || s->kind == REPORT_WAIT)
			continue;
		jobs[s->of % RNL_WORKERS_MAX] += is_call(s);
		ns[s->of % RNL_WORKERS_MAX] += (double)(s->end - s->begin);
		all_ns += (double)(s->end - s->begin);
	}
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (r->has_worker[i] && nr > 1 && r->nr_calls > 16u * (unsigned)nr &&
		    jobs[i] * STARVED * (uint64_t)nr < r->nr_calls &&
		    ns[i] * STARVED * nr < all_ns)
			add(r, "%s starved: it ran %" PRIu64 " of %" PRIu64 " jobs, which %d workers "
			    "share: keys or a barrier may send jobs to other workers, or there "
			    "are too few jobs for all", r->worker_names[i].text, jobs[i],
			    r->nr_calls, nr);
	}
}

/* ---- gaps ---------------------------------------------------------------- */

/* Reports the host's work during a gap on the device. */
static void look_at_gap(struct report *r, const struct overlap_gap *gap)
{
	const uint64_t ns = gap->end_ns - gap->begin_ns, middle = gap->begin_ns + ns / 2;
	const struct report_span *runs = NULL;
	uint64_t nr_queued = 0;

	for (size_t i = 0; i < r->nr; i++) {
		const struct report_span *s = &r->spans[i];

		if (!is_call(s))
			continue;
		if (s->begin <= middle && s->end > middle)
			runs = s;
		nr_queued += s->queued < middle && s->begin > middle;
	}
	if (runs)
		add(r, "the gap of %.3f ms at %.3f ms: the function %s ran then, for %.3f ms, and had "
		    "not issued anything%s", (double)ns / 1e6, (double)gap->begin_ns / 1e6,
		    r->names[runs->name].text, (double)(runs->end - runs->begin) / 1e6,
		    nr_queued ? "; jobs were queued behind it" : "");
	else if (nr_queued)
		add(r, "the gap of %.3f ms at %.3f ms: %" PRIu64 " jobs were queued, and no worker "
		    "took one: they waited for a barrier or a key, or the machine had no CPU for "
		    "the workers", (double)ns / 1e6, (double)gap->begin_ns / 1e6, nr_queued);
	else
		add(r, "the gap of %.3f ms at %.3f ms: no job was there: the threads that submit did "
		    "something else, or waited", (double)ns / 1e6, (double)gap->begin_ns / 1e6);
}

/* Reports gaps over 1/50 of the elapsed time, in which no job, timed or not, was on the device. */
static void look_at_gaps(struct report *r)
{
	const uint64_t elapsed = r->most.elapsed_ns;

	for (int i = 0; i < OVERLAP_GAPS; i++) {
		const struct overlap_gap *gap = &r->most.gaps[i];

		if (gap->end_ns > gap->begin_ns && gap->end_ns - gap->begin_ns > elapsed / 50)
			look_at_gap(r, gap);
	}
}

/* ---- pairs --------------------------------------------------------------- */

static void look_at_pairs(struct report *r)
{
	unsigned nr = 0, of = 0, first = 0, second = 0;
	int workers = __builtin_popcountll(r->overlap.workers);
	bool others = false;

	for (unsigned i = 0; i < OVERLAP_PAIRS; i++) {
		for (unsigned j = i + 1; j < OVERLAP_PAIRS; j++) {
			if (!(r->overlap.apart[i] >> j & 1))
				continue;
			if (!nr++) {
				first = i;
				second = j;
			}
		}
	}
	of = (unsigned)(workers * (workers - 1) / 2);
	for (unsigned i = OVERLAP_PAIRS; i < RNL_WORKERS_MAX; i++)
		others = others || r->overlap.worker_jobs[i];
	if (!nr)
		return;
	if (nr == of && !others)
		add(r, "no two workers ever had jobs on the device at once: %s", r->nr_causes ?
		    "see above" : r->overlap.at_once_ns[0] > r->overlap.busy_ns ?
		    "they had little to do: submit more before you wait" :
		    "does something use the legacy default stream? see runnel lint and the guard");
	else
		add(r, "%u of %u pairs of %sworkers never had jobs on the device at once, such as %s and "
		    "%s: they may share a hardware queue, or had too few jobs to overlap", nr, of,
		    others ? "the first 64 " : "", r->worker_names[first].text, r->worker_names[second].text);
}

/* ---- the trace itself ---------------------------------------------------- */

static void look_at_trace(struct report *r)
{
	if (!r->whole)
		add(r, "the trace was not ended by rnl_trace_stop(), or its disk was full: it has "
		    "only the first part of the run");
	if (r->dropped || r->too_much)
		add(r, "%" PRId64 " records were dropped because a buffer was full, and %" PRId64
		    " jobs because the file was full: their work is not in the figures (attributes "
		    "buffer_bytes and file_max)", r->dropped, r->too_much);
}

void report_find_causes(struct report *r)
{
	look_at_trace(r);
	look_at_guard(r);
	look_at_connections(r);
	look_at_staging(r);
	look_at_waits(r);
	look_at_loading(r);
	look_at_shares(r);
	look_at_gaps(r);
	if (report_mostly_timed(r))
		look_at_pairs(r);
}
