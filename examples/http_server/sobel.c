/* SPDX-License-Identifier: MIT */
/*
 * Finds edges on the CPU.
 *
 * DESIGN
 * Row by row; the pixels at both ends of a row are done apart, so that the loop
 * over the others has no condition in it and the compiler can use vectors.
 */
#include "sobel.h"

void sobel_grid(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct sobel_args *a = (const struct sobel_args *)args;
	const uint32_t last = a->width - 1;

	(void)grid;
	(void)block;
	for (uint32_t y = 0; y < a->height; y++) {
		const unsigned char *row = a->pixels + (size_t)y * a->width;
		const unsigned char *above = y ? row - a->width : row;
		const unsigned char *below = y + 1 < a->height ? row + a->width : row;
		unsigned char *restrict edges = a->edges + (size_t)y * a->width;

		edges[0] = sobel_edge(above, row, below, 0, 0, last ? 1 : 0);
		for (uint32_t x = 1; x < last; x++)
			edges[x] = sobel_edge(above, row, below, x - 1, x, x + 1);
		if (last)
			edges[last] = sobel_edge(above, row, below, last - 1, last, last);
	}
}
