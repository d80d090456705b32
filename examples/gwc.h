/* SPDX-License-Identifier: MIT */
/*
 * gwc: counts lines, words and bytes as wc(1) does in the C locale, on the
 * workers of a runnel pool.  What its parts know of each other:
 *
 *	gwc.c		main(): the consumer
 *	gwc_options.c	the command line
 *	gwc_source.c	which file, and which part of it, is read next
 *	gwc_produce.c	the producers and their jobs
 *	gwc_pipe.c	from the producers to the consumer, in order
 *	gwc_count.c	counting on the CPU; gwc_kernel.cu: on the GPU
 *	gwc_report.c	everything that is printed
 */
#ifndef GWC_H
#define GWC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#include "gwc_count.h"

/* ---- gwc_options.c ------------------------------------------------------- */

enum gwc_total {
	GWC_TOTAL_AUTO,		/* a line of totals if there is more than one file */
	GWC_TOTAL_ALWAYS,
	GWC_TOTAL_ONLY,		/* and nothing else */
	GWC_TOTAL_NEVER,
};

struct gwc_options {
	bool lines, words, chars, bytes;	/* the columns; chars are bytes here */
	enum gwc_total total;
	const char *files0_from;	/* NULL: the names are operands */
	char **names;
	unsigned nr_names;
	const char *device;
	unsigned workers;		/* 0: as many as the library thinks right for CPUs */
	unsigned producers;
	size_t chunk;			/* bytes that one job counts */
	bool printable;			/* the rule for words: see gwc_count.h */
	bool stats;
};

/* Exits after --help and --version, and when something is wrong. */
void gwc_options_parse(struct gwc_options *opt, int argc, char **argv);

/* Sizes of files alone: nothing of them has to be looked at. */
bool gwc_options_only_sizes(const struct gwc_options *opt);

/* ---- gwc_source.c -------------------------------------------------------- */

enum gwc_input_kind {
	GWC_INPUT_UNSEEN,	/* nobody has looked yet */
	GWC_INPUT_FILE,		/* a regular file */
	GWC_INPUT_STREAM,	/* a pipe or the like, or standard input */
	GWC_INPUT_QUICK,	/* missing, or a directory: reading it fails at once */
	/* From here on, nothing to read but something to say. */
	GWC_INPUT_EMPTY_NAME,
	GWC_INPUT_DASH,		/* "-" in a list that is itself standard input */
	GWC_INPUT_BAD_LIST,	/* reading the list of names failed: `err` */
};

/* One file, from when it is named until its counts are printed. */
struct gwc_input {
	struct gwc_input *next;
	char *name;		/* NULL: standard input that nobody named */
	enum gwc_input_kind kind;
	int err;
	int fd;			/* open while several producers read it; or -1 */
	uint64_t size;		/* of a regular file, when it was looked at */
	unsigned long number;	/* in the list of names, from 1 */
	bool ended;		/* it is shorter than `size`; by gwc_pipe.c */

	/* The consumer's: what has been counted so far. */
	struct gwc_summary sum;
	uint64_t bytes;
	bool over;		/* whatever else comes of it is not counted */
};

enum gwc_work_kind {
	GWC_WORK_FILES,		/* `nr` inputs from `first` on, each as a whole */
	GWC_WORK_SLICE,		/* `bytes` at `offset` of `first` */
	GWC_WORK_STREAM,	/* `first`, when all streams before it are read */
};

/* What a producer does next. */
struct gwc_work {
	enum gwc_work_kind kind;
	struct gwc_input *first;
	unsigned nr;
	uint64_t offset;
	uint64_t bytes;
	bool last;		/* the slice goes on to the end of the file */
	uint64_t turn;		/* streams before this one */
};

struct gwc_source {
	const struct gwc_options *opt;
	uint64_t work_bytes;	/* a larger file is read in slices of this */
	int width;		/* of the numbers that are printed */
	bool no_stdin;		/* standard input was closed when we began */

	struct gwc_input *head, **tail;	/* named, not given out yet */
	struct gwc_input *sliced;	/* given out in part ... */
	uint64_t offset;		/* ... up to here */
	uint64_t nr_streams;
	unsigned long nr_names;

	int list_fd;		/* names are read from it as they come; or -1 */
	char *list;		/* what was read and is not taken apart yet */
	size_t list_used, list_size;
};

/*
 * Begins with the names that the options give, looks at the files as far as
 * wc does, and fixes the width.  Exits if the list cannot be read.
 */
void gwc_source_open(struct gwc_source *src, const struct gwc_options *opt, uint64_t work_bytes,
		     bool no_stdin);

/*
 * What to read next, in the order of the output.  May block for names that
 * come from a pipe.  Not for two threads at once.
 * Return: false if that was all.
 */
bool gwc_source_next(struct gwc_source *src, struct gwc_work *work);

bool gwc_input_is_stdin(const struct gwc_input *in);

/* Opens an input to be read in one go.  Return: a descriptor or -errno. */
int gwc_input_open(const struct gwc_source *src, const struct gwc_input *in);

/*
 * Moves on to where reading has to begin if only the size is wanted.
 * Return: the bytes that were passed.
 */
uint64_t gwc_input_skip(int fd);

/*
 * Reads @bytes bytes at @offset, or with an offset of -1 from where the last
 * read ended.
 * Return: fewer only at the end of the file, or if *@err is set.
 */
size_t gwc_input_read(int fd, unsigned char *buf, size_t bytes, int64_t offset, int *err);

void gwc_input_free(struct gwc_input *in);

/* ---- gwc_pipe.c ---------------------------------------------------------- */

enum gwc_part_flags {
	GWC_PART_NOT_OPENED = 1,	/* `err` says why */
	GWC_PART_OVER = 2,		/* nothing behind this counts */
	GWC_PART_LAST = 4,		/* of its input; implies that it is over */
};

/* The next bytes of the next input, counted. */
struct gwc_part {
	struct gwc_input *in;
	uint64_t bytes;
	struct gwc_summary sum;
	int err;			/* an errno: reading ended with it */
	unsigned flags;
};

struct gwc_pipe_stats {
	uint64_t jobs;
	uint64_t max_in_flight;		/* queued or on the device, as sampled */
};

struct gwc_pipe;

/* Bytes of work that a producer should be given at once. */
uint64_t gwc_pipe_work_bytes(const struct gwc_options *opt);

/*
 * Starts the producers.
 * @what: receives what failed.
 * Return: 0 or a negative errno.
 */
int gwc_pipe_start(struct gwc_pipe **pipep, struct rnl_pool *pool, struct gwc_source *src,
		   const struct gwc_options *opt, const char **what);

/*
 * Takes the next part, in the order of the input.
 * @what: receives what failed.
 * Return: 1; 0 there is no more; -ETIMEDOUT; another negative errno: the work
 *	cannot be done, and the pipe is good for nothing any more.
 */
int gwc_pipe_next(struct gwc_pipe *pipe, struct gwc_part *part, int64_t timeout_ns,
		  const char **what);

/* Ends a pipe that has no more parts. */
void gwc_pipe_stop(struct gwc_pipe *pipe, struct gwc_pipe_stats *stats);

/* ---- gwc_report.c: main thread only -------------------------------------- */

/* @no_stdout: standard output was closed when we began. */
void gwc_report_begin(bool no_stdout);

struct gwc_counts {
	uint64_t lines, words, bytes;
};

/* @name: NULL prints none. */
void gwc_report_counts(const struct gwc_options *opt, int width, const struct gwc_counts *counts,
		       const char *name);

/* "gwc: message: what @err means"; without the last part if @err is 0. */
__attribute__((format(printf, 2, 3))) void gwc_report_error(int err, const char *format, ...);

/* Tells a terminal, now and then, that the work goes on. */
void gwc_report_progress(uint64_t bytes, uint64_t since_ns);

/* Whether there is anybody to tell. */
bool gwc_report_progress_wanted(void);

void gwc_report_stats(struct rnl_pool *pool, const struct gwc_pipe_stats *stats,
		      const struct gwc_options *opt, uint64_t files, uint64_t bytes, uint64_t ns);

/* Writes what is left.  Return: the exit status. */
int gwc_report_end(bool failed);

uint64_t gwc_now_ns(void);

#endif /* GWC_H */
