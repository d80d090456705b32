/* SPDX-License-Identifier: MIT */
/*
 * The CUDA device, on the runtime API.
 *
 * DESIGN
 *	Every call names its stream: cudaStreamPerThread or the worker's own.  Therefore no compiler
 *	flag of the library or the application changes the meaning of a call.
 *	A wait reads a word of pinned memory that the stream writes with cuStreamWriteValue32.
 *	cudaEventQuery would take the driver's lock and slow the launches of all other threads.  The
 *	driver function is looked up through the runtime, so the library does not link libcuda.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <runnel/device.h>
#include <runnel/kernel.h>

#include "device/backends.h"
#include "device/cuda_calls.h"
#include "device/cuda_copies.h"
#include "device/cuda_driver.h"
#include "device/cuda_green.h"
#include "device/cuda_guard.h"
#include "device/cuda_kernels.h"
#include "device/cuda_log.h"
#include "device/cuda_memory.h"
#include "device/cuda_record.h"
#include "device/cuda_stream.h"
#include "device/notes.h"
#include "sys/thread_state.h"

#define DEVICES_MAX 64u
#define WRITE_VALUE_VERSION 11070	/* since this version, all GPUs have cuStreamWriteValue32 */

struct cuda_event {
	struct rnl__event base;
	cudaEvent_t handle;
};

static cudaEvent_t handle_of(const struct rnl__event *event)
{
	return ((const struct cuda_event *)event)->handle;
}

/* ---- work ---------------------------------------------------------------- */

/*
 * Copies from one device's memory to another's.  Memory of cudaMallocAsync() may be accessible to
 * its own device only, even if peer access is enabled.  CUDA reaches both sides if the call names
 * the devices.
 */
static cudaError_t copy_between(const struct rnl__copy *c)
{
	const int to = rnl__cuda_memory_owner(c->dst), from = rnl__cuda_memory_owner(c->src);
	const struct cudaMemcpy3DPeerParms rows = {
		.dstDevice = to, .srcDevice = from,
		.dstPtr = { c->dst, c->dst_pitch, c->width, c->rows },
		.srcPtr = { (void *)(uintptr_t)c->src, c->src_pitch, c->width, c->rows },
		.extent = { c->width, c->rows, 1 },
	};

	if (to < 0 || from < 0 || to == from)
		return cudaErrorInvalidValue;
	if (c->rows == 1)
		return cudaMemcpyPeerAsync(c->dst, to, c->src, from, c->width,
					   rnl__cuda_own_stream());
	return cudaMemcpy3DPeerAsync(&rows, rnl__cuda_own_stream());
}

static bool cuda_copy_all(const struct rnl__copy *const *copies, unsigned nr)
{
	return rnl__cuda_copy_all(copies, nr, rnl__cuda_own_stream());
}

static int cuda_copy(const struct rnl__copy *c)
{
	const cudaStream_t stream = rnl__cuda_own_stream();
	cudaError_t code;

	/* A copy node slows a graph down; a mover node does not. */
	if (rnl__thread.guard && rnl__thread.guard->records && rnl__cuda_moves(c) &&
	    cuda_copy_all(&c, 1))
		return 0;
	code = c->rows == 1 ?
		cudaMemcpyAsync(c->dst, c->src, c->width, cudaMemcpyDefault, stream) :
		cudaMemcpy2DAsync(c->dst, c->dst_pitch, c->src, c->src_pitch, c->width, c->rows,
				  cudaMemcpyDefault, stream);
	if (code == cudaErrorInvalidValue) {
		rnl__cuda_forget(code);
		rnl__notes_spoil("copies between devices that do not reach each other");
		code = copy_between(c);
	}
	return rnl__cuda_own_result(code);
}

static int cuda_fill(void *dst, uint8_t value, size_t bytes)
{
	return rnl__cuda_own_result(cudaMemsetAsync(dst, value, bytes, rnl__cuda_own_stream()));
}

static int cuda_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
		       const void *args)
{
	if (!kernel->cuda)
		return -ENOTSUP;
	return rnl__cuda_own_result(
		(cudaError_t)kernel->cuda(grid, block, args, rnl__cuda_own_stream()));
}

static int cuda_write(uint32_t *word, uint32_t value)
{
	struct rnl__cuda_device *device = (struct rnl__cuda_device *)rnl__cuda_own_device();
	CUresult code;

	if (!device->write_value)
		return -ENOTSUP;
	/*
	 * The default flag orders the write after all earlier work of the stream, system-wide
	 * (driver API, cuStreamWriteValue32).  The word has the same address on the device (unified
	 * addressing).
	 */
	code = device->write_value(rnl__cuda_own_stream(), (CUdeviceptr)(uintptr_t)word, value,
				   CU_STREAM_WRITE_VALUE_DEFAULT);
	if (code == CUDA_SUCCESS)
		return 0;
	if (code == CUDA_ERROR_NOT_SUPPORTED)
		return -ENOTSUP;
	/* The driver and the runtime have the same codes for this call. */
	return rnl__cuda_failed(rnl__cuda_own_device(), (cudaError_t)code);
}

/* ---- events -------------------------------------------------------------- */

static int cuda_event_create(struct rnl__device *device, bool timed, struct rnl__event **eventp)
{
	struct cuda_event *event = malloc(sizeof(*event));
	cudaError_t code;

	if (!event)
		return -ENOMEM;
	code = rnl__cuda_enter(device);
	if (code == cudaSuccess) {
		code = cudaEventCreateWithFlags(&event->handle,
						timed ? cudaEventDefault : cudaEventDisableTiming);
		rnl__cuda_leave();
	}
	if (code != cudaSuccess) {
		free(event);
		return rnl__cuda_failed(device, code);
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
	entered = rnl__cuda_try_enter(event->device);
	(void)rnl__cuda_result(event->device, cudaEventDestroy(handle_of(event)));
	if (entered)
		rnl__cuda_leave();
	free(event);
}

static int cuda_event_record(struct rnl__event *event)
{
	return rnl__cuda_result(event->device,
				cudaEventRecord(handle_of(event), rnl__cuda_own_stream()));
}

static int cuda_event_wait(struct rnl__event *event)
{
	return rnl__cuda_own_result(
		cudaStreamWaitEvent(rnl__cuda_own_stream(), handle_of(event), 0));
}

static int cuda_event_reached(struct rnl__event *event)
{
	struct rnl__device *device = event->device;
	cudaError_t code = rnl__cuda_enter_from_outside(device);

	if (code != cudaSuccess)
		return rnl__cuda_failed(device, code);
	code = cudaEventQuery(handle_of(event));
	rnl__cuda_leave_to_outside(device);
	return rnl__cuda_reached(device, code);
}

static int cuda_event_elapsed(struct rnl__event *from, struct rnl__event *to, int64_t *ns)
{
	cudaError_t code;
	float ms = 0;
	int ret;

	if (!from)
		return -ENOTSUP;
	code = rnl__cuda_enter_from_outside(from->device);
	if (code == cudaSuccess) {
		code = cudaEventElapsedTime(&ms, handle_of(from), handle_of(to));
		rnl__cuda_leave_to_outside(from->device);
	}
	ret = rnl__cuda_result(from->device, code);
	*ns = (int64_t)((double)ms * 1e6);
	return ret;
}

/* ---- guard --------------------------------------------------------------- */

static int cuda_guard_begin(struct rnl__guarded *guarded)
{
	return rnl__cuda_own_result(rnl__cuda_guard_begin(guarded, rnl__cuda_own_stream()));
}

static int cuda_guard_end(struct rnl__guarded *guarded)
{
	cudaError_t code = rnl__cuda_guard_end(guarded, rnl__cuda_own_stream());

	if (code != cudaSuccess)
		return rnl__cuda_failed(rnl__cuda_own_device(), code);
	return !guarded->again && !(guarded->strict && guarded->found);
}

static int cuda_record_launch(struct rnl__record *record, const void *user)
{
	return rnl__cuda_own_result(rnl__cuda_record_launch(record, user, rnl__cuda_own_stream()));
}

/* ---- the device ---------------------------------------------------------- */

static const struct rnl__device_ops ops = {
	.attach = rnl__cuda_stream_attach,
	.detach = rnl__cuda_stream_detach,
	.copy = cuda_copy,
	.copy_all = cuda_copy_all,
	.replay = rnl__cuda_stream_replay,
	.fill = cuda_fill,
	.launch = cuda_launch,
	.write = cuda_write,
	.event_create = cuda_event_create,
	.event_destroy = cuda_event_destroy,
	.event_record = cuda_event_record,
	.event_wait = cuda_event_wait,
	.event_reached = cuda_event_reached,
	.event_elapsed = cuda_event_elapsed,
	.idle = rnl__cuda_stream_idle,
	.wait = rnl__cuda_stream_wait,
	.alloc = rnl__cuda_memory_alloc,
	.free = rnl__cuda_memory_free,
	.kind_of = rnl__cuda_memory_kind,
	.owns = rnl__cuda_memory_owns,
	.meet = rnl__cuda_memory_meet,
	.trim = rnl__cuda_memory_trim,
	.guard_begin = cuda_guard_begin,
	.guard_end = cuda_guard_end,
	.record_create = rnl__cuda_record_create,
	.record_launch = cuda_record_launch,
	.record_drop = rnl__cuda_record_drop,
	.args = rnl__cuda_args,
	.stray = rnl__cuda_stream_stray,
	.divert = rnl__cuda_stream_divert,
	.errno_of = rnl__cuda_errno_of,
	.reason = rnl__cuda_log_reason,
	.sms_create = rnl__cuda_green_create,
	.sms_destroy = rnl__cuda_green_destroy,
};

static int describe(struct rnl__cuda_device *device, int ordinal)
{
	static _Atomic int failed_code;	/* a process is one fault domain (measured) */
	struct cudaDeviceProp prop;
	cudaError_t code = cudaGetDeviceProperties(&prop, ordinal);

	if (code != cudaSuccess) {
		rnl__cuda_forget(code);
		return rnl__cuda_errno((int)code);
	}
	rnl__cuda_driver_init();
	if (!rnl__cuda_contexts.complete)
		return rnl__cuda_errno(cudaErrorInsufficientDriver);
	pthread_mutex_init(&device->lock, NULL);
	device->base.areas = &device->areas;
	pthread_mutex_init(&device->areas.lock, NULL);
	device->write_value = (rnl__cuda_write_fn *)rnl__cuda_driver_function(
		"cuStreamWriteValue32", WRITE_VALUE_VERSION, cudaEnablePerThreadDefaultStream);
	rnl__cuda_log_init();
	device->registers = prop.canUseHostPointerForRegisteredMem;
	device->base.ops = &ops;
	device->base.failed = &failed_code;
	device->base.info = (struct rnl_device_info){
		.size = sizeof(struct rnl_device_info),
		.cuda = 1,
		.ordinal = ordinal,
		.nr_multiprocessors = (uint32_t)prop.multiProcessorCount,
		.nr_copy_engines = (uint32_t)prop.asyncEngineCount,
		.stream_writes = device->write_value != NULL,
		.memory_bytes = prop.totalGlobalMem,
		.sm_group = rnl__cuda_green_group(ordinal),
	};
#if CUDART_VERSION >= 13000
	device->base.shared = prop.mpsEnabled;
#endif
	snprintf(device->base.info.name, sizeof(device->base.info.name), "%.63s", prop.name);
	return 0;
}

int rnl__device_cuda(unsigned ordinal, struct rnl__device **devicep)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct rnl__cuda_device devices[DEVICES_MAX];
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
