/* SPDX-License-Identifier: MIT */
/* An output file that appears only when it is complete. */
#ifndef EXAMPLES_OUTPUT_H
#define EXAMPLES_OUTPUT_H

#include <stdio.h>

struct output {
	FILE *to;		/* the stream that the caller writes to */
	const char *file;
	char *part;		/* the temporary name; NULL: `file` is not a regular file */
};

/* Begins a file.  @file: must stay valid until output_end().  Returns 0 or a negative errno. */
int output_begin(struct output *out, const char *file);

/*
 * Closes the file, and renames it to its final name unless something failed.
 * @ret: 0, or the caller's own negative errno.  Returns the first error.
 */
int output_end(struct output *out, int ret);

#endif /* EXAMPLES_OUTPUT_H */
