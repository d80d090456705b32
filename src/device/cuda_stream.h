/* SPDX-License-Identifier: MIT */
/*
 * A thread's stream on CUDA.
 *
 * DESIGN
 *	A thread's stream is its default stream, or a private, non-blocking stream, which may be
 *	limited to some of the SMs (cuda_green.h).  If a function uses the default stream although
 *	its thread has a private one, an event joins the two.
 */
#ifndef RNL_CUDA_STREAM_H
#define RNL_CUDA_STREAM_H

#include "device/device.h"

/* The device's operations. */
int rnl__cuda_stream_attach(struct rnl__device *device, const struct rnl__stream_wish *wish,
			    struct rnl__stream **streamp);
void rnl__cuda_stream_detach(struct rnl__stream *stream);
unsigned rnl__cuda_stream_replay(const struct rnl__gather *gather, unsigned step);
int rnl__cuda_stream_idle(void);
int rnl__cuda_stream_wait(uint64_t deadline);
int rnl__cuda_stream_stray(void);
int rnl__cuda_stream_divert(bool on);

#endif
