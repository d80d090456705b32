/* SPDX-License-Identifier: MIT */
/* A job's function under stream capture; cuda_guard.h has the design. */
#include "config.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda_calls.h"
#include "device/cuda_guard.h"
#include "device/cuda_record.h"
#include "sys/thread_state.h"

/* ---- the thread's mode ----------------------------------------------------- */

/* The mode before the guard. */
static _Thread_local enum cudaStreamCaptureMode mode_before __attribute__((tls_model("initial-exec")));

static enum cudaStreamCaptureMode cuda_guard_exchange(enum cudaStreamCaptureMode mode)
{
	rnl__cuda_forget(cudaThreadExchangeStreamCaptureMode(&mode));
	return mode;
}

enum cudaStreamCaptureMode rnl__cuda_guard_relax(enum cudaStreamCaptureMode mode)
{
	return rnl__thread.guard ? cuda_guard_exchange(mode) : mode;
}

/* ---- findings ------------------------------------------------------------ */

static bool names_one_of(const char *call, const char *const *parts, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (strstr(call, parts[i]))
			return true;
	}
	return false;
}

/* Returns the finding for cudaErrorStreamCaptureUnsupported: waits, memory, or unclear. */
static unsigned refused(const struct rnl__guarded *guarded)
{
	static const char *const waits[] = { "Synchronize", "Query", "ElapsedTime", "Memcpy",
					     "Memset" };
	static const char *const memory[] = { "lloc", "Free", "HostRegister", "HostUnregister",
					      "MemGetInfo" };

	if (names_one_of(guarded->call, waits, sizeof(waits) / sizeof(waits[0])))
		return RNL__WAITED;
	if (names_one_of(guarded->call, memory, sizeof(memory) / sizeof(memory[0])))
		return RNL__MADE_MEMORY;
	return RNL__WAITED_OR_MADE;
}

static unsigned finding_of(const struct rnl__guarded *guarded, int code)
{
	switch (code) {
	case cudaErrorStreamCaptureImplicit:
		return RNL__LEGACY_STREAM;
	case cudaErrorStreamCaptureUnsupported:
		return refused(guarded);
	default:
		return 0;
	}
}

/* Derives the findings from the codes; @end: the code of the capture's end. */
static void judge(struct rnl__guarded *guarded, cudaError_t end)
{
	unsigned found = finding_of(guarded, guarded->code) |
			 finding_of(guarded, guarded->unit_code) | finding_of(guarded, (int)end);

	if (end != cudaSuccess || guarded->code || guarded->unit_code)
		guarded->again = true;
	/* The function continued after the first refused call, or cleared that call's error. */
	if (!found && end == cudaErrorStreamCaptureInvalidated) {
		found = guarded->call[0] ? refused(guarded) & ~(unsigned)RNL__WAITED_OR_MADE : 0;
		if (!found)
			found = RNL__UNCLEAR;
	}
	guarded->found |= found;
	if (!guarded->code)
		guarded->code = guarded->unit_code ? guarded->unit_code : (int)end;
}

/* ---- the captured graphs ------------------------------------------------- */

static bool is_pageable(const void *mem)
{
	struct cudaPointerAttributes attributes;

	if (!mem)
		return false;
	if (cudaPointerGetAttributes(&attributes, mem) == cudaSuccess)
		return attributes.type == cudaMemoryTypeUnregistered;
	(void)cudaGetLastError();
	return false;
}

static bool copies_pageable(cudaGraphNode_t node)
{
	enum cudaGraphNodeType type;
	struct cudaMemcpy3DParms parms;

	if (cudaGraphNodeGetType(node, &type) != cudaSuccess || type != cudaGraphNodeTypeMemcpy ||
	    cudaGraphMemcpyNodeGetParams(node, &parms) != cudaSuccess) {
		(void)cudaGetLastError();
		return false;
	}
	/* Memory that the capture itself allocates has no attributes yet; it is device memory. */
	return (parms.kind != cudaMemcpyDeviceToHost && parms.kind != cudaMemcpyDeviceToDevice &&
		is_pageable(parms.srcPtr.ptr)) ||
	       (parms.kind != cudaMemcpyHostToDevice && parms.kind != cudaMemcpyDeviceToDevice &&
		is_pageable(parms.dstPtr.ptr));
}

/* Counts a graph's nodes, notes pageable copies.  Discards a graph that CUDA cannot list. */
static size_t cuda_guard_look_at(struct rnl__guarded *guarded, cudaGraph_t graph)
{
	cudaGraphNode_t *nodes;
	size_t nr = 0;

	if (!graph)
		return 0;
	if (cudaGraphGetNodes(graph, NULL, &nr) != cudaSuccess) {
		(void)cudaGetLastError();
		guarded->again = true;
		return 0;
	}
	/* CUDA refuses to list zero nodes. */
	if (!nr)
		return 0;
	nodes = calloc(nr, sizeof(*nodes));
	if (!nodes || cudaGraphGetNodes(graph, nodes, &nr) != cudaSuccess) {
		(void)cudaGetLastError();
		free(nodes);
		guarded->again = true;
		return 0;
	}
	for (size_t i = 0; i < nr; i++) {
		if (copies_pageable(nodes[i])) {
			guarded->found |= RNL__PAGEABLE_COPY;
			/* A graph reads memory when it runs; a function's stack is gone by then. */
			guarded->again = true;
		}
	}
	free(nodes);
	return nr;
}

/* ---- begin, end ---------------------------------------------------------------- */

static bool has_other(cudaStream_t stream)
{
	return stream != cudaStreamPerThread;
}

cudaError_t rnl__cuda_guard_begin(struct rnl__guarded *guarded, cudaStream_t stream)
{
	const enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
	cudaGraph_t graph = NULL;
	cudaError_t code;

	(void)guarded;
	code = cudaStreamBeginCapture(stream, mode);
	if (code != cudaSuccess)
		return code;
	if (has_other(stream)) {
		code = cudaStreamBeginCapture(cudaStreamPerThread, mode);
		if (code != cudaSuccess) {
			(void)cudaStreamEndCapture(stream, &graph);
			rnl__cuda_destroy_graph(graph);
			return code;
		}
	}
	mode_before = cuda_guard_exchange(mode);
	return cudaSuccess;
}

cudaError_t rnl__cuda_guard_end(struct rnl__guarded *guarded, cudaStream_t stream)
{
	const cudaStream_t streams[2] = { stream, cudaStreamPerThread };
	const unsigned nr = has_other(stream) ? 2 : 1;
	cudaGraph_t graphs[2] = { NULL, NULL };
	cudaError_t end = cudaSuccess, code;
	size_t nodes[2] = { 0, 0 };

	for (unsigned i = 0; i < nr; i++) {
		code = cudaStreamEndCapture(streams[i], &graphs[i]);
		if (code != cudaSuccess)
			(void)cudaGetLastError();
		/* A code that says more than "invalidated" takes precedence. */
		if (code != cudaSuccess &&
		    (end == cudaSuccess || end == cudaErrorStreamCaptureInvalidated))
			end = code;
	}
	(void)cuda_guard_exchange(mode_before);
	judge(guarded, end);
	code = cudaSuccess;
	for (unsigned i = 0; i < nr; i++)
		nodes[i] = cuda_guard_look_at(guarded, graphs[i]);
	if (nodes[1]) {
		guarded->found |= RNL__STRAY;
		guarded->again = true;
	}
	if (nodes[0] && !guarded->again && !(guarded->strict && guarded->found)) {
		code = rnl__cuda_record(guarded, graphs[0], stream);
		graphs[0] = NULL;
	}
	for (unsigned i = 0; i < nr; i++)
		rnl__cuda_destroy_graph(graphs[i]);
	return code;
}
