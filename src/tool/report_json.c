/* SPDX-License-Identifier: MIT */
/* runnel report: the figures as JSON, for programs.  Times are in nanoseconds. */
#include <runnel/trace.h>

#include "report.h"

#include "json.h"

static void put_trace(const struct report *r)
{
	tool_json_object("trace");
	tool_json_text("path", r->path);
	tool_json_text("program", r->program);
	tool_json_text("device", r->device);
	tool_json_integer("devices", r->nr_devices);
	tool_json_bool("whole", r->whole);
	tool_json_integer("workers", r->nr_workers);
	tool_json_integer("jobs", (int64_t)r->nr_calls);
	tool_json_integer("on_device", (int64_t)r->nr_flights);
	tool_json_integer("timed", (int64_t)r->overlap.nr_jobs);
	tool_json_integer("unfinished", r->unfinished);
	tool_json_integer("dropped", r->dropped);
	tool_json_integer("too_much", r->too_much);
	tool_json_close();
}

static void report_json_put_depth(const char *name, const struct overlap_figures *o)
{
	tool_json_array(name);
	for (int i = 0; i <= OVERLAP_DEPTH; i++)
		tool_json_integer(NULL, (int64_t)o->at_once_ns[i]);
	tool_json_close();
}

/* @most: the upper bounds, which include the windows of jobs that were not timed. */
static void put_overlap(const struct overlap_figures *o, const struct overlap_figures *most)
{
	const uint64_t busy = o->busy_ns;

	tool_json_object("overlap");
	tool_json_integer("elapsed_ns", (int64_t)o->elapsed_ns);
	tool_json_integer("busy_ns", (int64_t)busy);
	tool_json_integer("busy_most_ns", (int64_t)most->busy_ns);
	tool_json_integer("sum_ns", (int64_t)o->sum_ns);
	tool_json_number("speedup", busy ? (double)o->sum_ns / (double)busy : 0);
	tool_json_integer("copies_in_ns", (int64_t)o->in_ns);
	tool_json_integer("kernels_ns", (int64_t)o->kernel_ns);
	tool_json_integer("copies_out_ns", (int64_t)o->out_ns);
	tool_json_integer("copies_both_ways_ns", (int64_t)o->copies_ns);
	tool_json_integer("copies_in_and_kernels_ns", (int64_t)o->in_kernel_ns);
	tool_json_integer("copies_out_and_kernels_ns", (int64_t)o->out_kernel_ns);
	tool_json_integer("all_three_ns", (int64_t)o->all_ns);
	report_json_put_depth("at_once_ns", o);
	report_json_put_depth("at_once_most_ns", most);
	tool_json_close();
}

static void put_workers(const struct report *r)
{
	tool_json_array("workers");
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (!r->has_worker[i])
			continue;
		tool_json_object(NULL);
		tool_json_integer("worker", i);
		tool_json_text("name", r->worker_names[i].text);
		tool_json_text("device", r->device_names[r->device_of[i]]);
		tool_json_integer("timed", (int64_t)r->overlap.worker_jobs[i]);
		tool_json_integer("busy_ns", (int64_t)r->overlap.worker_ns[i]);
		tool_json_integer("busy_most_ns", (int64_t)r->most.worker_ns[i]);
		tool_json_close();
	}
	tool_json_close();
}

static void put_devices(const struct report *r)
{
	tool_json_array("devices");
	for (unsigned i = 0; i < r->nr_devices; i++) {
		const struct overlap_figures *o = r->nr_devices > 1 ? &r->of_device[i] : &r->overlap;
		const struct overlap_figures *most =
			r->nr_devices > 1 ? &r->most_of_device[i] : &r->most;

		tool_json_object(NULL);
		tool_json_text("device", r->device_names[i]);
		tool_json_integer("timed", (int64_t)o->nr_jobs);
		tool_json_integer("busy_ns", (int64_t)o->busy_ns);
		tool_json_integer("busy_most_ns", (int64_t)most->busy_ns);
		tool_json_integer("copies_in_and_kernels_ns", (int64_t)o->in_kernel_ns);
		tool_json_integer("copies_out_and_kernels_ns", (int64_t)o->out_kernel_ns);
		tool_json_close();
	}
	tool_json_close();
}

/* A class without a name is that of the jobs which have none. */
static void report_json_put_classes(const struct report *r)
{
	tool_json_array("classes");
	for (unsigned i = 0; r->has_classes && i <= r->nr_names; i++) {
		const struct report_class *c = &r->classes[i];

		if (!c->jobs)
			continue;
		tool_json_object(NULL);
		tool_json_text("class", i ? report_class_name(r, i) : NULL);
		tool_json_integer("jobs", (int64_t)c->jobs);
		tool_json_integer("queue_p50_ns", (int64_t)c->queue_p50_ns);
		tool_json_integer("queue_p99_ns", (int64_t)c->queue_p99_ns);
		tool_json_integer("timed", (int64_t)c->timed);
		tool_json_integer("device_ns", (int64_t)c->device_ns);
		tool_json_number("device_share", r->classes_ns ?
				 (double)c->device_ns / (double)r->classes_ns : 0);
		tool_json_close();
	}
	tool_json_close();
}

static void put_requests(const struct report *r)
{
	tool_json_array("resident");
	for (unsigned i = 0; i < r->nr_names; i++) {
		if (!r->requests[i])
			continue;
		tool_json_object(NULL);
		tool_json_text("kernel", r->names[i].text);
		tool_json_integer("requests", (int64_t)r->requests[i]);
		tool_json_close();
	}
	tool_json_close();
}

static void put_gaps(const struct overlap_figures *o)
{
	tool_json_array("gaps");
	for (int i = 0; i < OVERLAP_GAPS && o->gaps[i].end_ns > o->gaps[i].begin_ns; i++) {
		tool_json_object(NULL);
		tool_json_integer("begin_ns", (int64_t)o->gaps[i].begin_ns);
		tool_json_integer("end_ns", (int64_t)o->gaps[i].end_ns);
		tool_json_close();
	}
	tool_json_close();
}

static void put_pairs(const struct overlap_figures *o)
{
	tool_json_array("pairs_apart");
	for (unsigned i = 0; i < OVERLAP_PAIRS; i++) {
		for (unsigned j = i + 1; j < OVERLAP_PAIRS; j++) {
			if (!(o->apart[i] >> j & 1))
				continue;
			tool_json_array(NULL);
			tool_json_integer(NULL, i);
			tool_json_integer(NULL, j);
			tool_json_close();
		}
	}
	tool_json_close();
}

void report_print_json(const struct report *r)
{
	tool_json_object(NULL);
	put_trace(r);
	put_overlap(&r->overlap, &r->most);
	put_workers(r);
	put_devices(r);
	report_json_put_classes(r);
	put_requests(r);
	put_gaps(&r->most);
	put_pairs(&r->overlap);
	tool_json_array("causes");
	for (unsigned i = 0; i < r->nr_causes; i++)
		tool_json_text(NULL, r->causes[i].text);
	tool_json_close();
	tool_json_close();
}
