/* SPDX-License-Identifier: MIT */
/*
 * A chunked body: finds the body's bytes between the chunk sizes.
 *
 * DESIGN
 * A state machine takes one character at a time, and stops at the first invalid one.  So the result
 * does not depend on where the text is cut.  The extensions of a size, and the headers after the
 * last chunk, are checked by RFC 9112's rules and bounded, but this server does not use them.
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

/* Returns SIZE, or -EFBIG if the chunk exceeds the body's limit. */
static int add_digit(struct chunks *chunks, unsigned value)
{
	if (value > chunks->room || chunks->left > (chunks->room - value) / 16)
		return -EFBIG;
	chunks->left = chunks->left * 16 + value;
	return SIZE;
}

/* Returns @state if the character is allowed in a value, else -EBADMSG. */
static int value_state(char c, int state)
{
	return (unsigned char)c >= ' ' ? c != 0x7f ? state : -EBADMSG :
	       c == '\t' ? state : -EBADMSG;
}

/* Returns the state after a character, or a negative errno if it is invalid. */
static int step(struct chunks *chunks, char c)
{
	const int value = digit(c);

	switch (chunks->state) {
	case SIZE_BEGINS:
		return value < 0 ? -EBADMSG : add_digit(chunks, (unsigned)value);
	case SIZE:
	case SIZE_PADDED:	/* some senders pad a size with spaces */
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
