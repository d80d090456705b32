/* SPDX-License-Identifier: MIT */
/* Whether CUDA answers, and what it says: for pools on the host device, too. */
#include "config.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

#include "device/backends.h"
#include "device/cuda_calls.h"

const char *rnl__cuda_text(int code)
{
	const char *text = cudaGetErrorString((cudaError_t)code);

	return text ? text : "unknown";
}

/* What to do about a code of cudaGetDeviceCount(). */
static const char *advice(cudaError_t code)
{
	switch (code) {
	case cudaErrorInitializationError:
		return "; CUDA works in no child of a process that used it before fork(): call exec()";
	case cudaErrorInsufficientDriver:
		return "; no driver is installed, or it is older than the runtime";
	default:
		return "";
	}
}

unsigned rnl__device_nr_cuda(char why[RNL__WHY_BYTES])
{
	int nr = 0;
	const cudaError_t code = cudaGetDeviceCount(&nr);

	if (code == cudaSuccess) {
		if (why)
			snprintf(why, RNL__WHY_BYTES, "CUDA has %d device%s here", nr, nr == 1 ? "" : "s");
		return nr < 0 ? 0 : (unsigned)nr;
	}
	rnl__cuda_forget(code);
	if (why)
		snprintf(why, RNL__WHY_BYTES, "cudaGetDeviceCount() fails with CUDA error %d (%.90s)%s",
			 (int)code, rnl__cuda_text((int)code), advice(code));
	return 0;
}

bool rnl__cuda_wait_thread(int *code)
{
	cudaError_t ret = cudaStreamQuery(cudaStreamPerThread);
	const bool left = ret == cudaErrorNotReady;

	if (left)
		ret = cudaStreamSynchronize(cudaStreamPerThread);
	*code = (int)ret;
	if (ret == cudaSuccess)
		return left;
	rnl__cuda_forget(ret);
	/* The unit's runtime has said that its calls were right: this one may be another, and fail. */
	if (!rnl__device_nr_cuda(NULL))
		*code = 0;
	return left;
}
