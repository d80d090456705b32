/* SPDX-License-Identifier: MIT */
/*
 * runnel report: tells from a trace what overlapped.
 *
 * DESIGN
 * The figures are rnl_overlap_find()'s, as for a trace that runs.  Text is for people,
 * JSON tells programs what the text tells, and the picture shows it.
 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "options.h"
#include "tool.h"

static const char doc[] =
"Tells from a trace what ran at the same time, what did not, and likely causes.\v"
"A trace is written by a program that uses runnel: rnl_trace_start().  Those of other "
"programs are not read.";

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

static void print_line(const char *what, uint64_t ns, uint64_t of)
{
	char time[32];

	printf("  %-34s %12s %6.1f %%\n", what, report_time(time, ns), percent(ns, of));
}

static void print_depth(const struct rnl_overlap *o, uint64_t elapsed)
{
	int last = RNL_OVERLAP_DEPTH;

	while (last && !o->at_once_ns[last])
		last--;
	printf("\nJobs on the device at once\n");
	for (int i = 0; i <= last; i++) {
		char what[32];

		snprintf(what, sizeof(what), "%d%s", i, i == RNL_OVERLAP_DEPTH ? " or more" : "");
		print_line(what, o->at_once_ns[i], elapsed);
	}
}

static void print_overlap(const struct rnl_overlap *o, bool several)
{
	const uint64_t elapsed = o->elapsed_ns, busy = o->busy_ns;
	char time[32];

	printf("\nOn the device%s, of %s\n", several ? "s" : "", report_time(time, elapsed));
	print_line("busy", busy, elapsed);
	if (o->in_ns || o->kernel_ns || o->out_ns) {
		print_line("copies in", o->in_ns, elapsed);
		print_line("kernels", o->kernel_ns, elapsed);
		print_line("copies out", o->out_ns, elapsed);
		print_line("copies in and kernels at once", o->in_kernel_ns, elapsed);
		print_line("copies out and kernels at once", o->out_kernel_ns, elapsed);
		print_line("copies in and out at once", o->copies_ns, elapsed);
		print_line("all three at once", o->all_ns, elapsed);
	}
	printf("  One after another its jobs take %s: ", report_time(time, o->sum_ns));
	printf("%.2f times as long as it was busy.\n", busy ? (double)o->sum_ns / (double)busy : 0);
	print_depth(o, elapsed);
}

static void print_workers(const struct report *r)
{
	printf("\nWorkers%30s %12s %8s\n", "jobs timed", "busy", "");
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		char time[32];

		if (r->workers >> i & 1)
			printf("  %-24s %10" PRIu64 " %12s %6.1f %%\n", r->worker_names[i].text,
			       r->overlap.worker_jobs[i],
			       report_time(time, r->overlap.worker_ns[i]),
			       percent(r->overlap.worker_ns[i], r->overlap.elapsed_ns));
	}
}

/* A device's figures: what others did at the same time does not overlap its own work. */
static void print_devices(const struct report *r)
{
	if (r->nr_devices < 2)
		return;
	printf("\nDevices%30s %12s %8s\n", "jobs timed", "busy", "");
	for (unsigned i = 0; i < r->nr_devices; i++) {
		const struct rnl_overlap *o = &r->of_device[i];
		char time[32];

		if (!r->device_names[i][0])
			continue;
		printf("  %-24s %10" PRIu64 " %12s %6.1f %%\n", r->device_names[i], o->nr_jobs,
		       report_time(time, o->busy_ns), percent(o->busy_ns, r->overlap.elapsed_ns));
		print_line("  copies and kernels at once",
			   o->in_kernel_ns + o->out_kernel_ns - o->all_ns, r->overlap.elapsed_ns);
	}
}

static void print_gaps(const struct rnl_overlap *o)
{
	char length[32], at[32];

	if (o->gaps[0].end_ns == o->gaps[0].begin_ns)
		return;
	printf("\nLongest gaps on the device\n");
	for (int i = 0; i < RNL_OVERLAP_GAPS && o->gaps[i].end_ns > o->gaps[i].begin_ns; i++)
		printf("  %12s at %s\n", report_time(length, o->gaps[i].end_ns - o->gaps[i].begin_ns),
		       report_time(at, o->gaps[i].begin_ns));
}

static void print_text(const struct report *r)
{
	char time[32], devices[24] = "";

	if (r->nr_devices > 1)
		snprintf(devices, sizeof(devices), "%u times ", r->nr_devices);
	printf("%s: %s on %s%s, %d workers, %" PRIu64 " jobs (%" PRIu64 " timed on the device), %s\n",
	       r->path, r->program, devices, r->device, __builtin_popcountll(r->workers), r->nr_calls,
	       r->overlap.nr_jobs, report_time(time, r->end - r->begin));
	if (report_timed(r)) {
		print_overlap(&r->overlap, r->nr_devices > 1);
		print_devices(r);
		print_workers(r);
		if (report_mostly_timed(r))
			print_gaps(&r->overlap);
	}
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

static int report(const char *path, const struct wishes *wishes)
{
	struct report *r = calloc(1, sizeof(*r));
	int status;

	if (!r)
		return tool_trouble("out of memory");
	status = report_read(r, path);
	if (!status)
		report_find_causes(r);
	if (!status && wishes->html)
		status = report_picture(r, wishes->html, true);
	if (!status && wishes->svg)
		status = report_picture(r, wishes->svg, false);
	if (!status && wishes->json)
		report_print_json(r);
	else if (!status)
		print_text(r);
	report_free(r);
	free(r);
	return status;
}

/* A picture written over its own trace would destroy the trace. */
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
			TOOL_FLAG("json", &wishes.json, "print it as JSON"),
			TOOL_FILE("html", &wishes.html, "write a timeline, too, as a page that needs no network"),
			TOOL_FILE("svg", &wishes.svg, "write it as a picture"),
		},
	};
	int first, status = tool_options(&usage, argc, argv, &first);

	if (status != TOOL_GO_ON)
		return status;
	if (is_same_file(wishes.html, argv[first]) || is_same_file(wishes.svg, argv[first]))
		return tool_misused("'%s' is the trace: give the picture another name", argv[first]);
	return report(argv[first], &wishes);
}
