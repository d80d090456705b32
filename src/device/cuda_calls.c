/* SPDX-License-Identifier: MIT */
/* How the CUDA backend calls the runtime; cuda_calls.h has the design. */
#include "config.h"

#include <errno.h>

#include "device/backends.h"
#include "device/cuda_calls.h"
#include "device/cuda_driver.h"
#include "sys/thread_state.h"

/* ---- errors -------------------------------------------------------------- */

/* Translates CUDA's error codes to errnos.  A code that is not in the table becomes -EIO. */
int rnl__cuda_errno(int code)
{
	switch ((cudaError_t)code) {
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

bool rnl__cuda_sticky(cudaError_t code)
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

int rnl__cuda_errno_of(struct rnl__device *device, int code)
{
	if (rnl__cuda_sticky((cudaError_t)code))
		rnl__device_fail(device, code);
	return rnl__cuda_errno(code);
}

int rnl__cuda_failed(struct rnl__device *device, cudaError_t code)
{
	rnl__cuda_forget(code);
	if (rnl__thread.job)
		rnl__thread.job->device_error = (int32_t)code;
	if (rnl__thread.guard && !rnl__thread.guard->code)
		rnl__thread.guard->code = (int)code;
	return rnl__cuda_errno_of(device, (int)code);
}

int rnl__cuda_reached(struct rnl__device *device, cudaError_t code)
{
	if (code == cudaSuccess)
		return 1;
	if (code == cudaErrorNotReady) {
		rnl__cuda_forget(code);
		return 0;
	}
	return rnl__cuda_failed(device, code);
}

/* ---- the context --------------------------------------------------------- */

/* The driver and the runtime use the same codes for these errors. */
cudaError_t rnl__cuda_enter(struct rnl__device *base)
{
	struct rnl__cuda_device *device = (struct rnl__cuda_device *)base;
	CUresult code = CUDA_SUCCESS;
	CUdevice handle;

	pthread_mutex_lock(&device->lock);
	if (!device->context) {
		code = rnl__cuda_contexts.device(&handle, base->info.ordinal);
		if (code == CUDA_SUCCESS)
			code = rnl__cuda_contexts.retain(&device->context, handle);
	}
	pthread_mutex_unlock(&device->lock);
	if (code == CUDA_SUCCESS)
		code = rnl__cuda_contexts.push(device->context);
	return (cudaError_t)code;
}

void rnl__cuda_leave(void)
{
	CUcontext ours;

	(void)rnl__cuda_contexts.pop(&ours);
}

/* Returns true if the calling thread is attached to the device, so that the device is current. */
static bool is_attached(const struct rnl__device *device)
{
	return rnl__thread.stream && rnl__thread.stream->device == device;
}

cudaError_t rnl__cuda_enter_from_outside(struct rnl__device *device)
{
	return is_attached(device) ? cudaSuccess : rnl__cuda_enter(device);
}

void rnl__cuda_leave_to_outside(const struct rnl__device *device)
{
	if (!is_attached(device))
		rnl__cuda_leave();
}
