/* SPDX-License-Identifier: MIT */
/*
 * Writes without signals.  A failed write raises a signal in the calling thread: SIGPIPE for a pipe
 * without a reader, SIGXFSZ for a file at its limit (RLIMIT_FSIZE).  By default each ends the
 * process.  The library gets the error, and must not disturb the application's signals.
 */
#ifndef RNL_MUTE_H
#define RNL_MUTE_H

#include <signal.h>

struct rnl__mute {
	sigset_t mask, pending;		/* of the thread, before the write */
};

/* Blocks these signals in the calling thread. */
void rnl__mute_begin(struct rnl__mute *mute);

/* Discards the signal of the thread's write that failed with @error, an errno; 0: it succeeded. */
void rnl__mute_end(const struct rnl__mute *mute, int error);

#endif
