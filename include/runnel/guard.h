/* SPDX-License-Identifier: MIT */
/* The guard: finds functions that keep streams from running side by side. */
#ifndef RUNNEL_GUARD_H
#define RUNNEL_GUARD_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The guard watches each distinct function (of jobs, maps and batchers) when it first runs. It
 * captures what the function issues, and then issues that once, in its place: the job does the
 * work it always does, only slower. It finds that the function
 *	- used the legacy default stream;
 *	- used stream 0 in a pool of private streams;
 *	- waited for a stream or the device (cudaDeviceSynchronize(), ...);
 *	- allocated or freed memory with cudaMalloc(), cudaFree() and their like, or made
 *	  rnl_memory_get() page-lock more memory;
 *	- copied pageable memory, with rnl_copy() or with CUDA.
 *
 * It logs each finding: the function, the cost, and what to write instead. rnl_pool_read_stats()
 * counts the findings. The function's name comes from dladdr(), which knows functions of an
 * executable only if they are not static and the executable is linked with -rdynamic; otherwise
 * the log names file and offset. CUDA reports a wait and an allocation with one error. The log
 * names both, unless the driver's log (since CUDA 12.9) tells which call it was.
 *
 * If the guard finds something, the watched call has had no effect on the device, and the guard
 * CALLS THE FUNCTION A SECOND TIME, unwatched. The second call's result is the job's result.
 * Whatever the function does on the host (counters, submits, ...) happens twice. A correct function
 * is also called twice if it cannot be captured: if it waits for an event of another stream, joins
 * a barrier, frees with cudaFreeAsync() what another job has allocated, or if one of its calls
 * fails. Work that it issues to a stream of its own is captured only if events join that stream
 * with the job's; otherwise the work is done twice. An event that the function records belongs to
 * the capture, unless it used cudaEventRecordExternal. After that one run, a query of the event
 * outside of the function fails with cudaErrorCapturedEvent.
 *
 * While a function is watched, the pool's other workers stop before they call a function of the
 * program. If not all of them have stopped within 10 ms, the function runs unwatched, and the guard
 * tries again at its 2nd, 4th, 8th ... run. A worker that was stopped for 200 ms (the timer thread: 2 ms)
 * goes on, because the watched function may wait for it.
 *
 * A pool captures only if its attribute `guard` asks for it, or a job says RNL_REPLAY_CAPTURE. The
 * guard cannot stop other threads of the process. While it watches, cudaDeviceSynchronize() fails in
 * them with cudaErrorStreamCaptureUnsupported, and a use of the legacy stream with
 * cudaErrorStreamCaptureImplicit; the driver 580.159.04 has been seen to crash in
 * cudaDeviceSynchronize() then. So use the guard in tests and for analysis, not in service, and not
 * in a program with a thread that makes such calls.
 */
enum rnl_guard {
	RNL_GUARD_OFF = 0,
	RNL_GUARD_REPORT = 1,	/* findings are logged and counted; jobs work as ever */
	/*
	 * A job whose function has a finding fails with -ENOTSUP. Later jobs of that function fail
	 * with it too, and the function is not called. All of them do nothing on the device.
	 */
	RNL_GUARD_STRICT = 2
};

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_GUARD_H */
