/* SPDX-License-Identifier: MIT */
/*
 * The lines of a file.
 *
 * DESIGN
 * A buffer, read in large pieces.  A line that is longer than a part of a message is
 * handed out in parts; what is there of one is looked at, and taken when there is a slot
 * for it.  A newline ends a line and is none of it; behind the last one there is a line
 * if there is anything.
 */
#include "config.h"

#include "batch_sha256.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (2u << 20)		/* more than the largest part */
#define READ_BYTES (256u << 10)

void sha256_lines_init(struct sha256_lines *lines)
{
	*lines = (struct sha256_lines){ .fd = -1, .text = malloc(BUFFER_BYTES) };
	if (!lines->text)
		sha256_report_die(-ENOMEM, "reading lines");
}

static void end(struct sha256_lines *lines)
{
	if (lines->fd > STDIN_FILENO)
		close(lines->fd);
	lines->fd = -1;
}

void sha256_lines_free(struct sha256_lines *lines)
{
	end(lines);
	free(lines->text);
}

void sha256_lines_begin(struct sha256_lines *lines, int fd, bool stream)
{
	lines->fd = fd;
	lines->stream = stream;
	lines->begin = lines->end = lines->looked = 0;
	lines->at_end = lines->inside = false;
	lines->err = 0;
}

static bool would_block(const struct sha256_lines *lines)
{
	struct pollfd fd = { .fd = lines->fd, .events = POLLIN };

	return lines->stream && poll(&fd, 1, 0) == 0;
}

/* There is no newline in what is there. */
static void read_on(struct sha256_lines *lines)
{
	size_t room;
	ssize_t got;

	if (lines->begin == lines->end || lines->end == BUFFER_BYTES) {
		lines->end -= lines->begin;
		memmove(lines->text, lines->text + lines->begin, lines->end);
		lines->begin = 0;
		lines->looked = lines->end;
	}
	room = BUFFER_BYTES - lines->end;
	do
		got = read(lines->fd, lines->text + lines->end,
			   room < READ_BYTES ? room : READ_BYTES);
	while (got < 0 && errno == EINTR);
	lines->at_end = got <= 0;
	if (got < 0)
		lines->err = errno;
	else
		lines->end += (size_t)got;
}

/* True if there is a newline in what was read; it is at `looked` then. */
static bool find_newline(struct sha256_lines *lines)
{
	const unsigned char *newline = lines->end == lines->looked ? NULL :
		memchr(lines->text + lines->looked, '\n', lines->end - lines->looked);

	lines->looked = newline ? (size_t)(newline - lines->text) : lines->end;
	return newline;
}

int sha256_lines_look(struct sha256_lines *lines, size_t most, bool may_block, size_t *bytes,
		      bool *last)
{
	while (!find_newline(lines) && lines->end - lines->begin < most && !lines->at_end) {
		if (would_block(lines)) {
			if (!may_block)
				return -EAGAIN;
			sha256_report_flush();
		}
		read_on(lines);
	}
	*bytes = lines->looked - lines->begin;
	*last = *bytes <= most;
	if (!*last)
		*bytes = most;
	if (!*last || lines->looked < lines->end)
		return 1;
	if (!lines->at_end) {		/* as many as may be, and what is behind is not known */
		*last = false;
		return 1;
	}
	if (!lines->err && (*bytes || lines->inside))
		return 1;
	end(lines);
	return lines->err ? -EIO : 0;
}

void sha256_lines_take(struct sha256_lines *lines, unsigned char *to, size_t bytes, bool last)
{
	memcpy(to, lines->text + lines->begin, bytes);
	lines->begin += bytes;
	lines->inside = !last;
	if (last && lines->begin < lines->end)
		lines->looked = ++lines->begin;		/* behind the newline */
}
