/* SPDX-License-Identifier: MIT */
/*
 * A job on its worker: it is started, its function is called, and its end is marked on the
 * stream.  complete.h has what follows when the device has passed the mark.
 *
 * DESIGN
 *	With jobs queued behind, one event stands for several jobs, and the driver is asked
 *	only when the stream is full.  With none queued, the stream writes a word, and the
 *	worker reads that.
 *	A job that copied much gets an event of its own, and the driver is asked for it: a
 *	word that the stream writes would hold up copies on other streams.
 *	A job of a barrier gets an event of its own at once: so jobs that come after the
 *	barrier, and streams that join it, wait for the functions of the barrier's jobs alone.
 *	All functions here run on the worker's own thread.
 */
#ifndef RNL_RUN_H
#define RNL_RUN_H

#include "pool/worker.h"

/* Runs a job that was taken from the queue of @from. */
void rnl__run(struct rnl__worker *w, struct rnl_job *job, struct rnl__worker *from);

/* No job is queued behind the last one: has the stream write a word behind it. */
void rnl__run_mark_last(struct rnl__worker *w);

#endif
