/* SPDX-License-Identifier: MIT */
/*
 * runnel report: tells from a trace what overlapped.  Its parts:
 *
 *	report.c		the command line, the text
 *	report_read.c		the trace, event by event
 *	report_bounds.c		what jobs that were not timed may have had on the device
 *	report_causes.c		why there was no more overlap
 *	report_json.c		the content of the text, for programs
 *	report_picture.c	the timeline, as SVG, alone or in a page
 *	report_shapes.c		spans as shapes, as many as can be seen
 */
#ifndef TOOL_REPORT_H
#define TOOL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <runnel.h>
#include <runnel/trace.h>

#include "overlap.h"

#define REPORT_NAMES 256	/* of job functions; others share the last */
#define REPORT_THREADS 64	/* that submit or wait; others are not shown */
#define REPORT_CAUSES 32

/* What a lane of the picture shows. */
enum report_lane { REPORT_DEVICE, REPORT_HOST, REPORT_THREAD };

enum report_kind {
	REPORT_JOB = OVERLAP_JOB, /* on the device */
	REPORT_IN = OVERLAP_IN,
	REPORT_KERNEL = OVERLAP_KERNEL,
	REPORT_OUT = OVERLAP_OUT,
	REPORT_CALL,		/* a job's function */
	REPORT_BACK,		/* its callback */
	REPORT_SUBMIT,
	REPORT_WAIT,
	REPORT_MAYBE,		/* when a job that was not timed may have been on the device */
	REPORT_NR_KINDS,
};

/* All times are nanoseconds since the trace began. */
struct report_span {
	uint64_t begin, end;
	uint64_t id;		/* of the job; 0: none */
	uint64_t queued;	/* CALL: when it was submitted; UINT64_MAX: not known */
	uint64_t staged;	/* CALL: bytes of pageable memory that a CPU copied */
	uint16_t of;		/* worker, or the number of the thread */
	uint16_t name;
	uint8_t kind;		/* enum report_kind */
};

struct report_name {
	char text[104];
};

struct report_cause {
	char text[500];
};

struct report {
	const char *path;

	/* What the trace says about itself. */
	char program[100], device[100];
	bool cuda, whole;		/* whole: it was stopped, and knows its end */
	int64_t connections, timing;
	int64_t dropped, too_much, unfinished, arrows_lost;

	struct report_span *spans;
	size_t nr, room;
	struct report_name names[REPORT_NAMES];
	unsigned nr_names;
	bool has_worker[RNL_WORKERS_MAX];
	int nr_workers;
	struct report_name worker_names[RNL_WORKERS_MAX];
	unsigned nr_devices;		/* of the pool */
	char device_names[RNL_DEVICES_MAX][24]; /* "cuda:1"; "": it has no worker here */
	uint8_t device_of[RNL_WORKERS_MAX];
	unsigned nr_threads;
	int64_t threads[REPORT_THREADS];
	struct report_name thread_names[REPORT_THREADS];
	unsigned nr_findings;		/* of the guard */
	struct report_cause findings[REPORT_CAUSES];

	/* Results. */
	uint64_t begin, end;
	uint64_t nr_calls, nr_flights; /* jobs; jobs with device work */
	struct overlap_figures overlap, most; /* of the timed jobs; of all that may have been */
	struct overlap_figures of_device[RNL_DEVICES_MAX], most_of_device[RNL_DEVICES_MAX];
	struct report_cause causes[REPORT_CAUSES];
	unsigned nr_causes;
};

/* Reads a trace.  Return: 0, or TOOL_TROUBLE after a message. */
int report_read(struct report *r, const char *path);
void report_free(struct report *r);

/* Finds the least and the most that was on the device.  Return: as report_read(). */
int report_find_bounds(struct report *r);

/* Finds likely causes. */
void report_find_causes(struct report *r);

void report_print_json(const struct report *r);

/* Writes the timeline to a file; @page: as HTML.  Return: 0, or TOOL_TROUBLE after a message. */
int report_picture(const struct report *r, const char *path, bool page);

/* Whether jobs are missing. */
static inline bool report_misses(const struct report *r)
{
	return r->dropped > 0 || r->too_much > 0;
}

/* Whether figures are bounds. */
static inline bool report_is_bounded(const struct report *r)
{
	return r->overlap.nr_jobs < r->nr_flights || report_misses(r);
}

/* Whether it is the flight of a job that was timed. */
static inline bool report_is_no_window(const struct report_span *s)
{
	return s->kind == REPORT_MAYBE && s->end == s->begin;
}

/* Says how many jobs the figures are of; "" if of all.  Return: @text. */
const char *report_sampling(const struct report *r, char text[300]);

/* Whether nearly all jobs have device times. */
static inline bool report_mostly_timed(const struct report *r)
{
	return r->overlap.nr_jobs && r->overlap.nr_jobs * 10 >= r->nr_flights * 9;
}

/* Writes "12.3 ms".  Return: @text. */
const char *report_time(char text[32], uint64_t ns);

/* ---- report_shapes.c ----------------------------------------------------- */

/* A row of the picture. */
struct report_row {
	double top, height;
	enum report_lane lane;
	unsigned of;		/* worker or thread */
};

/* From nanoseconds to the picture's units. */
struct report_scale {
	uint64_t begin, end;
	double left, width;
	double least;		/* narrower gaps are not drawn */
};

/* Writes a row's spans. */
void report_shapes(FILE *to, const struct report *r, const struct report_row *row,
		   const struct report_scale *scale);

/* Writes how many jobs were on the device at once, over time. */
void report_depth(FILE *to, const struct report *r, double top, double height,
		  const struct report_scale *scale, unsigned *most);

/* As text in XML. */
void report_escape(FILE *to, const char *text);

#endif /* TOOL_REPORT_H */
