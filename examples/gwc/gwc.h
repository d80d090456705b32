/* SPDX-License-Identifier: MIT */
/*
 * gwc, which counts as wc(1) does:
 *
 *	gwc.c		options, the consumer, the output
 *	input.c		the files to read, and which parts of them are read next
 *	produce.c	the producers, their chunks and jobs
 *	count.c		counting on the CPU
 *	device.cu	counting on the GPU; device.c: without nvcc
 */
#ifndef GWC_H
#define GWC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#include "count.h"

#define GWC_PRODUCERS_MAX 16

struct gwc_options {
	bool lines, words, bytes;	/* the columns */
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
	int width;			/* of the columns */

	unsigned next;			/* the input to read next ... */
	uint64_t offset;		/* ... from here on; of a stream 1 if it is open */
	int stream_fd;
	bool stream_busy;		/* a producer reads it */
};

/* A part of an input: a producer reads it, a job counts it, the consumer adds it up. */
struct gwc_part {
	struct gwc_input *in;
	uint64_t offset;		/* in the input */
	size_t bytes;			/* to be read; then those that were read */
	size_t at;			/* offset in the chunk's text */
	struct gwc_summary sum;
	int err;			/* an errno: reading ended with it; or 0 */
	bool opened;
	bool last;			/* of its input; reading a stream finds out */
};

/* Dies if the list of names cannot be read. */
void gwc_inputs_open(struct gwc_inputs *inputs, const struct gwc_options *opt, char **names,
		     unsigned nr);
void gwc_inputs_close(struct gwc_inputs *inputs);

/*
 * Gives out the next parts: one of a stream, or those of files that fill a chunk.
 * Context: no stream is busy.
 * Return: their number, up to @max; 0: there are no more.
 */
unsigned gwc_inputs_next(struct gwc_inputs *inputs, size_t chunk, struct gwc_part *parts,
			 unsigned max);

/* Called after a part of a stream was read. */
void gwc_inputs_streamed(struct gwc_inputs *inputs, bool ended);

/* Reads a part. */
void gwc_part_read(struct gwc_inputs *inputs, struct gwc_part *part, void *to);

/* ---- produce.c ----------------------------------------------------------- */

/* Counts all inputs.  @consume gets the parts in the order of the inputs. */
void gwc_count_all(struct rnl_pool *pool, struct gwc_inputs *inputs, const struct gwc_options *opt,
		   void (*consume)(void *arg, const struct gwc_part *part), void *arg);

#endif /* GWC_H */
