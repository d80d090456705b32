/* SPDX-License-Identifier: MIT */
/* The program's text, as UTF-8.  A character is copied whole or not at all. */
#ifndef RNL_TEXT_H
#define RNL_TEXT_H

#include <stddef.h>

/* Returns the length of the first character of a text that is not ""; 0: it is not UTF-8. */
unsigned rnl__character(const char *text);

/* Copies the characters that fit into @bytes, with a NUL.  A byte that is not UTF-8 becomes '?'. */
void rnl__text_copy(char *to, size_t bytes, const char *from);

#endif
