/* SPDX-License-Identifier: MIT */
/*
 * Attaches threads to a pool: each gets an implicit stream on a device of the pool.
 *
 * DESIGN
 *	A worker attaches itself when it begins, and detaches itself when it ends.  Any other thread
 *	attaches by rnl_thread_attach() or by a call that needs a stream.  It detaches by
 *	rnl_thread_attach(NULL), or at its end by the destructor of a POSIX key.
 *	A thread has one stream.  The stream serves all pools that have its device.
 *	If a pool keeps SMs for its classes, its workers' streams are limited to those SMs or
 *	to the rest.  Other threads' streams are not: they may outlive the pool.
 */
#ifndef RNL_ATTACH_H
#define RNL_ATTACH_H

#include <stdbool.h>

#include <runnel.h>

struct rnl__device;
struct rnl__stream_wish;

/*
 * Attaches like rnl__stream_attach(), to a device of the pool.  If the host device cannot start the
 * stream's thread, logs why.
 */
int rnl__attach_to(const struct rnl_pool *pool, struct rnl__device *device,
		   const struct rnl__stream_wish *wish, const char *what);

/* Detaches the calling thread, which attached by rnl__attach_to(). */
void rnl__attach_end(void);

/*
 * Keeps SMs of each of the pool's devices for classes.  Returns 0, or the error, which
 * is logged for @call.
 */
int rnl__attach_keep_sms(struct rnl_pool *pool, uint32_t nr, const char *call);

/* Gives back what was kept, if anything; the workers have ended. */
void rnl__attach_free_sms(struct rnl_pool *pool);

/*
 * Attaches the calling thread to the pool for a public @call.  Returns like rnl_thread_attach(),
 * but @refused if the thread is attached to a device that the pool does not have.
 */
int rnl__attach_caller(struct rnl_pool *pool, const char *call, int refused);

#endif
