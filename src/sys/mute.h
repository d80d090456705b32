/* SPDX-License-Identifier: MIT */
/*
 * A write that fails raises a signal in the calling thread: SIGPIPE for a pipe without a reader,
 * SIGXFSZ for a file at its limit (RLIMIT_FSIZE).  By default each ends the process.  The library
 * has the error, and is to leave the application's signals alone.
 */
#ifndef RNL_MUTE_H
#define RNL_MUTE_H

#include <signal.h>

struct rnl__mute {
	sigset_t mask, pending;		/* before */
};

/* From here on the calling thread does not take these signals. */
void rnl__mute_begin(struct rnl__mute *mute);

/* Takes back what the thread's write raised that failed with @error, an errno; 0: none failed. */
void rnl__mute_end(const struct rnl__mute *mute, int error);

#endif
