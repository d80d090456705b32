/* SPDX-License-Identifier: MIT */
/*
 * The times of jobs' work on the device, for a track.
 *
 * DESIGN
 *	Device times come from timed events around a job's work.  Such an event costs more than a
 *	microsecond, part of it under the driver's lock.  So by default a worker times its first
 *	thousands of jobs, for a complete picture of a short program, and then spends at most a
 *	twentieth of its time on events: it times all long jobs, and some of the small ones.  If the
 *	previous timed job is still in flight, the end of that job is the begin of the next one.
 *	An idle stream reaches an event immediately, so the work after it would seem to begin too
 *	early.  So if a job issues through functions of this library, its begin is recorded right
 *	before the first of them, and no operation begins before it was issued.  The begin of any
 *	other job is recorded when its function is called.  The last job shows which kind to expect
 *	next.
 *	If the device's clock is not the host's, times count from a base, an event with a known host
 *	time.  Clocks drift and CUDA counts in floats, so the base is made anew when the worker is
 *	idle, and moved on once a second.  No job begins before its function, or ends after the
 *	worker saw it done; if measured times contradict that, the base is moved.
 *	Work that the guard has captured is not on the stream yet, so its operations are not timed.
 */
#ifndef RNL_TRACK_TIME_H
#define RNL_TRACK_TIME_H

#include "watch/track.h"

/* Makes the events and finds the clock's base.  Returns 0, -ENOMEM, or the device's error. */
int rnl__track_time_start(struct rnl__track *t);
void rnl__track_time_free(struct rnl__track *t);

/* Returns true if a job that starts now should be timed. */
bool rnl__track_time_wanted(const struct rnl__track *t, uint64_t now);

/* Records an event on the stream.  Returns NULL if no event is free, or the device refused. */
struct rnl__event *rnl__track_time_record(struct rnl__track *t);

/* Records a job's begin, again if it was recorded before. */
void rnl__track_time_begin(struct rnl__track *t, struct rnl__track_job *j);

/* Puts a job's events back. */
void rnl__track_time_put(struct rnl__track *t, struct rnl__track_job *j);

/*
 * Timing took from @from to @to.  After the first jobs, no job is timed until 20 times as long has
 * passed since @from.
 */
void rnl__track_time_spend(struct rnl__track *t, uint64_t from, uint64_t to);

/* Finds when an event was reached, by the host's clock.  Returns false if the device cannot say. */
bool rnl__track_time_of(struct rnl__track *t, struct rnl__event *event, uint64_t *ns);

/* Reads the times of a job seen done at @done.  Leaves them unchanged if the device cannot say. */
void rnl__track_time_read(struct rnl__track *t, struct rnl__track_job *j, uint64_t done,
			  uint64_t *begin, uint64_t *end);

/* Makes a job's end the base if the base is old: a float counts from it, and gets coarse. */
void rnl__track_time_move(struct rnl__track *t, struct rnl__track_job *j, uint64_t end);

#endif
