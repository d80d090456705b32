/* SPDX-License-Identifier: MIT */
/*
 * stream_kinds: the same kernels of several threads on each kind of CUDA's streams.
 * What its parts know of each other:
 *
 *	stream_kinds.c			main(): which ways there are; the table
 *	stream_kinds_options.c		the command line
 *	stream_kinds_ways.c		the threads, and the pool
 *	stream_kinds_picture.c		the timeline, as SVG
 *	stream_kinds_kernel.cu		the kernel, and CUDA's streams; .c: without CUDA
 */
#ifndef STREAM_KINDS_H
#define STREAM_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KINDS_THREADS_MAX 32
#define KINDS_KERNELS_MAX 8

/* ---- stream_kinds_options.c ---------------------------------------------- */

struct kinds_options {
	const char *device;
	struct rnl_device_info info;	/* of that */
	unsigned threads, kernels, repeat;
	unsigned ms;			/* of each kernel */
	const char *svg;		/* a file; NULL: none */
};

/* Exits after --help, and when something is wrong. */
void kinds_options_parse(struct kinds_options *opt, int argc, char **argv);

/* ---- the ways ------------------------------------------------------------ */

enum kinds_stream {
	KINDS_LEGACY,			/* one for the whole process */
	KINDS_PER_THREAD,
	KINDS_BLOCKING,			/* made by the thread, as cudaStreamCreate() does */
	KINDS_NON_BLOCKING,
	KINDS_NR_STREAMS,
};

enum kinds_by {
	KINDS_BY_CUDA,			/* threads that call CUDA; a GPU is needed */
	KINDS_BY_ONE,			/* one thread, for all, on its implicit stream */
	KINDS_BY_THREADS,		/* threads, each on its implicit stream */
	KINDS_BY_POOL,			/* jobs of a pool, one for each worker */
};

/* When a kernel began and ended, by the device's clock, in ns. */
struct kinds_span {
	uint64_t begin, end;
};

struct kinds_way {
	const char *name, *means;
	enum kinds_by by;
	enum kinds_stream stream;	/* KINDS_BY_CUDA */
	bool one_legacy;		/* the first thread's second kernel is on that one */
	struct kinds_span *spans;	/* of each run, thread and kernel; page-locked */
	unsigned median;		/* the run that is told of */
};

static inline struct kinds_span *kinds_spans(const struct kinds_way *way,
					     const struct kinds_options *opt, unsigned run)
{
	return way->spans + (size_t)run * opt->threads * opt->kernels;
}

/*
 * Runs each of the ways, once more than opt->repeat: the first time warms up, and is run 0.
 * Exits if something fails.
 */
void kinds_run(const struct kinds_options *opt, struct rnl_pool *pool, struct kinds_way *ways,
	       unsigned nr);

/* ---- stream_kinds_picture.c ---------------------------------------------- */

/* Writes the timeline.  0 or a negative errno. */
int kinds_picture(const struct kinds_options *opt, const struct kinds_way *ways, unsigned nr);

/* What the table and the picture tell of a way's median run. */
struct kinds_figures {
	uint64_t begin, end;
	double ms;
	unsigned at_once;		/* the most kernels that ran at the same time */
};
struct kinds_figures kinds_figures(const struct kinds_options *opt, const struct kinds_way *way,
				   unsigned run);

/* ---- the kernel ---------------------------------------------------------- */

/* Stays for so long, and notes when. */
struct kinds_args {
	struct kinds_span *span;
	uint64_t ns;
};
extern const struct rnl_kernel kinds_kernel;
void kinds_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args);

/* Whether that is there for CUDA, too. */
extern const bool kinds_has_cuda;

/*
 * The calling thread's streams of all kinds but the legacy one, which is everybody's.  All
 * return 0 or a negative errno, and have said what was wrong.
 */
struct kinds_streams {
	void *handles[KINDS_NR_STREAMS];
};
int kinds_stream_open(struct kinds_streams *streams, enum kinds_stream kind, int32_t ordinal);
int kinds_stream_launch(const struct kinds_streams *streams, enum kinds_stream kind,
			const struct kinds_args *args);
int kinds_stream_wait(const struct kinds_streams *streams, enum kinds_stream kind);
void kinds_stream_close(struct kinds_streams *streams);

#ifdef __cplusplus
}
#endif
#endif /* STREAM_KINDS_H */
