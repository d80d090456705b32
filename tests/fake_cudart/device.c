/* SPDX-License-Identifier: MIT */
/*
 * The devices, which are small; a thread's current device; their contexts; and kernels, which are
 * host functions of the test.
 *
 * DESIGN
 *	A device gets its context by cudaSetDevice() (since CUDA 12), by a retain, or by the first
 *	call of the runtime that needs a context. Such a call in a thread without a current context
 *	uses the context of the device that the thread has set, initially device 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>

#include "internal.h"

/* Limits of every GPU that CUDA 13 supports. */
#define THREADS_MAX 1024u
#define BLOCK_Z_MAX 64u
#define GRID_YZ_MAX 65535u

enum { NESTED_MAX = 8, NO_CONTEXT = -1 };

static _Thread_local int chosen;
static _Thread_local int pushed[NESTED_MAX] = { NO_CONTEXT };	/* devices of contexts */
static _Thread_local int nr_pushed;	/* the last one is current */
static _Atomic bool has_context[FAKE_DEVICES_MAX];
static char contexts[FAKE_DEVICES_MAX];	/* a CUcontext is the address of an element */

int fake__device(void)
{
	return pushed[nr_pushed] == NO_CONTEXT ? chosen : pushed[nr_pushed];
}

static void enter_context(int device)
{
	has_context[device] = true;
	pushed[nr_pushed] = device;
}

void fake__need_context(void)
{
	enter_context(fake__device());
}

bool fake_has_context(int device)
{
	return has_context[device];
}

static CUresult device_get(CUdevice *device, int ordinal)
{
	CUresult code = (CUresult)fake__call(FAKE_cuDeviceGet);

	if (code == CUDA_SUCCESS && (ordinal < 0 || ordinal >= fake__settings.nr_devices))
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS)
		*device = ordinal;
	return code;
}

static CUresult retain(CUcontext *context, CUdevice device)
{
	CUresult code = (CUresult)fake__call(FAKE_cuDevicePrimaryCtxRetain);

	if (code != CUDA_SUCCESS)
		return code;
	has_context[device] = true;
	*context = (CUcontext)(void *)&contexts[device];
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
	CUresult code = (CUresult)fake__call(FAKE_cuCtxPushCurrent);
	const ptrdiff_t device = (char *)(void *)context - contexts;

	if (code == CUDA_SUCCESS &&
	    (device < 0 || device >= FAKE_DEVICES_MAX || nr_pushed + 1 == NESTED_MAX))
		code = CUDA_ERROR_INVALID_CONTEXT;
	if (code == CUDA_SUCCESS)
		pushed[++nr_pushed] = (int)device;
	return code;
}

static CUresult pop(CUcontext *context)
{
	CUresult code = (CUresult)fake__call(FAKE_cuCtxPopCurrent);

	if (!nr_pushed)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* The context is popped also if an error is planned. */
	*context = (CUcontext)(void *)&contexts[pushed[nr_pushed--]];
	return code;
}

void *fake__context_function(const char *name)
{
	return !strcmp(name, "cuDeviceGet") ? (void *)device_get :
	       !strcmp(name, "cuDevicePrimaryCtxRetain") ? (void *)retain :
	       !strcmp(name, "cuCtxPushCurrent") ? (void *)push :
	       !strcmp(name, "cuCtxPopCurrent") ? (void *)pop : NULL;
}

cudaError_t cudaGetDeviceCount(int *nr)
{
	CALL(cudaGetDeviceCount);
	if (!nr)
		return fake__said(cudaErrorInvalidValue);
	*nr = fake__settings.nr_devices;
	return cudaSuccess;
}

static cudaError_t version(int *version)
{
	if (!version)
		return cudaErrorInvalidValue;
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *driver)
{
	CALL(cudaDriverGetVersion);
	return fake__said(version(driver));
}

cudaError_t cudaRuntimeGetVersion(int *runtime)
{
	CALL(cudaRuntimeGetVersion);
	return fake__said(version(runtime));
}

cudaError_t cudaGetDevice(int *device)
{
	CALL(cudaGetDevice);
	if (!device)
		return fake__said(cudaErrorInvalidValue);
	*device = fake__device();
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	CALL(cudaSetDevice);
	if (device < 0 || device >= fake__settings.nr_devices)
		return fake__said(cudaErrorInvalidDevice);
	chosen = device;
	enter_context(device);
	return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	const int nr = fake__settings.nr_devices;

	CALL(cudaDeviceCanAccessPeer);
	if (!can)
		return fake__said(cudaErrorInvalidValue);
	if (device < 0 || device >= nr || peer < 0 || peer >= nr)
		return fake__said(cudaErrorInvalidDevice);
	*can = device != peer && !fake__settings.strangers;
	return fake__said(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	CALL(cudaGetDeviceProperties);
	if (!prop)
		return fake__said(cudaErrorInvalidValue);
	if (device < 0 || device >= fake__settings.nr_devices)
		return fake__said(cudaErrorInvalidDevice);
	*prop = (struct cudaDeviceProp){
		.totalGlobalMem = fake__settings.memory_bytes,
		.maxThreadsPerBlock = (int)THREADS_MAX,
		.major = 9,
		.multiProcessorCount = (int)fake__settings.nr_sms,
		.asyncEngineCount = 2,
		.unifiedAddressing = 1,
		.memoryPoolsSupported = 1,
		.streamPrioritiesSupported = 1,
		.concurrentKernels = 1,
		.canUseHostPointerForRegisteredMem = 1,
#if CUDART_VERSION >= 13000
		.mpsEnabled = fake__settings.mps,
#endif
	};
	snprintf(prop->name, sizeof(prop->name), "a double of the CUDA runtime%s",
		 fake__settings.mig ? " MIG 1g.5gb" : "");
	return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	CALL(cudaDeviceGetAttribute);
	if (!value || attribute != cudaDevAttrComputeMode)
		return fake__said(cudaErrorInvalidValue);
	if (device < 0 || device >= fake__settings.nr_devices)
		return fake__said(cudaErrorInvalidDevice);
	*value = fake__settings.compute_mode;
	return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	CALL(cudaThreadExchangeStreamCaptureMode);
	if (!mode)
		return fake__said(cudaErrorInvalidValue);
	*mode = fake__exchange_mode(*mode);
	return cudaSuccess;
}

static cudaError_t synchronize(void)
{
	cudaError_t code = fake__capture_wait_all();

	return code == cudaSuccess ? fake__sync_all() : code;
}

cudaError_t cudaDeviceSynchronize(void)
{
	CALL(cudaDeviceSynchronize);
	SAID(synchronize());
}

/* ---- kernels ------------------------------------------------------------------ */

bool fake__fits(struct rnl_dim grid, struct rnl_dim block)
{
	if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
		return false;
	return block.x <= THREADS_MAX && block.y <= THREADS_MAX && block.z <= BLOCK_Z_MAX &&
	       (uint64_t)block.x * block.y * block.z <= THREADS_MAX && grid.x <= INT32_MAX &&
	       grid.y <= GRID_YZ_MAX && grid.z <= GRID_YZ_MAX;
}

static cudaError_t launch(struct fake_op *op, cudaStream_t handle)
{
	struct fake_stream *stream;
	cudaError_t code = fake__room(handle, &stream);

	return code == cudaSuccess ? fake__issue(stream, op) : code;
}

static cudaError_t launch_copy(struct fake_op *op, cudaStream_t stream)
{
	CALL(cudaLaunchKernel);
	if (!fake__fits(op->launch.grid, op->launch.block))
		return fake__said(cudaErrorInvalidConfiguration);
	SAID(launch(op, stream));
}

int fake_launch(void (*fn)(struct rnl_dim grid, struct rnl_dim block, const void *args),
		struct rnl_dim grid, struct rnl_dim block, const void *args, size_t bytes,
		void *stream)
{
	struct fake_op op = { .kind = FAKE_OP_LAUNCH, .launch = { fn, grid, block, NULL, bytes } };
	cudaError_t code;

	op.launch.args = malloc(bytes ? bytes : 1);
	if (!op.launch.args)
		return (int)cudaErrorMemoryAllocation;
	if (bytes)
		memcpy(op.launch.args, args, bytes);
	code = launch_copy(&op, stream);
	if (code != cudaSuccess)
		free(op.launch.args);
	return (int)code;
}
