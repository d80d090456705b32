/* SPDX-License-Identifier: MIT */
/* Memory: pinned buffers of the host, memory of a device, and scratch memory of one job. */
#ifndef RUNNEL_MEMORY_H
#define RUNNEL_MEMORY_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RNL_PINNED (-1)

/*
 * Gets memory for data that outlives a job: a pinned buffer, or memory of a device of the pool. A
 * pinned buffer is page-locked, portable and mapped host memory. The device copies from and to it
 * while the caller goes on, and kernels can access it. It is aligned to 64 bytes, or to a page from
 * 64 KiB on. The pool cuts buffers from large regions, which it keeps. Once it has enough buffers
 * of a size, a get or a put of such a buffer takes no lock and no CUDA call.
 * In a pool of several GPUs, jobs on other GPUs can copy memory of a device and access it in
 * kernels if the GPUs are peers (cudaDeviceCanAccessPeer()). Otherwise they can only copy it, and
 * CUDA copies through the host. On the host device, both kinds are plain memory, aligned to 64
 * bytes.
 * @where: RNL_PINNED, or the device: its number in the pool, rnl_device_describe().
 * @bytes: rounded up for a pinned buffer; if above 256, by less than a quarter. A buffer takes 64
 *	bytes more, or, if it has 64 KiB or more, a page more.
 * @memp: receives the memory. rnl_memory_put() frees it; the end of the pool frees pinned buffers.
 * @timeout_ns: if the pool would exceed pinned_max, the longest time to wait until other threads
 *	put pinned buffers back; no wait if 0, on a worker of the pool, or for memory of a device.
 * Context: lock-free for a pinned buffer, unless it waits or page-locks more memory, which takes a
 *	millisecond for each megabyte (attribute pinned_preload). For memory of a device it may
 *	block, but does not wait for work on the device's streams.
 * Return: 0; -EINVAL an argument is NULL, bytes is 0, or the pool has no such device; -ENOMEM the
 *	system or the device has no more, or the pool would exceed pinned_max; with a timeout, the
 *	latter only if the pool can never have a buffer of this size; -ETIMEDOUT not enough buffers
 *	were put back in time; -EIO; -EOWNERDEAD.
 * Since: 0.3
 */
RNL_API int rnl_memory_get(struct rnl_pool *pool, int where, size_t bytes, void **memp,
			   int64_t timeout_ns);

/*
 * Puts memory of rnl_memory_get() back. It must not be in use: all jobs that use memory of a device
 * must be done.
 * @pool: the memory's pool; for memory of a device, any pool with the device. NULL is an error that
 *	the call logs.
 * @mem: NULL does nothing. If it is no such memory, or was put back before, or the bytes before a
 *	pinned buffer were overwritten, the call logs an error and does nothing else.
 * Context: lock-free for a pinned buffer; as for rnl_memory_get() for memory of a device.
 * Since: 0.3
 */
RNL_API void rnl_memory_put(struct rnl_pool *pool, void *mem);

/*
 * Gets device memory for the running job, for work that the job issues to its worker's stream from
 * now on. The memory is freed when the job is done, whatever its result. Its content is undefined.
 * A worker keeps the memory that its jobs used (attribute scratch_keep), so this call usually takes
 * some nanoseconds. More memory comes from the device, in stream order, without a wait.
 * @memp: receives the memory, aligned to 256 bytes. A job may call this several times.
 * Return: 0; -EINVAL called outside of a job, or memp is NULL, or bytes is 0; -ENOMEM; -EIO. An
 *	error becomes the job's result, as for rnl_copy().
 * Since: 0.1
 */
RNL_API int rnl_scratch(size_t bytes, void **memp);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_MEMORY_H */
