/* SPDX-License-Identifier: MIT */
/*
 * runnel report: reports from a trace which work overlapped on the device.
 *
 * DESIGN
 * overlap_find() computes the figures.  They are printed as text for people or as JSON for
 * programs; the picture shows the timeline, and a page has both.
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
	report_tables(stdout, r, false);
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
