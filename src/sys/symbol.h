/* SPDX-License-Identifier: MIT */
/* A function's name, for people. */
#ifndef RNL_SYMBOL_H
#define RNL_SYMBOL_H

#include <stddef.h>

/*
 * Writes a function's name, or, if it has none, its object's name and its place there, or its
 * address.  Reads the object's file: not while a job waits for it.
 */
void rnl__symbol(const void *fn, char *text, size_t bytes);

#endif
