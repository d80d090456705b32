/* SPDX-License-Identifier: MIT */
/*
 * A body in chunks: where its bytes are between the sizes.
 *
 * DESIGN
 * A machine that takes a character at a time, and the first wrong one ends it: so the answer is the
 * same wherever the text is cut.  Extensions of a size and the headers behind the last chunk say
 * nothing to this server: they have to be as RFC 9112 has them, and are passed over, up to a bound.
 */
#include "config.h"

#include "server.h"

#include <errno.h>

#define PASSED_OVER_MAX 16384	/* bytes between two chunks */

enum { SIZE_BEGINS, SIZE, SIZE_PADDED, EXTENSION, SIZE_ENDS, DATA_ENDS, DATA_ENDED, LINE_BEGINS,
       NAME, VALUE, LINE_ENDS, LAST_LINE };

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Return: SIZE; -EFBIG the chunk has more bytes than the body may have. */
static int add_digit(struct chunks *chunks, unsigned value)
{
	if (value > chunks->room || chunks->left > (chunks->room - value) / 16)
		return -EFBIG;
	chunks->left = chunks->left * 16 + value;
	return SIZE;
}

/* Return: @state, if a value may have the character. */
static int value_state(char c, int state)
{
	return (unsigned char)c >= ' ' ? c != 0x7f ? state : -EBADMSG :
	       c == '\t' ? state : -EBADMSG;
}

/* Return: the state behind a character; a negative errno: it is wrong. */
static int step(struct chunks *chunks, char c)
{
	const int value = digit(c);

	switch (chunks->state) {
	case SIZE_BEGINS:
		return value < 0 ? -EBADMSG : add_digit(chunks, (unsigned)value);
	case SIZE:
	case SIZE_PADDED:	/* some servers fill a size up with spaces */
		if (chunks->state == SIZE && value >= 0)
			return add_digit(chunks, (unsigned)value);
		return c == '\r' ? SIZE_ENDS : c == ';' ? EXTENSION :
		       c == ' ' || c == '\t' ? SIZE_PADDED : -EBADMSG;
	case EXTENSION:
		return c == '\r' ? SIZE_ENDS : value_state(c, EXTENSION);
	case SIZE_ENDS:
		chunks->passed_over = 0;
		return c != '\n' ? -EBADMSG : chunks->left ? DATA_ENDS : LINE_BEGINS;
	case DATA_ENDS:
		return c == '\r' ? DATA_ENDED : -EBADMSG;
	case DATA_ENDED:
		return c == '\n' ? SIZE_BEGINS : -EBADMSG;
	case LINE_BEGINS:
		return c == '\r' ? LAST_LINE : head_is_token(c) ? NAME : -EBADMSG;
	case NAME:
		return c == ':' ? VALUE : head_is_token(c) ? NAME : -EBADMSG;
	case VALUE:
		return c == '\r' ? LINE_ENDS : value_state(c, VALUE);
	case LINE_ENDS:
		return c == '\n' ? LINE_BEGINS : -EBADMSG;
	default:
		chunks->end = c == '\n';
		return chunks->end ? LAST_LINE : -EBADMSG;
	}
}

int chunks_read(struct chunks *chunks, const char *text, size_t bytes, size_t *framing,
		size_t *data)
{
	size_t at = 0;

	*data = 0;
	while (at < bytes && !chunks->end && !(chunks->state == DATA_ENDS && chunks->left)) {
		const int next = step(chunks, text[at++]);

		if (next < 0)
			return next;
		if (++chunks->passed_over > PASSED_OVER_MAX)
			return -EBADMSG;
		chunks->state = next;
	}
	*framing = at;
	if (chunks->state == DATA_ENDS) {
		*data = bytes - at < chunks->left ? bytes - at : (size_t)chunks->left;
		chunks->left -= *data;
		chunks->room -= *data;
	}
	return 0;
}
