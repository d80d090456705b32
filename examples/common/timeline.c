/* SPDX-License-Identifier: MIT */
/*
 * A timeline as SVG: rows of bars on one scale of time.
 *
 * DESIGN
 * Any browser shows the file without other files; the tooltip of a bar shows its times.  From top
 * to bottom there are: title, subtitle, legend, the panels with their rows, the axis.  Named rows
 * are high; unnamed ones are thin, so that many fit.  A bar that overlaps the previous bar of its
 * row has half the height.
 */
#include "config.h"

#include "common/output.h"
#include "common/timeline.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 960.0
#define LEFT 24.0
#define RIGHT 24.0
#define HEAD 64.0
#define LEGEND 24.0
#define HEADING 40.0		/* height of a panel's heading */
#define GAP 18.0		/* below a panel */
#define FOOT 34.0
#define LETTER 7.0		/* approximate width of a letter */
#define TICKS 14		/* at most */

struct scale {
	double left;			/* x of time 0 */
	double ms, per_ms;		/* ms that the whole width shows; pixels per ms */
	double row, bar;		/* heights */
	double head;			/* height of everything above the first panel */
	uint64_t origin;
};

static double x_of(const struct scale *s, uint64_t at)
{
	return s->left + (double)(at - s->origin) / 1e6 * s->per_ms;
}

/* Writes text, and escapes the characters that XML reserves. */
static void put_text(FILE *to, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<': fputs("&lt;", to); break;
		case '>': fputs("&gt;", to); break;
		case '&': fputs("&amp;", to); break;
		default: fputc(*text, to);
		}
}

static void draw_text(FILE *to, const char *class, double x, double y, const char *text)
{
	fprintf(to, "<text class=\"%s\" x=\"%g\" y=\"%g\">", class, x, y);
	put_text(to, text);
	fputs("</text>\n", to);
}

static void draw_legend(FILE *to, const struct timeline *t)
{
	double x = LEFT;

	for (unsigned i = 0; i < t->nr_colours; i++) {
		fprintf(to, "<rect x=\"%g\" y=\"%g\" width=\"12\" height=\"12\" rx=\"2\" "
			"fill=\"%s\"/>\n", x, HEAD - 2, t->colours[i].fill);
		draw_text(to, "means", x + 17, HEAD + 8, t->colours[i].name);
		x += 38 + LETTER * (double)strlen(t->colours[i].name);
	}
}

/* Draws at most TICKS marks, at round numbers of ms. */
static void draw_axis(FILE *to, const struct scale *s, double bottom)
{
	double step = 0.001;

	for (unsigned i = 0; s->ms / step > TICKS; i++)
		step *= i % 3 == 1 ? 2.5 : 2;
	for (unsigned i = 0; i * step <= s->ms; i++) {
		const double x = s->left + i * step * s->per_ms;

		fprintf(to, "<line class=\"mark\" x1=\"%.1f\" y1=\"%g\" x2=\"%.1f\" y2=\"%g\"/>"
			"<text class=\"tick\" x=\"%.1f\" y=\"%g\">%g%s</text>\n", x, s->head, x,
			bottom, x, bottom + 14, i * step, i ? "" : " ms");
	}
}

/* Draws headings and empty rows.  @tops: receives each row's top.  Returns the bottom. */
static double draw_rows(FILE *to, const struct timeline *t, const struct scale *s, double *tops)
{
	double top = s->head;

	for (unsigned i = 0; i < t->nr_rows; i++, top += s->row) {
		const struct timeline_row *row = &t->rows[i];

		if (row->heading) {
			top += i ? GAP : 0;
			draw_text(to, "way", LEFT, top + 14, row->heading);
			if (row->figure)
				draw_text(to, "ms", LEFT + 14 + LETTER * 1.1 *
					  (double)strlen(row->heading), top + 14, row->figure);
			if (row->means)
				draw_text(to, "means", LEFT, top + 30, row->means);
			top += HEADING;
		}
		tops[i] = top;
		fprintf(to, "<rect class=\"row\" x=\"%.1f\" y=\"%g\" width=\"%.1f\" "
			"height=\"%g\"/>\n", s->left, top, s->ms * s->per_ms, s->bar);
		if (row->name)
			draw_text(to, "name", LEFT, top + s->bar / 2 + 4, row->name);
	}
	return top;
}

static void draw_bars(FILE *to, const struct timeline *t, const struct scale *s,
		      const double *tops, uint64_t *ends)
{
	for (size_t i = 0; i < t->nr_bars; i++) {
		const struct timeline_bar *bar = &t->bars[i];
		const double x = x_of(s, bar->begin), width = x_of(s, bar->end) - x - 0.5;
		const double height = bar->begin < ends[bar->row] ? s->bar / 2 : s->bar;

		ends[bar->row] = bar->end;
		fprintf(to, "<rect x=\"%.2f\" y=\"%g\" width=\"%.2f\" height=\"%g\" "
			"fill=\"%s\"><title>", x, tops[bar->row] + s->bar - height,
			width > 0.4 ? width : 0.4, height, t->colours[bar->colour].fill);
		put_text(to, bar->title);
		fprintf(to, ": %.3f to %.3f ms</title></rect>\n",
			(double)(bar->begin - s->origin) / 1e6,
			(double)(bar->end - s->origin) / 1e6);
	}
}

static struct scale scale_of(const struct timeline *t)
{
	struct scale s = { .left = LEFT, .origin = UINT64_MAX, .row = 9, .bar = 7, .head = HEAD + LEGEND };
	uint64_t end = 0;

	for (size_t i = 0; i < t->nr_bars; i++) {
		s.origin = t->bars[i].begin < s.origin ? t->bars[i].begin : s.origin;
		end = t->bars[i].end > end ? t->bars[i].end : end;
	}
	for (unsigned i = 0; i < t->nr_rows; i++) {
		const char *name = t->rows[i].name;
		const double left = name ? LEFT + 12 + LETTER * (double)strlen(name) : 0;

		s.left = left > s.left ? left : s.left;
		if (name) {
			s.row = 28;
			s.bar = 22;
		}
	}
	s.ms = end > s.origin ? (double)(end - s.origin) / 1e6 : 0.001;
	s.per_ms = (WIDTH - s.left - RIGHT) / s.ms;
	return s;
}

static void draw(FILE *to, const struct timeline *t, double *tops, uint64_t *ends)
{
	const struct scale s = scale_of(t);
	double bottom = s.head;

	for (unsigned i = 0; i < t->nr_rows; i++)
		bottom += s.row + (t->rows[i].heading ? HEADING + (i ? GAP : 0) : 0);
	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
		"height=\"%g\" font-family=\"sans-serif\" font-size=\"12\">\n<style>"
		".head{font-size:16px;font-weight:bold}.way{font-size:13px;font-weight:bold}"
		".ms{fill:#b0413e;font-weight:bold}.means,.tick{fill:#555}.tick{text-anchor:middle;"
		"font-size:11px}.row{fill:#f1f3f5}.mark{stroke:#ddd;stroke-width:1}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", WIDTH, bottom + FOOT,
		WIDTH, bottom + FOOT);
	draw_text(to, "head", LEFT, 26, t->title);
	draw_text(to, "means", LEFT, 46, t->subtitle);
	draw_legend(to, t);
	draw_axis(to, &s, bottom);
	draw_rows(to, t, &s, tops);
	draw_bars(to, t, &s, tops, ends);
	fputs("</svg>\n", to);
}

int timeline_write(const char *file, const struct timeline *t)
{
	double *tops = calloc(t->nr_rows, sizeof(*tops));
	uint64_t *ends = calloc(t->nr_rows, sizeof(*ends));
	int ret = tops && ends ? 0 : -ENOMEM;
	struct output out;

	if (!ret)
		ret = output_begin(&out, file);
	if (!ret) {
		draw(out.to, t, tops, ends);
		ret = output_end(&out, 0);
	}
	free(ends);
	free(tops);
	return ret;
}
