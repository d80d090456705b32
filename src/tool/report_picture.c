/* SPDX-License-Identifier: MIT */
/*
 * runnel report: the timeline, as SVG, alone or in a page.
 *
 * DESIGN
 * The output is one file without scripts and without references to other files.  The browser
 * shows a shape's title when the mouse is over the shape.  While the file is too large, the picture
 * is drawn again, more coarsely each time.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/trace.h>

#include "text.h"
#include "tool.h"

#define WIDTH 1200
#define LEFT 150.0
#define RIGHT 20.0
#define DEPTH_TOP 92.0
#define DEPTH_HEIGHT 64.0
#define ROWS_TOP 188.0
#define DEVICE_HEIGHT 18.0
#define HOST_HEIGHT 6.0
#define WORKER_HEIGHT 32.0
#define THREAD_HEIGHT 18.0
#define SIZE_WANTED 180000	/* bytes */
#define COARSEST 16.0
#define THREADS_SHOWN 8

static const char style[] =
"<style>"
"text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1f2937}"
".title{font-size:18px;font-weight:600}"
".dim{fill:#6b7280}"
".small{font-size:11px;fill:#6b7280}"
".right{text-anchor:end}"
".middle{text-anchor:middle}"
".grid{stroke:#e5e7eb;stroke-width:1}"
".lane{fill:#f3f4f6}"
".depth{fill:#c7d2fe;stroke:#6366f1;stroke-width:.8}"
".job{fill:#d1d5db}"
".in{fill:#2563eb}"
".kernel{fill:#f59e0b}"
".out{fill:#059669}"
".call{fill:#7c3aed}"
".back{fill:#c084fc}"
".submit{fill:#374151}"
".wait{fill:#f87171}"
".maybe{fill:url(#hatch)}"
"rect:hover{stroke:#111827;stroke-width:1}"
"</style>\n"
"<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
"patternTransform=\"rotate(45)\"><rect width=\"1.2\" height=\"5\" fill=\"#9ca3af\"/>"
"</pattern></defs>\n";

/* ---- parts --------------------------------------------------------------- */

static void put_summary(FILE *to, const struct report *r)
{
	const struct overlap_figures *o = &r->overlap;
	const uint64_t busy = o->busy_ns;
	char time[32];

	fputs("<text class=\"title\" x=\"20\" y=\"30\">", to);
	report_escape(to, r->program);
	fputs(" <tspan class=\"dim\" font-weight=\"400\">on ", to);
	report_escape(to, r->device);
	fputs("</tspan></text>\n<text class=\"dim\" x=\"20\" y=\"50\">", to);
	fprintf(to, "%d workers, %" PRIu64 " jobs, %" PRIu64 " timed on the device, %s",
		r->nr_workers, r->nr_calls, o->nr_jobs,
		report_time(time, r->end - r->begin));
	if (r->most.busy_ns)
		fprintf(to, "; device busy for %s", report_time(time, busy));
	if (report_is_bounded(r))
		fprintf(to, " to %s", report_time(time, r->most.busy_ns));
	else if (busy)
		fprintf(to, ", %.2f times as fast as one after another",
			(double)o->sum_ns / (double)busy);
	fputs("</text>\n", to);
}

static void put_legend(FILE *to)
{
	static const struct {
		const char *class, *text;
		int width;
	} entries[] = {
		{ "job", "job on the device", 130 }, { "in", "copy in", 75 },
		{ "kernel", "kernel", 72 }, { "out", "copy out", 85 },
		{ "call", "its function", 95 },
		{ "back", "its callback", 95 }, { "submit", "submit", 70 },
		{ "wait", "wait", 40 }, { "maybe", "perhaps on the device", 140 },
	};
	double x = LEFT;

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		fprintf(to, "<rect class=\"%s\" x=\"%.0f\" y=\"64\" width=\"12\" height=\"12\" rx=\"2\"/>"
			    "<text x=\"%.0f\" y=\"74\">%s</text>\n",
			entries[i].class, x, x + 17, entries[i].text);
		x += entries[i].width + 20;
	}
}

/* Returns the least of 1, 2, 5, 10, ... that divides @span into at most ten steps. */
static double picture_step_of(double span)
{
	double step = 1;

	while (span / step > 10) {
		if (span / (step * 2) <= 10)
			return step * 2;
		if (span / (step * 5) <= 10)
			return step * 5;
		step *= 10;
	}
	return step;
}

static void put_axis(FILE *to, const struct report_scale *s, double bottom)
{
	const double span = s->end > s->begin ? (double)(s->end - s->begin) : 1;
	const double unit = span >= 2e9 ? 1e9 : span >= 2e6 ? 1e6 : span >= 2e3 ? 1e3 : 1;
	const char *name = span >= 2e9 ? "s" : span >= 2e6 ? "ms" : span >= 2e3 ? "us" : "ns";
	const double step = span / unit > 1 ? picture_step_of(span / unit) : span / unit;

	for (double at = 0; at * unit <= span * 1.0001; at += step) {
		const double x = s->left + s->width * at * unit / span;

		fprintf(to, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.1f\"/>"
			    "<text class=\"small middle\" x=\"%.1f\" y=\"%.1f\">%g %s</text>\n",
			x, DEPTH_TOP, x, bottom, x, bottom + 16, at, name);
	}
}

static void picture_put_label(FILE *to, const char *text, double y)
{
	char shown[20];

	tool_text(shown, sizeof(shown), text);
	fprintf(to, "<text class=\"right\" x=\"%.0f\" y=\"%.1f\">", LEFT - 10, y);
	report_escape(to, shown);
	fputs("</text>\n", to);
}

static void put_row(FILE *to, const struct report *r, const struct report_scale *scale,
		    enum report_lane lane, unsigned of, double top, double height)
{
	const struct report_row row = { top, height, lane, of };

	fprintf(to, "<rect class=\"lane\" x=\"%.0f\" y=\"%.1f\" width=\"%.0f\" height=\"%.1f\"/>\n",
		scale->left, top, scale->width, height);
	report_shapes(to, r, &row, scale);
}

static void picture_put_depth(FILE *to, const struct report *r, const struct report_scale *scale)
{
	unsigned most;

	picture_put_label(to, "jobs at once", DEPTH_TOP + DEPTH_HEIGHT / 2 + 4);
	report_depth(to, r, DEPTH_TOP, DEPTH_HEIGHT, scale, &most);
	fprintf(to, "<text class=\"small right\" x=\"%.0f\" y=\"%.0f\">%u</text>"
		    "<text class=\"small right\" x=\"%.0f\" y=\"%.0f\">0</text>\n",
		LEFT - 10, DEPTH_TOP + 9, most, LEFT - 10, DEPTH_TOP + DEPTH_HEIGHT);
}

/* ---- the picture --------------------------------------------------------- */

static unsigned threads_shown(const struct report *r)
{
	return r->nr_threads < THREADS_SHOWN ? r->nr_threads : THREADS_SHOWN;
}

static void put_picture(FILE *to, const struct report *r, double least)
{
	const struct report_scale scale = { r->begin, r->end, LEFT, WIDTH - LEFT - RIGHT, least };
	const double bottom = ROWS_TOP + WORKER_HEIGHT * r->nr_workers +
			      THREAD_HEIGHT * threads_shown(r);
	double y = ROWS_TOP;

	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
		    "width=\"%d\" height=\"%.0f\" style=\"max-width:100%%;height:auto\">\n%s"
		    "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		WIDTH, bottom + 32, WIDTH, bottom + 32, style);
	put_summary(to, r);
	put_legend(to);
	put_axis(to, &scale, bottom);
	picture_put_depth(to, r, &scale);
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		if (!r->has_worker[i])
			continue;
		picture_put_label(to, r->worker_names[i].text, y + DEVICE_HEIGHT - 4);
		put_row(to, r, &scale, REPORT_DEVICE, i, y, DEVICE_HEIGHT);
		put_row(to, r, &scale, REPORT_HOST, i, y + DEVICE_HEIGHT + 1, HOST_HEIGHT);
		y += WORKER_HEIGHT;
	}
	for (unsigned i = 0; i < threads_shown(r); i++) {
		picture_put_label(to, r->thread_names[i].text, y + 11);
		put_row(to, r, &scale, REPORT_THREAD, i, y + 2, 10);
		y += THREAD_HEIGHT;
	}
	fputs("</svg>\n", to);
}

static void put_causes(FILE *to, const struct report *r)
{
	if (!r->nr_causes)
		return;
	fputs("<h2>Likely causes, and what to do</h2>\n<ul>\n", to);
	for (unsigned i = 0; i < r->nr_causes; i++) {
		fputs("<li>", to);
		report_escape(to, r->causes[i].text);
		fputs(".</li>\n", to);
	}
	fputs("</ul>\n", to);
}

static void put_page(FILE *to, const struct report *r, double least)
{
	char sampling[300];

	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>", to);
	report_escape(to, r->program);
	fputs(": timeline</title>\n<style>body{margin:24px auto;max-width:1200px;color:#1f2937;"
	      "font:14px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
	      "h2{font-size:16px;margin:16px 20px 4px}li{margin:2px 20px}p{margin:2px 20px}"
	      "</style></head><body>\n", to);
	if (*report_sampling(r, sampling)) {
		fputs("<p>", to);
		report_escape(to, sampling);
		fputs(".</p>\n", to);
	}
	put_picture(to, r, least);
	put_causes(to, r);
	fputs("</body></html>\n", to);
}

/* Returns the picture, as coarse as needed, or NULL if out of memory. */
static char *draw(const struct report *r, bool page, size_t *bytes)
{
	char *text = NULL;

	for (double least = 0.25; least <= COARSEST; least *= 2) {
		FILE *to = open_memstream(&text, bytes);

		if (!to)
			return NULL;
		(page ? put_page : put_picture)(to, r, least);
		if (fclose(to)) {
			free(text);
			return NULL;
		}
		if (*bytes <= SIZE_WANTED || 2 * least > COARSEST)
			return text;
		free(text);
		text = NULL;
	}
	return NULL;
}

int report_picture(const struct report *r, const char *path, bool page)
{
	size_t bytes = 0;
	char *text = draw(r, page, &bytes);
	FILE *file;
	bool ok;

	if (!text)
		return tool_trouble("%s: out of memory for the picture", path);
	file = fopen(path, "we");
	if (!file) {
		free(text);
		return tool_trouble("%s: %s", path, strerror(errno));
	}
	ok = fwrite(text, 1, bytes, file) == bytes;
	ok = !fclose(file) && ok;
	free(text);
	return ok ? 0 : tool_trouble("%s: %s", path, strerror(errno));
}
