/* SPDX-License-Identifier: MIT */
/*
 * How the CUDA backend calls the runtime: on which device, and with which error handling.
 *
 * DESIGN
 *	An error that is not sticky is cleared immediately in the library's copy of the runtime
 *	(cudaGetLastError), so that no job is blamed for it.  An error that the application left in
 *	that copy stays.
 *	A thread that is not attached makes the device's context current for a call, then restores
 *	the previous one.  cudaSetDevice() would create a context if the previous device has none.
 */
#ifndef RNL_CUDA_CALLS_H
#define RNL_CUDA_CALLS_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "device/device.h"

/* Marks the object, and what it is linked into, for `runnel lint`: its calls name their streams. */
__asm__(".pushsection .note.runnel, \"a\", %note\n\t.balign 4\n\t.long 7, 0, 1\n"
	"\t.asciz \"runnel\"\n\t.balign 4\n\t.popsection");

typedef CUresult rnl__cuda_write_fn(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				    unsigned int flags);

struct rnl__cuda_device {
	struct rnl__device base;
	rnl__cuda_write_fn *write_value; /* NULL: the driver does not have it */
	bool known;
	bool registers;			/* kernels access registered memory at its own address */

	/* Each is created by the first thread that needs it, and never destroyed. */
	pthread_mutex_t lock;
	CUcontext context;		/* the primary context; NULL: not retained yet */
	cudaMemPool_t memory;		/* all device memory comes from it */
	cudaStream_t memory_stream;	/* for memory that is not one thread's scratch */
	bool has_kernels;
	struct rnl__areas areas;
};

/*
 * Clears the error @code, which a call of the runtime has returned.  The application may use the
 * same copy of the runtime, so the thread's last error may also be the application's.  An error of
 * another call therefore stays, unless @code has replaced it already.
 */
static inline void rnl__cuda_forget(cudaError_t code)
{
	if (code != cudaSuccess && cudaPeekAtLastError() == code)
		(void)cudaGetLastError();
}

/* Destroys a graph; a failure is not reported, because it is not the job's error. */
static inline void rnl__cuda_destroy_graph(cudaGraph_t graph)
{
	if (graph)
		rnl__cuda_forget(cudaGraphDestroy(graph));
}

/* Return the device and the stream of the calling thread, which must be attached. */
static inline struct rnl__device *rnl__cuda_own_device(void)
{
	return rnl__thread.stream->device;
}

static inline cudaStream_t rnl__cuda_own_stream(void)
{
	return rnl__thread.stream->native;
}

/* Returns true if the context is lost: every later call of every thread fails. */
bool rnl__cuda_sticky(cudaError_t code);

/* The device's errno_of operation. */
int rnl__cuda_errno_of(struct rnl__device *device, int code);

/* Returns the errno of a failed call of the library; stores the code in the running job. */
int rnl__cuda_failed(struct rnl__device *device, cudaError_t code);

static inline int rnl__cuda_result(struct rnl__device *device, cudaError_t code)
{
	return code == cudaSuccess ? 0 : rnl__cuda_failed(device, code);
}

/* Like rnl__cuda_result(), for a call on the calling thread's stream. */
static inline int rnl__cuda_own_result(cudaError_t code)
{
	return rnl__cuda_result(rnl__cuda_own_device(), code);
}

/* For a call that may return cudaErrorNotReady.  Returns 1, 0 (not ready) or an errno. */
int rnl__cuda_reached(struct rnl__device *device, cudaError_t code);

/* Makes the device's context current, for calls that any thread may make; undoes that. */
cudaError_t rnl__cuda_enter(struct rnl__device *device);
void rnl__cuda_leave(void);

/*
 * Enters for a call that frees an object.  The caller makes that call even if it cannot enter,
 * because the handle names its context.  Returns true if the caller must leave afterwards.
 */
static inline bool rnl__cuda_try_enter(struct rnl__device *device)
{
	return rnl__cuda_enter(device) == cudaSuccess;
}

/* Like enter and leave, except that they do nothing on a thread that is attached to the device. */
cudaError_t rnl__cuda_enter_from_outside(struct rnl__device *device);
void rnl__cuda_leave_to_outside(const struct rnl__device *device);

#endif
