/* SPDX-License-Identifier: MIT */
/*
 * Groups: jobs with RNL_GATHER, whose work is issued together.
 *
 * DESIGN
 *	While more jobs are queued, a job that gathers is run with its operations recorded instead
 *	of issued: device/gather.h.  The jobs after it join its group.  The group ends, and is
 *	issued, before anything that is not part of it: a job of another kind, a callback, a check
 *	of the stream, a wait, a command.  It also ends when it is large, and when the queue is
 *	empty.  So no job waits for a timeout, and a single job is issued immediately.
 *	Jobs that are not taken yet are in the queue, and can be stolen and cancelled there.
 *	The jobs of a group are not ordered.  So the group ends before a job that has the key of one
 *	of its jobs, comes after a barrier, or is in a chain.
 *	A job of a chain is in no group: its result, which decides whether the next job runs, is
 *	known only when its work is issued.
 *	Barriers are notified of the group's jobs when these are issued.  So a job that gathers
 *	must not wait for other jobs: they may come after its own group.
 *	A group has one mark: an event if a job has a barrier, whose streams wait for it, or if the
 *	jobs copy much; otherwise a written word, which the worker reads before each group.
 *	Until the group ends, its jobs' scratch is allocated side by side.
 *	A trace observes jobs one by one, so there are no groups while it runs.  A function that
 *	the guard has yet to watch, or that strays, is in no group.
 */
#ifndef RNL_GROUP_H
#define RNL_GROUP_H

#include "pool/worker.h"

/* Returns true if the worker's group, which has a job, is large or began a while ago. */
bool rnl__group_full(const struct rnl__worker *w);

/*
 * Ends the group, unless the job, which is about to run, can join it.
 * Returns true if the job can be in a group at all.
 */
bool rnl__group_prepare(struct rnl__worker *w, struct rnl_job *job);

/*
 * Adds a job that can be in a group, and is about to be called.
 * Returns true if the job is in a group now: then its calls are recorded.
 */
bool rnl__group_join(struct rnl__worker *w, struct rnl_job *job);

/* A job of the group has returned, and leaves work on the stream; @mark: it needs a mark. */
void rnl__group_issued(struct rnl__worker *w, struct rnl_job *job, bool mark);

/* Issues the group, if there is one. */
void rnl__group_end(struct rnl__worker *w);

/* Reports that an operation of a job was issued with its group, and failed. */
void rnl__group_failed(struct rnl_job *job, int error);

/* Reports that a copy of a job of the group will not be issued. */
void rnl__group_left_out(const struct rnl__copy *copy);

#endif
