/* SPDX-License-Identifier: MIT */
/* Gives threads their implicit stream, and takes it away. */
#ifndef RNL_STREAM_H
#define RNL_STREAM_H

#include "device/device.h"

/* Attaches the calling thread, which is not attached; 0 or the device's error. */
int rnl__stream_attach(struct rnl__device *device, enum rnl_stream_kind kind, bool urgent);

/* The same, to a device of the pool, whose log tells why a thread of it did not start. */
struct rnl_pool;
int rnl__stream_attach_to(const struct rnl_pool *pool, struct rnl__device *device, bool urgent,
			  const char *what);

void rnl__stream_detach(void);

struct rnl_pool;

/*
 * Attaches the calling thread to the pool for a public @call.  Return: as rnl_thread_attach(), but
 * @refused if the thread is attached to another device.
 */
int rnl__stream_attach_caller(struct rnl_pool *pool, const char *call, int refused);

#endif
