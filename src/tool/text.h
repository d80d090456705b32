/* SPDX-License-Identifier: MIT */
/*
 * Makes untrusted text safe for a terminal: text of traces, object files and the command line.
 *
 * DESIGN
 * A character is copied completely or not at all.  Characters that control a terminal, and
 * bytes that are not UTF-8, are replaced by escapes such as "\x1b", byte by byte.
 */
#ifndef TOOL_TEXT_H
#define TOOL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Copies the characters that fit in @bytes (at least 1), and a final 0.  Returns @to. */
const char *tool_text(char *to, size_t bytes, const char *from);

void tool_put_text(FILE *to, const char *text);

/* Decodes the first character of a text that is not "".  Returns its length; 0: it is not UTF-8. */
unsigned tool_character(const char *text, uint32_t *point);

/* Returns true if the character controls a terminal, or changes the direction of text. */
bool tool_is_obeyed(uint32_t point);

#endif /* TOOL_TEXT_H */
