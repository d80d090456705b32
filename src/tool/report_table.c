/* SPDX-License-Identifier: MIT */
/*
 * runnel report: the figures as tables, as text or in a page.
 *
 * DESIGN
 * Text and page are written by the same calls for rows and cells, so both have the same figures.
 * A width is the least one as text.
 */
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>

#include <runnel/trace.h>

#define NAME 24		/* width of most names */
#define LONG_NAME 34

struct table {
	FILE *to;
	bool page, open;	/* open: the page has a table without its end */
};

/* ---- rows and cells ------------------------------------------------------ */

static void table_end(struct table *t)
{
	if (t->open)
		fputs("</table></div>\n", t->to);
	t->open = false;
}

static void table_begin(struct table *t, const char *title)
{
	table_end(t);
	t->open = t->page;
	fprintf(t->to, t->page ? "<div class=\"scrolls\"><table>\n"
		"<tr><th scope=\"colgroup\" colspan=\"5\">%s\n" : "\n%s\n", title);
}

/* Begins a table with heads of columns. */
static void table_begin_columns(struct table *t, const char *title)
{
	table_end(t);
	t->open = t->page;
	fprintf(t->to, t->page ? "<div class=\"scrolls\"><table>\n<tr><th scope=\"col\">%s" :
		"\n%-26s", title);
}

static void table_head(struct table *t, int width, int columns, const char *text)
{
	if (t->page)
		fprintf(t->to, "<th scope=\"col\" colspan=\"%d\">%s", columns, text);
	else
		fprintf(t->to, "%*s", width, text);
}

static void table_row(struct table *t, int width, const char *name)
{
	if (!t->page) {
		fprintf(t->to, "  %-*s", width, name);
		return;
	}
	fputs("<tr><th scope=\"row\">", t->to);
	report_escape(t->to, name);
}

__attribute__((format(printf, 3, 4)))
static void table_cell(struct table *t, int width, const char *format, ...)
{
	char cell[64];
	va_list args;

	va_start(args, format);
	vsnprintf(cell, sizeof(cell), format, args);
	va_end(args);
	if (t->page)
		fprintf(t->to, "<td>%s", cell);
	else
		fprintf(t->to, "%*s", width, cell);
}

/* ---- figures ------------------------------------------------------------- */

static double percent(uint64_t part, uint64_t of)
{
	return of ? 100.0 * (double)part / (double)of : 0;
}

/* The kind of a figure: exact, a lower bound, or a lower and an upper bound. */
enum known { ALL, LEAST, BOTH };

/*
 * Ends a row with a time in ns, and as a percentage of @elapsed.  @most: the upper bound for BOTH.
 */
static void table_times(struct table *t, enum known known, uint64_t least, uint64_t most,
			uint64_t elapsed)
{
	char time[32];

	table_cell(t, 13, "%s", report_time(time, least));
	table_cell(t, 9, "%.1f %%", percent(least, elapsed));
	if (known == BOTH) {
		table_cell(t, 17, t->page ? "to %s" : "  to %12s", report_time(time, most));
		table_cell(t, 9, "%.1f %%", percent(most, elapsed));
	}
	fputs(known != LEAST ? "\n" : t->page ? "<td>or more\n" : "  or more\n", t->to);
}

static void put_line(struct table *t, const char *what, enum known known, uint64_t least,
		     uint64_t most, uint64_t elapsed)
{
	table_row(t, LONG_NAME, what);
	table_times(t, known, least, most, elapsed);
}

/* Returns how long at least @nr jobs were on the device at once. */
static uint64_t at_once(const struct overlap_figures *o, int nr)
{
	uint64_t ns = 0;

	for (int i = nr; i <= OVERLAP_DEPTH; i++)
		ns += o->at_once_ns[i];
	return ns;
}

/* Puts the time with i jobs; if it is not exact, bounds of the time with i or more. */
static void table_put_depth(struct table *t, const struct report *r)
{
	const bool bounded = report_is_bounded(r);
	const struct overlap_figures *o = &r->overlap, *most = &r->most;
	int last = OVERLAP_DEPTH;

	while (last && !most->at_once_ns[last])
		last--;
	table_begin(t, "Jobs on the device at once");
	for (int i = bounded; i <= last; i++) {
		char what[32];

		snprintf(what, sizeof(what), "%d%s", i,
			 bounded || i == OVERLAP_DEPTH ? " or more" : "");
		put_line(t, what, bounded ? BOTH : ALL, bounded ? at_once(o, i) : o->at_once_ns[i],
			 at_once(most, i), o->elapsed_ns);
	}
}

static void table_put_overlap(struct table *t, const struct report *r)
{
	const struct overlap_figures *o = &r->overlap;
	const bool bounded = report_is_bounded(r);
	const enum known known = bounded ? LEAST : ALL;
	const uint64_t elapsed = o->elapsed_ns, busy = o->busy_ns;
	char title[80], time[32];

	snprintf(title, sizeof(title), "On the device%s, of %s", r->nr_devices > 1 ? "s" : "",
		 report_time(time, elapsed));
	table_begin(t, title);
	put_line(t, "busy", bounded ? BOTH : ALL, busy, r->most.busy_ns, elapsed);
	if (o->in_ns || o->kernel_ns || o->out_ns) {
		put_line(t, "copies in", known, o->in_ns, 0, elapsed);
		put_line(t, "kernels", known, o->kernel_ns, 0, elapsed);
		put_line(t, "copies out", known, o->out_ns, 0, elapsed);
		put_line(t, "copies in and kernels at once", known, o->in_kernel_ns, 0, elapsed);
		put_line(t, "copies out and kernels at once", known, o->out_kernel_ns, 0, elapsed);
		put_line(t, "copies in and out at once", known, o->copies_ns, 0, elapsed);
		put_line(t, "all three at once", known, o->all_ns, 0, elapsed);
	}
	table_end(t);
	if (busy)
		fprintf(t->to, "%sOne after another %s jobs take %s: %.2f times as long as %s busy.%s\n",
			t->page ? "<p>" : "  ", bounded ? "the timed" : "its",
			report_time(time, o->sum_ns), (double)o->sum_ns / (double)busy,
			bounded ? "they had it" : "it was", t->page ? "</p>" : "");
	table_put_depth(t, r);
}

static void table_put_workers(struct table *t, const struct report *r)
{
	table_begin_columns(t, "Workers");
	table_head(t, 11, 1, "jobs timed");
	table_head(t, 13, 4, "busy");
	fputc('\n', t->to);
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (!r->has_worker[i])
			continue;
		table_row(t, NAME, r->worker_names[i].text);
		table_cell(t, 11, "%" PRIu64, r->overlap.worker_jobs[i]);
		table_times(t, report_is_bounded(r) ? BOTH : ALL, r->overlap.worker_ns[i],
			    r->most.worker_ns[i], r->overlap.elapsed_ns);
	}
}

/* Puts each device's figures, which count only overlap within the device. */
static void table_put_devices(struct table *t, const struct report *r)
{
	const bool bounded = report_is_bounded(r);

	if (r->nr_devices < 2)
		return;
	table_begin_columns(t, "Devices");
	table_head(t, 11, 1, "jobs timed");
	table_head(t, 13, 4, "busy");
	fputc('\n', t->to);
	for (unsigned i = 0; i < r->nr_devices; i++) {
		const struct overlap_figures *o = &r->of_device[i];

		if (!r->device_names[i][0])
			continue;
		table_row(t, NAME, r->device_names[i]);
		table_cell(t, 11, "%" PRIu64, o->nr_jobs);
		table_times(t, bounded ? BOTH : ALL, o->busy_ns, r->most_of_device[i].busy_ns,
			    r->overlap.elapsed_ns);
		table_row(t, LONG_NAME, "  copies and kernels at once");
		table_cell(t, 0, "%s", "");
		table_times(t, bounded ? LEAST : ALL, o->in_kernel_ns + o->out_kernel_ns - o->all_ns, 0,
			    r->overlap.elapsed_ns);
	}
}

/* Puts how long each class's jobs were queued, and its part of the timed work on the device. */
static void table_put_classes(struct table *t, const struct report *r)
{
	char time[32];

	if (!r->has_classes)
		return;
	table_begin_columns(t, "Classes");
	table_head(t, 11, 1, "jobs");
	table_head(t, 26, 2, "half, 99 of 100 queued");
	table_head(t, 13, 2, "on device");
	fputc('\n', t->to);
	for (unsigned i = 0; i <= r->nr_names; i++) {
		const struct report_class *c = &r->classes[i];

		if (!c->jobs)
			continue;
		table_row(t, NAME, report_class_name(r, i));
		table_cell(t, 11, "%" PRIu64, c->jobs);
		table_cell(t, 13, "%s", report_time(time, c->queue_p50_ns));
		table_cell(t, 13, "%s", report_time(time, c->queue_p99_ns));
		table_times(t, ALL, c->device_ns, 0, r->classes_ns);
	}
}

static void table_put_requests(struct table *t, const struct report *r)
{
	bool any = false;

	for (unsigned i = 0; i < r->nr_names; i++) {
		if (!r->requests[i])
			continue;
		if (!any) {
			table_begin_columns(t, "Resident kernels");
			table_head(t, 11, 1, "requests");
			fputc('\n', t->to);
		}
		any = true;
		table_row(t, NAME, r->names[i].text);
		table_cell(t, 11, "%" PRIu64, r->requests[i]);
		fputc('\n', t->to);
	}
}

/* Puts the longest gaps in which certainly no job was on the device. */
static void table_put_gaps(struct table *t, const struct report *r)
{
	const struct overlap_gap *gaps = r->most.gaps;
	char length[32], at[32];

	if (gaps[0].end_ns == gaps[0].begin_ns)
		return;
	table_begin(t, "Longest gaps on the device");
	for (int i = 0; i < OVERLAP_GAPS && gaps[i].end_ns > gaps[i].begin_ns; i++)
		fprintf(t->to, t->page ? "<tr><th scope=\"row\">%s<td>at %s\n" : "  %12s at %s\n",
			report_time(length, gaps[i].end_ns - gaps[i].begin_ns),
			report_time(at, gaps[i].begin_ns));
}

void report_tables(FILE *to, const struct report *r, bool page)
{
	struct table t = { to, page, false };

	if (r->most.elapsed_ns) {
		table_put_overlap(&t, r);
		table_put_devices(&t, r);
		table_put_workers(&t, r);
		table_put_gaps(&t, r);
	}
	table_put_classes(&t, r);
	table_put_requests(&t, r);
	table_end(&t);
}
