/* SPDX-License-Identifier: MIT */
/*
 * gwc, which counts as wc(1) does, and gwc_mpi, which does it on many machines:
 *
 *	gwc.c		the program of one machine
 *	gwc_mpi.c	the program of many: ranks, which take shards of the files
 *	shards.c	what the shards are, and what came of one
 *	options.c	the command line of both
 *	tally.c		what both print
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
	bool mpi;
	uint32_t shard;			/* bytes that a rank takes at once; 0: by the files' sizes */
	bool stats;
};

/* ---- options.c ----------------------------------------------------------- */

struct program_operands;

void gwc_options_parse(struct gwc_options *opt, struct program_operands *files, int argc,
		       char **argv);

/* Creates the pool that the options ask for.  Dies if it cannot. */
struct rnl_pool *gwc_pool(struct gwc_options *opt);

/* ---- input.c ------------------------------------------------------------- */

struct gwc_input {
	char *name;			/* NULL: standard input without a name */
	unsigned number;		/* in the list, from 1 */
	bool stream;			/* read to its end, wherever that is */
	uint64_t size;			/* of a regular file, at the start */

	/* The consumer's. */
	struct gwc_summary sum;
	uint64_t bytes;
	bool failed;			/* later parts do not count */
};

/* A place in the list of inputs, between two bytes. */
struct gwc_place {
	unsigned input;
	uint64_t offset;		/* less than the input's size, or 0 */
};

struct gwc_inputs {
	struct gwc_input *list;
	unsigned nr;
	int width;			/* of the columns */

	struct gwc_place next;		/* to be read; in a stream the offset is 1 if it is open */
	struct gwc_place end;		/* of what is read by now; that of the list, without @more */
	int stream_fd;
	bool busy;			/* a producer reads a stream, or calls @more */

	/*
	 * If not NULL: sets `next` and `end` to what is read behind `end`.  No two calls are made
	 * at once.  Return: false if there is no more.
	 */
	bool (*more)(struct gwc_inputs *inputs, void *arg);
	void *more_arg;
	unsigned shard;			/* for @more: a number that parts up to `end` get */
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
	unsigned shard;
	bool ends;			/* its shard; a stream's `last` part does, too */
};

/* Dies if the list of names cannot be read. */
void gwc_inputs_open(struct gwc_inputs *inputs, const struct gwc_options *opt, char **names,
		     unsigned nr);
void gwc_inputs_close(struct gwc_inputs *inputs);

/* Whether all is given out, up to the `end`. */
static inline bool gwc_inputs_spent(const struct gwc_inputs *inputs)
{
	return inputs->next.input == inputs->end.input ? inputs->next.offset >= inputs->end.offset :
							 inputs->next.input > inputs->end.input;
}

/*
 * Gives out the next parts: one of a stream, or those of files that fill a chunk.
 * Context: the inputs are not busy.
 * Return: their number, up to @max; 0: they are spent.
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

/* ---- tally.c ------------------------------------------------------------- */

struct gwc_counts {
	uint64_t lines, words, bytes;
};

struct gwc_tally {
	const struct gwc_options *opt;
	int width;			/* of the columns */
	struct gwc_counts total;
	uint64_t done;			/* bytes, of all parts */
	bool failed;			/* an input could not be read in full */
};

/* Before the first part: the columns' width, and what the progress on a terminal counts from. */
void gwc_tally_begin(struct gwc_tally *tally, const struct gwc_inputs *inputs);

/*
 * Adds a part to its input, and prints the line of the input behind its last part.
 * @tally: a struct gwc_tally.  Context: parts come in the order of the inputs.
 */
void gwc_tally_add(void *tally, const struct gwc_part *part);

/* Prints the total, if there are several inputs. */
void gwc_tally_end(const struct gwc_tally *tally, const struct gwc_inputs *inputs);

#endif /* GWC_H */
