/* SPDX-License-Identifier: MIT */
/*
 * A worker's thread: creates the worker's stream and memory, then serves or is away, as commanded.
 *
 * DESIGN
 *	The pool's hooks are called at the begin and end of each time that the worker serves.  A
 *	worker that is away keeps its thread and its stream, and sleeps.  Resources of an earlier
 *	thread of the worker are reused.
 */
#ifndef RNL_SERVE_H
#define RNL_SERVE_H

/* The thread's function; @arg: its worker.  The command RNL__END ends the thread. */
void *rnl__serve_main(void *arg);

#endif
