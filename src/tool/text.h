/* SPDX-License-Identifier: MIT */
/*
 * Text of strangers, for a terminal: of traces, of object files, of the command line.
 *
 * DESIGN
 * A character is copied whole or not at all.  What a terminal would obey, and what is no UTF-8,
 * becomes "\x1b", byte by byte.
 */
#ifndef TOOL_TEXT_H
#define TOOL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Copies as many characters as fit, and a 0.  @to, @bytes: at least 1.  Return: @to. */
const char *tool_text(char *to, size_t bytes, const char *from);

void tool_put_text(FILE *to, const char *text);

/* The first character of a text that is not "".  Return: its bytes, 1 to 4; 0: it is no UTF-8. */
unsigned tool_character(const char *text, uint32_t *point);

/* Whether it moves the cursor, starts a command, or turns the text's direction round. */
bool tool_is_obeyed(uint32_t point);

#endif /* TOOL_TEXT_H */
