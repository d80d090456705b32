/* SPDX-License-Identifier: MIT */
/*
 * A worker's thread: makes the worker's stream and memory, then serves or is away, by commands.
 *
 * DESIGN
 *	The pool's hooks are called around each time that the worker serves.  A worker that is away
 *	keeps its thread and its stream, and sleeps.  What an earlier thread of the worker made stays
 *	in use.
 */
#ifndef RNL_SERVE_H
#define RNL_SERVE_H

/* The thread's function; @arg: its worker.  The command RNL__END ends it. */
void *rnl__serve_main(void *arg);

#endif
