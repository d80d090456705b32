/* SPDX-License-Identifier: MIT */
/*
 * A body in chunks: where its bytes are between the sizes.
 *
 * DESIGN
 * A machine that takes a character at a time, so it does not matter where the text is cut.
 * Extensions of a size and the headers behind the last chunk say nothing to this server: they
 * are passed over, up to a bound.
 */
#include "config.h"

#include "server.h"

#define PASSED_OVER_MAX 16384	/* bytes between two chunks */

enum { SIZE_BEGINS, SIZE, EXTENSION, SIZE_ENDS, DATA_ENDS, DATA_ENDED, LINE_BEGINS, LINE, LINE_ENDS,
       LAST_LINE };

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Return: the state behind a character; -1: it is wrong. */
static int step(struct chunks *chunks, char c)
{
	const int value = digit(c);

	switch (chunks->state) {
	case SIZE_BEGINS:
	case SIZE:
		if (value >= 0 && chunks->left < UINT64_MAX >> 8) {
			chunks->left = chunks->left << 4 | (unsigned)value;
			return SIZE;
		}
		if (value >= 0 || chunks->state == SIZE_BEGINS)
			return -1;
		return c == '\r' ? SIZE_ENDS : c == ';' || c == ' ' || c == '\t' ? EXTENSION : -1;
	case EXTENSION:
		return c == '\r' ? SIZE_ENDS : c == '\n' || !c ? -1 : EXTENSION;
	case SIZE_ENDS:
		chunks->passed_over = 0;
		return c != '\n' ? -1 : chunks->left ? DATA_ENDS : LINE_BEGINS;
	case DATA_ENDS:
		return c == '\r' ? DATA_ENDED : -1;
	case DATA_ENDED:
		return c == '\n' ? SIZE_BEGINS : -1;
	case LINE_BEGINS:
		return c == '\r' ? LAST_LINE : c == '\n' || !c ? -1 : LINE;
	case LINE:
		return c == '\r' ? LINE_ENDS : c == '\n' || !c ? -1 : LINE;
	case LINE_ENDS:
		return c == '\n' ? LINE_BEGINS : -1;
	default:
		chunks->end = c == '\n';
		return chunks->end ? LAST_LINE : -1;
	}
}

int chunks_read(struct chunks *chunks, const char *text, size_t bytes, size_t *framing,
		size_t *data)
{
	size_t at = 0;

	*data = 0;
	while (at < bytes && !chunks->end && !(chunks->state == DATA_ENDS && chunks->left)) {
		const int next = step(chunks, text[at++]);

		if (next < 0 || ++chunks->passed_over > PASSED_OVER_MAX)
			return -1;
		chunks->state = next;
	}
	*framing = at;
	if (chunks->state == DATA_ENDS) {
		*data = bytes - at < chunks->left ? bytes - at : (size_t)chunks->left;
		chunks->left -= *data;
	}
	return 0;
}
