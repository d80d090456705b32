/* SPDX-License-Identifier: MIT */
/*
 * What the jobs on a worker cost their classes.
 *
 * DESIGN
 *	A worker is busy from the start of a function until it has no work.  Its device's clock
 *	(class/share_clock.h) divides the time among the busy workers.  A job is charged the clock's time
 *	since the job before it ended on this worker's stream; or, if the device runs one job at a time,
 *	the time since the last end on the device.  Jobs that are seen to end together share their
 *	time in proportion to the estimates of pace.h.
 *	An end may be seen late, after a later job's function.  Then the jobs that have ended are
 *	charged their estimates, at least the time until that function was called, and the later
 *	job the rest.
 *	A job that was taken from its class is charged an estimate then: class.h.  Other jobs are
 *	charged when their function is called.  The pool's own class has jobs that name none.
 *	In a pool without classes, all of this is one load and a branch.
 */
#ifndef RNL_CHARGE_H
#define RNL_CHARGE_H

#include <stdbool.h>

#include "pool/classes.h"
#include "pool/worker.h"

/* The slow paths of the functions below. */
void rnl__charge_begins(struct rnl__worker *w, struct rnl_job *job);
void rnl__charge_ends(struct rnl__worker *w, struct rnl_job *job, uint64_t ns, bool ran);
void rnl__charge_idles(struct rnl__worker *w);
void rnl__charge_reaches(struct rnl__worker *w);
void rnl__charge_passes(struct rnl__worker *w, struct rnl_job *job);
void rnl__charge_empties(struct rnl__worker *w, struct rnl_job *job);
uint64_t rnl__charge_naps(struct rnl__worker *w, uint64_t now, uint64_t nap);

/* A job's function is about to be called. */
static inline void rnl__charge_begin(struct rnl__worker *w, struct rnl_job *job)
{
	if (__builtin_expect(rnl__classes_any(w->pool), false))
		rnl__charge_begins(w, job);
}

/* A job is not started, because its deadline is over, or (@late) cannot be met. */
void rnl__charge_expired(struct rnl__worker *w, const struct rnl_job *job, bool late);

/* A job's function was not called. */
static inline void rnl__charge_unrun(struct rnl__worker *w, struct rnl_job *job)
{
	if (job->flags & RNL__JOB_CLASSED)
		rnl__charge_ends(w, job, 0, false);
}

/* A job has left nothing on the stream. */
static inline void rnl__charge_empty(struct rnl__worker *w, struct rnl_job *job)
{
	if (__builtin_expect(w->clocked, false))
		rnl__charge_empties(w, job);
}

/* Some jobs of the stream may have been reached: they share the time since the last ones. */
static inline void rnl__charge_reached(struct rnl__worker *w)
{
	if (__builtin_expect(w->clocked, false))
		rnl__charge_reaches(w);
}

/* A job was taken off the stream. */
static inline void rnl__charge_passed(struct rnl__worker *w, struct rnl_job *job)
{
	if (__builtin_expect(w->clocked, false))
		rnl__charge_passes(w, job);
}

/*
 * Shortens a nap during which the device works: an end that is seen late makes the next job, of
 * another worker, seem short.  The nap ends before the expected end of the stream's first job.
 */
static inline uint64_t rnl__charge_nap(struct rnl__worker *w, uint64_t now, uint64_t nap)
{
	return __builtin_expect(w->clocked, false) ? rnl__charge_naps(w, now, nap) : nap;
}

/* The worker has no work. */
static inline void rnl__charge_idle(struct rnl__worker *w)
{
	if (__builtin_expect(w->clocked, false))
		rnl__charge_idles(w);
}

#endif
