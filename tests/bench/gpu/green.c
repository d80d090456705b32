/* SPDX-License-Identifier: MIT */
/* By hand: streams on some of a GPU's SMs, by green contexts. */
#include "gpu/work.h"

#include <cuda.h>

/* Finds a function of the driver. */
static void *driver(const char *name)
{
	enum cudaDriverEntryPointQueryResult found;
	void *function = NULL;

	gpu_ok(cudaGetDriverEntryPointByVersion(name, &function, 12050, cudaEnableDefault, &found),
	       name);
	return function;
}

/* Makes streams that run on these SMs. */
static void make_streams(CUdevice device, CUdevResource *sms, cudaStream_t *streams, unsigned nr)
{
	CUresult (*describe)(CUdevResourceDesc *, CUdevResource *, unsigned) =
		driver("cuDevResourceGenerateDesc");
	CUresult (*create)(CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned) =
		driver("cuGreenCtxCreate");
	CUresult (*stream)(CUstream *, CUgreenCtx, unsigned, int) = driver("cuGreenCtxStreamCreate");
	CUdevResourceDesc description;
	CUgreenCtx context;

	bench_must(!describe(&description, sms, 1), "cuDevResourceGenerateDesc");
	bench_must(!create(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM),
		   "cuGreenCtxCreate");
	for (unsigned i = 0; i < nr; i++)
		bench_must(!stream(&streams[i], context, CU_STREAM_NON_BLOCKING, 0),
			   "cuGreenCtxStreamCreate");
}

void gpu_green_streams(int ordinal, unsigned nr_sms, cudaStream_t *kept, cudaStream_t *rest,
		       unsigned nr_rest)
{
	CUresult (*get)(CUdevice *, int) = driver("cuDeviceGet");
	CUresult (*resource)(CUdevice, CUdevResource *, CUdevResourceType) =
		driver("cuDeviceGetDevResource");
	CUresult (*split)(CUdevResource *, unsigned *, const CUdevResource *, CUdevResource *, unsigned,
			  unsigned) = driver("cuDevSmResourceSplitByCount");
	CUdevResource all, some, others;
	CUdevice device;
	unsigned nr = 1;

	bench_must(!get(&device, ordinal), "cuDeviceGet");
	bench_must(!resource(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
	bench_must(!split(&some, &nr, &all, &others, 0, nr_sms), "cuDevSmResourceSplitByCount");
	make_streams(device, &some, kept, 1);
	make_streams(device, &others, rest, nr_rest);
}
