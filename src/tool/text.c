/* SPDX-License-Identifier: MIT */
/* Makes untrusted text safe for a terminal; text.h has the design. */
#include "text.h"

#include <string.h>

#define SHOWN 5		/* bytes of "\x1b" with its terminating 0 */

unsigned tool_character(const char *text, uint32_t *point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *c = (const unsigned char *)text;
	const unsigned bytes = *c < 0x80 ? 1 : *c >> 5 == 6 ? 2 : *c >> 4 == 14 ? 3 :
			       *c >> 3 == 30 ? 4 : 0;

	*point = bytes == 1 ? *c : bytes ? *c & (0x7fu >> bytes) : 0;
	for (unsigned i = 1; i < bytes; i++) {
		if (c[i] >> 6 != 2)
			return 0;
		*point = *point << 6 | (c[i] & 0x3f);
	}
	/* An overlong form, a UTF-16 surrogate, or beyond Unicode. */
	if (*point < least[bytes] || *point >> 11 == 0x1b || *point > 0x10ffff)
		return 0;
	return bytes;
}

bool tool_is_obeyed(uint32_t point)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0, 0x1f }, { 0x7f, 0x9f }, { 0x61c, 0x61c }, { 0x200e, 0x200f },
		{ 0x2028, 0x202e }, { 0x2066, 0x2069 }, { 0xfffe, 0xffff },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (point >= ranges[i].first && point <= ranges[i].last)
			return true;
	}
	return false;
}

/* Writes the first character of @from, escaped if need be.  Returns its length in @from. */
static unsigned text_show(const char *from, char shown[SHOWN])
{
	uint32_t point;
	const unsigned bytes = tool_character(from, &point);

	if (!bytes || tool_is_obeyed(point)) {
		snprintf(shown, SHOWN, "\\x%02x", (unsigned)(unsigned char)*from);
		return 1;
	}
	memcpy(shown, from, bytes);
	shown[bytes] = '\0';
	return bytes;
}

const char *tool_text(char *to, size_t bytes, const char *from)
{
	size_t n = 0;
	char shown[SHOWN];

	while (*from) {
		from += text_show(from, shown);
		if (strlen(shown) >= bytes - n)
			break;
		memcpy(to + n, shown, strlen(shown));
		n += strlen(shown);
	}
	to[n] = '\0';
	return to;
}

void tool_put_text(FILE *to, const char *text)
{
	char shown[SHOWN];

	while (*text) {
		text += text_show(text, shown);
		fputs(shown, to);
	}
}
