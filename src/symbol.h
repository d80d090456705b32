/* SPDX-License-Identifier: MIT */
/* What a function is called, for people. */
#ifndef RNL_SYMBOL_H
#define RNL_SYMBOL_H

#include <stddef.h>

/*
 * Writes a function's name, or, if there is none, its object's name and its place in
 * there.  Reads the object's file: not on the way of a job.
 */
void rnl__symbol(const void *fn, char *text, size_t bytes);

#endif
