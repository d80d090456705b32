/* SPDX-License-Identifier: MIT */
/*
 * A thread's implicit stream: attached to the thread, and detached.
 *
 * DESIGN
 *	Each thread has a pointer to its stream, `rnl__thread.stream`.  The backend makes streams.
 *	A list has all streams.  A forked child keeps the list, but does not touch the streams,
 *	because the threads that run them are in the parent.
 */
#ifndef RNL_STREAM_H
#define RNL_STREAM_H

#include "device/device.h"

/*
 * Attaches the calling thread, which must not be attached.  Returns 0 or the device's error.
 */
int rnl__stream_attach(struct rnl__device *device, const struct rnl__stream_wish *wish);

void rnl__stream_detach(void);

#endif
