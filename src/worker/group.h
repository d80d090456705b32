/* SPDX-License-Identifier: MIT */
/*
 * Groups: jobs that gather, and whose work is issued together.
 *
 * DESIGN
 *	While there are jobs behind it in the queue, a job that gathers is run so that what it
 *	issues is noted: device/gather.h.  The jobs behind it join its group.  The group ends, and
 *	is issued, before anything that is not for it: a job of another kind, a callback, a look
 *	at the stream, a wait, a command.  It ends, too, when it is large, and when the queue is
 *	empty: so nobody waits by the clock, and a job that is alone is issued at once.
 *	Jobs that are not taken yet are in the queue, and can be stolen and cancelled there.
 *	The jobs of a group are in no order, so a job ends the group before it if it has the key
 *	of a job there, or comes after a barrier, or by a chain.
 *	A job of a chain is in no group: whether the next one runs depends on its result, which is
 *	known when its work is issued.
 *	Barriers are told of the group's jobs when they are issued.  So a job that gathers must
 *	not wait for others: what it waits for may be behind its own group.
 *	An urgent job waits for no others, so it is in none.
 *	A group has one mark.  The scratch of its jobs lies side by side until then.
 *	A trace looks at one job after the other: there are no groups meanwhile.  A function that
 *	the guard has yet to watch, or that strays, is in none.
 */
#ifndef RNL_GROUP_H
#define RNL_GROUP_H

#include "pool/worker.h"

/*
 * Ends the group, unless the job, which is about to run, can be one of it.
 * Return: whether it can be one of any group.
 */
bool rnl__group_prepare(struct rnl__worker *w, struct rnl_job *job);

/*
 * The job can be one of a group, and is about to be called.
 * Return: whether it is now: then its calls are noted.
 */
bool rnl__group_join(struct rnl__worker *w, struct rnl_job *job);

/* A job of the group has returned, and leaves something on the stream; @mark: it needs a mark. */
void rnl__group_issued(struct rnl__worker *w, struct rnl_job *job, bool mark);

/* Issues the group, if there is one. */
void rnl__group_end(struct rnl__worker *w);

/* An operation of a job was issued with its group, and failed. */
void rnl__group_failed(struct rnl_job *job, int error);

/* A copy of a job of the group will not be issued. */
void rnl__group_left_out(const struct rnl__copy *copy);

#endif
