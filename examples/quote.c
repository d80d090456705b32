/* SPDX-License-Identifier: MIT */
/*
 * How coreutils quote names in their diagnostics.
 *
 * DESIGN
 * So that a shell in the C locale would read them back: 'a b' in general, "it's"
 * where that is shorter, and $'\n' for bytes that do not print; nothing at all
 * where none is needed.
 */
#include "config.h"

#include "quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	char *name;
	size_t used, size;
} quoted;

static void add(char c)
{
	if (quoted.used == quoted.size) {
		quoted.size = 2 * quoted.size + 64;
		quoted.name = realloc(quoted.name, quoted.size);
		if (!quoted.name) {
			fprintf(stderr, "%s: memory exhausted\n", program_invocation_short_name);
			_exit(EXIT_FAILURE);
		}
	}
	quoted.name[quoted.used++] = c;
}

static void add_all(const char *string)
{
	while (*string)
		add(*string++);
}

static bool prints(char c)
{
	return c >= ' ' && c <= '~';
}

/* A brace means something to a shell only on its own, # and ~ only in front. */
static bool is_special(const char *name, const char *c)
{
	switch (*c) {
	case '{':
	case '}':
		return !name[1];
	case '#':
	case '~':
		return c == name;
	default:
		return !prints(*c) || strchr(" !\"$&'()*;<=>?[\\^`|:", *c);
	}
}

static bool needs_quotes(const char *name)
{
	for (const char *c = name; *c; c++)
		if (is_special(name, c))
			return true;
	return !*name;
}

/*
 * There is an apostrophe, and nothing that coreutils would not put between double
 * quotes: what means something there, and some that do not.
 */
static bool suits_double_quotes(const char *name)
{
	if (!strchr(name, '\''))
		return false;
	for (const char *c = name; *c; c++) {
		switch (*c) {
		case '\'':
		case ' ':
		case ':':
			break;
		case '#':
		case '~':
			if (c != name)
				return false;
			break;
		case '{':
		case '}':
			return false;
		default:
			if (is_special(name, c))
				return false;
		}
	}
	return true;
}

/* As the inside of $'...'. */
static void add_escaped(char c)
{
	static const char letters[] = "abtnvfr";
	const unsigned char byte = (unsigned char)c;

	add('\\');
	if (c >= '\a' && c <= '\r') {
		add(letters[c - '\a']);
	} else {
		add((char)('0' + (byte >> 6)));
		add((char)('0' + (byte >> 3 & 7)));
		add((char)('0' + (byte & 7)));
	}
}

/*
 * wc 9.1 garbles a name that has an apostrophe and ends with a byte that does not
 * print.  Here it is quoted by the rules.
 */
static void add_quoted(const char *name)
{
	bool escaping = false;

	add('\'');
	for (const char *c = name; *c; c++) {
		if (!prints(*c)) {
			if (!escaping)
				add_all("'$'");
			escaping = true;
			add_escaped(*c);
		} else if (*c == '\'') {
			add_all("'\\''");
			escaping = false;
		} else {
			if (escaping)
				add_all("''");
			escaping = false;
			add(*c);
		}
	}
	add('\'');
}

const char *quote_name(const char *name, bool always)
{
	quoted.used = 0;
	if (!always && !needs_quotes(name)) {
		add_all(name);
	} else if (suits_double_quotes(name)) {
		add('"');
		add_all(name);
		add('"');
	} else {
		add_quoted(name);
	}
	add('\0');
	return quoted.name;
}
