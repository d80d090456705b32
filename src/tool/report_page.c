/* SPDX-License-Identifier: MIT */
/*
 * runnel report: the page, with the timeline, the tables and the causes.
 *
 * DESIGN
 * The rows of the timeline are pictures that are as wide as the window, and all text is outside of
 * them, so letters are as large on a phone as elsewhere.  The page needs no script.
 */
#include "report.h"

#include <inttypes.h>

#include <runnel/trace.h>

#define WIDTH 1000.0	/* units */
#define DEPTH_HEIGHT 64.0
#define DEVICE_HEIGHT 18.0
#define HOST_HEIGHT 6.0
#define THREAD_HEIGHT 10.0

static const char layout[] =
"body{margin:0 auto;max-width:75rem;padding:1rem;"
"font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
"h1{font-size:1.25rem;margin:0}h1 span{font-weight:400}h2{font-size:1rem;margin:1.5rem 0 .25rem}"
"p{margin:.25rem 0}li{overflow-wrap:anywhere}"
".legend{display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:1rem 0;padding:0;list-style:none;"
"font-size:.875rem}"
".legend svg{width:.75rem;height:.75rem;margin-right:.4rem}"
".row{display:grid;grid-template-columns:9.5rem minmax(0,1fr);gap:.75rem;align-items:center;"
"margin:.5rem 0}"
".row>:first-child{text-align:right;overflow-wrap:anywhere;font-size:.875rem;line-height:1.25}"
".row svg{display:block;width:100%}"
".axis{position:relative;height:1.25rem;font-size:.8125rem}"
".axis span{position:absolute;transform:translateX(-50%);white-space:nowrap}"
".axis span:first-child{transform:none}"
".tables{display:flex;flex-wrap:wrap;gap:1.25rem 3rem;margin-top:1.5rem}"
".tables p{flex-basis:100%;margin:0}"
".scrolls{overflow-x:auto}"
"table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}"
"th{font-weight:400;text-align:left;overflow-wrap:anywhere;min-width:7rem}"
"td,th+th{padding-left:.75rem;text-align:right;white-space:nowrap;overflow-wrap:normal;min-width:0}"
"tr:first-child th{font-weight:600}"
"@media(max-width:46rem){.row{grid-template-columns:minmax(0,1fr);gap:0}"
".row>:first-child{text-align:left}.axis span:nth-child(even){display:none}"
"table{font-size:.75rem}th{min-width:5.5rem}td,th+th{padding-left:.4rem}"
"th+th{white-space:normal}.scrolls{max-width:100%}}";

/* ---- parts --------------------------------------------------------------- */

static void page_put_head(FILE *to, const struct report *r, const struct report_scale *s)
{
	const struct report_ticks ticks = report_ticks(s);
	const double span = s->end > s->begin ? (double)(s->end - s->begin) : 1;
	char sampling[300];

	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>", to);
	report_escape(to, r->program);
	fprintf(to, ": timeline</title>\n<style>%s", layout);
	report_colours(to);
	/* A line at each tick, as wide as a pixel. */
	fprintf(to, ".row svg{background-image:repeating-linear-gradient(90deg,var(--grid) 0 1px,"
		    "transparent 1px %.3f%%)}</style></head>\n<body class=\"ground ink\">\n<h1>",
		100 * ticks.step * ticks.unit / span);
	report_escape(to, r->program);
	fputs(" <span class=\"dim\">on ", to);
	report_escape(to, r->device);
	fputs("</span></h1>\n<p class=\"dim\">", to);
	report_put_summary(to, r);
	fputs("</p>\n", to);
	if (!*report_sampling(r, sampling))
		return;
	fputs("<p>", to);
	report_escape(to, sampling);
	fputs(".</p>\n", to);
}

static void page_put_legend(FILE *to)
{
	fputs("<ul class=\"legend\">\n", to);
	for (unsigned i = 0; report_legend(i); i++)
		fprintf(to, "<li><svg viewBox=\"0 0 12 12\"><rect class=\"%s\" width=\"12\" "
			    "height=\"12\" rx=\"2\"/></svg>%s</li>\n", report_legend(i)->class,
			report_legend(i)->text);
	fputs("</ul>\n", to);
}

static void begin_row(FILE *to, const char *name, const char *class, double height)
{
	fputs("<div class=\"row\"><span>", to);
	report_escape(to, name);
	fprintf(to, "</span><svg xmlns=\"http://www.w3.org/2000/svg\" class=\"%s\" "
		    "viewBox=\"0 0 %.0f %.0f\" height=\"%.0f\" preserveAspectRatio=\"none\">\n",
		class, WIDTH, height, height);
}

static void page_put_depth(FILE *to, const struct report *r, const struct report_scale *scale)
{
	char name[40];

	snprintf(name, sizeof(name), "jobs at once, 0 to %u", report_most_at_once(r, scale));
	begin_row(to, name, "", DEPTH_HEIGHT);
	report_put_hatch(to);
	report_depth(to, r, 0, DEPTH_HEIGHT, scale);
	fputs("</svg></div>\n", to);
}

static void page_put_axis(FILE *to, const struct report_scale *s)
{
	const struct report_ticks ticks = report_ticks(s);
	const double span = s->end > s->begin ? (double)(s->end - s->begin) : 1;

	fputs("<div class=\"row dim\"><span></span><div class=\"axis\">", to);
	for (double at = 0; at * ticks.unit <= span * 1.0001; at += ticks.step) {
		const double percent = 100 * at * ticks.unit / span;

		if (percent < 94)
			fprintf(to, "<span style=\"left:%.2f%%\">%g %s</span>", percent, at, ticks.name);
		else	/* it would not fit */
			fprintf(to, "<span style=\"right:%.2f%%;transform:none\">%g %s</span>",
				percent < 100 ? 100 - percent : 0, at, ticks.name);
	}
	fputs("</div></div>\n", to);
}

static void page_put_timeline(FILE *to, const struct report *r, const struct report_scale *scale)
{
	struct report_row row = { 0, DEVICE_HEIGHT, REPORT_DEVICE, 0 };

	page_put_depth(to, r, scale);
	for (; row.of < RNL_WORKERS_MAX; row.of++) {
		if (!r->has_worker[row.of])
			continue;
		begin_row(to, r->worker_names[row.of].text, "lane", DEVICE_HEIGHT + 1 + HOST_HEIGHT);
		row = (struct report_row){ 0, DEVICE_HEIGHT, REPORT_DEVICE, row.of };
		report_shapes(to, r, &row, scale);
		row = (struct report_row){ DEVICE_HEIGHT + 1, HOST_HEIGHT, REPORT_HOST, row.of };
		report_shapes(to, r, &row, scale);
		fputs("</svg></div>\n", to);
	}
	for (unsigned i = 0; i < report_threads_shown(r); i++) {
		row = (struct report_row){ 0, THREAD_HEIGHT, REPORT_THREAD, i };
		begin_row(to, r->thread_names[i].text, "lane", THREAD_HEIGHT);
		report_shapes(to, r, &row, scale);
		fputs("</svg></div>\n", to);
	}
	page_put_axis(to, scale);
}

static void page_put_causes(FILE *to, const struct report *r)
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

void report_put_page(FILE *to, const struct report *r, double least)
{
	const struct report_scale scale = { r->begin, r->end, 0, WIDTH, least };

	page_put_head(to, r, &scale);
	page_put_legend(to);
	page_put_timeline(to, r, &scale);
	page_put_causes(to, r);
	fputs("<div class=\"tables\">\n", to);
	report_tables(to, r, true);
	fputs("</div></body></html>\n", to);
}
