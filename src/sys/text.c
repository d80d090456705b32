/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "sys/text.h"

unsigned rnl__character(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	const unsigned bytes = *c < 0x80 ? 1 : *c >> 5 == 6 ? 2 : *c >> 4 == 14 ? 3 :
			       *c >> 3 == 30 ? 4 : 0;

	for (unsigned i = 1; i < bytes; i++)
		if (c[i] >> 6 != 2)
			return 0;
	/* Overlong, a UTF-16 surrogate, or beyond U+10FFFF: Unicode 15.0, table 3-7. */
	if (*c == 0xc0 || *c == 0xc1 || *c > 0xf4 || (*c == 0xe0 && c[1] < 0xa0) ||
	    (*c == 0xed && c[1] > 0x9f) || (*c == 0xf0 && c[1] < 0x90) || (*c == 0xf4 && c[1] > 0x8f))
		return 0;
	return bytes;
}

void rnl__text_copy(char *to, size_t bytes, const char *from)
{
	size_t n = 0;

	while (*from) {
		const unsigned known = rnl__character(from), length = known ? known : 1;

		if (n + length >= bytes)
			break;
		memcpy(to + n, known ? from : "?", length);
		n += length;
		from += length;
	}
	to[n] = '\0';
}
