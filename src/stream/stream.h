/* SPDX-License-Identifier: MIT */
/*
 * A thread's implicit stream: given to the thread, and taken away.
 *
 * DESIGN
 *	The stream is a pointer of the thread's own, `rnl__thread.stream`; the backend makes it.
 *	A list has all streams.  A forked child has none of their threads: it finds the streams by
 *	the list, and leaves them alone, since what executes them is the parent's.
 */
#ifndef RNL_STREAM_H
#define RNL_STREAM_H

#include "device/device.h"

/* Attaches the calling thread, which is not attached; 0 or the device's error. */
int rnl__stream_attach(struct rnl__device *device, enum rnl_stream_kind kind, bool urgent);

void rnl__stream_detach(void);

#endif
