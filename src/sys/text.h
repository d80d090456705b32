/* SPDX-License-Identifier: MIT */
/* Text of the program, as UTF-8: a character is kept whole, or not at all. */
#ifndef RNL_TEXT_H
#define RNL_TEXT_H

#include <stddef.h>

/* Return: the bytes of the first character of a text that is not "", 1 to 4; 0: it is no UTF-8. */
unsigned rnl__character(const char *text);

/* Copies the characters that fit into @bytes, with a 0; a byte that is no UTF-8 becomes '?'. */
void rnl__text_copy(char *to, size_t bytes, const char *from);

#endif
