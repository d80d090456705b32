/* SPDX-License-Identifier: MIT */
/*
 * Attaches threads to a pool: each gets an implicit stream on a device of the pool.
 *
 * DESIGN
 *	A worker attaches itself when it begins, and detaches itself when it ends.  Any other thread
 *	attaches by rnl_thread_attach() or by a call that needs a stream.  It detaches by
 *	rnl_thread_attach(NULL), or at its end by the destructor of a POSIX key.
 *	A thread has one stream.  The stream serves all pools that have its device.
 */
#ifndef RNL_ATTACH_H
#define RNL_ATTACH_H

#include <stdbool.h>

#include <runnel.h>

struct rnl__device;

/*
 * Attaches like rnl__stream_attach(), to a device of the pool.  If the host device cannot start the
 * stream's thread, logs why.
 */
int rnl__attach_to(const struct rnl_pool *pool, struct rnl__device *device, bool urgent,
			  const char *what);

/*
 * Attaches the calling thread to the pool for a public @call.  Returns like rnl_thread_attach(),
 * but @refused if the thread is attached to a device that the pool does not have.
 */
int rnl__attach_caller(struct rnl_pool *pool, const char *call, int refused);

#endif
