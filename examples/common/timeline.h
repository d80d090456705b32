/* SPDX-License-Identifier: MIT */
/* A timeline as SVG: rows of bars on one scale of time. */
#ifndef EXAMPLES_TIMELINE_H
#define EXAMPLES_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

struct timeline_colour {
	const char *fill;	/* as CSS writes it: "#2f6fb7" */
	const char *name;	/* in the legend: what the colour means, and no other does */
};

struct timeline_row {
	const char *name;	/* on the left; NULL: none */
	/* A heading makes the row the first of a panel; the other two may be NULL. */
	const char *heading, *figure, *means;
};

struct timeline_bar {
	unsigned row, colour;	/* indices */
	uint64_t begin, end;	/* ns, of any clock; the first begin of all bars is 0 on the axis */
	char title[48];		/* of the tooltip, which also has the times */
};

struct timeline {
	const char *title, *subtitle;
	const struct timeline_colour *colours;
	const struct timeline_row *rows;
	const struct timeline_bar *bars;	/* those of a row in the order of their begins */
	unsigned nr_colours, nr_rows;
	size_t nr_bars;
};

/* Writes the picture; no half-written one is left.  Return: 0 or a negative errno. */
int timeline_write(const char *file, const struct timeline *t);

#endif /* EXAMPLES_TIMELINE_H */
