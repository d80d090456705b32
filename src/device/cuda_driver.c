/* SPDX-License-Identifier: MIT */
/* Functions of CUDA's driver. */
#include "config.h"

#include <cuda_runtime_api.h>

#include "device/cuda_calls.h"
#include "device/cuda_driver.h"

void *rnl__cuda_driver_function(const char *name, unsigned version, unsigned long long flags)
{
	enum cudaDriverEntryPointQueryResult status;
	void *fn = NULL;
	cudaError_t code = cudaGetDriverEntryPointByVersion(name, &fn, version, flags, &status);

	/* The pointer may be set even if the status reports that it is not usable. */
	if (code == cudaSuccess && status == cudaDriverEntryPointSuccess)
		return fn;
	rnl__cuda_forget(code);
	return NULL;
}

struct rnl__cuda_contexts rnl__cuda_contexts;

#define FIND(call, name, version) \
	((d->call = (__typeof__(d->call))rnl__cuda_driver_function(name, version, cudaEnableDefault)))

static void driver_find_contexts(void)
{
	struct rnl__cuda_contexts *d = &rnl__cuda_contexts;

	if (!d->complete)
		d->complete = FIND(device, "cuDeviceGet", 2000) &&
			      FIND(retain, "cuDevicePrimaryCtxRetain", 7000) &&
			      FIND(push, "cuCtxPushCurrent", 4000) &&
			      FIND(pop, "cuCtxPopCurrent", 4000);
}

struct rnl__cuda_greens rnl__cuda_greens;

static void driver_find_greens(void)
{
	struct rnl__cuda_greens *d = &rnl__cuda_greens;

	if (!d->complete)
		d->complete = FIND(sms, "cuDeviceGetDevResource", 12040) &&
			      FIND(split, "cuDevSmResourceSplitByCount", 12040) &&
			      FIND(describe, "cuDevResourceGenerateDesc", 12040) &&
			      FIND(create, "cuGreenCtxCreate", 12040) &&
			      FIND(destroy, "cuGreenCtxDestroy", 12040) &&
			      FIND(stream, "cuGreenCtxStreamCreate", 12050);
}

#if CUDART_VERSION >= 13000

struct rnl__cuda_driver rnl__cuda_driver;

void rnl__cuda_driver_init(void)
{
	struct rnl__cuda_driver *d = &rnl__cuda_driver;

	driver_find_contexts();
	driver_find_greens();
	if (d->complete)
		return;
	d->complete = FIND(attribute, "cuFuncGetAttribute", 2020) &&
		      FIND(param_info, "cuFuncGetParamInfo", 12040) &&
		      FIND(function, "cuKernelGetFunction", 12000) &&
		      FIND(create, "cuGraphCreate", 10000) &&
		      FIND(add, "cuGraphAddKernelNode", 12000) &&
		      FIND(instantiate, "cuGraphInstantiateWithFlags", 11040) &&
		      FIND(get, "cuGraphKernelNodeGetParams", 12000) &&
		      FIND(set, "cuGraphExecKernelNodeSetParams", 12000) &&
		      FIND(enable, "cuGraphNodeSetEnabled", 11060) &&
		      FIND(launch, "cuGraphLaunch", 10000) &&
		      FIND(exec_destroy, "cuGraphExecDestroy", 10000) &&
		      FIND(destroy, "cuGraphDestroy", 10000);
}

#else

void rnl__cuda_driver_init(void)
{
	driver_find_contexts();
	driver_find_greens();
}

#endif
