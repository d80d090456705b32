/* SPDX-License-Identifier: MIT */
/* A timeline as SVG: rows of bars on one scale of time. */
#ifndef EXAMPLES_TIMELINE_H
#define EXAMPLES_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

struct timeline_colour {
	const char *fill;	/* a CSS colour: "#2f6fb7" */
	const char *name;	/* the colour's meaning, for the legend */
};

struct timeline_row {
	const char *name;	/* on the left; NULL: none */
	/* A heading begins a new panel with this row; `figure` and `means` may be NULL. */
	const char *heading, *figure, *means;
};

struct timeline_bar {
	unsigned row, colour;	/* indices */
	uint64_t begin, end;	/* ns, of any clock; the axis begins at the earliest bar */
	char title[48];		/* the tooltip, to which the times are added */
};

struct timeline {
	const char *title, *subtitle;
	const struct timeline_colour *colours;
	const struct timeline_row *rows;
	const struct timeline_bar *bars;	/* the bars of a row are sorted by `begin` */
	unsigned nr_colours, nr_rows;
	size_t nr_bars;
};

/* Writes the picture completely or not at all.  Returns 0 or a negative errno. */
int timeline_write(const char *file, const struct timeline *t);

#endif /* EXAMPLES_TIMELINE_H */
