/* SPDX-License-Identifier: MIT */
/*
 * The timeline of stream_kinds.
 *
 * DESIGN
 * One panel for each way, with one row per thread, all on the same time scale, so the length of a
 * panel is the cost of the way.  The times of each panel begin at 0.
 */
#include "config.h"

#include "common/timeline.h"
#include "stream_kinds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { KERNEL, LEGACY };
static const struct timeline_colour colours[] = {
	[KERNEL] = { "#2f6fb7", "a kernel" },
	[LEGACY] = { "#d1495b", "a kernel on the legacy default stream" },
};

static unsigned colour_of(const struct kinds_way *way, unsigned thread, unsigned kernel)
{
	const bool all = !way->pool && !way->plain && way->stream == KINDS_LEGACY;

	return all || (way->one_legacy && !thread && kernel == 1) ? LEGACY : KERNEL;
}

static void fill_panel(const struct kinds_options *opt, const struct kinds_way *way,
		       unsigned first, struct timeline_bar *bars)
{
	const uint64_t begin = kinds_figures(opt, way, way->median).begin;
	const struct kinds_span *spans = kinds_spans(way, opt, way->median);

	for (unsigned t = 0; t < opt->threads; t++)
		for (unsigned k = 0; k < opt->kernels; k++, spans++, bars++) {
			*bars = (struct timeline_bar){
				.row = first + t,
				.colour = colour_of(way, t, k),
				.begin = spans->begin - begin,
				.end = spans->end - begin,
			};
			snprintf(bars->title, sizeof(bars->title), "thread %u, kernel %u", t + 1,
				 k + 1);
		}
}

static int draw(const struct kinds_options *opt, const struct kinds_way *ways, unsigned nr,
		struct timeline_row *rows, struct timeline_bar *bars, char (*figures)[16])
{
	char title[128], subtitle[192];
	const struct timeline timeline = {
		title, subtitle, colours, rows, bars, opt->info.cuda ? 2 : 1, nr * opt->threads,
		(size_t)nr * opt->threads * opt->kernels
	};

	snprintf(title, sizeof(title), "%u threads, each %u kernels of %u ms, by kind of stream",
		 opt->threads, opt->kernels, opt->ms);
	snprintf(subtitle, sizeof(subtitle), "%s, times of the device's own clock; a row is a thread, "
		 "a bar a kernel", opt->info.cuda ? opt->info.name : "host device");
	for (unsigned i = 0; i < nr; i++) {
		const unsigned first = i * opt->threads;

		snprintf(figures[i], sizeof(figures[i]), "%.1f ms",
			 kinds_figures(opt, &ways[i], ways[i].median).ms);
		rows[first] = (struct timeline_row){ NULL, ways[i].name, figures[i], ways[i].means };
		fill_panel(opt, &ways[i], first, &bars[first * opt->kernels]);
	}
	return timeline_write(opt->svg, &timeline);
}

int kinds_picture(const struct kinds_options *opt, const struct kinds_way *ways, unsigned nr)
{
	struct timeline_row *rows = calloc((size_t)nr * opt->threads, sizeof(*rows));
	struct timeline_bar *bars = calloc((size_t)nr * opt->threads * opt->kernels, sizeof(*bars));
	char (*figures)[16] = calloc(nr, sizeof(*figures));
	const int ret = rows && bars && figures ? draw(opt, ways, nr, rows, bars, figures) : -ENOMEM;

	free(figures);
	free(bars);
	free(rows);
	return ret;
}
