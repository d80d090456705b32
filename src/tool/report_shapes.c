/* SPDX-License-Identifier: MIT */
/*
 * runnel report: draws spans as shapes.
 *
 * DESIGN
 * A span that is wide enough to be pointed at becomes a rectangle with a title.  Other spans go
 * into one path for each row and kind; neighbours with an invisible gap become one shape.  So the
 * file's size depends on the visible shapes, not on the size of the trace.
 * A worker's device row has a band for each kind, one below the other, so spans that overlap in
 * time do not hide each other.  Hatching under them shows when untimed jobs may have run.
 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define POINTED 5.0	/* units; spans at least this wide have titles */
#define NARROWEST 0.5
#define BINS 1000

static const struct {
	const char *class;
	enum report_lane lane;
	double top, height;	/* as fractions of the row's height */
} kinds[REPORT_NR_KINDS] = {
	[REPORT_JOB] = { "job", REPORT_DEVICE, 0, 1 },
	[REPORT_IN] = { "in", REPORT_DEVICE, 0.08, 0.28 },
	[REPORT_KERNEL] = { "kernel", REPORT_DEVICE, 0.36, 0.28 },
	[REPORT_OUT] = { "out", REPORT_DEVICE, 0.64, 0.28 },
	[REPORT_CALL] = { "call", REPORT_HOST, 0, 1 },
	[REPORT_BACK] = { "back", REPORT_HOST, 0, 1 },
	[REPORT_SUBMIT] = { "submit", REPORT_THREAD, 0, 1 },
	[REPORT_WAIT] = { "wait", REPORT_THREAD, 0.25, 0.5 },
	[REPORT_MAYBE] = { "maybe", REPORT_DEVICE, 0, 1 },
};

void report_escape(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", to);
		else if (*text == '&')
			fputs("&amp;", to);
		else if (*text == '"')
			fputs("&quot;", to);
		else if ((unsigned char)*text >= ' ')
			fputc(*text, to);
	}
}

static double x_of(const struct report_scale *s, uint64_t ns)
{
	if (s->end <= s->begin)
		return s->left;
	return s->left + s->width * (double)(ns - s->begin) / (double)(s->end - s->begin);
}

/* Consecutive spans that are drawn as one shape. */
struct run {
	double from, to;
	const struct report_span *only;	/* NULL if there are several */
	bool any, open;			/* the run has spans; the path has begun */
};

struct pen {
	FILE *to;
	const struct report *r;
	const struct report_row *row;
	unsigned kind;
	FILE *rects;
};

static void put_title(struct pen *pen, const struct report_span *s)
{
	char took[32], at[32];

	fputs("<title>", pen->rects);
	report_escape(pen->rects, pen->r->names[s->name].text);
	fprintf(pen->rects, ": %s at %s", report_time(took, s->end - s->begin),
		report_time(at, s->begin));
	if (s->id)
		fprintf(pen->rects, ", job %" PRIu64, s->id);
	if (s->kind == REPORT_CALL && s->queued < s->begin)
		fprintf(pen->rects, ", queued for %s", report_time(took, s->begin - s->queued));
	if (s->kind == REPORT_MAYBE)
		fputs(" at the most, not timed", pen->rects);
	fputs("</title>", pen->rects);
}

static void end_run(struct pen *pen, struct run *run)
{
	const double top = pen->row->top + pen->row->height * kinds[pen->kind].top;
	const double height = pen->row->height * kinds[pen->kind].height;
	double width = run->to - run->from;

	if (!run->any)
		return;
	width = width > NARROWEST ? width : NARROWEST;
	if (run->only && width >= POINTED) {
		fprintf(pen->rects, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\">",
			kinds[pen->kind].class, run->from, top, width, height);
		put_title(pen, run->only);
		fputs("</rect>\n", pen->rects);
	} else {
		if (!run->open)
			fprintf(pen->to, "<path class=\"%s\" d=\"", kinds[pen->kind].class);
		run->open = true;
		fprintf(pen->to, "M%.1f %.1fh%.1fv%.1fh-%.1fz", run->from, top, width, height, width);
	}
	run->any = false;
}

static void put_kind(struct pen *pen, const struct report_scale *scale)
{
	struct run run = { 0 };

	for (size_t i = 0; i < pen->r->nr; i++) {
		const struct report_span *s = &pen->r->spans[i];
		double from, to;

		if (s->kind != pen->kind || s->of != pen->row->of || report_is_no_window(s))
			continue;
		from = x_of(scale, s->begin);
		to = x_of(scale, s->end);
		if (run.any && from < run.to + scale->least && to >= run.from &&
		    (to - from < POINTED || run.to - run.from < POINTED)) {
			run.to = to > run.to ? to : run.to;
			run.only = NULL;
			continue;
		}
		end_run(pen, &run);
		run = (struct run){ from, to, s, true, run.open };
	}
	end_run(pen, &run);
	if (run.open)
		fputs("\"/>\n", pen->to);
}

void report_shapes(FILE *to, const struct report *r, const struct report_row *row,
		   const struct report_scale *scale)
{
	struct pen pen = { .to = to, .r = r, .row = row };
	char *rects = NULL;
	size_t bytes = 0;

	for (unsigned i = 0; i < REPORT_NR_KINDS; i++) {
		/* The last kind, the windows, is drawn first, so that known work covers it. */
		pen.kind = (i + REPORT_MAYBE) % REPORT_NR_KINDS;
		if (kinds[pen.kind].lane != row->lane)
			continue;
		/* Rectangles are written after the path, because they would interrupt it. */
		pen.rects = open_memstream(&rects, &bytes);
		if (!pen.rects)
			return;
		put_kind(&pen, scale);
		fclose(pen.rects);
		fwrite(rects, 1, bytes, to);
		free(rects);
		rects = NULL;
	}
}

/* ---- how many at once ---------------------------------------------------- */

/* Adds to each bin the part of the bin that a span covers. */
static void add_to_bins(double *bins, double from, double to)
{
	for (int i = (int)from; i < BINS && (double)i < to; i++) {
		const double begin = from > i ? from : i, end = to < i + 1 ? to : i + 1;

		bins[i] += end - begin;
	}
}

/* Adds up all workers' jobs, and windows if @most.  A worker adds at most 1 to a bin. */
static void fill_bins(double *bins, const struct report *r, const struct report_scale *scale,
		      bool most)
{
	static double of_worker[RNL_WORKERS_MAX][BINS];
	const struct report_scale own = { scale->begin, scale->end, 0, BINS, 0 };

	memset(of_worker, 0, sizeof(of_worker));
	memset(bins, 0, BINS * sizeof(*bins));
	for (size_t i = 0; i < r->nr; i++) {
		const struct report_span *s = &r->spans[i];

		if (s->kind == REPORT_JOB || (most && s->kind == REPORT_MAYBE))
			add_to_bins(of_worker[s->of], x_of(&own, s->begin), x_of(&own, s->end));
	}
	for (unsigned w = 0; w < RNL_WORKERS_MAX; w++)
		for (int i = 0; i < BINS; i++)
			bins[i] += of_worker[w][i] < 1 ? of_worker[w][i] : 1;
}

static void put_bins(FILE *to, const double *bins, const char *class, double top, double height,
		     const struct report_scale *scale, unsigned most)
{
	fprintf(to, "<path class=\"%s\" d=\"M%.1f %.1f", class, scale->left, top + height);
	for (int i = 0; i < BINS; i++) {
		const double y = top + height * (1 - bins[i] / most);

		if (!i || bins[i] != bins[i - 1])
			fprintf(to, "V%.1f", y);
		if (i + 1 == BINS || bins[i] != bins[i + 1])
			fprintf(to, "H%.1f", scale->left + scale->width * (i + 1) / BINS);
	}
	fprintf(to, "V%.1fz\"/>\n", top + height);
}

/* Finds how many jobs at most, and at least, were on the device at once; returns the axis's end. */
static unsigned find_bins(const struct report *r, const struct report_scale *scale, double *least,
			  double *possible)
{
	double highest = 1;

	fill_bins(least, r, scale, false);
	fill_bins(possible, r, scale, true);
	for (int i = 0; i < BINS; i++)
		highest = possible[i] > highest ? possible[i] : highest;
	return (unsigned)(highest + 0.999);
}

unsigned report_most_at_once(const struct report *r, const struct report_scale *scale)
{
	double least[BINS], possible[BINS];

	return find_bins(r, scale, least, possible);
}

void report_depth(FILE *to, const struct report *r, double top, double height,
		  const struct report_scale *scale)
{
	double least[BINS], possible[BINS];
	const unsigned most = find_bins(r, scale, least, possible);

	if (report_is_bounded(r))
		put_bins(to, possible, "maybe", top, height, scale, most);
	put_bins(to, least, "depth", top, height, scale, most);
}
