/* SPDX-License-Identifier: MIT */
/*
 * A trace's events, in the trace-event format.
 *
 * DESIGN
 *	Spans are complete events (ph X): each has its end.  The spans of a worker and
 *	of its device come in the order of time.  A worker's track has the number of its thread; its
 *	device's track has a number that no thread has.  A job in flight is an
 *	asynchronous event as well (ph b, e), because several are in flight at once.
 */
#ifndef RNL_TRACE_JSON_H
#define RNL_TRACE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "watch/track.h"

struct rnl__trace;

/* Bytes, at most: an event, or a submit with its arrow; the footer. */
#define RNL__TRACE_EVENT_MAX 640
#define RNL__TRACE_FOOTER_MAX 1024

/* The first of the numbers of devices' tracks. */
#define RNL__TRACE_DEVICE_TID 0x40000000u

/* A time of the host's clock as the file has it: microseconds, and their thousandths. */
#define RNL__TRACE_TIME "%" PRIu64 ".%03u"
#define rnl__trace_time(ns) (uint64_t)((ns) / 1000), (unsigned)((ns) % 1000)

void rnl__trace_header(struct rnl__trace *t);
void rnl__trace_footer(struct rnl__trace *t);
void rnl__trace_name_track(struct rnl__trace *t, const struct rnl__track *track);
void rnl__trace_name_thread(struct rnl__trace *t, uint32_t tid);

/* Opens a span and leaves it open: the caller adds its arguments, "}", and a mark. */
void rnl__trace_begin_span(struct rnl__trace *t, const char *name, const char *category,
			   uint32_t tid, uint64_t begin, uint64_t end);

/* True: the record is a job's, the file has it now, and has space for the job's arrow. */
bool rnl__trace_record(struct rnl__trace *t, const struct rnl__track *track,
		       const struct rnl__track_record *record);

#endif
