/* SPDX-License-Identifier: MIT */
/*
 * The timeline of stream_kinds, as SVG.
 *
 * DESIGN
 * One panel for each way, with a row for each thread, all on one scale of time, so that
 * the length of a panel is the cost of the way.  Any browser shows it, and the tooltip of a
 * bar has the times of its kernel.  A kernel that overlaps the one before it in its row has
 * half the height.
 */
#include "config.h"

#include "stream_kinds.h"

#include <errno.h>
#include <stdio.h>

#define WIDTH 960.0
#define LEFT 24.0
#define RIGHT 24.0
#define HEAD 64.0
#define TITLE 40.0		/* of a panel */
#define ROW 9.0
#define BAR 7.0
#define GAP 18.0
#define FOOT 34.0

#define LEGACY_COLOUR "#d1495b"
static const char *const colours[] = { "#2f6fb7", "#5b9bd5", "#9dc3e6" };

struct scale {
	double ms;			/* of the whole width */
	double per_ms;
};

static double x_of(const struct scale *scale, uint64_t begin, uint64_t at)
{
	return LEFT + (double)(at - begin) / 1e6 * scale->per_ms;
}

/* Red on the legacy stream, else by the kernel's number in its thread. */
static const char *colour_of(const struct kinds_way *way, unsigned thread, unsigned kernel)
{
	const bool all = !way->pool && way->stream == KINDS_LEGACY;

	if (all || (way->one_legacy && !thread && kernel == 1))
		return LEGACY_COLOUR;
	return colours[kernel % (sizeof(colours) / sizeof(colours[0]))];
}

static void draw_panel(FILE *to, const struct kinds_options *opt, const struct kinds_way *way,
		       const struct scale *scale, double top)
{
	const struct kinds_figures f = kinds_figures(opt, way, way->median);
	const struct kinds_span *spans = kinds_spans(way, opt, way->median);

	fprintf(to, "<text x=\"%g\" y=\"%g\"><tspan class=\"way\">%s</tspan>"
		"<tspan class=\"ms\" dx=\"10\">%.1f ms</tspan></text>\n", LEFT, top + 14, way->name,
		f.ms);
	fprintf(to, "<text class=\"means\" x=\"%g\" y=\"%g\">%s</text>\n", LEFT, top + 30, way->means);
	top += TITLE;
	for (unsigned t = 0; t < opt->threads; t++) {
		const double y = top + t * ROW;

		fprintf(to, "<rect class=\"row\" x=\"%g\" y=\"%g\" width=\"%.1f\" height=\"%g\"/>\n",
			LEFT, y, scale->ms * scale->per_ms, BAR);
		for (unsigned k = 0; k < opt->kernels; k++) {
			const struct kinds_span *span = &spans[t * opt->kernels + k];
			const double x = x_of(scale, f.begin, span->begin);
			const bool beside = k && span->begin < span[-1].end;
			const double height = beside ? BAR / 2 : BAR;

			fprintf(to, "<rect x=\"%.1f\" y=\"%g\" width=\"%.1f\" height=\"%g\" "
				"fill=\"%s\"><title>thread %u, kernel %u: %.2f to %.2f ms</title>"
				"</rect>\n", x, y + BAR - height,
				x_of(scale, f.begin, span->end) - x - 0.5, height,
				colour_of(way, t, k), t + 1, k + 1,
				(double)(span->begin - f.begin) / 1e6,
				(double)(span->end - f.begin) / 1e6);
		}
	}
}

/* At most 14 marks, at round numbers of ms. */
static void draw_axis(FILE *to, const struct scale *scale, double top, double bottom)
{
	double step = 1;

	while (scale->ms / step > 14)
		step *= scale->ms / step > 28 ? 5 : 2;
	for (double ms = 0; ms <= scale->ms; ms += step) {
		const double x = LEFT + ms * scale->per_ms;

		fprintf(to, "<line class=\"mark\" x1=\"%.1f\" y1=\"%g\" x2=\"%.1f\" y2=\"%g\"/>"
			"<text class=\"tick\" x=\"%.1f\" y=\"%g\">%g</text>\n", x, top, x, bottom, x,
			bottom + 14, ms);
	}
	fprintf(to, "<text class=\"tick\" x=\"%g\" y=\"%g\">ms</text>\n", WIDTH - RIGHT / 2,
		bottom + 14);
}

static void draw(FILE *to, const struct kinds_options *opt, const struct kinds_way *ways,
		 unsigned nr)
{
	const double panel = TITLE + opt->threads * ROW + GAP;
	const double bottom = HEAD + nr * panel;
	struct scale scale = { 0, 0 };

	for (unsigned i = 0; i < nr; i++) {
		const double ms = kinds_figures(opt, &ways[i], ways[i].median).ms;

		scale.ms = ms > scale.ms ? ms : scale.ms;
	}
	scale.per_ms = (WIDTH - LEFT - RIGHT) / scale.ms;
	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
		"height=\"%g\" font-family=\"sans-serif\" font-size=\"12\">\n<style>"
		".head{font-size:16px;font-weight:bold}.way{font-size:13px;font-weight:bold}"
		".ms{fill:#b0413e;font-weight:bold}.means,.tick{fill:#555}.tick{text-anchor:middle;"
		"font-size:11px}.row{fill:#f1f3f5}.mark{stroke:#ddd;stroke-width:1}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", WIDTH, bottom + FOOT,
		WIDTH, bottom + FOOT);
	fprintf(to, "<text class=\"head\" x=\"%g\" y=\"26\">%u threads, each %u kernels of %u ms, by "
		"kind of stream</text>\n<text class=\"means\" x=\"%g\" y=\"46\">%s, times of the device's own "
		"clock; a row is a thread, a bar a kernel%s</text>\n", LEFT, opt->threads, opt->kernels,
		opt->ms, LEFT, opt->info.cuda ? opt->info.name : "host device",
		opt->info.cuda ? ", a red one on the legacy default stream" : "");
	draw_axis(to, &scale, HEAD, bottom);
	for (unsigned i = 0; i < nr; i++)
		draw_panel(to, opt, &ways[i], &scale, HEAD + i * panel);
	fputs("</svg>\n", to);
}

int kinds_picture(const struct kinds_options *opt, const struct kinds_way *ways, unsigned nr)
{
	FILE *to = fopen(opt->svg, "we");
	int ret = 0;

	if (!to)
		return -errno;
	draw(to, opt, ways, nr);
	if (fflush(to) || ferror(to))
		ret = errno ? -errno : -EIO;
	if (fclose(to) && !ret)
		ret = -errno;
	return ret;
}
