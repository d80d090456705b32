/* SPDX-License-Identifier: MIT */
/*
 * Reads PNGs of every kind, for pipeline and http_server.
 *
 * DESIGN
 * libpng's simplified interface gives wrong pixels for interlaced files with 16 bits per sample
 * (1.6.39 and others), so this file uses the ordinary interface.  libpng expands palettes, short
 * samples and transparent colours, corrects gamma (a file without a gamma is sRGB), and converts
 * colours to grey, as luminance in linear light.  This file applies the background, in linear
 * light, with a table: libpng would also round opaque pixels, and has no background after a
 * conversion to grey.
 *
 * The passes of an interlaced file are read as they are stored, as small pictures, and each pixel
 * is put in its place.  So a reader needs memory for one row, in addition to libpng's memory.
 *
 * libpng reports a broken file by longjmp(), so no local variable changes after a setjmp().
 */
#include "config.h"

#include "pipeline/png_read.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

/* ---- backgrounds --------------------------------------------------------- */

static unsigned char on_black[256][256], on_white[256][256];	/* [alpha][sample] */

static double linear_of(unsigned srgb)
{
	const double v = srgb / 255.0;

	return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

static unsigned char srgb_of(double linear)
{
	const double v = linear <= 0.0031308 ? linear * 12.92 :
					       1.055 * pow(linear, 1 / 2.4) - 0.055;

	return (unsigned char)(255 * v + 0.5);
}

static void fill_backgrounds(void)
{
	for (unsigned sample = 0; sample < 256; sample++) {
		const double linear = linear_of(sample);

		for (unsigned alpha = 0; alpha < 256; alpha++) {
			const double part = alpha / 255.0;

			on_black[alpha][sample] = srgb_of(linear * part);
			on_white[alpha][sample] = srgb_of(linear * part + 1 - part);
		}
	}
}

/* ---- callbacks for libpng ------------------------------------------------ */

static _Noreturn void png_read_failed(png_structp png, png_const_charp wrong)
{
	struct png_reader *reader = png_get_error_ptr(png);

	snprintf(reader->wrong, sizeof(reader->wrong), "%s", wrong);
	png_longjmp(png, 1);
}

static void png_read_warned(png_structp png, png_const_charp wrong)
{
	(void)png;
	(void)wrong;
}

static png_voidp png_read_alloc(png_structp png, png_alloc_size_t bytes)
{
	struct png_reader *reader = png_get_mem_ptr(png);
	void *mem = malloc(bytes);

	if (!mem)
		reader->no_memory = true;
	return mem;
}

static void png_read_release(png_structp png, png_voidp mem)
{
	(void)png;
	free(mem);
}

static void png_read_memory(png_structp png, png_bytep to, size_t bytes)
{
	struct png_reader *reader = png_get_io_ptr(png);

	if (bytes > reader->left)
		png_error(png, "the file ends before its picture");
	memcpy(to, reader->at, bytes);
	reader->at += bytes;
	reader->left -= bytes;
}

/* ---- the header ---------------------------------------------------------- */

static int png_read_error(const struct png_reader *reader)
{
	return reader->no_memory ? -ENOMEM : -EBADMSG;
}

/* Sets libpng's transformations to the wanted pixels; they keep their alpha. */
static void png_read_transform(struct png_reader *reader)
{
	const unsigned colors = png_get_color_type(reader->png, reader->info);

	reader->has_alpha = (colors & PNG_COLOR_MASK_ALPHA) ||
			    png_get_valid(reader->png, reader->info, PNG_INFO_tRNS);
	png_set_expand(reader->png);
	png_set_scale_16(reader->png);
	png_set_alpha_mode_fixed(reader->png, PNG_ALPHA_PNG, PNG_DEFAULT_sRGB);
	if (reader->pixels == PNG_RGB_ON_WHITE && !(colors & PNG_COLOR_MASK_COLOR))
		png_set_gray_to_rgb(reader->png);
	if (reader->pixels == PNG_GREY_ON_BLACK && (colors & PNG_COLOR_MASK_COLOR))
		png_set_rgb_to_gray_fixed(reader->png, PNG_ERROR_ACTION_NONE,
					  PNG_RGB_TO_GRAY_DEFAULT, PNG_RGB_TO_GRAY_DEFAULT);
	png_read_update_info(reader->png, reader->info);
}

int png_read_begin(struct png_reader *reader, enum png_pixels pixels, FILE *from,
		   const unsigned char *file, size_t bytes)
{
	reader->pixels = pixels;
	reader->at = file;
	reader->left = bytes;
	reader->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, reader, png_read_failed,
					       png_read_warned, reader, png_read_alloc,
					       png_read_release);
	reader->info = reader->png ? png_create_info_struct(reader->png) : NULL;
	if (!reader->info)
		return -ENOMEM;
	if (setjmp(png_jmpbuf(reader->png)))
		return png_read_error(reader);
	if (from)
		png_init_io(reader->png, from);
	else
		png_set_read_fn(reader->png, reader, png_read_memory);
	png_set_benign_errors(reader->png, 1);
	png_read_info(reader->png, reader->info);
	reader->width = png_get_image_width(reader->png, reader->info);
	reader->height = png_get_image_height(reader->png, reader->info);
	reader->interlaced = png_get_interlace_type(reader->png, reader->info) != PNG_INTERLACE_NONE;
	return 0;
}

/* ---- the pixels ---------------------------------------------------------- */

/* Stores the row's @nr pixels, @step pixels apart. */
static void png_read_place(const struct png_reader *reader, unsigned char *to, uint32_t nr,
			   size_t step)
{
	const unsigned char (*const background)[256] =
		reader->pixels == PNG_GREY_ON_BLACK ? on_black : on_white;
	const unsigned samples = reader->pixels;
	const unsigned char *from = reader->row;

	if (!reader->has_alpha && step == 1) {
		memcpy(to, from, (size_t)nr * samples);
		return;
	}
	for (uint32_t i = 0; i < nr; i++, to += step * samples) {
		const unsigned char *blend = background[reader->has_alpha ? from[samples] : 255];

		for (unsigned c = 0; c < samples; c++)
			to[c] = blend[*from++];
		from += reader->has_alpha;
	}
}

static void png_read_pass(struct png_reader *reader, int pass, unsigned char *to)
{
	const uint32_t nr = PNG_PASS_COLS(reader->width, pass);
	const size_t step = PNG_PASS_COL_OFFSET(pass);

	if (!nr)
		return;
	for (uint32_t y = PNG_PASS_START_ROW(pass); y < reader->height; y += PNG_PASS_ROW_OFFSET(pass)) {
		png_read_row(reader->png, reader->row, NULL);
		png_read_place(reader, to + ((size_t)y * reader->width + PNG_PASS_START_COL(pass)) *
			       reader->pixels, nr, step);
	}
}

int png_read_pixels(struct png_reader *reader, unsigned char *to)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fill_backgrounds);
	if (setjmp(png_jmpbuf(reader->png)))
		return png_read_error(reader);
	png_read_transform(reader);
	reader->row = malloc(png_get_rowbytes(reader->png, reader->info));
	if (!reader->row)
		return -ENOMEM;
	if (reader->interlaced) {
		for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
			png_read_pass(reader, pass, to);
	} else {
		for (uint32_t y = 0; y < reader->height; y++) {
			png_read_row(reader->png, reader->row, NULL);
			png_read_place(reader, to + (size_t)y * reader->width * reader->pixels,
				       reader->width, 1);
		}
	}
	png_read_end(reader->png, NULL);
	return 0;
}

void png_read_free(struct png_reader *reader)
{
	png_destroy_read_struct(&reader->png, &reader->info, NULL);
	free(reader->row);
}
