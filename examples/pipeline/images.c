/* SPDX-License-Identifier: MIT */
/*
 * Images from PNG files or generated ones, and the output images.
 *
 * DESIGN
 * png_read.c reads files, libpng's simplified interface writes them.  An image's size is checked
 * before its pixels are read.  The generated images have smooth and detailed regions, so that
 * relevance differs between patches.  All images are in memory before the first run, each with the
 * result of the serial reference.
 */
#include "config.h"

#include "common/output.h"
#include "common/program.h"
#include "pipeline.h"
#include "pipeline/png_read.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <png.h>

#include <runnel/memory.h>

#define PIXELS_MAX (64u << 20)
#define NR_GENERATED 8u
#define TOKENS_USUAL 144u		/* per patch, on average */

/* ---- memory -------------------------------------------------------------- */

static void *must_alloc(size_t bytes)
{
	void *mem = malloc(bytes);

	if (!mem)
		program_die("out of memory");
	return mem;
}

/* Adds an image without pixels. */
static struct image *add_image(struct pipeline *p, uint32_t width, uint32_t height)
{
	const uint32_t across = (width + PATCH - 1) / PATCH, down = (height + PATCH - 1) / PATCH;
	struct image *image;

	p->images = realloc(p->images, (p->nr_images + 1) * sizeof(*p->images));
	if (!p->images)
		program_die("out of memory");
	image = &p->images[p->nr_images++];
	*image = (struct image){ .view = { .width = width, .height = height } };
	image->view.across = across;
	image->view.nr = across * down;
	program_must(rnl_memory_get(p->pool, RNL_PINNED, (size_t)width * height * 3,
				    (void **)&image->rgb, 0),
		     "memory for the images");
	return image;
}

/* Completes an image that has its pixels: computes its reference. */
static void finish_image(struct pipeline *p, struct image *image)
{
	struct view *view = &image->view;
	const uint32_t least = view->nr * TOKENS_MIN, most = view->nr * TOKENS_MAX;

	if (p->tokens && p->tokens < least)
		program_die("%s: its %u patches have %u tokens at least, which is more than "
			    "--tokens=%u", image->name, view->nr, least, p->tokens);
	view->total = p->tokens ? p->tokens : view->nr * TOKENS_USUAL;
	view->total = view->total < most ? view->total : most;
	view->tables = &p->tables;
	view->rgb = image->rgb;
	view->textures = must_alloc(textures_bytes(view->nr));
	view->patches = must_alloc(view->nr * sizeof(struct patch));
	view->tokens = must_alloc(view->total * sizeof(struct token));
	stages_reference(image);
	free(view->textures);
	view->textures = NULL;
}

void images_free(struct pipeline *p)
{
	for (unsigned i = 0; i < p->nr_images; i++) {
		rnl_memory_put(p->pool, p->images[i].rgb);
		free(p->images[i].view.patches);
		free(p->images[i].view.tokens);
	}
	free(p->images);
}

/* ---- files --------------------------------------------------------------- */

static void load_file(struct pipeline *p, const char *file)
{
	struct png_reader reader = { .width = 0 };
	FILE *from = fopen(file, "re");
	const char *base = strrchr(file, '/');
	struct image *image;
	int ret;

	base = base ? base + 1 : file;
	if (!from)
		program_die("%s: %s", file, strerror(errno));
	ret = png_read_begin(&reader, PNG_RGB_ON_WHITE, from, NULL, 0);
	if (ret)
		program_die("%s: %s", file, ret == -EBADMSG ? reader.wrong : strerror(-ret));
	if (reader.width > SIDE_MAX || reader.height > SIDE_MAX ||
	    reader.width * reader.height > PIXELS_MAX)
		program_die("%s: %u x %u pixels are too many: at most %u on a side, %u M in all",
			    file, reader.width, reader.height, SIDE_MAX, PIXELS_MAX >> 20);
	image = add_image(p, reader.width, reader.height);
	snprintf(image->name, sizeof(image->name), "%02u-%.*s", p->nr_images,
		 (int)strcspn(base, "."), base);
	ret = png_read_pixels(&reader, image->rgb);
	if (ret)
		program_die("%s: %s", file, ret == -EBADMSG ? reader.wrong : strerror(-ret));
	png_read_free(&reader);
	fclose(from);
	finish_image(p, image);
}

static int is_png(const struct dirent *entry)
{
	const size_t length = strlen(entry->d_name);

	return length > 4 && !strcasecmp(entry->d_name + length - 4, ".png");
}

static void load_directory(struct pipeline *p, const char *directory)
{
	struct dirent **entries;
	const int nr = scandir(directory, &entries, is_png, alphasort);

	if (nr <= 0)
		program_die("%s: %s", directory, nr < 0 ? strerror(errno) : "it has no PNG files");
	for (int i = 0; i < nr; i++) {
		struct stat st;
		char *file;

		if (asprintf(&file, "%s/%s", directory, entries[i]->d_name) < 0)
			program_die("out of memory");
		if (!stat(file, &st) && !S_ISREG(st.st_mode))	/* open() of a FIFO would wait */
			program_die("%s: this is not a regular file", file);
		load_file(p, file);
		free(file);
		free(entries[i]);
	}
	free(entries);
}

/* ---- generated images ---------------------------------------------------- */

static uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/* Returns smooth noise, 0 to 255: interpolates random values at corners of cells of @size. */
static uint32_t noise(uint32_t x, uint32_t y, uint32_t size, uint32_t seed)
{
	const uint32_t column = x / size, row = y / size;
	const uint32_t right = x % size * 256 / size, below = y % size * 256 / size;
	uint32_t sum = 0;

	for (uint32_t i = 0; i < 4; i++) {
		const uint32_t corner = mix(mix(column + i % 2 + seed * 7919) + row + i / 2) & 255;

		sum += corner * (i % 2 ? right : 256 - right) / 16 *
		       (i / 2 ? below : 256 - below) / 16;
	}
	return sum >> 8;
}

static void generate(struct pipeline *p, uint32_t width, uint32_t height)
{
	struct image *image = add_image(p, width, height);
	const uint32_t seed = mix(p->seed + p->nr_images), radius = height / 4;
	const uint32_t middle_x = width / 4 + seed % (width / 2);
	const uint32_t middle_y = height / 3 + seed / 7 % radius;
	uint8_t *to = image->rgb;

	image->generated = 1;
	snprintf(image->name, sizeof(image->name), "%02u-generated", p->nr_images);
	for (uint32_t y = 0; y < height; y++)
		for (uint32_t x = 0; x < width; x++) {
			const int dx = (int)(x - middle_x), dy = (int)(y - middle_y);
			const int inside = (uint32_t)(dx * dx + dy * dy) < radius * radius;
			const uint32_t place = noise(x, y, 150, seed + 9);
			const uint32_t busy = place > 120 ? place - 120 : 0;
			const uint32_t detail = noise(x, y, 5, seed) * busy / 135;
			const uint32_t wave = x * 2 + y + noise(x, y, 40, seed) / 2;
			const uint32_t stripe = inside && wave / 12 % 2 ? 90 : 0;

			for (uint32_t c = 1; c <= 3; c++) {
				const uint32_t hue = noise(x, y, inside ? 60 : 200,
							   seed + c + (inside ? 5 : 0));
				const uint32_t value = (hue + stripe) * 2 / 3 + detail / 3;

				*to++ = (uint8_t)(value < 255 ? value : 255);
			}
		}
	finish_image(p, image);
}

void images_load(struct pipeline *p, char **names, unsigned nr)
{
	static const uint16_t sizes[][2] = { { 256, 192 }, { 640, 480 }, { 500, 333 }, { 768, 512 } };

	for (unsigned i = 0; i < nr; i++) {
		struct stat st;

		if (!stat(names[i], &st) && S_ISDIR(st.st_mode))
			load_directory(p, names[i]);
		else
			load_file(p, names[i]);
	}
	for (unsigned i = 0; !nr && i < NR_GENERATED && (!p->nr || i < p->nr); i++)
		generate(p, sizes[i % 4][0] * p->scale, sizes[i % 4][1] * p->scale);
}

/* ---- the output images --------------------------------------------------- */

static void write_png(const struct pipeline *p, const struct image *image, const char *what,
		      const uint8_t *rgb)
{
	png_image png = {
		.version = PNG_IMAGE_VERSION,
		.width = image->view.width,
		.height = image->view.height,
		.format = PNG_FORMAT_RGB,
	};
	struct output out;
	char *file;
	int ret;

	if (asprintf(&file, "%s/%s-%s.png", p->out, image->name, what) < 0)
		program_die("out of memory");
	ret = output_begin(&out, file);
	if (!ret) {
		errno = 0;
		if (!png_image_write_to_stdio(&png, out.to, 0, rgb, 0, NULL))
			ret = errno ? -errno : -EIO;
		ret = output_end(&out, ret);
	}
	program_must(ret, file);
	free(file);
}

/* Returns a colour between dark violet, red, orange and pale yellow. */
static uint32_t heat(uint32_t score, unsigned c)
{
	static const uint8_t stops[][3] = {
		{ 13, 8, 75 }, { 126, 3, 168 }, { 220, 70, 85 }, { 252, 166, 54 }, { 250, 250, 180 },
	};
	const uint32_t i = score < 1000 ? score / 250 : 3, part = score - i * 250;

	return (stops[i][c] * (250 - part) + stops[i + 1][c] * part) / 250;
}

void image_write(const struct pipeline *p, const struct image *image, const struct view *view)
{
	const size_t bytes = (size_t)view->width * view->height * 3;
	uint8_t *map = must_alloc(bytes), *cells = must_alloc(bytes);
	uint8_t *to_map = map, *to_cell = cells;
	const uint8_t *rgb = image->rgb;
	const struct patch *last = &view->patches[view->nr - 1];
	uint32_t least = TOKENS_MAX, most = 0;

	for (uint32_t y = 0; y < view->height; y++)
		for (uint32_t x = 0; x < view->width; x++, rgb += 3) {
			const uint32_t i = y / PATCH * view->across + x / PATCH;
			const struct patch *patch = &view->patches[i];
			/* The last cell that starts at or before the pixel. */
			const uint32_t column = ((x % PATCH + 1) * patch->columns - 1) / PATCH;
			const uint32_t row = ((y % PATCH + 1) * patch->rows - 1) / PATCH;
			const uint32_t cell = patch->first + row * patch->columns + column;
			const uint32_t grey = (rgb[0] * 3u + rgb[1] * 6u + rgb[2]) / 10;
			const uint32_t score = (uint32_t)patch->scores[p->tables.relevance];

			for (unsigned c = 0; c < 3; c++) {
				*to_map++ = (uint8_t)((heat(score, c) * 2 + grey) / 3);
				*to_cell++ = view->tokens[cell].rgb[c];
			}
		}
	if (image->generated)
		write_png(p, image, "input", image->rgb);
	write_png(p, image, "relevance", map);
	write_png(p, image, "patches", cells);
	for (uint32_t i = 0; i < view->nr; i++) {
		const uint32_t tokens = view->patches[i].columns * view->patches[i].rows;

		least = tokens < least ? tokens : least;
		most = tokens > most ? tokens : most;
	}
	printf("%-24s %5u x %-5u %5u patches  %7u tokens, %u to %u each\n", image->name, view->width,
	       view->height, view->nr, last->first + last->columns * last->rows, least, most);
	free(cells);
	free(map);
}
