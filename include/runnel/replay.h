/* SPDX-License-Identifier: MIT */
/* Work that is gathered, or recorded and replayed. It may still change. */
#ifndef RUNNEL_REPLAY_H
#define RUNNEL_REPLAY_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Further flags of rnl_job_set_flags().
 *
 * RNL_GATHER: the job's work may be gathered with that of other jobs. While there is a backlog, a
 * worker calls the functions of several such jobs one after the other, and only then issues what
 * they have issued: the copies of all of them together, and their kernels as a graph. So small jobs
 * take fewer calls of the driver. Kernels of RNL_KERNEL() go into graphs; a graph runs those of
 * several jobs at the same time. A job that is alone is run as ever, and so are urgent jobs, jobs of
 * a chain, all while a trace runs, and the first runs of a function, which the guard watches.
 * Built with a toolkit before CUDA 13, the library gathers, but issues each call by itself.
 * The function must issue by rnl_ calls alone, and wait for no other job. From rnl_stream() on, a
 * function's calls are issued at once, after what it has issued before. A copy, fill or launch that
 * CUDA refuses fails the job as ever, but the call has returned 0, and the job's later work is left
 * out. In the function, rnl_barrier_join() returns -EBUSY for jobs that are gathered with it.
 * A job's operations have their order. Jobs with one key have theirs, and so have jobs of a chain,
 * and jobs after a barrier. Other jobs of one worker may see each other's work half done: they
 * must not share memory that one of them writes.
 *
 * RNL_REPLAY, RNL_REPLAY_CAPTURE: the job's function issues the same work each time, and does nothing
 * else. A worker records what it issues, on CUDA as a graph, and issues the record for later jobs of
 * that function, which is not called. The work of a job of many kernels takes one call of the driver.
 *
 * RNL_REPLAY: the function must issue by rnl_copy(), rnl_copy_2d(), rnl_fill(), rnl_launch() and
 * rnl_job_args() alone. A run that is recorded is an ordinary run; no other thread notices. Functions
 * that call rnl_stream(), and functions of a unit that includes runnel/cuda.h without
 * RNL_NAMES_STREAM 1, are not recorded: they may call CUDA by themselves, and a record would lack that
 * work. The library does not see work that another function puts on stream 0 in a pool of per-thread
 * streams.
 *
 * RNL_REPLAY_CAPTURE: the function may launch by itself, or call libraries as cuBLAS, on
 * rnl_stream(). A worker runs it under CUDA's stream capture twice, and once after each 1000 replays;
 * each worker does so. During such a run, in each thread of the process, cudaDeviceSynchronize() fails
 * with cudaErrorStreamCaptureUnsupported, and, with per-thread streams, a use of the legacy default
 * stream with cudaErrorStreamCaptureImplicit. Both break the capture: the function is called a
 * second time. A driver (580.159.04) has been seen to crash in cudaDeviceSynchronize() then. So
 * choose it only if no thread makes such calls while the pool has these jobs. A pool with a guard
 * stops its own other workers meanwhile. The host device records both ways alike.
 *
 * The kernels and copies of a record have the addresses, the sizes and the arguments that the
 * function gave them. What differs from job to job lies in memory that they read: page-locked or
 * device memory at one address, or the bytes at the job's `user`, see rnl_job_args().
 * A worker replays a function that has issued the same in two runs, one after the other. It calls
 * it again after 1000 replays, to compare. If the function has issued something else, the pool's
 * log says so, and its jobs are run as ever until two runs are the same again. So are jobs of a
 * function that returns anything but 0, issues nothing, copies pageable memory, takes a hold, joins
 * a barrier, or makes a call that CUDA does not capture; the log says once which of them it was.
 * A job with RNL_GATHER, too, is not recorded. Its function is called each time, and the addresses
 * and the arguments may differ. What it issues is launched as one graph, even if it is alone. That
 * needs rnl_ calls alone, and kernels of RNL_KERNEL().
 *
 * The code of the kernels of such jobs stays loaded until the pool is destroyed.
 */
enum rnl_replay_flags {
	RNL_GATHER = 2,
	RNL_REPLAY = 4,
	RNL_REPLAY_CAPTURE = 8
};

#define RNL_JOB_ARGS_MAX 1024u

/*
 * Gets the bytes at the running job's `user` on the device, for work that the job issues from now
 * on. They are read before the call returns; of a job that is replayed, when it is.
 * @bytes: 1 to RNL_JOB_ARGS_MAX.
 * @memp: receives device memory of rnl_scratch() with the bytes, aligned to 256 bytes.
 * Return: 0; -EINVAL called outside of a job's function (that of a map or a batcher is none), `user`
 *	or memp is NULL, or bytes is out of range; -ENODEV the thread is attached to no device;
 *	-ENOMEM; -EIO; -EOWNERDEAD. An error becomes the job's result, as with rnl_copy().
 * Since: 0.1
 */
RNL_API int rnl_job_args(size_t bytes, void **memp);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_REPLAY_H */
