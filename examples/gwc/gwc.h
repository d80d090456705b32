/* SPDX-License-Identifier: MIT */
/*
 * gwc counts like wc(1); gwc_mpi does it on many machines:
 *
 *	gwc.c		the program for one machine
 *	gwc_mpi.c	the program for many: ranks, which take shards of the files
 *	shards.c	cutting inputs into shards, and the report of a shard
 *	options.c	the command line of both
 *	tally.c		the output of both
 *	input.c		the input files, and the next parts to read
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
	unsigned workers;		/* 0: chosen by the library from the CPUs */
	unsigned producers;
	uint32_t chunk;			/* bytes of text per job */
	bool nonspace;			/* the rule for words: see count.h */
	bool mpi;
	uint32_t shard;			/* bytes of a shard; 0: chosen from the files' sizes */
	bool stats;
};

/* ---- options.c ----------------------------------------------------------- */

struct program_operands;

void gwc_options_parse(struct gwc_options *opt, struct program_operands *files, int argc,
		       char **argv);

/* Creates the pool for these options.  Dies on an error. */
struct rnl_pool *gwc_pool(struct gwc_options *opt);

/* ---- input.c ------------------------------------------------------------- */

struct gwc_input {
	char *name;			/* NULL: standard input without a name */
	unsigned number;		/* position in the list, from 1 */
	bool stream;			/* of unknown size: read to its end */
	uint64_t size;			/* of a regular file, at the start */

	/* Used by the consumer. */
	struct gwc_summary sum;
	uint64_t bytes;
	bool failed;			/* later parts are ignored */
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

	struct gwc_place next;		/* where to read next; a stream's offset: 1 if it is open */
	struct gwc_place end;		/* end of the parts to read; without @more, of the list */
	int stream_fd;
	bool busy;			/* a producer reads a stream, or calls @more */

	/*
	 * If not NULL, called when all parts up to `end` were taken: sets `next` and `end` to the
	 * next parts to read.  Calls do not overlap.  Returns false at the end of the input.
	 */
	bool (*more)(struct gwc_inputs *inputs, void *arg);
	void *more_arg;
	unsigned shard;			/* for @more: the shard number of parts up to `end` */
};

/* A part of an input: a producer reads it, a job counts it, the consumer adds its counts. */
struct gwc_part {
	struct gwc_input *in;
	uint64_t offset;		/* in the input */
	size_t bytes;			/* bytes to read; then bytes that were read */
	size_t at;			/* offset in the chunk's text */
	struct gwc_summary sum;
	int err;			/* an errno that ended the reading, or 0 */
	bool opened;
	bool last;			/* the input's last part; for a stream, set by reading */
	unsigned shard;
	bool ends;			/* the shard's last part; a stream's `last` part is, too */
};

/* Dies if the list of names cannot be read. */
void gwc_inputs_open(struct gwc_inputs *inputs, const struct gwc_options *opt, char **names,
		     unsigned nr);
void gwc_inputs_close(struct gwc_inputs *inputs);

/* Returns true if all parts up to `end` were returned. */
static inline bool gwc_inputs_spent(const struct gwc_inputs *inputs)
{
	return inputs->next.input == inputs->end.input ? inputs->next.offset >= inputs->end.offset :
							 inputs->next.input > inputs->end.input;
}

/*
 * Takes the next parts: one part of a stream, or the parts of files that fill a chunk.
 * Context: the inputs are not busy.
 * Returns the number of parts, up to @max; 0 if none are left.
 */
unsigned gwc_inputs_next(struct gwc_inputs *inputs, size_t chunk, struct gwc_part *parts,
			 unsigned max);

/* Called after a part of a stream was read. */
void gwc_inputs_streamed(struct gwc_inputs *inputs, bool ended);

/* Reads a part. */
void gwc_part_read(struct gwc_inputs *inputs, struct gwc_part *part, void *to);

/* ---- produce.c ----------------------------------------------------------- */

/* Counts all inputs.  Calls @consume for each part, in the order of the inputs. */
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
	uint64_t done;			/* bytes of all parts so far */
	bool failed;			/* an input could not be read in full */
};

/* Call before the first part: sets the columns' width, and begins the progress line. */
void gwc_tally_begin(struct gwc_tally *tally, const struct gwc_inputs *inputs);

/*
 * Adds a part to its input; prints the input's line after the input's last part.
 * @tally: a struct gwc_tally.  Context: call it for parts in the order of the inputs.
 */
void gwc_tally_add(void *tally, const struct gwc_part *part);

/* Prints the total, if there are several inputs. */
void gwc_tally_end(const struct gwc_tally *tally, const struct gwc_inputs *inputs);

#endif /* GWC_H */
