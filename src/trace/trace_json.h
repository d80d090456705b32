/* SPDX-License-Identifier: MIT */
/*
 * A trace's events in the trace-event format.
 *
 * DESIGN
 *	Spans are complete events (ph X): each has its begin and its end.  The spans of a worker,
 *	and those of its device, are in the order of time.  A worker's track has its thread's ID;
 *	the track of its device has a number that no thread has.  A job in flight is also an
 *	asynchronous event (ph b, e), because several jobs are in flight at a time; so is a request that
 *	a resident kernel has answered.
 */
#ifndef RNL_TRACE_JSON_H
#define RNL_TRACE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "job/waits.h"
#include "watch/track.h"

struct rnl__trace;

/* Size limits in bytes: of an event, or of a submit with its arrow; of the footer. */
#define RNL__TRACE_EVENT_MAX 640
#define RNL__TRACE_FOOTER_MAX 1024

/* The first number of the devices' tracks. */
#define RNL__TRACE_DEVICE_TID 0x40000000u

/* The file's format of a host time: microseconds with three decimals. */
#define RNL__TRACE_TIME "%" PRIu64 ".%03u"
#define rnl__trace_time(ns) (uint64_t)((ns) / 1000), (unsigned)((ns) % 1000)

void rnl__trace_header(struct rnl__trace *t);
void rnl__trace_footer(struct rnl__trace *t);
void rnl__trace_name_track(struct rnl__trace *t, const struct rnl__track *track);
void rnl__trace_name_thread(struct rnl__trace *t, uint32_t tid);

/* Opens a span and leaves it open: the caller adds its arguments, "}", and a mark. */
void rnl__trace_begin_span(struct rnl__trace *t, const char *name, const char *category,
			   uint32_t tid, uint64_t begin, uint64_t end);

/* Writes a request that a resident kernel answered: from its commit to the end that a thread saw. */
void rnl__trace_request(struct rnl__trace *t, const struct rnl__wait *wait, uint64_t id);

/* Writes a record.  Returns true if it is a job's, and the file has space for the job's arrow. */
bool rnl__trace_record(struct rnl__trace *t, const struct rnl__track *track,
		       const struct rnl__track_record *record);

#endif
