/* SPDX-License-Identifier: MIT */
/*
 * pipeline: images go through three stages on different workers.
 *
 *	pipeline.c	the options, the report, the picture
 *	stages.c	the stages' jobs, and the ring of images in flight
 *	steps.h		the stages' computations, for every device
 *	images.c	images from PNG files or generated ones, and the output images
 *	png_read.c	reads PNGs of every kind
 *	device.cu	the kernels; device.c: without nvcc
 */
#ifndef PIPELINE_H
#define PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>
#include <runnel/kernel.h>

#include "../common/shared.h"

SHARED_BEGIN

#define PATCH 64			/* pixels on a side */
#define PATCH_PIXELS (PATCH * PATCH)
#define TOKENS_MIN 64u			/* per patch */
#define TOKENS_MAX 400u
#define THREADS 256			/* per block */
#define BINS 32				/* in a patch's histogram of lightness */
#define SIDE_MAX 16384			/* pixels */
#define NR_STAGES 3

/* The textures: planes of int16_t; edge pixels are repeated to fill whole patches. */
enum channel {
	RED, GREEN, BLUE,		/* 0 to 255 */
	LIGHT, GREEN_RED, BLUE_YELLOW,	/* CIE L*a*b* in tenths */
	ACROSS, DOWN, STEEPNESS,	/* Sobel's gradient of LIGHT, and its length */
	OCTANT,				/* the gradient's direction, in eighths of a circle */
	PLACE_X, PLACE_Y,		/* -1000 to 1000 from the centre */
	ECCENTRICITY,			/* the distance from the centre, 0 to 1414 */
	NR_CHANNELS
};

enum relevance {
	ENTROPY,			/* entropy of the histogram of LIGHT */
	SALIENCE,			/* steep, unlike the image's mean colour, near the centre */
	QUERY,				/* the channels' means, weighted by the query */
	BALANCED,			/* the mean of the three above */
	NR_RELEVANCES
};

struct patch {
	int32_t means[NR_CHANNELS];
	int32_t scores[NR_RELEVANCES];	/* 0 to 1000, scaled to the image's range */
	uint32_t columns, rows;		/* numbers of cells; a cell is a token */
	uint32_t first;			/* the patch's first token in the image */
};

static inline size_t textures_bytes(uint32_t nr_patches)
{
	return (size_t)nr_patches * PATCH_PIXELS * NR_CHANNELS * sizeof(int16_t);
}

struct token {
	uint8_t rgb[3];			/* the mean of its cell */
};

/* Logarithms and roots, as tables of integers that the host computes for all devices. */
struct tables {
	uint16_t linear[256];		/* linear light of sRGB's values; 65535 is 1 */
	uint16_t root[4096];		/* f(i / 4095) of L*a*b*; 32768 is 1 */
	uint32_t entropy[PATCH_PIXELS + 1];	/* 1024 i log2(i) */
	int32_t query[NR_CHANNELS];	/* weights */
	uint32_t relevance;		/* enum relevance: determines the budgets */
};

/* An image in flight: the argument of all kernels. */
struct view {
	const struct tables *tables;
	const uint8_t *rgb;
	int16_t *textures;
	struct patch *patches;
	struct token *tokens;
	uint32_t width, height;
	uint32_t across, nr;		/* patches */
	uint32_t total;			/* tokens at most */
};

/* X(step, number of blocks): the steps in order; one block per patch, or one for all patches. */
#define STEPS(X) \
	X(colours, view->nr) X(edges, view->nr) \
	X(sums, view->nr) X(relevances, 1) \
	X(budgets, 1) X(cells, view->nr)

#define DECLARE_STEP(step, blocks) \
	extern const struct rnl_kernel step##_kernel; \
	void step##_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args);
STEPS(DECLARE_STEP)

extern const char *const stage_names[NR_STAGES];

/* ---- images.c ------------------------------------------------------------ */

struct image {
	char name[80];
	int generated;
	uint8_t *rgb;			/* pinned */
	struct view view;		/* sizes, and the serial reference's results */
};

struct pipeline {
	const char *device, *svg, *out;	/* svg, out: NULL if not given */
	enum rnl_stream_kind stream;
	int serial;
	unsigned stages, depth, repeat, seed, scale;
	unsigned nr;			/* images per run; input images are reused */
	uint32_t tokens;		/* per image; 0: depends on its patches */
	struct tables tables;

	struct rnl_device_info info;
	struct rnl_pool *pool;
	struct image *images;
	unsigned nr_images;
};

/* Loads or generates the images, in memory of the pool.  Dies on an error. */
void images_load(struct pipeline *p, char **names, unsigned nr);
void images_free(struct pipeline *p);

/* Writes an image's output images, and prints its line. */
void image_write(const struct pipeline *p, const struct image *image, const struct view *view);

/* ---- stages.c ------------------------------------------------------------ */

struct span {
	uint64_t begin, end;		/* ns, by the device's clock */
};

/* Runs all steps on this thread: the serial reference. */
void stages_reference(struct image *image);

void stages_begin(struct pipeline *p);	/* allocates the ring's memory */
void stages_end(void);

/* Does one run.  @spans: receives the times of the stages.  @write: write the output images. */
void stages_run(const struct pipeline *p, int serial, struct span (*spans)[NR_STAGES], int write);

SHARED_END
#endif /* PIPELINE_H */
