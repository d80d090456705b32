/* SPDX-License-Identifier: MIT */
/*
 * gwc, which counts as wc(1) does:
 *
 *	gwc.c		options, the consumer, the output
 *	input.c		the files to read, and which ranges of them are read next
 *	produce.c	the producers, their chunks and jobs
 *	count.c		counting on the CPU
 *	device.cu	counting on the GPU; device.c: without nvcc
 */
#ifndef GWC_H
#define GWC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <runnel.h>

#include "count.h"

enum gwc_total {
	GWC_TOTAL_AUTO,		/* a line of totals if there is more than one file */
	GWC_TOTAL_ALWAYS,
	GWC_TOTAL_ONLY,		/* no other line */
	GWC_TOTAL_NEVER,
};

struct gwc_options {
	bool lines, words, chars, bytes;	/* the columns; a char is a byte here */
	enum gwc_total total;
	const char *files0_from;	/* a file with names; NULL: names are operands */
	const char *device;
	unsigned workers;		/* 0: the library's choice for CPUs */
	unsigned producers;
	uint32_t chunk;			/* bytes of text in a job */
	bool nonspace;			/* the rule for words: see count.h */
	bool stats;
};

/* ---- input.c ------------------------------------------------------------- */

struct gwc_input {
	char *name;			/* NULL: standard input without a name */
	bool stream;			/* read to its end, wherever that is */
	uint64_t size;			/* of a regular file, at the start */

	/* The consumer's. */
	struct gwc_summary sum;
	uint64_t bytes;
	bool failed;			/* later parts do not count */
};

struct gwc_inputs {
	struct gwc_input *list;
	unsigned nr;
	bool own_names;			/* they were allocated */
	int width;			/* of the columns */

	unsigned next;			/* the input to read next ... */
	uint64_t offset;		/* ... from here on */
	int stream_fd;			/* of a stream that was read in part */
	bool stream_busy;		/* a producer reads it */
};

/* A part of an input, which a producer reads. */
struct gwc_range {
	struct gwc_input *in;
	uint64_t offset;
	size_t bytes;
	bool last;			/* of the input; of a stream it is known afterwards */
};

/* Dies if the list of names cannot be read. */
void gwc_inputs_open(struct gwc_inputs *inputs, const struct gwc_options *opt, char **names,
		     unsigned nr);
void gwc_inputs_close(struct gwc_inputs *inputs);

/*
 * Gives out the next ranges: of a stream, or what fills a chunk; not while a stream is busy.
 * Return: their number, up to @max; 0: there are no more.
 */
unsigned gwc_inputs_next(struct gwc_inputs *inputs, size_t chunk, struct gwc_range *ranges,
			 unsigned max);

/* After the range of a stream was read. */
void gwc_inputs_streamed(struct gwc_inputs *inputs, bool ended);

/*
 * Reads a range.
 * @err: receives an errno, or 0.
 * Return: the bytes that were read, or -1: it cannot be opened.
 */
ssize_t gwc_range_read(struct gwc_inputs *inputs, const struct gwc_range *range, void *to, int *err);

/* ---- produce.c ----------------------------------------------------------- */

/* Some text of an input, counted, or the news that the input cannot be read. */
struct gwc_part {
	struct gwc_input *in;
	struct gwc_summary sum;
	uint64_t bytes;
	int err;			/* an errno: reading ended with it; or 0 */
	bool opened;
	bool last;			/* of its input */
};

/* Counts all inputs.  @consume gets the parts in the order of the inputs. */
void gwc_count_all(struct rnl_pool *pool, struct gwc_inputs *inputs, const struct gwc_options *opt,
		   void (*consume)(void *arg, const struct gwc_part *part), void *arg);

#endif /* GWC_H */
