/* SPDX-License-Identifier: MIT */
/*
 * A trace's file: valid JSON at any time, within its size limit.
 *
 * DESIGN
 *	Events are printed into a buffer.  Only events marked as whole go to the file, so an event
 *	is written as a whole or not at all.  The end of the JSON is written after each piece, and
 *	the next piece overwrites it.  So if the process dies, or the disk is full, the trace can
 *	still be opened.
 */
#ifndef RNL_TRACE_FILE_H
#define RNL_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rnl__trace_file {
	int fd;
	int error;			/* the first write error; no event is written after it */
	uint64_t size;			/* bytes in the file without the JSON's end */
	uint64_t max, reserved;		/* in bytes: the size limit; space for the footer */
	bool full;			/* the file reached its limit */
	size_t used, mark;		/* bytes in buf; up to `mark`, events are whole */
	char buf[65536];
};

/* Returns 0, an error of open(2), or -EINVAL if it is not a regular file. */
int rnl__trace_open(struct rnl__trace_file *f, const char *path, uint64_t max);

/* Returns true if there is space for an event of @bytes. */
bool rnl__trace_fits(struct rnl__trace_file *f, uint64_t bytes);

/* Adds text to an event. */
__attribute__((format(printf, 2, 3)))
void rnl__trace_print(struct rnl__trace_file *f, const char *format, ...);

/* Marks the event as whole. */
void rnl__trace_mark(struct rnl__trace_file *f);

/* Writes the whole events.  The file is valid JSON then. */
void rnl__trace_flush(struct rnl__trace_file *f);

/* Flushes and closes.  Returns 0 or the first error. */
int rnl__trace_close(struct rnl__trace_file *f);

#endif
