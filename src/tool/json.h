/* SPDX-License-Identifier: MIT */
/* Prints JSON on standard output, member by member. */
#ifndef TOOL_JSON_H
#define TOOL_JSON_H

#include <stdbool.h>
#include <stdint.h>

/*
 * @name: the member's name, or NULL in an array and for the outermost object.
 * The caller closes each object and array; the outermost close ends the line.
 */
void tool_json_object(const char *name);
void tool_json_array(const char *name);
void tool_json_close(void);

void tool_json_text(const char *name, const char *text);	/* prints null for NULL */
void tool_json_integer(const char *name, int64_t value);
void tool_json_number(const char *name, double value);		/* six digits; null if not finite */
void tool_json_bool(const char *name, bool value);

#endif /* TOOL_JSON_H */
