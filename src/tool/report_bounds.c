/* SPDX-License-Identifier: MIT */
/*
 * runnel report: bounds of the device work of jobs without device times.
 *
 * DESIGN
 * For each job with device work the trace has the call of its function, and its flight: from the
 * issue until the worker saw that the work was complete.  The job's window is from the call to the
 * flight's end: the device work lies within it.  An untimed job may have been on the device for its
 * whole window, or for almost no time.  The timed jobs give the lower bounds; the windows and the
 * timed jobs give the upper ones.  If records are missing, the upper bounds are the elapsed time.
 */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/trace.h>

#include "tool.h"

/* Sorts spans by job; of each job first the call, then the device times, then the flight. */
static int bounds_by_job(const void *a, const void *b)
{
	static const int ranks[REPORT_NR_KINDS] = { [REPORT_JOB] = 1, [REPORT_MAYBE] = 2 };
	const struct report_span *x = *(struct report_span *const *)a;
	const struct report_span *y = *(struct report_span *const *)b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return ranks[x->kind] - ranks[y->kind];
}

/* Turns flights into windows.  A window begins at the job's call; a timed job's window is empty. */
static void make_windows(struct report_span **spans, size_t nr)
{
	const struct report_span *call = NULL;
	bool timed = false;

	for (size_t i = 0; i < nr; i++) {
		struct report_span *s = spans[i];

		if (!i || s->id != spans[i - 1]->id) {
			call = NULL;
			timed = false;
		}
		if (s->kind == REPORT_CALL) {
			call = s;
		} else if (s->kind == REPORT_JOB) {
			timed = true;
			s->class = call ? call->class : 0;
		} else {
			if (call && call->begin < s->begin)
				s->begin = call->begin;
			if (call)
				s->name = call->name;
			if (timed)
				s->end = s->begin;
		}
	}
}

static bool find_windows(struct report *r)
{
	struct report_span **spans = malloc((r->nr + 1) * sizeof(*spans));
	size_t nr = 0;

	if (!spans)
		return false;
	for (size_t i = 0; i < r->nr; i++) {
		const uint8_t kind = r->spans[i].kind;

		if (kind == REPORT_CALL || kind == REPORT_JOB || kind == REPORT_MAYBE)
			spans[nr++] = &r->spans[i];
	}
	qsort(spans, nr, sizeof(struct report_span *), bounds_by_job);
	make_windows(spans, nr);
	free(spans);
	return true;
}

/*
 * Computes the figures of the spans on @device; -1: on all devices.  @most: each window counts as
 * a job that lasts for the whole window.
 */
static int bounds_find(const struct report *r, int device, bool most,
		       struct overlap_span *spans, struct overlap_figures *overlap)
{
	size_t nr = 0;

	for (size_t i = 0; i < r->nr; i++) {
		const struct report_span *s = &r->spans[i];
		const bool window = s->kind == REPORT_MAYBE && !report_is_no_window(s);

		if (device >= 0 && r->device_of[s->of % RNL_WORKERS_MAX] != device)
			continue;
		/* Kinds of device spans have the values of enum overlap_kind. */
		if (s->kind <= REPORT_OUT || (most && window))
			spans[nr++] = (struct overlap_span){
				s->begin, s->end, s->of, window ? REPORT_JOB : s->kind,
			};
	}
	return overlap_find(spans, nr, overlap);
}

/* Gives both bounds the upper bound's elapsed time.  @missing: records are missing. */
static void level(struct overlap_figures *least, struct overlap_figures *most, bool missing)
{
	least->at_once_ns[0] += most->elapsed_ns - least->elapsed_ns;
	least->elapsed_ns = most->elapsed_ns;
	if (!missing)
		return;
	memset(most->at_once_ns, 0, sizeof(most->at_once_ns));
	most->at_once_ns[OVERLAP_DEPTH] = most->elapsed_ns;
	most->busy_ns = most->elapsed_ns;
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++)
		most->worker_ns[i] = most->elapsed_ns;
	memset(most->gaps, 0, sizeof(most->gaps));
}

static int find_both(struct report *r, int device, struct overlap_span *spans,
		     struct overlap_figures *least, struct overlap_figures *most)
{
	int ret = bounds_find(r, device, false, spans, least);

	ret = ret ? ret : bounds_find(r, device, true, spans, most);
	if (!ret)
		level(least, most, report_misses(r));
	return ret;
}

int report_find_bounds(struct report *r)
{
	struct overlap_span *spans = malloc((r->nr + 1) * sizeof(*spans));
	int ret = spans && find_windows(r) ? 0 : -ENOMEM;

	if (!ret)
		ret = find_both(r, -1, spans, &r->overlap, &r->most);
	for (unsigned i = 0; !ret && r->nr_devices > 1 && i < r->nr_devices; i++)
		ret = find_both(r, (int)i, spans, &r->of_device[i], &r->most_of_device[i]);
	free(spans);
	return ret ? tool_trouble("%s: out of memory for its figures", r->path) : 0;
}
