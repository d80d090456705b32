/* SPDX-License-Identifier: MIT */
/* Function names for people to read. */
#ifndef RNL_SYMBOL_H
#define RNL_SYMBOL_H

#include <stddef.h>

/*
 * Writes a function's name.  If the function has no name, writes its object's name and its offset
 * there, or its address.  Reads the object's file, so do not call this while a job waits for it.
 */
void rnl__symbol(const void *fn, char *text, size_t bytes);

#endif
