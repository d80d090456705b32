/* SPDX-License-Identifier: MIT */
/*
 * Bodies that a browser's form sends: multipart/form-data of RFC 7578 and RFC 2046.
 *
 * DESIGN
 * A form must have exactly one field, a file or a text.  The field's content is moved to the front
 * of the body, so a task sees the same data as in a raw body.  The whole body is in memory, and
 * each search reads it once, so no memory is allocated, and the time is linear in the length.
 *
 *	preamble CRLF		optional: the body may begin with --boundary
 *	--boundary CRLF
 *	headers CRLF CRLF
 *	content CRLF
 *	--boundary--
 */
#include "config.h"

#include "server.h"

#include <string.h>
#include <strings.h>

#define BOUNDARY_MAX 70		/* by RFC 2046 */
#define BOUNDARY_CHARS "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" \
	"'()+_,-./:=? "
#define BLANK " \t"

static const char form_type[] = "multipart/form-data";

/* The delimiter: CR LF, two dashes, and the boundary. */
struct delimiter {
	char text[4 + BOUNDARY_MAX];
	size_t bytes;
};

/* A line with the boundary. */
struct line {
	const unsigned char *begin, *end;
	bool last;
};

/* Returns true if the Content-Type has a valid boundary. */
static bool find_boundary(const char *type, struct delimiter *delimiter)
{
	const char *at = type + strlen(form_type);

	for (;;) {
		const char *name, *value;
		size_t name_bytes, bytes;
		bool quoted;

		at += strspn(at, BLANK);
		if (*at != ';')
			return false;
		name = at + 1 + strspn(at + 1, BLANK);
		name_bytes = strcspn(name, "=;");
		if (name[name_bytes] != '=')
			return false;
		value = name + name_bytes + 1;
		quoted = *value == '"';
		value += quoted;
		bytes = strcspn(value, quoted ? "\"" : BLANK ";");
		at = value + bytes;
		if (quoted && *at++ != '"')
			return false;
		if (name_bytes != strlen("boundary") || strncasecmp(name, "boundary", name_bytes))
			continue;
		if (!bytes || bytes > BOUNDARY_MAX || strspn(value, BOUNDARY_CHARS) < bytes ||
		    value[bytes - 1] == ' ')
			return false;
		memcpy(delimiter->text, "\r\n--", 4);
		memcpy(delimiter->text + 4, value, bytes);
		delimiter->bytes = 4 + bytes;
		return true;
	}
}

/* Returns true if the boundary before @at ends its line.  Sets the line's `last` and `end`. */
static bool ends_line(const unsigned char *at, const unsigned char *end, struct line *line)
{
	line->last = end - at >= 2 && at[0] == '-' && at[1] == '-';
	while (!line->last && at < end && (*at == ' ' || *at == '\t'))
		at++;
	line->end = at;
	return line->last || (end - at >= 2 && at[0] == '\r' && at[1] == '\n');
}

static bool find_line(const unsigned char *at, const unsigned char *end,
		      const struct delimiter *delimiter, struct line *line)
{
	while ((at = memmem(at, (size_t)(end - at), delimiter->text, delimiter->bytes))) {
		line->begin = at;
		at += delimiter->bytes;
		if (ends_line(at, end, line))
			return true;
	}
	return false;
}

/* Finds the first line with the boundary.  If the body begins with it, no CR LF comes before it. */
static bool find_first_line(const unsigned char *body, const unsigned char *end,
			    const struct delimiter *delimiter, struct line *line)
{
	const size_t bytes = delimiter->bytes - 2;

	if ((size_t)(end - body) >= bytes && !memcmp(body, delimiter->text + 2, bytes) &&
	    ends_line(body + bytes, end, line))
		return true;
	return find_line(body, end, delimiter, line);
}

const char *form_unwrap(const char *type, unsigned char *body, size_t *bytes)
{
	const unsigned char *end, *content;
	struct delimiter delimiter;
	struct line first, next;

	if (!type || strncasecmp(type, form_type, strlen(form_type)) ||
	    !strchr(BLANK ";", type[strlen(form_type)]))
		return NULL;
	if (!find_boundary(type, &delimiter))
		return "the form has no boundary: Content-Type must name one, of 1 to 70 "
		       "characters";
	end = body ? body + *bytes : NULL;
	if (!body || !find_first_line(body, end, &delimiter, &first))
		return "the form is broken: its boundary is not in the body";
	if (first.last)
		return "the form is empty: send one field";
	content = memmem(first.end, (size_t)(end - first.end), "\r\n\r\n", 4);
	/* If the content is empty, its delimiter may begin with the CR LF of the headers' end. */
	if (!content || !find_line(content + 2, end, &delimiter, &next))
		return "the form is cut off: its last boundary is missing";
	if (!next.last)
		return "the form has several fields: send one";
	content += 4;
	*bytes = next.begin > content ? (size_t)(next.begin - content) : 0;
	if (!*bytes && memmem(first.end, (size_t)(content - first.end), "filename=\"\"", 11))
		return "no file was chosen";
	memmove(body, content, *bytes);
	return NULL;
}
