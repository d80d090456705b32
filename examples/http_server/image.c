/* SPDX-License-Identifier: MIT */
/*
 * Decodes and encodes images.
 *
 * DESIGN
 * libpng does PNG, by its simplified interface; PNM is simple enough to be read here.  Files
 * come from strangers: the size in the header is checked against the limits before a pixel
 * is written, so that a small file cannot ask for much memory or time.  Colours become grey
 * by libpng's rule (luminance in linear light), and in PPM by that of ppmtopgm.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <png.h>

/* Return: 0, or -EBADMSG, -EFBIG. */
static int check_size(uint32_t width, uint32_t height, size_t max_pixels)
{
	if (!width || !height)
		return -EBADMSG;
	if (width > IMAGE_SIDE_MAX || height > IMAGE_SIDE_MAX ||
	    (size_t)width * height > max_pixels)
		return -EFBIG;
	return 0;
}

/* ---- PNM ----------------------------------------------------------------- */

struct reader {
	const unsigned char *at;
	const unsigned char *end;
};

static bool is_space(unsigned char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_space(struct reader *reader)
{
	while (reader->at < reader->end) {
		if (*reader->at == '#')		/* a comment, to the end of its line */
			while (reader->at < reader->end && *reader->at != '\n')
				reader->at++;
		else if (is_space(*reader->at))
			reader->at++;
		else
			break;
	}
}

/* Return: false if there is none, or one of more than 6 digits. */
static bool read_number(struct reader *reader, uint32_t *number)
{
	unsigned digits = 0;

	*number = 0;
	skip_space(reader);
	while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
		if (++digits > 6)
			return false;
		*number = *number * 10 + (uint32_t)(*reader->at++ - '0');
	}
	return digits;
}

static int decode_pnm(const unsigned char *file, size_t bytes, unsigned char *pixels,
		      size_t max_pixels, uint32_t *width, uint32_t *height)
{
	struct reader reader = { file + 2, file + bytes };	/* behind "P5" or "P6" */
	const size_t samples = file[1] == '6' ? 3 : 1;
	uint32_t white;
	size_t nr;
	int ret;

	if (!is_space(file[2]) && file[2] != '#')
		return -EBADMSG;
	if (!read_number(&reader, width) || !read_number(&reader, height) ||
	    !read_number(&reader, &white) || white != 255)
		return -EBADMSG;
	ret = check_size(*width, *height, max_pixels);
	if (ret)
		return ret;
	/* One byte of white space ends the header; bytes behind the pixels are ignored. */
	nr = (size_t)*width * *height;
	if (reader.at == reader.end || !is_space(*reader.at++) ||
	    (size_t)(reader.end - reader.at) / samples < nr)
		return -EBADMSG;
	if (samples == 1) {
		memcpy(pixels, reader.at, nr);
		return 0;
	}
	for (size_t i = 0; i < nr; i++) {
		const unsigned char *rgb = reader.at + 3 * i;

		pixels[i] = (unsigned char)((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) /
					    1000);
	}
	return 0;
}

/* ---- PNG ----------------------------------------------------------------- */

static int decode_png(const unsigned char *file, size_t bytes, unsigned char *pixels,
		      size_t max_pixels, uint32_t *width, uint32_t *height)
{
	/* Behind transparent pixels; without it libpng would leave the old bytes there. */
	const png_color black = { 0, 0, 0 };
	png_image png = { .version = PNG_IMAGE_VERSION };
	int ret;

	if (!png_image_begin_read_from_memory(&png, file, bytes))
		return -EBADMSG;
	ret = check_size(png.width, png.height, max_pixels);
	if (ret) {
		png_image_free(&png);
		return ret;
	}
	*width = png.width;
	*height = png.height;
	png.format = PNG_FORMAT_GRAY;
	png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;	/* as with 8 bits, unless the file differs */
	return png_image_finish_read(&png, &black, pixels, 0, NULL) ? 0 : -EBADMSG;
}

size_t image_png_bytes_max(size_t pixels)
{
	/* A row has one more byte; then libpng's bound, and what is not pixels. */
	return PNG_ZLIB_MAX_SIZE(pixels + IMAGE_SIDE_MAX) + 1024;
}

int image_encode(const unsigned char *pixels, uint32_t width, uint32_t height,
		 unsigned char *png, size_t *bytes)
{
	png_image image = {
		.version = PNG_IMAGE_VERSION,
		.width = width,
		.height = height,
		.format = PNG_FORMAT_GRAY,
		.flags = PNG_IMAGE_FLAG_FAST,
	};
	png_alloc_size_t size = *bytes;

	if (!png_image_write_to_memory(&image, png, &size, 0, pixels, 0, NULL))
		return -ENOMEM;
	*bytes = size;
	return 0;
}

/* ---- both ---------------------------------------------------------------- */

int image_decode(const unsigned char *file, size_t bytes, unsigned char *pixels,
		 size_t max_pixels, uint32_t *width, uint32_t *height)
{
	if (bytes > 2 && file[0] == 'P' && (file[1] == '5' || file[1] == '6'))
		return decode_pnm(file, bytes, pixels, max_pixels, width, height);
	if (bytes > 8 && png_sig_cmp(file, 0, 8) == 0)
		return decode_png(file, bytes, pixels, max_pixels, width, height);
	return -EBADMSG;
}
