/* SPDX-License-Identifier: MIT */
/*
 * A trace's file: JSON at any time, and never longer than it may be.
 *
 * DESIGN
 *	Events are printed into a buffer.  An event is written whole, or not at all:
 *	only what is marked as whole goes to the file.  What ends the JSON is written
 *	behind each piece, and the next piece overwrites it.  So a process that dies,
 *	or a disk that is full, leaves a trace that opens.
 */
#ifndef RNL_TRACE_FILE_H
#define RNL_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rnl__trace_file {
	int fd;
	int error;			/* of the first write that failed; it is the last */
	uint64_t size;			/* bytes in the file, without what ends it */
	uint64_t max, reserved;		/* bytes: the bound; what the end will need */
	bool full;			/* the file came to its bound */
	size_t used, mark;		/* bytes in buf; up to here events are whole */
	char buf[65536];
};

/* Return: 0; what open(2) says; -EINVAL not a regular file. */
int rnl__trace_open(struct rnl__trace_file *f, const char *path, uint64_t max);

/* True: there is space for an event of @bytes. */
bool rnl__trace_fits(struct rnl__trace_file *f, uint64_t bytes);

/* Adds text to an event. */
__attribute__((format(printf, 2, 3)))
void rnl__trace_print(struct rnl__trace_file *f, const char *format, ...);

/* The event is whole. */
void rnl__trace_mark(struct rnl__trace_file *f);

/* Writes what is whole: the file is JSON then. */
void rnl__trace_flush(struct rnl__trace_file *f);

/* Flushes and closes.  Return: 0, or the first error. */
int rnl__trace_close(struct rnl__trace_file *f);

#endif
