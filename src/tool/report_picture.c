/* SPDX-License-Identifier: MIT */
/*
 * runnel report: the timeline as SVG, and what it shares with the page.
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

/* The colours of a scheme. */
#define COLOURS(ground, ink, dim, grid, lane, depth, edge, job, in, kernel, out, call, back, \
		submit, wait, hatch) \
	":root{--grid:" grid "}.ground{fill:" ground ";background:" ground "}" \
	"text,.ink{fill:" ink ";color:" ink "}.dim{fill:" dim ";color:" dim "}" \
	".grid{stroke:" grid "}.lane{fill:" lane ";background-color:" lane "}" \
	".depth{fill:" depth ";stroke:" edge "}.job{fill:" job "}.in{fill:" in "}" \
	".kernel{fill:" kernel "}.out{fill:" out "}.call{fill:" call "}.back{fill:" back "}" \
	".submit{fill:" submit "}.wait{fill:" wait "}.hatch{fill:" hatch "}rect:hover{stroke:" ink "}"

static const char style[] =
"text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
".title{font-size:18px;font-weight:600}"
".small{font-size:11px}"
".right{text-anchor:end}"
".middle{text-anchor:middle}";

void report_colours(FILE *to)
{
	fputs(COLOURS("#fff", "#1f2937", "#596273", "#e0e3e8", "#f3f4f6", "#c7d2fe", "#6366f1",
		      "#c3c9d2", "#2563eb", "#e08600", "#059669", "#7c3aed", "#b06af0", "#374151",
		      "#e5484d", "#8f97a3")
	      ".maybe{fill:url(#hatch)}"
	      ".grid,.depth,rect:hover{stroke-width:1;vector-effect:non-scaling-stroke}\n"
	      "@media(prefers-color-scheme:dark){"
	      COLOURS("#12151a", "#e8ebf0", "#a3adbb", "#363e4a", "#1f252d", "#3b4380", "#8f96ff",
		      "#4a5361", "#5b9bff", "#ffb13d", "#2fc08f", "#a583ff", "#d3a6ff", "#c2c9d4",
		      "#ff7b7b", "#7d8795") "}\n", to);
}

void report_put_hatch(FILE *to)
{
	fputs("<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
	      "patternTransform=\"rotate(45)\"><rect class=\"hatch\" width=\"1.2\" height=\"5\"/>"
	      "</pattern></defs>\n", to);
}

/* ---- parts --------------------------------------------------------------- */

void report_put_summary(FILE *to, const struct report *r)
{
	const uint64_t busy = r->overlap.busy_ns;
	char time[32];

	fprintf(to, "%d workers, %" PRIu64 " jobs, %" PRIu64 " timed on the device, %s",
		r->nr_workers, r->nr_calls, r->overlap.nr_jobs, report_time(time, r->end - r->begin));
	if (r->most.busy_ns)
		fprintf(to, "; device busy for %s", report_time(time, busy));
	if (report_is_bounded(r))
		fprintf(to, " to %s", report_time(time, r->most.busy_ns));
	else if (busy)
		fprintf(to, ", %.2f times as fast as one after another",
			(double)r->overlap.sum_ns / (double)busy);
}

static void put_title_lines(FILE *to, const struct report *r)
{
	fputs("<text class=\"title\" x=\"20\" y=\"30\">", to);
	report_escape(to, r->program);
	fputs(" <tspan class=\"dim\" font-weight=\"400\">on ", to);
	report_escape(to, r->device);
	fputs("</tspan></text>\n<text class=\"dim\" x=\"20\" y=\"50\">", to);
	report_put_summary(to, r);
	fputs("</text>\n", to);
}

const struct report_entry *report_legend(unsigned i)
{
	static const struct report_entry entries[] = {
		{ "job", "job on the device", 130 }, { "in", "copy in", 75 },
		{ "kernel", "kernel", 72 }, { "out", "copy out", 85 },
		{ "call", "its function", 95 },
		{ "back", "its callback", 95 }, { "submit", "submit", 70 },
		{ "wait", "wait", 40 }, { "maybe", "perhaps on the device", 140 },
	};

	return i < sizeof(entries) / sizeof(entries[0]) ? &entries[i] : NULL;
}

static void put_legend(FILE *to)
{
	const struct report_entry *e;
	double x = LEFT;

	for (unsigned i = 0; (e = report_legend(i)) != NULL; i++) {
		fprintf(to, "<rect class=\"%s\" x=\"%.0f\" y=\"64\" width=\"12\" height=\"12\" "
			    "rx=\"2\"/><text x=\"%.0f\" y=\"74\">%s</text>\n", e->class, x, x + 17,
			e->text);
		x += e->width + 20;
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

struct report_ticks report_ticks(const struct report_scale *s)
{
	const double span = s->end > s->begin ? (double)(s->end - s->begin) : 1;
	const double unit = span >= 2e9 ? 1e9 : span >= 2e6 ? 1e6 : span >= 2e3 ? 1e3 : 1;

	return (struct report_ticks){
		.unit = unit, .step = span / unit > 1 ? picture_step_of(span / unit) : span / unit,
		.name = span >= 2e9 ? "s" : span >= 2e6 ? "ms" : span >= 2e3 ? "us" : "ns",
	};
}

static void put_axis(FILE *to, const struct report_scale *s, double bottom)
{
	const double span = s->end > s->begin ? (double)(s->end - s->begin) : 1;
	const struct report_ticks ticks = report_ticks(s);

	for (double at = 0; at * ticks.unit <= span * 1.0001; at += ticks.step) {
		const double x = s->left + s->width * at * ticks.unit / span;

		fprintf(to, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.1f\"/>"
			    "<text class=\"small dim middle\" x=\"%.1f\" y=\"%.1f\">%g %s</text>\n",
			x, DEPTH_TOP, x, bottom, x, bottom + 16, at, ticks.name);
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
	picture_put_label(to, "jobs at once", DEPTH_TOP + DEPTH_HEIGHT / 2 + 4);
	report_depth(to, r, DEPTH_TOP, DEPTH_HEIGHT, scale);
	fprintf(to, "<text class=\"small dim right\" x=\"%.0f\" y=\"%.0f\">%u</text>"
		    "<text class=\"small dim right\" x=\"%.0f\" y=\"%.0f\">0</text>\n",
		LEFT - 10, DEPTH_TOP + 9, report_most_at_once(r, scale), LEFT - 10, DEPTH_TOP + DEPTH_HEIGHT);
}

/* ---- the picture --------------------------------------------------------- */

unsigned report_threads_shown(const struct report *r)
{
	return r->nr_threads < THREADS_SHOWN ? r->nr_threads : THREADS_SHOWN;
}

static void put_picture(FILE *to, const struct report *r, double least)
{
	const struct report_scale scale = { r->begin, r->end, LEFT, WIDTH - LEFT - RIGHT, least };
	const double bottom = ROWS_TOP + WORKER_HEIGHT * r->nr_workers +
			      THREAD_HEIGHT * report_threads_shown(r);
	double y = ROWS_TOP;

	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
		    "width=\"%d\" height=\"%.0f\" style=\"max-width:100%%;height:auto\">\n<style>%s",
		WIDTH, bottom + 32, WIDTH, bottom + 32, style);
	report_colours(to);
	fputs("</style>\n", to);
	report_put_hatch(to);
	fputs("<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n", to);
	put_title_lines(to, r);
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
	for (unsigned i = 0; i < report_threads_shown(r); i++) {
		picture_put_label(to, r->thread_names[i].text, y + 11);
		put_row(to, r, &scale, REPORT_THREAD, i, y + 2, 10);
		y += THREAD_HEIGHT;
	}
	fputs("</svg>\n", to);
}

/* Returns the picture, as coarse as needed, or NULL if out of memory. */
static char *draw(const struct report *r, bool page, size_t *bytes)
{
	char *text = NULL;

	for (double least = 0.25; least <= COARSEST; least *= 2) {
		FILE *to = open_memstream(&text, bytes);

		if (!to)
			return NULL;
		(page ? report_put_page : put_picture)(to, r, least);
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
