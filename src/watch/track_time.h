/* SPDX-License-Identifier: MIT */
/*
 * When the device did the work of a track's jobs.
 *
 * DESIGN
 *	Device times are those of timed events around what the job issues.  Such an event costs more
 *	than a microsecond, part of it under the driver's lock.  So by default a worker times as
 *	many jobs as take a twentieth of its time: all that are worth it, and some of the small
 *	ones.  Behind a timed job that is still in flight, the end of that job is the begin.
 *	An idle stream reaches an event at once, and the work behind it would seem to
 *	begin too early.  So the begin of a job that issues by functions of this library is
 *	recorded right before the first of them, and no operation begins before it was
 *	issued; the begin of any other job is recorded when its function is called.  The
 *	last job tells which kind the next one is expected to be.
 *	If the device's clock is not the host's, times count from a base, an event whose time on the
 *	host is known.  Clocks drift and CUDA counts in floats, so the base is made anew when the
 *	worker is idle, and moved on once in a second.  No job begins before its function, or ends
 *	after the worker saw it done: the base is moved if times say that.
 *	Work that the guard has captured is not on the stream yet: it has no times of its own.
 */
#ifndef RNL_TRACK_TIME_H
#define RNL_TRACK_TIME_H

#include "watch/track.h"

/* Makes the events and finds the clock's base.  0, -ENOMEM, or the device's error. */
int rnl__track_time_start(struct rnl__track *t);
void rnl__track_time_free(struct rnl__track *t);

/* Whether a job that starts now is to be timed. */
bool rnl__track_time_wanted(const struct rnl__track *t, uint64_t now);

/* Records an event on the stream.  Return: NULL if none is free, or the device refused. */
struct rnl__event *rnl__track_time_record(struct rnl__track *t);

/* Records a job's begin, anew if it was recorded before. */
void rnl__track_time_begin(struct rnl__track *t, struct rnl__track_job *j);

/* Puts a job's events back. */
void rnl__track_time_put(struct rnl__track *t, struct rnl__track_job *j);

/* Timing took from @from to @to: no job is timed until that is one part in 20 of the time. */
void rnl__track_time_spend(struct rnl__track *t, uint64_t from, uint64_t to);

/* When an event was reached, by the host's clock; false: the device does not say. */
bool rnl__track_time_of(struct rnl__track *t, struct rnl__event *event, uint64_t *ns);

/* Reads the times of a timed job, which was seen done at @done.  They stay if the device does not say. */
void rnl__track_time_read(struct rnl__track *t, struct rnl__track_job *j, uint64_t done,
			  uint64_t *begin, uint64_t *end);

/* Makes a later event the base, before the float that counts from it gets coarse. */
void rnl__track_time_move(struct rnl__track *t, struct rnl__track_job *j, uint64_t end);

#endif
