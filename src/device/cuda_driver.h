/* SPDX-License-Identifier: MIT */
/* Functions of CUDA's driver, found through the runtime: the library does not link libcuda. */
#ifndef RNL_CUDA_DRIVER_H
#define RNL_CUDA_DRIVER_H

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

/* Functions for contexts.  Any thread may call them. */
struct rnl__cuda_contexts {
	bool complete;			/* all functions were found */
	PFN_cuDeviceGet_v2000 device;
	PFN_cuDevicePrimaryCtxRetain_v7000 retain;
	PFN_cuCtxPushCurrent_v4000 push;
	PFN_cuCtxPopCurrent_v4000 pop;
};
extern struct rnl__cuda_contexts rnl__cuda_contexts;

/* Functions for green contexts. */
struct rnl__cuda_greens {
	bool complete;			/* all functions were found */
	PFN_cuDeviceGetDevResource_v12040 sms;
	PFN_cuDevSmResourceSplitByCount_v12040 split;
	PFN_cuDevResourceGenerateDesc_v12040 describe;
	PFN_cuGreenCtxCreate_v12040 create;
	PFN_cuGreenCtxDestroy_v12040 destroy;
	PFN_cuGreenCtxStreamCreate_v12050 stream;
};
extern struct rnl__cuda_greens rnl__cuda_greens;

#if CUDART_VERSION >= 13000

/* Functions for graphs. */
struct rnl__cuda_driver {
	bool complete;			/* all functions were found */
	PFN_cuFuncGetAttribute_v2020 attribute;
	PFN_cuFuncGetParamInfo_v12040 param_info;
	PFN_cuKernelGetFunction_v12000 function;
	PFN_cuGraphCreate_v10000 create;
	PFN_cuGraphAddKernelNode_v12000 add;
	PFN_cuGraphInstantiateWithFlags_v11040 instantiate;
	PFN_cuGraphKernelNodeGetParams_v12000 get;
	PFN_cuGraphExecKernelNodeSetParams_v12000 set;
	PFN_cuGraphNodeSetEnabled_v11060 enable;
	PFN_cuGraphLaunch_v10000 launch;
	PFN_cuGraphExecDestroy_v10000 exec_destroy;
	PFN_cuGraphDestroy_v10000 destroy;
};
extern struct rnl__cuda_driver rnl__cuda_driver;

#endif

/* Returns a function of the driver, or NULL if the driver does not have it. */
void *rnl__cuda_driver_function(const char *name, unsigned version, unsigned long long flags);

/* Finds the functions; one thread at a time, before any use.  Writes only until all are found. */
void rnl__cuda_driver_init(void);

#endif
