/* SPDX-License-Identifier: MIT */
/* A file that is there in full, or not at all. */
#ifndef EXAMPLES_OUTPUT_H
#define EXAMPLES_OUTPUT_H

#include <stdio.h>

struct output {
	FILE *to;		/* for the caller to write to */
	const char *file;
	char *part;		/* the name until the end; NULL: `file` is no regular file */
};

/* Begins a file.  @file: valid until the end.  Return: 0 or a negative errno. */
int output_begin(struct output *out, const char *file);

/*
 * Ends the file: from now on it is there under its name, unless something failed.
 * @ret: 0, or the caller's own negative errno.  Return: the first error.
 */
int output_end(struct output *out, int ret);

#endif /* EXAMPLES_OUTPUT_H */
