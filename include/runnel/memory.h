/* SPDX-License-Identifier: MIT */
/* Memory: pinned buffers of the host, memory of the device, and scratch memory of one job. */
#ifndef RUNNEL_MEMORY_H
#define RUNNEL_MEMORY_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RNL_PINNED (-1)

/*
 * Gets memory for data that outlives a job: a pinned buffer, or memory of a device of the pool.
 * A pinned buffer is host memory that is page-locked, portable and mapped. The pool's device copies
 * from and to it while the caller goes on, and kernels can reach it. The buffer is aligned to 64
 * bytes, or to a page if it has 64 KiB or more. The pool cuts buffers from large regions and keeps the
 * regions. Once it has enough buffers of a size, to get and to put one takes no lock and no CUDA call.
 * In a pool of several GPUs, jobs on the others reach memory of a device, by copies and in kernels, if
 * the GPUs are peers (cudaDeviceCanAccessPeer()). Else only copies do, which CUDA takes through the
 * host. On the host device both kinds are plain memory, aligned to 64 bytes.
 * @where: RNL_PINNED, or the device: its number in the pool, rnl_device_describe().
 * @bytes: of a pinned buffer rounded up; above 256 by less than a quarter. A buffer needs 64 bytes
 *	more than that, or a page more from 64 KiB on.
 * @memp: receives the memory. rnl_memory_put() gives it back; a pinned buffer, the pool's end as well.
 * @timeout_ns: how long to wait for other threads to put pinned buffers back, while the pool would
 *	exceed pinned_max; 0, on a worker of the pool, and for memory of a device: not at all.
 * Context: for a pinned buffer lock-free without a wait. It blocks to page-lock more memory, which
 *	takes a millisecond for each megabyte (attribute pinned_preload). For memory of a device it may
 *	block, but does not wait for work on the device's streams.
 * Return: 0; -EINVAL an argument is NULL, bytes is 0, or the pool has no such device; -ENOMEM the pool
 *	would have page-locked more than pinned_max, after a wait only if it can never have a buffer of
 *	this size; or the system or the device has no more; -ETIMEDOUT not enough buffers were put back
 *	in time; -EIO; -EOWNERDEAD.
 * Since: 0.2
 */
RNL_API int rnl_memory_get(struct rnl_pool *pool, int where, size_t bytes, void **memp,
			   int64_t timeout_ns);

/*
 * Puts memory of rnl_memory_get() back. Nothing may use it any more: of a device's memory, all jobs that
 * use it must be done.
 * @pool: the memory's pool, or for a device's memory one that has the device. NULL is an error, which
 *	the call logs.
 * @mem: NULL does nothing. If it is no such memory, or was put back before, or the bytes in front of a
 *	pinned buffer were overwritten, the call logs an error and does nothing else.
 * Context: lock-free for a pinned buffer; as rnl_memory_get() for a device's memory.
 * Since: 0.2
 */
RNL_API void rnl_memory_put(struct rnl_pool *pool, void *mem);

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
