/* SPDX-License-Identifier: MIT */
/* The kernels of http_server, except gwc's: Sobel's edges, and a crash. */
#ifndef HTTP_KERNELS_H
#define HTTP_KERNELS_H

#include <stdint.h>

#include <runnel.h>
#include <runnel/batch.h>
#include <runnel/kernel.h>

#include "../common/shared.h"

SHARED_BEGIN

/* A thread computes one pixel; the grid covers the image. */
#define SOBEL_BLOCK_X 32
#define SOBEL_BLOCK_Y 8

struct sobel_args {
	const unsigned char *pixels;	/* grey, row after row */
	unsigned char *edges;		/* same layout as the pixels */
	uint32_t width;
	uint32_t height;
};

/*
 * Returns the edge at column @m of three rows; @l and @r are the columns next to it.  The edge is
 * the sum of the weighted absolute differences across and down, at most 255.  A pixel outside of
 * the image equals the nearest one inside.
 */
SHARED unsigned char sobel_edge(const unsigned char *above, const unsigned char *row,
				      const unsigned char *below, uint32_t l, uint32_t m,
				      uint32_t r)
{
	const int across = above[r] + 2 * row[r] + below[r] - above[l] - 2 * row[l] - below[l];
	const int down = below[l] + 2 * below[m] + below[r] - above[l] - 2 * above[m] - above[r];
	const int edge = (across < 0 ? -across : across) + (down < 0 ? -down : down);

	return (unsigned char)(edge > 255 ? 255 : edge);
}

/* The format of a picture in a batch: its size comes first. */
#define SMALL_PIXELS 16384

struct small_picture {
	uint32_t width;
	uint32_t height;
	unsigned char pixels[SMALL_PIXELS];	/* the first width * height are used */
};

/* A picture's edges, and, for the timeline, the worker and the start of the picture's batch. */
struct small_edges {
	int64_t began_ns;
	uint32_t worker;
	uint32_t unused;
	unsigned char pixels[SMALL_PIXELS];
};

/* Each thread block computes one picture. */
struct pictures_args {
	const void *pictures;
	struct small_edges *edges;	/* one per picture */
	const struct rnl_span *spans;	/* the position of each picture */
	int64_t began_ns;
	uint32_t worker;
	uint32_t nr;
};

SHARED void sign_picture(const struct pictures_args *args, uint32_t i)
{
	args->edges[i].began_ns = args->began_ns;
	args->edges[i].worker = args->worker;
}

SHARED struct sobel_args picture_of(const struct pictures_args *args, uint32_t i)
{
	const struct small_picture *picture = (const struct small_picture *)(const void *)
		((const char *)args->pictures + args->spans[i].offset);
	const struct sobel_args one = { picture->pixels, args->edges[i].pixels,
					picture->width, picture->height };

	return one;
}

/* Writes to an unmapped address, which makes CUDA fail permanently. */
struct crash_args {
	uint32_t *where;
};

extern const struct rnl_kernel sobel_kernel, pictures_kernel, crash_kernel;

/* The kernels' host functions.  A crash on the host device ends the process by SIGSEGV. */
void sobel_grid(struct rnl_dim grid, struct rnl_dim block, const void *args);
void pictures_grid(struct rnl_dim grid, struct rnl_dim block, const void *args);
void crash_grid(struct rnl_dim grid, struct rnl_dim block, const void *args);

SHARED_END
#endif /* HTTP_KERNELS_H */
