/* SPDX-License-Identifier: MIT */
/*
 * The CUDA device, on the runtime API.
 *
 * DESIGN
 *	Every call names its stream, cudaStreamPerThread or the worker's own: so no compiler
 *	flag of the library or the application changes what a call means.
 *	A wait reads a word of pinned memory that the stream writes with cuStreamWriteValue32;
 *	cudaEventQuery would take the driver's lock and slow the launches of all other threads.
 *	That driver function is found through the runtime, so the library does not link libcuda.
 *	Device memory comes from a memory pool of the library's own, in stream order:
 *	cudaMalloc and cudaFree would wait for the whole device.  The pool keeps freed
 *	memory, and makes no stream wait for another stream's free.
 *	An error that is not sticky is cleared in the library's copy of the runtime at once
 *	(cudaGetLastError), so that no job is blamed for it.  An error that a caller has left there
 *	stays.
 *	A thread that is not attached makes the device's context current for a call, and takes it away
 *	again.  cudaSetDevice() would not do: the way back to a device without a context makes one.
 */
#include "config.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "device/device.h"
#include "device/cuda_copies.h"
#include "device/cuda_driver.h"
#include "device/cuda_graphs.h"
#include "device/cuda_guard.h"
#include "device/cuda_kernels.h"
#include "device/cuda_preload.h"
#include "device/cuda_record.h"
#include "device/notes.h"
#include "sys/thread_state.h"

#define DEVICES_MAX 64u
#define WRITE_VALUE_VERSION 11070	/* from here on, all GPUs have cuStreamWriteValue32 */

typedef CUresult write_value_fn(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				unsigned int flags);

struct cuda_device {
	struct rnl__device base;
	write_value_fn *write_value;	/* NULL: the driver has none */
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

struct cuda_stream {
	struct rnl__stream base;
	cudaStream_t own;		/* a private stream, to be destroyed; NULL: none */
	cudaEvent_t joins;		/* of a private stream and the thread's default one */
	struct rnl__graphs *graphs;	/* NULL: none */
	enum cudaStreamCaptureMode capture_mode; /* the thread's, before it attached */
};

struct cuda_event {
	struct rnl__event base;
	cudaEvent_t handle;
};

static cudaEvent_t handle_of(const struct rnl__event *event)
{
	return ((const struct cuda_event *)event)->handle;
}

/* ---- errors -------------------------------------------------------------- */

/* The table from CUDA's codes to errnos; any other code is -EIO. */
static int errno_of_code(cudaError_t code)
{
	switch (code) {
	case cudaSuccess:
		return 0;
	case cudaErrorInvalidValue:
	case cudaErrorInvalidConfiguration:
	case cudaErrorInvalidPitchValue:
	case cudaErrorInvalidDevicePointer:
	case cudaErrorInvalidMemcpyDirection:
	case cudaErrorInvalidDeviceFunction:
	case cudaErrorInvalidResourceHandle:
	case cudaErrorLaunchOutOfResources:
		return -EINVAL;
	case cudaErrorMemoryAllocation:
		return -ENOMEM;
	case cudaErrorNoDevice:
	case cudaErrorInvalidDevice:
	case cudaErrorInsufficientDriver:
		return -ENODEV;
	case cudaErrorNotSupported:
	case cudaErrorNotPermitted:
	case cudaErrorNoKernelImageForDevice:
	case cudaErrorUnsupportedPtxVersion:
	case cudaErrorStreamCaptureUnsupported:
	case cudaErrorStreamCaptureImplicit:
	case cudaErrorStreamCaptureInvalidated:
		return -ENOTSUP;
	default:
		return -EIO;
	}
}

/* The context is lost: every later call of every thread fails. */
static bool sticky(cudaError_t code)
{
	switch (code) {
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchTimeout:
	case cudaErrorAssert:
	case cudaErrorHardwareStackError:
	case cudaErrorIllegalInstruction:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorLaunchFailure:
	case cudaErrorECCUncorrectable:
	case cudaErrorNvlinkUncorrectable:
	case cudaErrorContained:
	case cudaErrorContextIsDestroyed:
	case cudaErrorDevicesUnavailable:
	case cudaErrorMpsClientTerminated:
	case cudaErrorExternalDevice:
	case cudaErrorUnknown:
		return true;
	default:
		return false;
	}
}

static int cuda_errno_of(struct rnl__device *device, int code)
{
	if (sticky((cudaError_t)code))
		rnl__device_fail(device, code);
	return errno_of_code((cudaError_t)code);
}

/* The errno of a failed call of the library; notes the code in the job that runs. */
static int failed(struct rnl__device *device, cudaError_t code)
{
	rnl__cuda_forget(code);
	if (rnl__thread.job)
		rnl__thread.job->device_error = (int32_t)code;
	if (rnl__thread.guard && !rnl__thread.guard->code)
		rnl__thread.guard->code = (int)code;
	return cuda_errno_of(device, (int)code);
}

static struct rnl__device *own_device(void)
{
	return rnl__thread.stream->device;
}

static cudaStream_t own_stream(void)
{
	return rnl__thread.stream->native;
}

/* Of a call that may return cudaErrorNotReady: 1, 0 or an errno. */
static int reached(struct rnl__device *device, cudaError_t code)
{
	if (code == cudaSuccess)
		return 1;
	if (code == cudaErrorNotReady) {
		rnl__cuda_forget(code);
		return 0;
	}
	return failed(device, code);
}

static int result(struct rnl__device *device, cudaError_t code)
{
	return code == cudaSuccess ? 0 : failed(device, code);
}

/* ---- threads and streams ------------------------------------------------- */

static CUresult retain_context(struct cuda_device *device)
{
	CUresult code = CUDA_SUCCESS;
	CUdevice handle;

	pthread_mutex_lock(&device->lock);
	if (!device->context) {
		code = rnl__cuda_contexts.device(&handle, device->base.info.ordinal);
		if (code == CUDA_SUCCESS)
			code = rnl__cuda_contexts.retain(&device->context, handle);
	}
	pthread_mutex_unlock(&device->lock);
	return code;
}

/*
 * Makes the device's context current, in calls that any thread may make, until leave().  The codes
 * of these calls are equal in the driver and the runtime.
 */
static cudaError_t enter(struct rnl__device *base)
{
	struct cuda_device *device = (struct cuda_device *)base;
	CUresult code = retain_context(device);

	return (cudaError_t)(code == CUDA_SUCCESS ? rnl__cuda_contexts.push(device->context) : code);
}

static void leave(void)
{
	CUcontext ours;

	(void)rnl__cuda_contexts.pop(&ours);
}

/*
 * For what gives something back: that is tried in any case, since the handle says where it belongs.
 * Returns whether to leave() then.
 */
static bool try_enter(struct rnl__device *device)
{
	return enter(device) == cudaSuccess;
}

/* Whether the calling thread is attached to the device, which is current there. */
static bool is_attached(const struct rnl__device *device)
{
	return rnl__thread.stream && rnl__thread.stream->device == device;
}

/* As enter() and leave(), but an attached thread makes no call. */
static cudaError_t enter_from_outside(struct rnl__device *device)
{
	return is_attached(device) ? cudaSuccess : enter(device);
}

static void leave_to_outside(const struct rnl__device *device)
{
	if (!is_attached(device))
		leave();
}

/* Makes a non-blocking stream of the thread's own. */
static cudaError_t make_private(struct cuda_stream *stream, bool urgent)
{
	int least = 0, greatest = 0;
	cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);

	if (code == cudaSuccess)
		code = cudaEventCreateWithFlags(&stream->joins, cudaEventDisableTiming);
	if (code != cudaSuccess)
		return code;
	code = cudaStreamCreateWithPriority(&stream->own, cudaStreamNonBlocking,
					    urgent ? greatest : least);
	if (code != cudaSuccess)
		(void)cudaEventDestroy(stream->joins);
	return code;
}

/* Makes CUDA create the thread's default stream now, not with the first job. */
static cudaError_t ready_stream(cudaStream_t handle, bool urgent)
{
	cudaStreamAttrValue value = { 0 };
	int least = 0, greatest = 0;
	cudaError_t code = cudaStreamQuery(handle);

	if (code == cudaErrorNotReady)
		code = cudaSuccess;	/* it has work already */
	if (code != cudaSuccess || !urgent)
		return code;
	code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
	if (code != cudaSuccess)
		return code;
	value.priority = greatest;
	return cudaStreamSetAttribute(handle, cudaStreamAttributePriority, &value);
}

static cudaError_t make_memory(struct cuda_device *device)
{
	const struct cudaMemPoolProps props = {
		.allocType = cudaMemAllocationTypePinned,
		.location = { .type = cudaMemLocationTypeDevice, .id = device->base.info.ordinal },
	};
	uint64_t keep = UINT64_MAX;
	int no = 0;
	cudaError_t code;

	code = cudaStreamCreateWithFlags(&device->memory_stream, cudaStreamNonBlocking);
	if (code != cudaSuccess)
		return code;
	code = cudaMemPoolCreate(&device->memory, &props);
	/* By default, free memory goes back to the system at each synchronisation. */
	if (code == cudaSuccess)
		code = cudaMemPoolSetAttribute(device->memory, cudaMemPoolAttrReleaseThreshold,
					       &keep);
	/* This kind of reuse would add waits between workers' streams. */
	if (code == cudaSuccess)
		code = cudaMemPoolSetAttribute(device->memory,
					       cudaMemPoolReuseAllowInternalDependencies, &no);
	if (code == cudaSuccess)
		return code;
	if (device->memory)
		(void)cudaMemPoolDestroy(device->memory);
	(void)cudaStreamDestroy(device->memory_stream);
	device->memory = NULL;
	return code;
}

/* Called with the device current. */
static cudaError_t ready_memory(struct cuda_device *device)
{
	cudaError_t code = cudaSuccess;

	pthread_mutex_lock(&device->lock);
	if (!device->memory)
		code = make_memory(device);
	pthread_mutex_unlock(&device->lock);
	return code;
}

/* Has the library's own kernels run once on the device: CUDA loads them there then. */
static void ready_kernels(struct cuda_device *device, cudaStream_t stream)
{
	pthread_mutex_lock(&device->lock);
	if (!device->has_kernels)
		rnl__cuda_kernels_init(stream);
	device->has_kernels = true;
	pthread_mutex_unlock(&device->lock);
}

static int cuda_attach(struct rnl__device *device, enum rnl_stream_kind kind, bool urgent,
		       struct rnl__stream **streamp)
{
	struct cuda_stream *stream;
	cudaStream_t handle = cudaStreamPerThread;
	cudaError_t code;

	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	code = cudaSetDevice(device->info.ordinal);
	if (code == cudaSuccess)
		code = ready_memory((struct cuda_device *)device);
	if (code == cudaSuccess)
		code = ready_stream(handle, urgent);
	if (code == cudaSuccess && kind == RNL_STREAM_PRIVATE) {
		code = make_private(stream, urgent);
		handle = stream->own;
	}
	if (code != cudaSuccess) {
		free(stream);
		return failed(device, code);
	}
	/* In this mode, a capture in another thread does not make our events and waits fail. */
	stream->capture_mode = cudaStreamCaptureModeRelaxed;
	rnl__cuda_forget(cudaThreadExchangeStreamCaptureMode(&stream->capture_mode));
	ready_kernels((struct cuda_device *)device, handle);
	stream->graphs = rnl__cuda_graphs_create();
	stream->base.device = device;
	stream->base.native = handle;
	*streamp = &stream->base;
	return 0;
}

static void cuda_detach(struct rnl__stream *base)
{
	struct cuda_stream *stream = (struct cuda_stream *)base;

	(void)result(base->device, cudaStreamSynchronize(base->native));
	rnl__cuda_graphs_destroy(stream->graphs);
	if (stream->own) {
		(void)result(base->device, cudaStreamDestroy(stream->own));
		(void)result(base->device, cudaEventDestroy(stream->joins));
	}
	(void)result(base->device, cudaThreadExchangeStreamCaptureMode(&stream->capture_mode));
	free(stream);
}

/* ---- work ---------------------------------------------------------------- */

static cudaError_t copy(const struct rnl__copy *c)
{
	if (c->rows == 1)
		return cudaMemcpyAsync(c->dst, c->src, c->width, cudaMemcpyDefault, own_stream());
	return cudaMemcpy2DAsync(c->dst, c->dst_pitch, c->src, c->src_pitch, c->width, c->rows,
				 cudaMemcpyDefault, own_stream());
}

/* The device that memory is on, or -1. */
static int owner_of(const void *mem)
{
	struct cudaPointerAttributes attributes;
	const cudaError_t code = cudaPointerGetAttributes(&attributes, mem);

	if (code != cudaSuccess) {
		rnl__cuda_forget(code);
		return -1;
	}
	return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

/*
 * Copies from one device's memory to another's.  Memory of cudaMallocAsync() may be reached by
 * its own device alone, whether peer access is enabled or not; CUDA reaches both if it is told the devices.
 */
static cudaError_t copy_between(const struct rnl__copy *c)
{
	const int to = owner_of(c->dst), from = owner_of(c->src);
	const struct cudaMemcpy3DPeerParms rows = {
		.dstDevice = to, .srcDevice = from,
		.dstPtr = { c->dst, c->dst_pitch, c->width, c->rows },
		.srcPtr = { (void *)(uintptr_t)c->src, c->src_pitch, c->width, c->rows },
		.extent = { c->width, c->rows, 1 },
	};

	if (to < 0 || from < 0 || to == from)
		return cudaErrorInvalidValue;
	if (c->rows == 1)
		return cudaMemcpyPeerAsync(c->dst, to, c->src, from, c->width, own_stream());
	return cudaMemcpy3DPeerAsync(&rows, own_stream());
}

static bool cuda_copy_all(const struct rnl__copy *const *copies, unsigned nr)
{
	return rnl__cuda_copy_all(copies, nr, own_stream());
}

static int cuda_copy(const struct rnl__copy *c)
{
	cudaError_t code;

	/* A copy that is a node of a graph makes the graph slow; a mover does not. */
	if (rnl__thread.guard && rnl__thread.guard->records && rnl__cuda_moves(c) &&
	    cuda_copy_all(&c, 1))
		return 0;
	code = copy(c);

	if (code == cudaErrorInvalidValue) {
		rnl__cuda_forget(code);
		rnl__notes_spoil("copies between devices that do not reach each other");
		code = copy_between(c);
	}
	return result(own_device(), code);
}

static unsigned cuda_replay(const struct rnl__gather *gather, unsigned step)
{
	struct cuda_stream *stream = (struct cuda_stream *)rnl__thread.stream;

	if (!stream->graphs)
		return step;
	return rnl__cuda_graphs_replay(stream->graphs, gather, step, own_stream());
}

static int cuda_fill(void *dst, uint8_t value, size_t bytes)
{
	return result(own_device(), cudaMemsetAsync(dst, value, bytes, own_stream()));
}

static int cuda_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
		       const void *args)
{
	if (!kernel->cuda)
		return -ENOTSUP;
	return result(own_device(), (cudaError_t)kernel->cuda(grid, block, args, own_stream()));
}

static int cuda_write(uint32_t *word, uint32_t value)
{
	struct cuda_device *device = (struct cuda_device *)own_device();
	CUresult code;

	if (!device->write_value)
		return -ENOTSUP;
	/*
	 * The default flag orders all earlier work of the stream before the
	 * write, system-wide (driver API, cuStreamWriteValue32).  The word is
	 * mapped at the same address on the device (unified addressing).
	 */
	code = device->write_value(own_stream(), (CUdeviceptr)(uintptr_t)word, value,
				   CU_STREAM_WRITE_VALUE_DEFAULT);
	if (code == CUDA_SUCCESS)
		return 0;
	if (code == CUDA_ERROR_NOT_SUPPORTED)
		return -ENOTSUP;
	/* The codes of this call are equal in the driver and the runtime. */
	return failed(own_device(), (cudaError_t)code);
}

/* ---- events -------------------------------------------------------------- */

static int cuda_event_create(struct rnl__device *device, bool timed, struct rnl__event **eventp)
{
	struct cuda_event *event = malloc(sizeof(*event));
	cudaError_t code;

	if (!event)
		return -ENOMEM;
	code = enter(device);
	if (code == cudaSuccess) {
		code = cudaEventCreateWithFlags(&event->handle,
						timed ? cudaEventDefault : cudaEventDisableTiming);
		leave();
	}
	if (code != cudaSuccess) {
		free(event);
		return failed(device, code);
	}
	event->base.device = device;
	*eventp = &event->base;
	return 0;
}

static void cuda_event_destroy(struct rnl__event *event)
{
	bool entered;

	if (!event)
		return;
	entered = try_enter(event->device);
	(void)result(event->device, cudaEventDestroy(handle_of(event)));
	if (entered)
		leave();
	free(event);
}

static int cuda_event_record(struct rnl__event *event)
{
	return result(event->device, cudaEventRecord(handle_of(event), own_stream()));
}

static int cuda_event_wait(struct rnl__event *event)
{
	return result(own_device(), cudaStreamWaitEvent(own_stream(), handle_of(event), 0));
}

static int cuda_event_reached(struct rnl__event *event)
{
	struct rnl__device *device = event->device;
	cudaError_t code = enter_from_outside(device);

	if (code != cudaSuccess)
		return failed(device, code);
	code = cudaEventQuery(handle_of(event));
	leave_to_outside(device);
	return reached(device, code);
}

static int cuda_event_elapsed(struct rnl__event *from, struct rnl__event *to, int64_t *ns)
{
	cudaError_t code;
	float ms = 0;
	int ret;

	if (!from)
		return -ENOTSUP;
	code = enter_from_outside(from->device);
	if (code == cudaSuccess) {
		code = cudaEventElapsedTime(&ms, handle_of(from), handle_of(to));
		leave_to_outside(from->device);
	}
	ret = result(from->device, code);
	*ns = (int64_t)((double)ms * 1e6);
	return ret;
}

static int cuda_idle(void)
{
	return reached(own_device(), cudaStreamQuery(own_stream()));
}

static int cuda_wait(uint64_t deadline)
{
	uint64_t nap_ns = 2000;
	int ret;

	if (deadline == RNL__NEVER)
		return result(own_device(), cudaStreamSynchronize(own_stream()));
	/* CUDA has no wait with a timeout: ask, less and less often. */
	while ((ret = cuda_idle()) == 0) {
		if (rnl__now() >= deadline)
			return -ETIMEDOUT;
		rnl__nap(nap_ns);
		if (nap_ns < 500000)
			nap_ns += nap_ns / 4;
	}
	return ret < 0 ? ret : 0;
}

/* ---- memory -------------------------------------------------------------- */

/* Device memory, in the order of a stream. */
static cudaError_t alloc_ordered(struct cuda_device *device, size_t bytes, cudaStream_t stream,
				 void **memp)
{
	cudaError_t code = cudaMallocFromPoolAsync(memp, bytes, device->memory, stream);

	if (code != cudaErrorMemoryAllocation)
		return code;
	/* Free memory may lie in pieces that are too small: try once more without it. */
	rnl__cuda_forget(code);
	rnl__cuda_forget(cudaMemPoolTrimTo(device->memory, 0));
	return cudaMallocFromPoolAsync(memp, bytes, device->memory, stream);
}

static cudaError_t alloc_kind(struct cuda_device *device, enum rnl__memory kind, size_t bytes,
			      void **memp)
{
	cudaError_t code;

	if (kind == RNL__PINNED)
		return cudaHostAlloc(memp, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
	if (kind == RNL__PRELOAD)
		return device->registers ? rnl__cuda_preload(bytes, memp) : cudaErrorNotSupported;
	/* A capture would make scratch part of the graph; memory that is ready at once will do. */
	if (kind == RNL__SCRATCH && !rnl__thread.guard)
		return alloc_ordered(device, bytes, own_stream(), memp);
	code = alloc_ordered(device, bytes, device->memory_stream, memp);
	if (code != cudaSuccess)
		return code;
	/* Then any stream may use the memory; this stream has nothing but allocations. */
	code = cudaStreamSynchronize(device->memory_stream);
	if (code != cudaSuccess)
		(void)cudaFreeAsync(*memp, device->memory_stream);
	return code;
}

static bool is_host(enum rnl__memory kind)
{
	return kind == RNL__PINNED || kind == RNL__PRELOAD;
}

static int cuda_alloc(struct rnl__device *device, enum rnl__memory kind, size_t bytes, void **memp)
{
	enum cudaStreamCaptureMode relaxed;
	cudaError_t code;
	void *mem = NULL;

	/* CUDA would first give back all memory that is kept for other allocations. */
	if (!is_host(kind) && bytes > device->info.memory_bytes)
		return -ENOMEM;
	code = enter(device);
	if (code != cudaSuccess)
		return failed(device, code);
	relaxed = rnl__cuda_guard_relax(cudaStreamCaptureModeRelaxed);
	code = alloc_kind((struct cuda_device *)device, kind, bytes, &mem);
	(void)rnl__cuda_guard_relax(relaxed);
	leave();
	/* Then the memory is had in the usual way. */
	if (kind == RNL__PRELOAD && code != cudaSuccess && !sticky(code)) {
		rnl__cuda_forget(code);
		return -ENOTSUP;
	}
	if (code != cudaSuccess)
		return failed(device, code);
	if (!is_host(kind))
		rnl__areas_add(device->areas, mem, bytes);
	*memp = mem;
	return 0;
}

static cudaError_t free_kind(struct cuda_device *device, enum rnl__memory kind, void *mem)
{
	if (kind == RNL__PINNED)
		return cudaFreeHost(mem);
	if (kind == RNL__PRELOAD)
		return rnl__cuda_preload_free(mem);
	return cudaFreeAsync(mem, kind == RNL__SCRATCH ? own_stream() : device->memory_stream);
}

static void cuda_free(struct rnl__device *base, enum rnl__memory kind, void *mem)
{
	enum cudaStreamCaptureMode before;
	cudaError_t code;
	bool entered;

	if (!is_host(kind))
		rnl__areas_drop(base->areas, mem);
	entered = try_enter(base);
	before = rnl__cuda_guard_relax(cudaStreamCaptureModeRelaxed);
	code = free_kind((struct cuda_device *)base, kind, mem);
	(void)rnl__cuda_guard_relax(before);
	if (entered)
		leave();
	(void)result(base, code);
}

static enum rnl__memory cuda_kind_of(struct rnl__device *device, const void *mem)
{
	struct cudaPointerAttributes attributes;
	cudaError_t code = enter_from_outside(device);

	if (code == cudaSuccess) {
		code = cudaPointerGetAttributes(&attributes, mem);
		leave_to_outside(device);
	}
	if (code != cudaSuccess) {
		rnl__cuda_forget(code);
		return RNL__PINNED;	/* the call that uses the address will fail */
	}
	switch (attributes.type) {
	case cudaMemoryTypeUnregistered:
		return RNL__PAGEABLE;
	case cudaMemoryTypeDevice:
		return RNL__DEVICE;
	default:
		return RNL__PINNED;	/* managed memory, too: CUDA does not stage it */
	}
}

static bool cuda_owns(struct rnl__device *device, const void *mem)
{
	const bool entered = !is_attached(device) && try_enter(device);
	const int owner = owner_of(mem);

	if (entered)
		leave();
	return owner == device->info.ordinal;
}

/* Lets the memory of a device be reached by those of the others that are its peers. */
static cudaError_t open_to_peers(struct cuda_device *device, struct rnl__device *const *devices,
				 unsigned nr)
{
	struct cudaMemAccessDesc access[RNL_DEVICES_MAX];
	size_t nr_peers = 0;
	cudaError_t code = ready_memory(device);

	for (unsigned i = 0; code == cudaSuccess && i < nr; i++) {
		const int other = devices[i]->info.ordinal;
		int peers = 0;

		if (devices[i] == &device->base)
			continue;
		code = cudaDeviceCanAccessPeer(&peers, other, device->base.info.ordinal);
		if (peers)
			access[nr_peers++] = (struct cudaMemAccessDesc){
				.location = { .type = cudaMemLocationTypeDevice, .id = other },
				.flags = cudaMemAccessFlagsProtReadWrite,
			};
	}
	if (code != cudaSuccess || !nr_peers)
		return code;
	return cudaMemPoolSetAccess(device->memory, access, nr_peers);
}

/* Where that fails, CUDA stages copies between the two: cuda_copy(). */
static void cuda_meet(struct rnl__device *const *devices, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		if (enter(devices[i]) != cudaSuccess)
			continue;
		rnl__cuda_forget(open_to_peers((struct cuda_device *)devices[i], devices, nr));
		leave();
	}
}

static void cuda_trim(struct rnl__device *base)
{
	struct cuda_device *device = (struct cuda_device *)base;

	bool entered;

	if (!device->memory)
		return;
	entered = try_enter(base);
	(void)result(base, cudaStreamSynchronize(device->memory_stream));
	(void)result(base, cudaMemPoolTrimTo(device->memory, 0));
	if (entered)
		leave();
}

/* ---- guard --------------------------------------------------------------- */

static int cuda_guard_begin(struct rnl__guarded *guarded)
{
	return result(own_device(), rnl__cuda_guard_begin(guarded, own_stream()));
}

static int cuda_guard_end(struct rnl__guarded *guarded)
{
	cudaError_t code = rnl__cuda_guard_end(guarded, own_stream());

	if (code != cudaSuccess)
		return failed(own_device(), code);
	return !guarded->again && !(guarded->strict && guarded->found);
}

static int cuda_record_launch(struct rnl__record *record, const void *user)
{
	return result(own_device(), rnl__cuda_record_launch(record, user, own_stream()));
}

/* ---- work beside a private stream ------------------------------------------ */

/* One stream waits, on the device, for what another has now. */
static cudaError_t join(struct cuda_stream *stream, cudaStream_t waits, cudaStream_t for_this)
{
	cudaError_t code = cudaEventRecord(stream->joins, for_this);

	return code == cudaSuccess ? cudaStreamWaitEvent(waits, stream->joins, 0) : code;
}

static int cuda_stray(void)
{
	struct cuda_stream *stream = (struct cuda_stream *)rnl__thread.stream;
	int ret = reached(own_device(), cudaStreamQuery(cudaStreamPerThread));

	if (ret)
		return ret < 0 ? ret : 0;
	ret = result(own_device(), join(stream, stream->own, cudaStreamPerThread));
	return ret ? ret : 1;
}

static int cuda_divert(bool on)
{
	struct cuda_stream *stream = (struct cuda_stream *)rnl__thread.stream;
	const cudaStream_t to = on ? cudaStreamPerThread : stream->own;

	stream->base.native = to;
	return result(own_device(), join(stream, to, on ? stream->own : cudaStreamPerThread));
}

/* ---- the device ---------------------------------------------------------- */

static const struct rnl__device_ops ops = {
	.attach = cuda_attach,
	.detach = cuda_detach,
	.copy = cuda_copy,
	.copy_all = cuda_copy_all,
	.replay = cuda_replay,
	.fill = cuda_fill,
	.launch = cuda_launch,
	.write = cuda_write,
	.event_create = cuda_event_create,
	.event_destroy = cuda_event_destroy,
	.event_record = cuda_event_record,
	.event_wait = cuda_event_wait,
	.event_reached = cuda_event_reached,
	.event_elapsed = cuda_event_elapsed,
	.idle = cuda_idle,
	.wait = cuda_wait,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.kind_of = cuda_kind_of,
	.owns = cuda_owns,
	.meet = cuda_meet,
	.trim = cuda_trim,
	.guard_begin = cuda_guard_begin,
	.guard_end = cuda_guard_end,
	.record_create = rnl__cuda_record_create,
	.record_launch = cuda_record_launch,
	.record_drop = rnl__cuda_record_drop,
	.args = rnl__cuda_args,
	.stray = cuda_stray,
	.divert = cuda_divert,
	.errno_of = cuda_errno_of,
};

static int describe(struct cuda_device *device, int ordinal)
{
	static _Atomic int failed_code;	/* a process is one fault domain (measured) */
	struct cudaDeviceProp prop;
	cudaError_t code = cudaGetDeviceProperties(&prop, ordinal);

	if (code != cudaSuccess) {
		rnl__cuda_forget(code);
		return errno_of_code(code);
	}
	rnl__cuda_driver_init();
	if (!rnl__cuda_contexts.complete)
		return errno_of_code(cudaErrorInsufficientDriver);
	pthread_mutex_init(&device->lock, NULL);
	device->base.areas = &device->areas;
	pthread_mutex_init(&device->areas.lock, NULL);
	device->write_value = (write_value_fn *)rnl__cuda_driver_function(
		"cuStreamWriteValue32", WRITE_VALUE_VERSION, cudaEnablePerThreadDefaultStream);
	rnl__cuda_guard_init();
	device->registers = prop.canUseHostPointerForRegisteredMem;
	device->base.ops = &ops;
	device->base.priorities = true;
	device->base.failed = &failed_code;
	device->base.info = (struct rnl_device_info){
		.size = sizeof(struct rnl_device_info),
		.cuda = 1,
		.ordinal = ordinal,
		.nr_multiprocessors = (uint32_t)prop.multiProcessorCount,
		.nr_copy_engines = (uint32_t)prop.asyncEngineCount,
		.stream_writes = device->write_value != NULL,
		.memory_bytes = prop.totalGlobalMem,
	};
	snprintf(device->base.info.name, sizeof(device->base.info.name), "%.63s", prop.name);
	return 0;
}

int rnl__cuda_errno(int code)
{
	return errno_of_code((cudaError_t)code);
}

int rnl__device_cuda(unsigned ordinal, struct rnl__device **devicep)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct cuda_device devices[DEVICES_MAX];
	int ret = 0;

	if (ordinal >= rnl__device_nr_cuda(NULL) || ordinal >= DEVICES_MAX)
		return -ENODEV;
	pthread_mutex_lock(&lock);
	if (!devices[ordinal].known) {
		ret = describe(&devices[ordinal], (int)ordinal);
		devices[ordinal].known = !ret;
	}
	pthread_mutex_unlock(&lock);
	if (!ret)
		*devicep = &devices[ordinal].base;
	return ret;
}
