/* SPDX-License-Identifier: MIT */
/*
 * runnel report: how long the jobs of each class were queued, and their part of the device.
 *
 * DESIGN
 * The call of a job's function has the name of its class, which its device times get by the job's
 * number: report_bounds.c.  Shares are of the sum of the timed jobs' times on the device.
 */
#include "report.h"

#include <stdlib.h>

#include "experiment.h"

/* Finds a class's times in the queue.  @values: space for all spans. */
static void find_queue_times(struct report *r, unsigned class, double *values)
{
	struct report_class *c = &r->classes[class];
	unsigned nr = 0;

	for (size_t i = 0; i < r->nr; i++) {
		const struct report_span *s = &r->spans[i];

		if (s->kind == REPORT_CALL && s->class == class && s->queued <= s->begin)
			values[nr++] = (double)(s->begin - s->queued);
	}
	if (!nr)
		return;
	tool_sort(values, nr);
	c->queue_p50_ns = (uint64_t)values[nr / 2];
	c->queue_p99_ns = (uint64_t)values[nr * UINT64_C(99) / 100];
}

void report_find_classes(struct report *r)
{
	double *values;

	for (size_t i = 0; i < r->nr; i++) {
		const struct report_span *s = &r->spans[i];
		struct report_class *c = &r->classes[s->class];

		r->has_classes = r->has_classes || s->class;
		c->jobs += s->kind == REPORT_CALL;
		if (s->kind != REPORT_JOB)
			continue;
		c->timed++;
		c->device_ns += s->end - s->begin;
		r->classes_ns += s->end - s->begin;
	}
	values = r->has_classes ? malloc((r->nr + 1) * sizeof(*values)) : NULL;
	for (unsigned i = 0; values && i <= r->nr_names; i++)
		if (r->classes[i].jobs)
			find_queue_times(r, i, values);
	free(values);
}
