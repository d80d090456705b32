/* SPDX-License-Identifier: MIT */
/*
 * Sifts a PNG: libpng gets only the chunks that the picture needs.
 *
 * DESIGN
 * An untrusted PNG may cost far more than its picture: a chunk may claim 2^31 bytes, texts and
 * profiles are compressed, and the pixels' data may inflate to a thousand times its size.  libpng
 * allocates, inflates and discards all of that.  So this code scans the chunks first.  The chunks
 * that are needed are moved together, in place; all others are dropped.  A PNG is refused if a
 * chunk is longer than the rest of the file, or if the pixels' data inflates to more than the size
 * that the header determines.
 *
 * Inflating takes about a quarter of the time of decoding.  Data so short that it cannot inflate to
 * more than 1 MB is not checked.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <string.h>

#include <zlib.h>

#define SIGNATURE_BYTES 8
#define AROUND 12u		/* a chunk's length, type, and checksum */
#define HEADER_BYTES 13
#define DEFLATE_RATIO 1032	/* the highest ratio that deflate can reach */
#define SMALL (1u << 20)	/* bytes whose inflating costs little */

/* ---- the header ---------------------------------------------------------- */

static uint32_t read_u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t pass_bytes(uint32_t width, uint32_t height, unsigned bits)
{
	/* Each row begins with its filter; a pass without pixels has no rows. */
	return width ? height * (1 + ((uint64_t)width * bits + 7) / 8) : 0;
}

/* Reads IHDR.  @bytes: receives the size of the pixels' data.  Returns 0, -EBADMSG or -EFBIG. */
static int read_header(const unsigned char *header, size_t max_pixels, uint64_t *bytes)
{
	static const unsigned char channels[] = { 1, 0, 3, 1, 2, 0, 4 };
	/* Adam7's passes: their origins and steps. */
	static const unsigned char x0[] = { 0, 4, 0, 2, 0, 1, 0 }, y0[] = { 0, 0, 4, 0, 2, 0, 1 };
	static const unsigned char dx[] = { 8, 8, 4, 4, 2, 2, 1 }, dy[] = { 8, 8, 8, 4, 4, 2, 2 };
	const uint32_t width = read_u32(header), height = read_u32(header + 4);
	const unsigned depth = header[8], color = header[9], interlaced = header[12];
	const int ret = image_check_size(width, height, max_pixels);
	unsigned bits;

	if (ret)
		return ret;
	if (color >= sizeof(channels) || !channels[color] || depth > 16 || interlaced > 1)
		return -EBADMSG;
	bits = depth * channels[color];
	*bytes = interlaced ? 0 : pass_bytes(width, height, bits);
	for (int i = 0; interlaced && i < 7; i++)
		*bytes += pass_bytes((width + dx[i] - 1 - x0[i]) / dx[i],
				     (height + dy[i] - 1 - y0[i]) / dy[i], bits);
	return 0;
}

/* ---- the pixels' data ---------------------------------------------------- */

/* Returns -EBADMSG if the IDAT chunks at @at inflate to more than @most bytes; 0; -ENOMEM. */
static int check_inflated(unsigned char *at, uint64_t most)
{
	unsigned char thrown_away[16384];
	z_stream z = { .next_out = thrown_away };
	int ret = inflateInit(&z);

	while (ret == Z_OK && z.total_out <= most) {
		while (!z.avail_in && memcmp(at + 4, "IDAT", 4) == 0) {
			z.next_in = at + 8;
			z.avail_in = read_u32(at);
			at += AROUND + z.avail_in;
		}
		z.next_out = thrown_away;
		z.avail_out = sizeof(thrown_away);
		ret = inflate(&z, Z_NO_FLUSH);
	}
	inflateEnd(&z);
	if (ret == Z_MEM_ERROR)
		return -ENOMEM;
	/* Data that ends early or is damaged inflates to less: libpng will refuse it. */
	return z.total_out > most ? -EBADMSG : 0;
}

/* ---- the chunks ---------------------------------------------------------- */

static bool is(const unsigned char *chunk, const char *type)
{
	return memcmp(chunk + 4, type, 4) == 0;
}

/* Returns the largest valid length of a chunk of this type; 0: the picture does not need it. */
static uint32_t most_bytes(const unsigned char *chunk)
{
	static const struct {
		char type[5];
		uint32_t most;
	} needed[] = {
		{ "IHDR", HEADER_BYTES }, { "PLTE", 768 }, { "tRNS", 256 }, { "gAMA", 4 },
		{ "sRGB", 1 }, { "cHRM", 32 }, { "IDAT", INT32_MAX },
	};

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (is(chunk, needed[i].type))
			return needed[i].most;
	return 0;
}

int png_sift(unsigned char *file, size_t *bytes, size_t max_pixels)
{
	size_t at = SIGNATURE_BYTES, kept = SIGNATURE_BYTES, compressed = 0;
	uint64_t inflated = 0;
	unsigned char *data = NULL;
	bool end = false;

	while (!end) {
		unsigned char *chunk = file + at;
		uint32_t length, most;

		if (*bytes - at < AROUND)
			return -EBADMSG;
		length = read_u32(chunk);
		if (length > *bytes - at - AROUND)
			return -EBADMSG;
		if (at == SIGNATURE_BYTES) {
			const int ret = is(chunk, "IHDR") && length == HEADER_BYTES ?
				read_header(chunk + 8, max_pixels, &inflated) : -EBADMSG;

			if (ret)
				return ret;
		}
		end = is(chunk, "IEND");
		most = most_bytes(chunk);
		/* A lower-case first letter marks an optional chunk. */
		if (!end && (most ? length > most : !(chunk[4] & 0x20)))
			return -EBADMSG;
		at += AROUND + length;
		if (!most && !end)
			continue;
		memmove(file + kept, chunk, AROUND + length);
		if (is(file + kept, "IDAT")) {
			data = data ? data : file + kept;
			compressed += length;
		}
		kept += AROUND + length;
	}
	*bytes = kept;
	if (!data)
		return -EBADMSG;
	return compressed < SMALL / DEFLATE_RATIO ? 0 : check_inflated(data, inflated);
}
