/* SPDX-License-Identifier: MIT */
/*
 * Images as files, and as grey pixels: a byte each, row after row.
 */
#ifndef HTTP_IMAGE_H
#define HTTP_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Pixels in a row, and rows. */
#define IMAGE_SIDE_MAX 16384

/*
 * Decodes a PNG of any kind, or a PGM or PPM with 8 bits a sample.
 * @pixels: room for @max_pixels; written to only if the image has no more.
 * Return: 0; -EBADMSG it is none of these, or broken; -EFBIG it has more pixels, or
 *	a side longer than IMAGE_SIDE_MAX.
 */
int image_decode(const unsigned char *file, size_t bytes, unsigned char *pixels,
		 size_t max_pixels, uint32_t *width, uint32_t *height);

/* How long the PNG of so many pixels can get. */
size_t image_png_bytes_max(size_t pixels);

/*
 * Encodes a PNG.
 * @bytes: room at png; receives its length.
 * Return: 0; -ENOMEM.
 */
int image_encode(const unsigned char *pixels, uint32_t width, uint32_t height,
		 unsigned char *png, size_t *bytes);

#endif /* HTTP_IMAGE_H */
