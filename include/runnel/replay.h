/* SPDX-License-Identifier: MIT */
/* Work that is gathered, or recorded and replayed. This interface may still change. */
#ifndef RUNNEL_REPLAY_H
#define RUNNEL_REPLAY_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Further flags of rnl_job_set_flags().
 *
 * RNL_GATHER: a worker may gather the work of the job and of other jobs. While there is a backlog,
 * the worker calls the functions of several such jobs, and then issues their work together: all
 * copies, and the kernels as a graph. So small jobs take fewer driver calls. Kernels of
 * RNL_KERNEL() go into graphs, and a graph runs the kernels of several jobs concurrently. Single
 * jobs, jobs of a chain, all jobs during a trace, and a function's first runs, which
 * the guard watches, run as usual. A library built with a toolkit before CUDA 13, and a pool with
 * kept_sms, issue each gathered call separately.
 * The function must issue work only by rnl_ calls, and must not wait for other jobs. A call of
 * rnl_stream() issues the function's earlier work; each later call is issued immediately. If CUDA
 * refuses a copy, fill or launch, the job fails as usual, but the call has returned 0, and its
 * later work is left out. In the function, rnl_barrier_join() returns -EBUSY for jobs gathered with
 * this one.
 * The operations of one job keep their order. So do jobs with one key, jobs of a chain, and jobs
 * after a barrier. The work of other jobs of one worker may interleave: they must not share memory
 * that one of them writes.
 *
 * RNL_REPLAY, RNL_REPLAY_CAPTURE: the job's function issues the same work each time, and does
 * nothing else. A worker records that work, on CUDA as a graph, and issues the record for later
 * jobs with that function, instead of calling it. So a job of many kernels takes one driver call;
 * in a pool with kept_sms, which has no graphs, a call for each kernel.
 *
 * RNL_REPLAY: the function must issue work only by rnl_copy(), rnl_copy_2d(), rnl_fill(),
 * rnl_launch() and rnl_job_args(). A recorded run is an ordinary run and affects no other thread.
 * Functions that call rnl_stream(), and functions of a unit that includes runnel/cuda.h without
 * RNL_NAMES_STREAM 1, are not recorded: they may call CUDA directly, and the record would miss that
 * work. In a pool of per-thread streams, a record misses other functions' work on stream 0.
 *
 * RNL_REPLAY_CAPTURE: the function may launch kernels directly, or call libraries like cuBLAS, on
 * rnl_stream(). Each worker runs it under CUDA's stream capture twice, and once after every 1000
 * replays. During such a run, in each thread of the process, cudaDeviceSynchronize() fails with
 * cudaErrorStreamCaptureUnsupported, and, with per-thread streams, a use of the legacy default
 * stream fails with cudaErrorStreamCaptureImplicit. Both break the capture: the function is called
 * a second time. The driver 580.159.04 crashed in such a cudaDeviceSynchronize(). So choose this
 * flag only if no thread makes such calls while the pool has these jobs. A pool with a guard stops
 * its own other workers meanwhile. On the host device, and in a pool with kept_sms, both flags
 * record in the same way: without a capture.
 *
 * The kernels and copies of a record have the addresses, sizes and arguments that the function gave
 * them. Put data that differs from job to job into memory that they read: page-locked or device
 * memory at a fixed address, or the bytes at the job's `user`, see rnl_job_args().
 * A worker replays a function after two successive runs that issued the same work. After 1000
 * replays it calls the function again, to compare. If the work differs, the pool logs that, and the
 * function's jobs run as usual until two runs are the same again. Jobs also run as usual if their
 * function returns anything but 0, issues nothing, copies pageable memory, takes a hold, joins a
 * barrier, or makes a call that CUDA does not capture; the pool logs the reason once.
 * A job that also has RNL_GATHER is not recorded. Its function is called each time, so addresses
 * and arguments may differ. Its work is launched as one graph, even if no other job is gathered.
 * That needs rnl_ calls only, and kernels of RNL_KERNEL().
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
 * Copies the bytes at the running job's `user` to the device, for work that the job issues from now
 * on. The bytes are read before the call returns; for a replayed job, at the replay.
 * @bytes: 1 to RNL_JOB_ARGS_MAX.
 * @memp: receives device memory of rnl_scratch() with the bytes, aligned to 256 bytes.
 * Return: 0; -EINVAL called outside of a job's function (a map's or a batcher's does not count),
 *	`user` or memp is NULL, or bytes is out of range; -ENODEV the thread is attached to no
 *	device; -ENOMEM; -EIO; -EOWNERDEAD. An error becomes the job's result, as for rnl_copy().
 * Since: 0.1
 */
RNL_API int rnl_job_args(size_t bytes, void **memp);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_REPLAY_H */
