/* SPDX-License-Identifier: MIT */
/* CUDA's number of devices and its error texts, which pools on the host device need, too. */
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

/* Returns a hint for an error of cudaGetDeviceCount(). */
static const char *advice(cudaError_t code)
{
	switch (code) {
	case cudaErrorInitializationError:
		return "; after fork(), CUDA works only if the parent never used it: call exec()";
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
	/* A unit's runtime had no error.  Ours may be a copy without devices: ignore its error. */
	if (!rnl__device_nr_cuda(NULL))
		*code = 0;
	return left;
}
