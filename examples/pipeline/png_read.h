/* SPDX-License-Identifier: MIT */
/* Reads PNGs of every kind, for pipeline and http_server. */
#ifndef PIPELINE_PNG_READ_H
#define PIPELINE_PNG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The kind of pixels that the caller wants, and the background of transparent pixels. */
enum png_pixels { PNG_GREY_ON_BLACK = 1, PNG_RGB_ON_WHITE = 3 };	/* bytes per pixel */

struct png_reader {
	uint32_t width, height;		/* after png_read_begin() */
	char wrong[128];		/* libpng's message after -EBADMSG */

	/* Private. */
	enum png_pixels pixels;
	const unsigned char *at;	/* position in memory */
	size_t left;
	struct png_struct_def *png;
	struct png_info_def *info;
	unsigned char *row;		/* a row of a pass */
	bool has_alpha;			/* the pixels in `row` have alpha */
	bool interlaced;
	bool no_memory;
};

/*
 * Reads a PNG's header.
 * @reader: must be zero.  Call png_read_free() for it, also after an error.
 * @from: the file; NULL: read the @bytes at @file.
 * Returns 0; -EBADMSG if this is not a PNG, or it is broken; -ENOMEM.
 */
int png_read_begin(struct png_reader *reader, enum png_pixels pixels, FILE *from,
		   const unsigned char *file, size_t bytes);

/*
 * Reads the pixels.
 * @to: has space for width * height pixels, row by row.
 * Returns 0; -EBADMSG if the file is broken; -ENOMEM.
 */
int png_read_pixels(struct png_reader *reader, unsigned char *to);

void png_read_free(struct png_reader *reader);

#endif /* PIPELINE_PNG_READ_H */
