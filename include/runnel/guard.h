/* SPDX-License-Identifier: MIT */
/* The guard: finds functions that keep streams from running concurrently. */
#ifndef RUNNEL_GUARD_H
#define RUNNEL_GUARD_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The guard watches each distinct function (of jobs, maps and batchers) when the function first
 * runs. It captures the work that the function issues, and then issues the captured work once. So
 * the job does its usual work, only slower. The guard finds that the function
 *	- used the legacy default stream;
 *	- used stream 0 in a pool of private streams;
 *	- waited for a stream or the device (cudaDeviceSynchronize(), ...);
 *	- allocated or freed memory with cudaMalloc(), cudaFree() or similar calls, or made
 *	  rnl_memory_get() page-lock more memory;
 *	- copied pageable memory, with rnl_copy() or with CUDA.
 *
 * The guard logs each finding: the function, the cost, and the remedy. rnl_pool_read_stats() counts
 * the findings. The function's name comes from dladdr(), which knows functions of an executable
 * only if they are not static and the executable is linked with -rdynamic; otherwise the log shows
 * file and offset. CUDA has one error for a wait and for an allocation. The log names both, unless
 * the driver's log (since CUDA 12.9) identifies the call.
 *
 * If the guard finds something, the watched call has had no effect on the device, and the guard
 * CALLS THE FUNCTION A SECOND TIME, unwatched. The second call's result is the job's result.
 * Everything that the function does on the host (counters, submits, ...) happens twice. A correct
 * function is also called twice if it cannot be captured: if it waits for an event of another
 * stream, joins a barrier, frees with cudaFreeAsync() memory that another job allocated, or if one
 * of its calls fails. Work that it issues to a stream of its own is captured only if events join
 * that stream with the job's stream; otherwise the work is done twice. An event that the function
 * records belongs to the capture, unless it used cudaEventRecordExternal. After that one run, a
 * query of the event outside of the function fails with cudaErrorCapturedEvent.
 *
 * While a function is watched, the pool's other workers stop before they call a function of the
 * program. If some of them have not stopped within 10 ms, the function runs unwatched, and the
 * guard tries again at the function's 2nd, 4th, 8th ... run. A worker that was stopped for 200 ms
 * (the timer thread: 2 ms) goes on, because the watched function may wait for it.
 *
 * A pool captures only if its attribute `guard` is set, or a job has the flag RNL_REPLAY_CAPTURE.
 * The guard cannot stop other threads of the process. While it watches, cudaDeviceSynchronize()
 * fails in these threads with cudaErrorStreamCaptureUnsupported, and a use of the legacy stream
 * fails with cudaErrorStreamCaptureImplicit. The driver 580.159.04 crashed in such a
 * cudaDeviceSynchronize(). So use the guard in tests and for analysis, not in service, and not in a
 * program with a thread that makes such calls.
 */
enum rnl_guard {
	RNL_GUARD_OFF = 0,
	RNL_GUARD_REPORT = 1,	/* findings are logged and counted; jobs work as usual */
	/*
	 * If a job's function has a finding, the job fails with -ENOTSUP. Later jobs with that
	 * function fail, too, without a call of the function. These jobs do no device work.
	 */
	RNL_GUARD_STRICT = 2
};

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_GUARD_H */
