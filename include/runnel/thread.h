/* SPDX-License-Identifier: MIT */
/* Streams for the program's own threads. */
#ifndef RUNNEL_THREAD_H
#define RUNNEL_THREAD_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Gives the calling thread an implicit stream on the pool's (first) device. The thread keeps the
 * stream until rnl_thread_attach(NULL) or its end; on CUDA, its end does not wait for the issued
 * work. If the thread is already attached to a device of the pool, by any pool or as a worker,
 * nothing changes. The stream outlives the pool. If the device has failed, do not join the thread:
 * CUDA may not return from the thread's end.
 * @pool: NULL waits for the issued work, and removes the thread's stream like cuCtxSetCurrent(NULL)
 *	removes a context. It does nothing on a worker, or on a thread that is not attached.
 * Return: 0; -EBUSY the thread is attached to a device that is not one of the pool's; -ENODEV the
 *	caller is a pool's timer thread, in a callback; -ENOMEM; -EAGAIN the system started no more
 *	threads; -ENOTSUP the system refuses threads; -EIO; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_thread_attach(struct rnl_pool *pool);

/*
 * Waits on the host until the device has completed all work that the calling thread issued. It is
 * for threads that are not workers: a job that waits wastes its worker.
 * Context: blocks.
 * Return: 0; -ETIMEDOUT; -EBUSY called in a job; -ENODEV the thread is attached to no device; -EIO
 *	the device has failed; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_stream_wait(int64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_THREAD_H */
