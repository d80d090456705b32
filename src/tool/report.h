/* SPDX-License-Identifier: MIT */
/*
 * runnel report: reports from a trace which work overlapped on the device.  The files:
 *
 *	report.c		the command line, the text
 *	report_read.c		reading the trace, event by event
 *	report_bounds.c		bounds of the device work of jobs that were not timed
 *	report_classes.c	figures of each class of jobs
 *	report_causes.c		likely causes of missing overlap
 *	report_table.c		the figures as tables, as text or in a page
 *	report_json.c		the report as JSON
 *	report_picture.c	the timeline as SVG
 *	report_page.c		the page: timeline, tables and causes
 *	report_shapes.c		drawing spans, merged where they are too narrow to see
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

#define REPORT_NAMES 256	/* names of job functions; further functions share the last one */
#define REPORT_THREADS 64	/* threads that submit or wait; further ones are not shown */
#define REPORT_CAUSES 32

/* The kind of a lane of the picture. */
enum report_lane { REPORT_DEVICE, REPORT_HOST, REPORT_THREAD };

enum report_kind {
	REPORT_JOB = OVERLAP_JOB, /* a job's work on the device */
	REPORT_IN = OVERLAP_IN,
	REPORT_KERNEL = OVERLAP_KERNEL,
	REPORT_OUT = OVERLAP_OUT,
	REPORT_CALL,		/* a job's function */
	REPORT_BACK,		/* a job's callback */
	REPORT_SUBMIT,
	REPORT_WAIT,
	REPORT_MAYBE,		/* the window in which a job may have been on the device */
	REPORT_NR_KINDS,
};

/* All times are nanoseconds since the trace began. */
struct report_span {
	uint64_t begin, end;
	uint64_t id;		/* of the job; 0 if there is none */
	uint64_t queued;	/* REPORT_CALL: time of the submit; UINT64_MAX if not known */
	uint64_t staged;	/* REPORT_CALL: bytes of pageable memory that a CPU copied */
	uint16_t of;		/* worker, or index in report.threads */
	uint16_t name;		/* index in report.names */
	uint16_t class;		/* REPORT_CALL, REPORT_JOB: index in report.classes */
	uint8_t kind;		/* enum report_kind */
};

struct report_name {
	char text[104];
};

/* The figures of a class of jobs. */
struct report_class {
	uint64_t jobs, timed;		/* jobs; jobs with device times */
	uint64_t queue_p50_ns, queue_p99_ns; /* from the submit to the start, where it is known */
	uint64_t device_ns;		/* sum of the timed jobs' times on the device */
};

struct report_cause {
	char text[500];
};

struct report {
	const char *path;

	/* The header and the end of the trace. */
	char program[100], device[100];
	bool cuda, whole;		/* whole: true if the trace has its end event */
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
	char device_names[RNL_DEVICES_MAX][24]; /* "cuda:1"; "": the trace has no worker on it */
	uint8_t device_of[RNL_WORKERS_MAX];
	unsigned nr_threads;
	int64_t threads[REPORT_THREADS];
	struct report_name thread_names[REPORT_THREADS];
	uint64_t requests[REPORT_NAMES];	/* by request kernel: what a resident kernel answered */
	unsigned nr_findings;		/* findings of the guard */
	struct report_cause findings[REPORT_CAUSES];

	/* Results. */
	uint64_t begin, end;
	uint64_t nr_calls, nr_flights; /* jobs; jobs with device work */
	struct overlap_figures overlap, most; /* lower bounds, from the timed jobs; upper bounds */
	struct overlap_figures of_device[RNL_DEVICES_MAX], most_of_device[RNL_DEVICES_MAX];
	/* [0]: jobs without a class; [1 + i]: the class names[i], if it has jobs. */
	struct report_class classes[1 + REPORT_NAMES];
	bool has_classes;
	uint64_t classes_ns;		/* device_ns of all of them */
	struct report_cause causes[REPORT_CAUSES];
	unsigned nr_causes;
};

/* Reads a trace.  Returns 0, or TOOL_TROUBLE after a message. */
int report_read(struct report *r, const char *path);
void report_free(struct report *r);

/* Computes the lower and the upper bounds of all figures.  Returns like report_read(). */
int report_find_bounds(struct report *r);

/* Finds the figures of the classes, if a job has one. */
void report_find_classes(struct report *r);

/* Finds likely causes. */
void report_find_causes(struct report *r);

void report_print_json(const struct report *r);

/* Writes the figures as tables; @page: as HTML. */
void report_tables(FILE *to, const struct report *r, bool page);

/* Writes the timeline to a file; @page: as HTML.  Returns 0, or TOOL_TROUBLE after a message. */
int report_picture(const struct report *r, const char *path, bool page);

/* Returns the name of a class. */
static inline const char *report_class_name(const struct report *r, unsigned class)
{
	return class ? r->names[class - 1].text : "(no class)";
}

/* Returns true if jobs are missing in the trace. */
static inline bool report_misses(const struct report *r)
{
	return r->dropped > 0 || r->too_much > 0;
}

/* Returns true if the figures are bounds. */
static inline bool report_is_bounded(const struct report *r)
{
	return r->overlap.nr_jobs < r->nr_flights || report_misses(r);
}

/* Returns true for an empty window: the window of a job that was timed. */
static inline bool report_is_no_window(const struct report_span *s)
{
	return s->kind == REPORT_MAYBE && s->end == s->begin;
}

/* Writes how many jobs were timed, or "" if all were.  Returns @text. */
const char *report_sampling(const struct report *r, char text[300]);

/* Returns true if at least 9 of 10 jobs have device times. */
static inline bool report_mostly_timed(const struct report *r)
{
	return r->overlap.nr_jobs && r->overlap.nr_jobs * 10 >= r->nr_flights * 9;
}

/* Formats a time, for example as "12.3 ms".  Returns @text. */
const char *report_time(char text[32], uint64_t ns);

/* ---- report_shapes.c ----------------------------------------------------- */

/* A row of the picture. */
struct report_row {
	double top, height;
	enum report_lane lane;
	unsigned of;		/* worker or thread */
};

/* The mapping of times in ns to the picture's units. */
struct report_scale {
	uint64_t begin, end;
	double left, width;
	double least;		/* narrower gaps are not drawn */
};

/* Writes the shapes of a row's spans. */
void report_shapes(FILE *to, const struct report *r, const struct report_row *row,
		   const struct report_scale *scale);

/* Draws how many jobs were on the device at once, over time; the axis ends at the returned number. */
void report_depth(FILE *to, const struct report *r, double top, double height,
		  const struct report_scale *scale);
unsigned report_most_at_once(const struct report *r, const struct report_scale *scale);

/* Writes text with XML's special characters escaped. */
void report_escape(FILE *to, const char *text);

/* ---- report_picture.c, report_page.c --------------------------------------- */

/* The axis has a tick each @step units of @unit ns. */
struct report_ticks {
	double unit, step;
	const char *name;	/* of the unit */
};

struct report_entry {
	const char *class, *text;
	int width;		/* of the text, in the picture */
};

struct report_ticks report_ticks(const struct report_scale *s);

/* Returns entry @i of the legend, or NULL. */
const struct report_entry *report_legend(unsigned i);

/* Writes the rules for the shapes' and the text's colours, of both schemes. */
void report_colours(FILE *to);

/* Writes the pattern of hatched shapes, once in a file. */
void report_put_hatch(FILE *to);

void report_put_summary(FILE *to, const struct report *r);
unsigned report_threads_shown(const struct report *r);

/* Writes the page; @least as in struct report_scale. */
void report_put_page(FILE *to, const struct report *r, double least);

#endif /* TOOL_REPORT_H */
