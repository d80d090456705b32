/* SPDX-License-Identifier: MIT */
/*
 * Prints JSON on standard output, member by member.
 *
 * DESIGN
 * A stack holds the closing brackets of all open objects and arrays.  A comma precedes each value
 * except the first of an object or array.  For readability each value of the outermost
 * object, and of the arrays in it, begins a line.
 */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "text.h"

#define DEPTH_MAX 8
#define LINES 2		/* levels whose members begin a line each */

static struct {
	char closing[DEPTH_MAX];
	bool empty[DEPTH_MAX];
	unsigned depth;
} state;

static void line(void)
{
	printf("\n%*s", 2 * (int)state.depth, "");
}

static void put_text(const char *text)
{
	putchar('"');
	while (*text) {
		uint32_t point;
		const unsigned bytes = tool_character(text, &point);

		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if (!bytes)
			fputs("\\ufffd", stdout);
		else if (tool_is_obeyed(point))
			printf("\\u%04x", (unsigned)point);
		else
			fwrite(text, 1, bytes, stdout);
		text += bytes ? bytes : 1;
	}
	putchar('"');
}

static void json_begin(const char *name)
{
	if (state.depth) {
		bool *const empty = &state.empty[state.depth - 1];

		if (!*empty)
			putchar(',');
		if (state.depth <= LINES)
			line();
		else if (!*empty)
			putchar(' ');
		*empty = false;
	}
	if (name) {
		put_text(name);
		fputs(": ", stdout);
	}
}

static void json_push(const char *name, char opening, char closing)
{
	json_begin(name);
	putchar(opening);
	state.closing[state.depth] = closing;
	state.empty[state.depth++] = true;
}

void tool_json_object(const char *name)
{
	json_push(name, '{', '}');
}

void tool_json_array(const char *name)
{
	json_push(name, '[', ']');
}

void tool_json_close(void)
{
	state.depth--;
	if (state.depth < LINES && !state.empty[state.depth])
		line();
	putchar(state.closing[state.depth]);
	if (!state.depth)
		putchar('\n');
}

void tool_json_text(const char *name, const char *text)
{
	json_begin(name);
	if (text)
		put_text(text);
	else
		fputs("null", stdout);
}

void tool_json_integer(const char *name, int64_t value)
{
	json_begin(name);
	printf("%" PRId64, value);
}

void tool_json_number(const char *name, double value)
{
	json_begin(name);
	if (isfinite(value))
		printf("%.6g", value);
	else
		fputs("null", stdout);
}

void tool_json_bool(const char *name, bool value)
{
	json_begin(name);
	fputs(value ? "true" : "false", stdout);
}
