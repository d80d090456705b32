/* SPDX-License-Identifier: MIT */
/*
 * stream_kinds: the same kernels of several threads on each kind of CUDA's streams.
 *
 *	stream_kinds.c	the options, the ways, the table
 *	ways.c		the threads, and the pool
 *	picture.c	the timeline, as SVG
 *	device.cu	the kernel, and CUDA's streams; device.c: without nvcc
 */
#ifndef STREAM_KINDS_H
#define STREAM_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>
#include <runnel/kernel.h>

#include "../common/shared.h"

SHARED_BEGIN

#define KINDS_THREADS_MAX 32
#define KINDS_KERNELS_MAX 8

struct kinds_options {
	const char *device;
	struct rnl_device_info info;	/* description of the device */
	unsigned threads, kernels, repeat;
	unsigned ms;			/* of each kernel */
	const char *svg;		/* a file; NULL: none */
};

/* ---- the ways ------------------------------------------------------------ */

enum kinds_stream {
	KINDS_LEGACY,			/* one for the whole process */
	KINDS_PER_THREAD,
	KINDS_BLOCKING,			/* created by the thread, like by cudaStreamCreate() */
	KINDS_NON_BLOCKING,
	KINDS_NR_STREAMS,
};

/* A kernel's start and end, by the device's clock, in ns. */
struct kinds_span {
	uint64_t begin, end;
};

struct kinds_way {
	const char *name, *means;
	bool pool;			/* jobs of a pool, one per thread */
	bool one_worker;		/* the pool has one worker, and so one stream */
	bool plain;			/* on the host: threads call the kernel directly */
	enum kinds_stream stream;	/* without a pool: stream of the threads that call CUDA */
	bool one_legacy;		/* the first thread's second launch is a legacy call */
	struct kinds_span *spans;	/* per run, thread and kernel; page-locked */
	unsigned median;		/* the run that is shown */
};

static inline struct kinds_span *kinds_spans(const struct kinds_way *way,
					     const struct kinds_options *opt, unsigned run)
{
	return way->spans + (size_t)run * opt->threads * opt->kernels;
}

/* Runs each way opt->repeat times, after run 0, which warms up. */
void kinds_run(const struct kinds_options *opt, const struct kinds_way *ways, unsigned nr);

/* ---- picture.c ----------------------------------------------------------- */

/* Writes the timeline.  Returns 0 or a negative errno. */
int kinds_picture(const struct kinds_options *opt, const struct kinds_way *ways, unsigned nr);

/* A run's results for the table and the picture. */
struct kinds_figures {
	uint64_t begin, end;
	double ms;
	unsigned at_once;		/* the most kernels that ran concurrently */
};
struct kinds_figures kinds_figures(const struct kinds_options *opt, const struct kinds_way *way,
				   unsigned run);

/* ---- the kernel ---------------------------------------------------------- */

/* The kernel runs for `ns`, and records its start and end. */
struct kinds_args {
	struct kinds_span *span;
	uint64_t ns;
};
extern const struct rnl_kernel kinds_kernel;
void kinds_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args);

/* The calling thread's streams, one per kind; all threads share the legacy stream. */
struct kinds_streams {
	void *handles[KINDS_NR_STREAMS];
};

/* All return 0, or a negative errno after a message. */
struct kinds_cuda {
	int (*open)(struct kinds_streams *streams, enum kinds_stream kind, int32_t ordinal);
	int (*launch)(const struct kinds_streams *streams, enum kinds_stream kind,
		      const struct kinds_args *args);
	int (*wait)(const struct kinds_streams *streams, enum kinds_stream kind);
	void (*close)(struct kinds_streams *streams);
};
extern const struct kinds_cuda *const kinds_cuda;	/* NULL: built without nvcc */

SHARED_END
#endif /* STREAM_KINDS_H */
