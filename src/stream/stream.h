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
 * @sms: the sets of SMs of which a private stream gets one; NULL: it may use all.
 */
int rnl__stream_attach(struct rnl__device *device, enum rnl_stream_kind kind, bool urgent,
		       struct rnl__sms *sms);

void rnl__stream_detach(void);

#endif
