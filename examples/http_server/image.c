/* SPDX-License-Identifier: MIT */
/*
 * Decodes and encodes images.
 *
 * DESIGN
 * PNGs are read with examples/pipeline's reader, after sift.c has removed everything that the
 * picture does not need.  PNM is simple enough to be read here.  Files are untrusted: the size in
 * the header is checked before a pixel is written, so a small file cannot cost much memory or time.
 * A PNG's colours become grey by libpng's rule (luminance in linear light, ignoring colour
 * profiles), a PPM's colours by ppmtopgm's rule.
 */
#include "config.h"

#include "pipeline/png_read.h"
#include "server.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <png.h>

int image_check_size(uint32_t width, uint32_t height, size_t max_pixels)
{
	if (!width || !height)
		return -EBADMSG;
	if (width > IMAGE_SIDE_MAX || height > IMAGE_SIDE_MAX ||
	    (size_t)width * height > max_pixels)
		return -EFBIG;
	return 0;
}

/* ---- PNM ----------------------------------------------------------------- */

static bool is_space(unsigned char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/*
 * Reads a number after white space and comments.
 * Returns the end of the number; NULL: there is no number, or it has more than 6 digits.
 */
static const unsigned char *read_number(const unsigned char *at, const unsigned char *end,
					uint32_t *number)
{
	unsigned digits = 0;

	*number = 0;
	for (bool comment = false; at && at < end && (comment || *at == '#' || is_space(*at)); at++)
		comment = *at != '\n' && (comment || *at == '#');
	for (; at && at < end && *at >= '0' && *at <= '9' && digits <= 6; at++, digits++)
		*number = *number * 10 + (uint32_t)(*at - '0');
	return digits && digits <= 6 ? at : NULL;
}

static int decode_pnm(const unsigned char *file, size_t bytes, unsigned char *pixels,
		      size_t max_pixels, uint32_t *width, uint32_t *height)
{
	const unsigned char *end = file + bytes, *at = file + 2;	/* after "P5" or "P6" */
	const size_t samples = file[1] == '6' ? 3 : 1;
	uint32_t white;
	size_t nr;
	int ret;

	if (!is_space(*at) && *at != '#')
		return -EBADMSG;
	at = read_number(at, end, width);
	at = read_number(at, end, height);
	at = read_number(at, end, &white);
	if (!at || white != 255)
		return -EBADMSG;
	ret = image_check_size(*width, *height, max_pixels);
	if (ret)
		return ret;
	/* One byte of white space ends the header; bytes after the pixels are ignored. */
	nr = (size_t)*width * *height;
	if (at == end || !is_space(*at++) || (size_t)(end - at) / samples < nr)
		return -EBADMSG;
	if (samples == 1) {
		memcpy(pixels, at, nr);
		return 0;
	}
	for (size_t i = 0; i < nr; i++, at += 3)
		pixels[i] = (unsigned char)((299 * at[0] + 587 * at[1] + 114 * at[2] + 500) / 1000);
	return 0;
}

/* ---- PNG ----------------------------------------------------------------- */

static int decode_png(unsigned char *file, size_t bytes, unsigned char *pixels,
		      size_t max_pixels, uint32_t *width, uint32_t *height)
{
	struct png_reader reader = { .width = 0 };
	int ret = png_sift(file, &bytes, max_pixels);

	if (ret)
		return ret;
	ret = png_read_begin(&reader, PNG_GREY_ON_BLACK, NULL, file, bytes);
	*width = reader.width;
	*height = reader.height;
	if (!ret)
		ret = png_read_pixels(&reader, pixels);
	png_read_free(&reader);
	return ret;
}

size_t image_png_bytes_max(size_t pixels)
{
	/* Each row has one more byte, its filter.  1024 is more than the other chunks need. */
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

int image_decode(unsigned char *file, size_t bytes, unsigned char *pixels, size_t max_pixels,
		 uint32_t *width, uint32_t *height)
{
	if (bytes > 2 && file[0] == 'P' && (file[1] == '5' || file[1] == '6'))
		return decode_pnm(file, bytes, pixels, max_pixels, width, height);
	if (bytes > 8 && png_sig_cmp(file, 0, 8) == 0)
		return decode_png(file, bytes, pixels, max_pixels, width, height);
	return -EBADMSG;
}
