/* SPDX-License-Identifier: MIT */
/*
 * The steps of the stages, for every device.
 *
 * DESIGN
 * A step is one function.  On a GPU a block of threads calls it, on other devices one thread does.
 * The threads divide the work by strides, and add their sums in the block's memory.  All devices
 * compute identical bytes: integer sums do not depend on the order of the additions, and the only
 * floating-point operation is the square root, which IEEE 754 rounds exactly.
 *
 *	textures   colours    RGB, L*a*b*, position        a block per patch
 *	           edges      Sobel's gradient             a block per patch
 *	relevance  sums       means, entropy               a block per patch
 *	           relevances relative to other patches    one block
 *	tokens     budgets    within the total             one block
 *	           cells      means of a grid of cells     a block per patch
 */
#ifndef PIPELINE_STEPS_H
#define PIPELINE_STEPS_H

#include <math.h>

#include "pipeline.h"

/* A block's memory. */
struct block {
	int32_t sums[NR_CHANNELS], bins[BINS];
	int32_t least[NR_RELEVANCES], most[NR_RELEVANCES];
	int32_t total, parts[THREADS];
};

/* A thread of a block. */
struct at {
	struct block *block;
	uint32_t patch, thread, threads;
};

#define SHARE(i, nr) (uint32_t i = at->thread; i < (uint32_t)(nr); i += at->threads)

#ifdef __CUDA_ARCH__
SHARED void meet(void) { __syncthreads(); }
SHARED void add(int32_t *to, int32_t n) { atomicAdd(to, n); }
SHARED void lower(int32_t *to, int32_t n) { atomicMin(to, n); }
SHARED void raise_to(int32_t *to, int32_t n) { atomicMax(to, n); }
#else
SHARED void meet(void) { }
SHARED void add(int32_t *to, int32_t n) { *to += n; }
SHARED void lower(int32_t *to, int32_t n) { *to = n < *to ? n : *to; }
SHARED void raise_to(int32_t *to, int32_t n) { *to = n > *to ? n : *to; }
#endif

SHARED int32_t root_of(int32_t n)
{
	return (int32_t)sqrtf((float)n);
}

SHARED int32_t distance(int32_t a, int32_t b)
{
	return a < b ? b - a : a - b;
}

/* ---- textures ------------------------------------------------------------ */

SHARED size_t plane_of(const struct view *view)
{
	return (size_t)view->nr * PATCH_PIXELS;
}

/* Returns the index of a patch's pixel in a plane; @x, @y: its place in the padded image. */
SHARED size_t pixel_of(const struct view *view, uint32_t patch, uint32_t i, uint32_t *x, uint32_t *y)
{
	*x = patch % view->across * PATCH + i % PATCH;
	*y = patch / view->across * PATCH + i / PATCH;
	return (size_t)*y * view->across * PATCH + *x;
}

SHARED int32_t root(const struct tables *t, const uint8_t *rgb, uint32_t r, uint32_t g, uint32_t b)
{
	/* 1 is 2^14 in weights, 2^16 in linear light, and 2^12 in the table's index. */
	return t->root[(t->linear[rgb[0]] * r + t->linear[rgb[1]] * g + t->linear[rgb[2]] * b) >> 18];
}

SHARED void colours(const struct view *view, const struct at *at)
{
	const size_t plane = plane_of(view);

	for SHARE(i, PATCH_PIXELS) {
		uint32_t x, y;
		int16_t *to = view->textures + pixel_of(view, at->patch, i, &x, &y);
		const uint32_t from_x = x < view->width ? x : view->width - 1;
		const uint32_t from_y = y < view->height ? y : view->height - 1;
		const uint8_t *rgb = view->rgb + ((size_t)from_y * view->width + from_x) * 3;
		/* From sRGB's primaries to XYZ, with white point D65. */
		const int32_t fx = root(view->tables, rgb, 7109, 6164, 3111);
		const int32_t fy = root(view->tables, rgb, 3483, 11718, 1183);
		const int32_t fz = root(view->tables, rgb, 291, 1793, 14300);
		const int32_t across = (int32_t)(2000 * x / (view->across * PATCH)) - 1000;
		const int32_t down = (int32_t)(2000 * y / (view->nr / view->across * PATCH)) - 1000;

		for (int c = RED; c <= BLUE; c++)
			to[c * plane] = rgb[c];
		to[LIGHT * plane] = (int16_t)(1160 * fy / 32768 - 160);
		to[GREEN_RED * plane] = (int16_t)(5000 * (fx - fy) / 32768);
		to[BLUE_YELLOW * plane] = (int16_t)(2000 * (fy - fz) / 32768);
		to[PLACE_X * plane] = (int16_t)across;
		to[PLACE_Y * plane] = (int16_t)down;
		to[ECCENTRICITY * plane] = (int16_t)root_of(across * across + down * down);
	}
}

SHARED void edges(const struct view *view, const struct at *at)
{
	const size_t plane = plane_of(view);
	const uint32_t pitch = view->across * PATCH, height = view->nr / view->across * PATCH;

	for SHARE(i, PATCH_PIXELS) {
		uint32_t x, y;
		int16_t *to = view->textures + pixel_of(view, at->patch, i, &x, &y);
		const int16_t *row = to + LIGHT * plane;
		const int16_t *above = y ? row - pitch : row;
		const int16_t *below = y + 1 < height ? row + pitch : row;
		const int l = x ? -1 : 0, r = x + 1 < pitch;
		const int across = above[r] + 2 * row[r] + below[r] -
				   (above[l] + 2 * row[l] + below[l]);
		const int down = below[l] + 2 * below[0] + below[r] -
				 (above[l] + 2 * above[0] + above[r]);

		to[ACROSS * plane] = (int16_t)across;
		to[DOWN * plane] = (int16_t)down;
		to[STEEPNESS * plane] = (int16_t)root_of(across * across + down * down);
		to[OCTANT * plane] = (int16_t)((down < 0) * 4 + (across < 0) * 2 +
					       (distance(down, 0) > distance(across, 0)));
	}
}

/* ---- relevance ----------------------------------------------------------- */

SHARED void sums(const struct view *view, const struct at *at)
{
	const size_t plane = plane_of(view);
	struct patch *patch = &view->patches[at->patch];
	int32_t own[NR_CHANNELS] = { 0 };

	for SHARE(i, BINS)
		at->block->bins[i] = 0;
	for SHARE(c, NR_CHANNELS)
		at->block->sums[c] = 0;
	meet();
	for SHARE(i, PATCH_PIXELS) {
		uint32_t x, y;
		const int16_t *from = view->textures + pixel_of(view, at->patch, i, &x, &y);

		for (int c = 0; c < NR_CHANNELS; c++)
			own[c] += from[c * plane];
		add(&at->block->bins[from[LIGHT * plane] * BINS / 1001], 1);
	}
	for (int c = 0; c < NR_CHANNELS; c++)
		add(&at->block->sums[c], own[c]);
	meet();
	for SHARE(c, NR_CHANNELS)
		patch->means[c] = at->block->sums[c] / PATCH_PIXELS;
	for SHARE(one, 1) {
		uint32_t rest = 12 * 1024;	/* log2(PATCH_PIXELS); a bit is 1024 */
		uint32_t sum = 0;

		for (int i = 0; i < BINS; i++)
			sum += view->tables->entropy[at->block->bins[i]];
		rest -= sum / PATCH_PIXELS;
		patch->scores[ENTROPY] = (int32_t)rest;
	}
}

/* Scales the scores of one kind from the image's range to 0 to 1000. */
SHARED void spread(const struct block *b, struct patch *patch, int kind)
{
	const int64_t above = (int64_t)patch->scores[kind] - b->least[kind];
	const int64_t range = (int64_t)b->most[kind] - b->least[kind];

	patch->scores[kind] = (int32_t)(range ? above * 1000 / range : 0);
}

SHARED void note(struct block *b, const struct patch *patch, int kind)
{
	lower(&b->least[kind], patch->scores[kind]);
	raise_to(&b->most[kind], patch->scores[kind]);
}

SHARED void relevances(const struct view *view, const struct at *at)
{
	struct block *b = at->block;

	for SHARE(c, NR_CHANNELS)
		b->sums[c] = 0;
	for SHARE(r, NR_RELEVANCES) {
		b->least[r] = INT32_MAX;
		b->most[r] = INT32_MIN;
	}
	meet();
	for SHARE(i, view->nr)
		for (int c = LIGHT; c <= BLUE_YELLOW; c++)
			add(&b->sums[c], view->patches[i].means[c]);
	meet();
	for SHARE(i, view->nr) {
		struct patch *patch = &view->patches[i];
		int32_t unlike = patch->means[STEEPNESS], query = 0;

		for (int c = LIGHT; c <= BLUE_YELLOW; c++)
			unlike += distance(patch->means[c], b->sums[c] / (int32_t)view->nr);
		for (int c = 0; c < NR_CHANNELS; c++)
			query += view->tables->query[c] * patch->means[c];
		patch->scores[SALIENCE] = unlike * (2000 - patch->means[ECCENTRICITY]) / 2000;
		patch->scores[QUERY] = query;
		for (int r = 0; r < BALANCED; r++)
			note(b, patch, r);
	}
	meet();
	for SHARE(i, view->nr) {
		struct patch *patch = &view->patches[i];

		patch->scores[BALANCED] = 0;
		for (int r = 0; r < BALANCED; r++) {
			spread(b, patch, r);
			patch->scores[BALANCED] += patch->scores[r];
		}
		note(b, patch, BALANCED);
	}
	meet();
	for SHARE(i, view->nr)
		spread(b, &view->patches[i], BALANCED);
}

/* ---- tokens -------------------------------------------------------------- */

/* Returns the budget of a patch at a water level: water filling. */
SHARED int32_t budget_at(const struct view *view, uint32_t patch, uint32_t level)
{
	const int32_t score = view->patches[patch].scores[view->tables->relevance];
	const uint64_t more = (uint64_t)score * level >> 16;
	const uint32_t most = TOKENS_MAX - TOKENS_MIN;

	return (int32_t)(TOKENS_MIN + (more < most ? (uint32_t)more : most));
}

/* Finds the highest level at which the budgets fit into the total, bit by bit. */
SHARED uint32_t level_of(const struct view *view, const struct at *at)
{
	uint32_t level = 0;

	for (uint32_t bit = 1u << 24; bit; bit >>= 1) {	/* at 2^25 - 1 a score of 1 gets the most */
		for SHARE(one, 1)
			at->block->total = 0;
		meet();
		for SHARE(i, view->nr)
			add(&at->block->total, budget_at(view, i, level | bit));
		meet();
		if ((uint32_t)at->block->total <= view->total)
			level |= bit;
		meet();
	}
	return level;
}

SHARED void budgets(const struct view *view, const struct at *at)
{
	const uint32_t level = level_of(view, at);
	const uint32_t run = (view->nr + at->threads - 1) / at->threads;
	const uint32_t begin = at->thread * run;
	const uint32_t end = begin + run < view->nr ? begin + run : view->nr;
	uint32_t first = 0;

	for (uint32_t i = begin; i < end; i++) {
		struct patch *patch = &view->patches[i];
		const int32_t budget = budget_at(view, i, level);

		patch->rows = (uint32_t)root_of(budget);
		patch->columns = (uint32_t)budget / patch->rows;
		first += patch->rows * patch->columns;
	}
	at->block->parts[at->thread] = (int32_t)first;
	meet();
	first = 0;
	for (uint32_t i = 0; i < at->thread; i++)
		first += (uint32_t)at->block->parts[i];
	for (uint32_t i = begin; i < end; i++) {
		view->patches[i].first = first;
		first += view->patches[i].rows * view->patches[i].columns;
	}
}

/* Returns the first pixel of a column or row of cells. */
SHARED uint32_t cell_edge(uint32_t i, uint32_t nr)
{
	return i * PATCH / nr;
}

SHARED void cells(const struct view *view, const struct at *at)
{
	const size_t plane = plane_of(view);
	const struct patch *patch = &view->patches[at->patch];

	for SHARE(i, patch->columns * patch->rows) {
		const uint32_t column = i % patch->columns, row = i / patch->columns;
		const uint32_t left = cell_edge(column, patch->columns);
		const uint32_t right = cell_edge(column + 1, patch->columns);
		const uint32_t top = cell_edge(row, patch->rows);
		const uint32_t bottom = cell_edge(row + 1, patch->rows);
		const uint32_t nr = (right - left) * (bottom - top);
		uint32_t sum[3] = { nr / 2, nr / 2, nr / 2 };

		for (uint32_t y = top; y < bottom; y++)
			for (uint32_t x = left; x < right; x++) {
				uint32_t to_x, to_y;
				const int16_t *from = view->textures +
					pixel_of(view, at->patch, y * PATCH + x, &to_x, &to_y);

				for (int c = RED; c <= BLUE; c++)
					sum[c] += (uint32_t)from[c * plane];
			}
		for (int c = RED; c <= BLUE; c++)
			view->tokens[patch->first + i].rgb[c] = (uint8_t)(sum[c] / nr);
	}
}

#endif /* PIPELINE_STEPS_H */
