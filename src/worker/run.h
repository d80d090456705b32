/* SPDX-License-Identifier: MIT */
/*
 * A job on its worker: it is started, its function is called, and its end is marked on the stream.
 * complete.h describes what follows when the device has reached the mark.
 *
 * DESIGN
 *	While more jobs are queued, one event covers several jobs, and the driver is queried only
 *	when the stream is full.  If no job is queued, the stream writes a word, which the worker
 *	reads.
 *	A job that copied much gets an event of its own, and the driver is queried for it: a word
 *	that the stream writes would delay copies on other streams.
 *	After a job of a barrier, and after jobs of its round that follow it immediately, an event is
 *	recorded, and then the barrier notified.  So jobs after the barrier, and streams that join it, wait
 *	only for the work of its jobs.
 *	All functions here run on the worker's own thread.
 */
#ifndef RNL_RUN_H
#define RNL_RUN_H

#include "pool/worker.h"

/* Runs a job that was taken from the queue of @from. */
void rnl__run(struct rnl__worker *w, struct rnl_job *job, struct rnl__worker *from);

/* Makes the stream write a word after the last job, if no job is queued. */
void rnl__run_mark_last(struct rnl__worker *w);

#endif
