/* SPDX-License-Identifier: MIT */
/* Memory: pinned buffers of the host, memory of the device, and scratch memory of one job. */
#ifndef RUNNEL_MEMORY_H
#define RUNNEL_MEMORY_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Gets a pinned buffer: host memory that is page-locked, portable and mapped. The pool's device
 * copies from and to it while the caller goes on, and kernels can reach it. The buffer is aligned
 * to 64 bytes, or to a page if it has 64 KiB or more. On the host device it is plain memory.
 * The pool cuts buffers from large regions and keeps the regions. Once it has enough buffers of a
 * size, to get and to put one takes no lock and no CUDA call.
 * @bytes: rounded up; above 256 by less than a quarter. A buffer needs 64 bytes more than that, or
 *	a page more from 64 KiB on.
 * @bufp: receives the buffer. rnl_pinned_put() gives it back, or the pool's end does.
 * @timeout_ns: how long to wait for other threads to put buffers back, while the pool would exceed
 *	pinned_max; 0, and on a worker of the pool: not at all.
 * Context: lock-free without a wait. It blocks to page-lock more memory, which takes a millisecond
 *	for each megabyte (attribute pinned_preload).
 * Return: 0; -EINVAL an argument is NULL or bytes is 0; -ENOMEM the pool would have page-locked
 *	more than pinned_max, after a wait only if it can never have a buffer of this size; or the
 *	system has no more; -ETIMEDOUT not enough buffers were put back in time; -EIO; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_pinned_get(struct rnl_pool *pool, size_t bytes, void **bufp, int64_t timeout_ns);

/*
 * Puts a pinned buffer back. Nothing may use it any more.
 * @pool: the buffer's pool; or NULL, if the caller does not know it: then the bytes in front of the
 *	buffer tell, so they must be readable, and the pool must exist.
 * @buf: from rnl_pinned_get(); NULL does nothing. If the buffer was put back before, or the bytes
 *	in front of it were overwritten, the call logs an error and does nothing else.
 * Context: lock-free.
 * Since: 0.1
 */
RNL_API void rnl_pinned_put(struct rnl_pool *pool, void *buf);

/*
 * Allocates memory of a device of the pool for data that outlives a job. On the host device it is
 * plain memory, aligned to 64 bytes.
 * In a pool of several GPUs, jobs on the others reach the memory, by copies and in kernels, if the
 * GPUs are peers (cudaDeviceCanAccessPeer()). Else only copies do, which CUDA takes through the host.
 * @device: its number in the pool: rnl_pool_device().
 * @memp: receives the memory, to be freed by rnl_device_free().
 * Context: may block, but does not wait for work on the device's streams.
 * Return: 0; -EINVAL an argument is NULL, bytes is 0, or the pool has no such device, which is
 *	logged; -ENOMEM; -EIO; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_device_alloc(struct rnl_pool *pool, unsigned device, size_t bytes, void **memp);

/*
 * Frees memory of rnl_device_alloc(). All jobs that use it must be done.
 * @mem: of a device that the pool has; NULL does nothing. If it is no memory of such a device, or
 *	was freed before, the call logs an error and does nothing else.
 * Context: may block, but does not wait for work on the device's streams.
 * Since: 0.1
 */
RNL_API void rnl_device_free(struct rnl_pool *pool, void *mem);

/*
 * Gets device memory for the running job: for work that it issues to its worker's stream from now
 * on. The memory is gone when the job is done, whatever its result, and needs no free. Its content
 * is undefined. A worker keeps the memory that its jobs used (attribute scratch_keep), and then
 * this call takes some nanoseconds. More memory comes from the device, in stream order, without a
 * wait.
 * @memp: receives the memory, aligned to 256 bytes. A job may call this several times.
 * Return: 0; -EINVAL called outside of a job, or memp is NULL, or bytes is 0; -ENOMEM; -EIO. An
 *	error becomes the job's result, as with rnl_copy().
 * Since: 0.1
 */
RNL_API int rnl_scratch(size_t bytes, void **memp);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_MEMORY_H */
