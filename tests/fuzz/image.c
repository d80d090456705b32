/* SPDX-License-Identifier: MIT */
/*
 * Untrusted images: how examples/http_server handles a body of POST /sobel.
 *
 * DESIGN
 * A chunk with a wrong checksum ends the reading, and almost every mutation makes a checksum wrong.
 * So checksums are corrected after most mutations.
 *
 * The buffers of the file and of the pixels have exactly the allowed size, so the address sanitizer
 * reports each access past the end; `make fuzz` limits memory and time. A picture that was read
 * must be the same after it is written as PNG and read again.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "examples/http_server/server.h"

#include "tests/fuzz/fuzz.h"

#define PIXELS_MAX 65536
#define SIGNATURE_BYTES 8
#define AROUND 12	/* a chunk's length, type and checksum */

/* libFuzzer's function, and the hook that it calls. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed);
static void put_checksums_right(uint8_t *data, size_t bytes)
{
	size_t at = SIGNATURE_BYTES;

	while (at <= bytes && bytes - at >= AROUND) {
		const size_t length = (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 |
				      (size_t)data[at + 2] << 8 | data[at + 3];
		uint8_t *type = data + at + 4;
		uLong sum;

		if (length > bytes - at - AROUND)
			return;
		sum = crc32(0, type, (uInt)(4 + length));
		for (int i = 0; i < 4; i++)
			type[4 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
		at += AROUND + length;
	}
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed)
{
	bytes = LLVMFuzzerMutate(data, bytes, most);
	if (seed % 8)
		put_checksums_right(data, bytes);
	return bytes;
}

static void check_round(const unsigned char *pixels, uint32_t width, uint32_t height)
{
	static unsigned char again[PIXELS_MAX];
	const size_t nr = (size_t)width * height;
	size_t bytes = image_png_bytes_max(nr);
	unsigned char *png = malloc(bytes);
	uint32_t w, h;

	if (!png || image_encode(pixels, width, height, png, &bytes) ||
	    image_decode(png, bytes, again, PIXELS_MAX, &w, &h) || w != width || h != height ||
	    memcmp(pixels, again, nr))
		abort();
	free(png);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	unsigned char *file = malloc(bytes ? bytes : 1), *pixels = malloc(PIXELS_MAX);
	uint32_t width, height;
	int ret;

	if (!file || !pixels)
		abort();
	if (bytes)
		memcpy(file, data, bytes);
	ret = image_decode(file, bytes, pixels, PIXELS_MAX, &width, &height);
	if (!ret)
		check_round(pixels, width, height);
	else if (ret != -EBADMSG && ret != -EFBIG)
		abort();
	free(file);
	free(pixels);
	return 0;
}
