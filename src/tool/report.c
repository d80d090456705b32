/* SPDX-License-Identifier: MIT */
/*
 * runnel report: reports from a trace which work overlapped on the device.
 *
 * DESIGN
 * overlap_find() computes the figures.  They are printed as text for people or as JSON for
 * programs; the picture shows the timeline.
 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <runnel/trace.h>

#include "options.h"
#include "text.h"
#include "tool.h"

static const char doc[] =
"Reports from a trace what ran at the same time, what did not, and the likely causes.\v"
"A program that uses runnel writes a trace by rnl_trace_start().  Traces of other "
"programs cannot be read.";

const char *report_time(char text[32], uint64_t ns)
{
	if (ns < 10000)
		snprintf(text, 32, "%.2f us", (double)ns / 1e3);
	else if (ns < 10000000)
		snprintf(text, 32, "%.3f ms", (double)ns / 1e6);
	else if (ns < 10000000000)
		snprintf(text, 32, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(text, 32, "%.2f s", (double)ns / 1e9);
	return text;
}

/* ---- text ---------------------------------------------------------------- */

static double percent(uint64_t part, uint64_t of)
{
	return of ? 100.0 * (double)part / (double)of : 0;
}

/* The kind of a figure: exact, a lower bound, or a lower and an upper bound. */
enum known { ALL, LEAST, BOTH };

/* Prints a time in ns, and as a percentage of @elapsed.  @most: the upper bound for BOTH. */
static void report_print_times(enum known known, uint64_t least, uint64_t most, uint64_t elapsed)
{
	char time[32];

	printf("%12s %6.1f %%", report_time(time, least), percent(least, elapsed));
	if (known == BOTH)
		printf("  to %12s %6.1f %%", report_time(time, most), percent(most, elapsed));
	puts(known == LEAST ? "  or more" : "");
}

static void print_line(const char *what, enum known known, uint64_t least, uint64_t most,
		       uint64_t elapsed)
{
	printf("  %-34s ", what);
	report_print_times(known, least, most, elapsed);
}

/* Returns how long at least @nr jobs were on the device at once. */
static uint64_t at_once(const struct overlap_figures *o, int nr)
{
	uint64_t ns = 0;

	for (int i = nr; i <= OVERLAP_DEPTH; i++)
		ns += o->at_once_ns[i];
	return ns;
}

/* Prints the time with i jobs; if it is not exact, bounds of the time with i or more. */
static void print_depth(const struct report *r)
{
	const bool bounded = report_is_bounded(r);
	const struct overlap_figures *o = &r->overlap, *most = &r->most;
	int last = OVERLAP_DEPTH;

	while (last && !most->at_once_ns[last])
		last--;
	printf("\nJobs on the device at once\n");
	for (int i = bounded; i <= last; i++) {
		char what[32];

		snprintf(what, sizeof(what), "%d%s", i,
			 bounded || i == OVERLAP_DEPTH ? " or more" : "");
		print_line(what, bounded ? BOTH : ALL, bounded ? at_once(o, i) : o->at_once_ns[i],
			   at_once(most, i), o->elapsed_ns);
	}
}

static void print_overlap(const struct report *r)
{
	const struct overlap_figures *o = &r->overlap;
	const bool bounded = report_is_bounded(r);
	const enum known known = bounded ? LEAST : ALL;
	const uint64_t elapsed = o->elapsed_ns, busy = o->busy_ns;
	char time[32];

	printf("\nOn the device%s, of %s\n", r->nr_devices > 1 ? "s" : "",
	       report_time(time, elapsed));
	print_line("busy", bounded ? BOTH : ALL, busy, r->most.busy_ns, elapsed);
	if (o->in_ns || o->kernel_ns || o->out_ns) {
		print_line("copies in", known, o->in_ns, 0, elapsed);
		print_line("kernels", known, o->kernel_ns, 0, elapsed);
		print_line("copies out", known, o->out_ns, 0, elapsed);
		print_line("copies in and kernels at once", known, o->in_kernel_ns, 0, elapsed);
		print_line("copies out and kernels at once", known, o->out_kernel_ns, 0, elapsed);
		print_line("copies in and out at once", known, o->copies_ns, 0, elapsed);
		print_line("all three at once", known, o->all_ns, 0, elapsed);
	}
	if (busy)
		printf("  One after another %s jobs take %s: %.2f times as long as %s busy.\n",
		       bounded ? "the timed" : "its", report_time(time, o->sum_ns),
		       (double)o->sum_ns / (double)busy, bounded ? "they had it" : "it was");
	print_depth(r);
}

static void print_workers(const struct report *r)
{
	printf("\nWorkers%30s %12s %8s\n", "jobs timed", "busy", "");
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (!r->has_worker[i])
			continue;
		printf("  %-24s %10" PRIu64 " ", r->worker_names[i].text,
		       r->overlap.worker_jobs[i]);
		report_print_times(report_is_bounded(r) ? BOTH : ALL, r->overlap.worker_ns[i],
				   r->most.worker_ns[i], r->overlap.elapsed_ns);
	}
}

/* Prints each device's figures, which count only overlap within the device. */
static void print_devices(const struct report *r)
{
	const bool bounded = report_is_bounded(r);

	if (r->nr_devices < 2)
		return;
	printf("\nDevices%30s %12s %8s\n", "jobs timed", "busy", "");
	for (unsigned i = 0; i < r->nr_devices; i++) {
		const struct overlap_figures *o = &r->of_device[i];

		if (!r->device_names[i][0])
			continue;
		printf("  %-24s %10" PRIu64 " ", r->device_names[i], o->nr_jobs);
		report_print_times(bounded ? BOTH : ALL, o->busy_ns, r->most_of_device[i].busy_ns,
				   r->overlap.elapsed_ns);
		print_line("  copies and kernels at once", bounded ? LEAST : ALL,
			   o->in_kernel_ns + o->out_kernel_ns - o->all_ns, 0,
			   r->overlap.elapsed_ns);
	}
}

/* Prints how long each class's jobs were queued, and its part of the timed work on the device. */
static void print_classes(const struct report *r)
{
	char half[32], most[32];

	if (r->has_classes)
		printf("\n%-26s %10s %25s %12s\n", "Classes", "jobs", "half, 99 of 100 queued",
		       "on device");
	for (unsigned i = 0; r->has_classes && i <= r->nr_names; i++) {
		const struct report_class *c = &r->classes[i];

		if (!c->jobs)
			continue;
		printf("  %-24s %10" PRIu64 " %12s %12s ", report_class_name(r, i), c->jobs,
		       report_time(half, c->queue_p50_ns), report_time(most, c->queue_p99_ns));
		report_print_times(ALL, c->device_ns, 0, r->classes_ns);
	}
}

static void print_requests(const struct report *r)
{
	bool any = false;

	for (unsigned i = 0; i < r->nr_names; i++) {
		if (!r->requests[i])
			continue;
		if (!any)
			printf("\n%-26s %10s\n", "Resident kernels", "requests");
		any = true;
		printf("  %-24s %10" PRIu64 "\n", r->names[i].text, r->requests[i]);
	}
}

/* Prints the longest gaps in which certainly no job was on the device. */
static void print_gaps(const struct overlap_figures *most)
{
	char length[32], at[32];

	if (most->gaps[0].end_ns == most->gaps[0].begin_ns)
		return;
	printf("\nLongest gaps on the device\n");
	for (int i = 0; i < OVERLAP_GAPS && most->gaps[i].end_ns > most->gaps[i].begin_ns; i++)
		printf("  %12s at %s\n",
		       report_time(length, most->gaps[i].end_ns - most->gaps[i].begin_ns),
		       report_time(at, most->gaps[i].begin_ns));
}

const char *report_sampling(const struct report *r, char text[300])
{
	*text = '\0';
	if (r->overlap.nr_jobs < r->nr_flights)
		snprintf(text, 300, "%" PRIu64 " of %" PRIu64 " jobs were timed on the device%s: "
			 "the other jobs' work is unknown, so figures are lower and upper bounds. "
			 "RNL_TRACE_EVERY times all, at some cost", r->overlap.nr_jobs, r->nr_flights,
			 r->timing == 2 ? ", since it was not asked for (RNL_TRACE_HOST)" : "");
	else if (report_is_bounded(r))
		snprintf(text, 300, "Jobs are missing: the figures are lower bounds");
	return text;
}

static void report_print_text(const struct report *r)
{
	char time[32], devices[24] = "", sampling[300];

	if (r->nr_devices > 1)
		snprintf(devices, sizeof(devices), "%u times ", r->nr_devices);
	tool_put_text(stdout, r->path);
	printf(": %s on %s%s, %d workers, %" PRIu64 " jobs (%" PRIu64 " timed on the device), %s\n",
	       r->program, devices, r->device, r->nr_workers, r->nr_calls,
	       r->overlap.nr_jobs, report_time(time, r->end - r->begin));
	if (*report_sampling(r, sampling))
		printf("%s.\n", sampling);
	if (r->most.elapsed_ns) {
		print_overlap(r);
		print_devices(r);
		print_workers(r);
		print_gaps(&r->most);
	}
	print_classes(r);
	print_requests(r);
	if (r->nr_causes)
		printf("\nLikely causes, and what to do\n");
	for (unsigned i = 0; i < r->nr_causes; i++)
		printf("  - %s.\n", r->causes[i].text);
}

/* ---- the command --------------------------------------------------------- */

struct wishes {
	bool json;
	const char *html, *svg;
};

static int report_make(const char *path, const struct wishes *wishes)
{
	struct report *r = calloc(1, sizeof(*r));
	int status;

	if (!r)
		return tool_trouble("out of memory");
	status = report_read(r, path);
	if (!status) {
		report_find_classes(r);
		report_find_causes(r);
	}
	if (!status && wishes->html)
		status = report_picture(r, wishes->html, true);
	if (!status && wishes->svg)
		status = report_picture(r, wishes->svg, false);
	if (!status && wishes->json)
		report_print_json(r);
	else if (!status)
		report_print_text(r);
	report_free(r);
	free(r);
	return status;
}

/* Returns true if both are one file: the picture would overwrite its own trace. */
static bool is_same_file(const char *path, const char *other)
{
	struct stat a, b;

	return path && !stat(path, &a) && !stat(other, &b) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

int tool_report(int argc, char **argv)
{
	struct wishes wishes = { .json = false };
	const struct tool_usage usage = {
		.doc = doc, .args = "TRACE", .missing = "there is no trace to look at",
		.too_many = "one trace at a time", .nr_operands = 1, .nr_options = 3, .options = {
			TOOL_FLAG("json", &wishes.json, "print the report as JSON"),
			TOOL_FILE("html", &wishes.html, "write a timeline, too, as a page that needs no network"),
			TOOL_FILE("svg", &wishes.svg, "write the timeline, too, as a picture"),
		},
	};
	int first, status = tool_options(&usage, argc, argv, &first);

	if (status != TOOL_GO_ON)
		return status;
	if (is_same_file(wishes.html, argv[first]) || is_same_file(wishes.svg, argv[first]))
		return tool_misused("'%s' is the trace: give the picture another name", argv[first]);
	return report_make(argv[first], &wishes);
}
