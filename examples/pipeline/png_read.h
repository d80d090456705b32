/* SPDX-License-Identifier: MIT */
/* Reads PNGs of every form, for pipeline and http_server. */
#ifndef PIPELINE_PNG_READ_H
#define PIPELINE_PNG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The pixels that the caller wants, and the background of transparent ones. */
enum png_pixels { PNG_GREY_ON_BLACK = 1, PNG_RGB_ON_WHITE = 3 };	/* bytes of a pixel */

struct png_reader {
	uint32_t width, height;		/* after png_read_begin() */
	char wrong[128];		/* libpng's message after -EBADMSG */

	/* Private. */
	enum png_pixels pixels;
	const unsigned char *at;	/* in memory */
	size_t left;
	struct png_struct_def *png;
	struct png_info_def *info;
	unsigned char *row;		/* of a pass */
	bool has_alpha;			/* the pixels of `row` */
	bool interlaced;
	bool no_memory;
};

/*
 * Reads a PNG's header.
 * @reader: all zero.  It is ended by png_read_free(), also after an error.
 * @from: the file; NULL: @file is the file's @bytes.
 * Return: 0; -EBADMSG this is no PNG, or a broken one; -ENOMEM.
 */
int png_read_begin(struct png_reader *reader, enum png_pixels pixels, FILE *from,
		   const unsigned char *file, size_t bytes);

/*
 * Reads the pixels.
 * @to: space for width * height pixels, row after row.
 * Return: 0; -EBADMSG the file is broken; -ENOMEM.
 */
int png_read_pixels(struct png_reader *reader, unsigned char *to);

void png_read_free(struct png_reader *reader);

#endif /* PIPELINE_PNG_READ_H */
