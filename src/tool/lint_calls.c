/* SPDX-License-Identifier: MIT */
/*
 * The table of the runtime's calls with a per-thread form: for per-thread default streams,
 * cuda_runtime_api.h of CUDA 13.0 maps each to its name with _ptds or _ptsz.
 *
 * DESIGN
 * Calls with _ptds take no stream: without the suffix they always use the legacy stream.
 * Calls with _ptsz take a stream: without the suffix stream 0 is the legacy stream.
 * tests/tree/lint-calls.sh compares the table with the header of the installed toolkit, and the
 * list of the library's calls with src/device.
 */
#include "lint.h"

#include <string.h>

#define PTDS LINT_ALWAYS
#define PTSZ LINT_STREAM_0
#define NONE LINT_NO_FORM

static const struct {
	const char *name;
	enum lint_use use;
} calls[] = {
	/* The launch by <<<...>>> calls this since CUDA 13: crt/device_functions.h */
	{ "__cudaLaunchKernel", PTSZ },
	{ "cudaEventRecord", PTSZ },
	{ "cudaEventRecordWithFlags", PTSZ },
	{ "cudaFreeAsync", PTSZ },
	{ "cudaGetDriverEntryPoint", PTSZ },
	{ "cudaGetDriverEntryPointByVersion", PTSZ },
	{ "cudaGraphInstantiateWithParams", PTSZ },
	{ "cudaGraphLaunch", PTSZ },
	{ "cudaGraphUpload", PTSZ },
	{ "cudaLaunchCooperativeKernel", PTSZ },
	{ "cudaLaunchHostFunc", PTSZ },
	{ "cudaLaunchKernel", PTSZ },
	{ "cudaLaunchKernelExC", PTSZ },
	{ "cudaMallocAsync", PTSZ },
	{ "cudaMallocFromPoolAsync", PTSZ },
	{ "cudaMemDiscardAndPrefetchBatchAsync", PTSZ },
	{ "cudaMemDiscardBatchAsync", PTSZ },
	{ "cudaMemPrefetchAsync", PTSZ },
	{ "cudaMemPrefetchBatchAsync", PTSZ },
	{ "cudaMemcpy", PTDS },
	{ "cudaMemcpy2D", PTDS },
	{ "cudaMemcpy2DArrayToArray", PTDS },
	{ "cudaMemcpy2DAsync", PTSZ },
	{ "cudaMemcpy2DFromArray", PTDS },
	{ "cudaMemcpy2DFromArrayAsync", PTSZ },
	{ "cudaMemcpy2DToArray", PTDS },
	{ "cudaMemcpy2DToArrayAsync", PTSZ },
	{ "cudaMemcpy3D", PTDS },
	{ "cudaMemcpy3DAsync", PTSZ },
	{ "cudaMemcpy3DBatchAsync", PTSZ },
	{ "cudaMemcpy3DPeer", PTDS },
	{ "cudaMemcpy3DPeerAsync", PTSZ },
	{ "cudaMemcpyArrayToArray", PTDS },
	{ "cudaMemcpyAsync", PTSZ },
	{ "cudaMemcpyBatchAsync", PTSZ },
	{ "cudaMemcpyFromArray", PTDS },
	{ "cudaMemcpyFromArrayAsync", PTSZ },
	{ "cudaMemcpyFromSymbol", PTDS },
	{ "cudaMemcpyFromSymbolAsync", PTSZ },
	{ "cudaMemcpyToArray", PTDS },
	{ "cudaMemcpyToArrayAsync", PTSZ },
	{ "cudaMemcpyToSymbol", PTDS },
	{ "cudaMemcpyToSymbolAsync", PTSZ },
	{ "cudaMemset", PTDS },
	{ "cudaMemset2D", PTDS },
	{ "cudaMemset2DAsync", PTSZ },
	{ "cudaMemset3D", PTDS },
	{ "cudaMemset3DAsync", PTSZ },
	{ "cudaMemsetAsync", PTSZ },
	{ "cudaSignalExternalSemaphoresAsync", PTSZ },
	{ "cudaStreamAddCallback", PTSZ },
	{ "cudaStreamAttachMemAsync", PTSZ },
	{ "cudaStreamBeginCapture", PTSZ },
	{ "cudaStreamBeginCaptureToGraph", PTSZ },
	{ "cudaStreamCopyAttributes", PTSZ },
	{ "cudaStreamEndCapture", PTSZ },
	{ "cudaStreamGetAttribute", PTSZ },
	{ "cudaStreamGetCaptureInfo", PTSZ },
	{ "cudaStreamGetDevice", PTSZ },
	{ "cudaStreamGetFlags", PTSZ },
	{ "cudaStreamGetId", PTSZ },
	{ "cudaStreamGetPriority", PTSZ },
	{ "cudaStreamIsCapturing", PTSZ },
	{ "cudaStreamQuery", PTSZ },
	{ "cudaStreamSetAttribute", PTSZ },
	{ "cudaStreamSynchronize", PTSZ },
	{ "cudaStreamUpdateCaptureDependencies", PTSZ },
	{ "cudaStreamWaitEvent", PTSZ },
	{ "cudaWaitExternalSemaphoresAsync", PTSZ },
	/* The following calls take a stream, but the header does not map them. */
	{ "cudaGraphicsMapResources", NONE },
	{ "cudaGraphicsUnmapResources", NONE },
	{ "cudaMemcpyPeerAsync", NONE },
};

/* The calls of this table that the library makes, with a stream that is not 0. */
static const char *const own[] = {
	"cudaEventRecord", "cudaFreeAsync", "cudaGetDriverEntryPointByVersion", "cudaGraphLaunch",
	"cudaLaunchKernel", "cudaMallocFromPoolAsync", "cudaMemcpy2DAsync", "cudaMemcpy3DPeerAsync",
	"cudaMemcpyAsync", "cudaMemcpyBatchAsync", "cudaMemcpyPeerAsync", "cudaMemsetAsync",
	"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaStreamQuery",
	"cudaStreamSetAttribute", "cudaStreamSynchronize", "cudaStreamWaitEvent",
};

#define LENGTH_MAX 200	/* no call has a longer name, and reading very long names takes time */

static bool has_suffix(const char *name)
{
	size_t length = strnlen(name, LENGTH_MAX + 1);

	return length > 5 && length <= LENGTH_MAX &&
	       (!strcmp(name + length - 5, "_ptds") || !strcmp(name + length - 5, "_ptsz"));
}

enum lint_use lint_use_of(const char *name)
{
	if (strncmp(name, "cuda", 4) && strncmp(name, "__cuda", 6))
		return LINT_OTHER;
	if (has_suffix(name))
		return LINT_PER_THREAD;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (!strcmp(name, calls[i].name))
			return calls[i].use;
	}
	return LINT_OTHER;
}

bool lint_is_own(const char *name)
{
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (!strcmp(name, own[i]))
			return true;
	}
	return false;
}
