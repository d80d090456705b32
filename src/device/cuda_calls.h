/* SPDX-License-Identifier: MIT */
/*
 * How the CUDA backend calls the runtime: on which device, and what becomes of an error.
 *
 * DESIGN
 *	An error that is not sticky is cleared in the library's copy of the runtime at once
 *	(cudaGetLastError), so that no job is blamed for it.  An error that a caller has left there
 *	stays.
 *	A thread that is not attached makes the device's context current for a call, and takes it away
 *	again.  cudaSetDevice() would not do: the way back to a device without a context makes one.
 */
#ifndef RNL_CUDA_CALLS_H
#define RNL_CUDA_CALLS_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "device/device.h"

typedef CUresult rnl__cuda_write_fn(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				    unsigned int flags);

struct rnl__cuda_device {
	struct rnl__device base;
	rnl__cuda_write_fn *write_value; /* NULL: the driver has none */
	bool known;
	bool registers;			/* kernels reach registered memory at its own address */

	/* The first thread that needs these makes them, and they stay. */
	pthread_mutex_t lock;
	CUcontext context;		/* the primary one; NULL: not retained yet */
	cudaMemPool_t memory;		/* all device memory comes from it */
	cudaStream_t memory_stream;	/* for memory that is not one thread's scratch */
	bool has_kernels;
	struct rnl__areas areas;
};

/*
 * A call of the runtime has returned @code: clears that error.  The thread's last error is also the
 * caller's, who may use the same copy of the runtime.  So an error of another call stays, unless the
 * error of ours has replaced it already.
 */
static inline void rnl__cuda_forget(cudaError_t code)
{
	if (code != cudaSuccess && cudaPeekAtLastError() == code)
		(void)cudaGetLastError();
}

/* A failure is no error of the job. */
static inline void rnl__cuda_destroy_graph(cudaGraph_t graph)
{
	if (graph)
		rnl__cuda_forget(cudaGraphDestroy(graph));
}

/* The calling thread is attached: its device and its stream. */
static inline struct rnl__device *rnl__cuda_own_device(void)
{
	return rnl__thread.stream->device;
}

static inline cudaStream_t rnl__cuda_own_stream(void)
{
	return rnl__thread.stream->native;
}

/* The context is lost: every later call of every thread fails. */
bool rnl__cuda_sticky(cudaError_t code);

/* The device's errno_of(). */
int rnl__cuda_errno_of(struct rnl__device *device, int code);

/* The errno of a failed call of the library; notes the code in the job that runs. */
int rnl__cuda_failed(struct rnl__device *device, cudaError_t code);

static inline int rnl__cuda_result(struct rnl__device *device, cudaError_t code)
{
	return code == cudaSuccess ? 0 : rnl__cuda_failed(device, code);
}

/* The same, of a call on the calling thread's stream. */
static inline int rnl__cuda_own_result(cudaError_t code)
{
	return rnl__cuda_result(rnl__cuda_own_device(), code);
}

/* Of a call that may return cudaErrorNotReady: 1, 0 or an errno. */
int rnl__cuda_reached(struct rnl__device *device, cudaError_t code);

/* Makes the device's context current, in calls that any thread may make, until the leave. */
cudaError_t rnl__cuda_enter(struct rnl__device *device);
void rnl__cuda_leave(void);

/*
 * For what gives something back: that is tried in any case, since the handle says where it belongs.
 * Returns whether to leave then.
 */
static inline bool rnl__cuda_try_enter(struct rnl__device *device)
{
	return rnl__cuda_enter(device) == cudaSuccess;
}

/* As enter and leave, but an attached thread makes no call. */
cudaError_t rnl__cuda_enter_from_outside(struct rnl__device *device);
void rnl__cuda_leave_to_outside(const struct rnl__device *device);

#endif
