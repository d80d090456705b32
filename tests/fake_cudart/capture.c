/* SPDX-License-Identifier: MIT */
/*
 * Stream capture, and graphs.
 *
 * DESIGN
 *	A capture is a list of its streams' operations, in the order of their issue. So a graph is
 *	one chain where a GPU's graph would have branches. A launch issues the operations to the
 *	stream one after the other.
 *	A refused call breaks its capture: later calls that concern the capture are refused until
 *	the capture's end, and the end makes no graph. While a blocking stream is captured, no
 *	thread may use the legacy stream. While any stream is captured, no thread may wait for the
 *	device or for that stream. The capturing thread may not query events, or allocate, free or
 *	page-lock memory, unless the capture's mode or the thread's is relaxed. Other threads may
 *	not either, if the capture's mode and their own are global (measured).
 *	Graphs have no nodes that allocate or free.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct fake_capture {
	struct fake_capture *next;
	uint64_t id;
	pthread_t thread;
	struct fake_stream *origin;
	enum cudaStreamCaptureMode mode;
	bool broken;
	struct fake_op *ops;
	size_t nr, room;
};

struct graph {
	const struct graph *from;	/* source of an executable graph; may be destroyed */
	struct fake_op *ops;
	size_t nr;
};

static struct fake_capture *captures;
static uint64_t last_id;
static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

enum cudaStreamCaptureMode fake__exchange_mode(enum cudaStreamCaptureMode mode)
{
	enum cudaStreamCaptureMode before = thread_mode;

	thread_mode = mode;
	return before;
}

/* ---- refused calls --------------------------------------------------------- */

static cudaError_t refuse(struct fake_capture *capture, cudaError_t code)
{
	if (capture->broken)
		return cudaErrorStreamCaptureInvalidated;
	capture->broken = true;
	return code;
}

cudaError_t fake__capture_legacy(void)
{
	cudaError_t code = cudaSuccess;

	for (struct fake_capture *c = captures; c; c = c->next) {
		if (!c->origin->blocking)
			continue;
		c->broken = true;
		code = cudaErrorStreamCaptureImplicit;
	}
	return code;
}

cudaError_t fake__capture_unsafe(void)
{
	if (thread_mode == cudaStreamCaptureModeRelaxed)
		return cudaSuccess;
	for (struct fake_capture *c = captures; c; c = c->next) {
		const bool mine = pthread_equal(c->thread, pthread_self());

		if (mine ? c->mode != cudaStreamCaptureModeRelaxed :
			   c->mode == cudaStreamCaptureModeGlobal &&
			   thread_mode == cudaStreamCaptureModeGlobal)
			return refuse(c, cudaErrorStreamCaptureUnsupported);
	}
	return cudaSuccess;
}

cudaError_t fake__capture_wait(struct fake_stream *stream)
{
	for (struct fake_capture *c = captures; c; c = c->next) {
		if (stream->capture == c)
			return refuse(c, cudaErrorStreamCaptureUnsupported);
	}
	return cudaSuccess;
}

cudaError_t fake__capture_wait_all(void)
{
	cudaError_t code = cudaSuccess;

	for (struct fake_capture *c = captures; c; c = c->next) {
		(void)refuse(c, cudaErrorStreamCaptureUnsupported);
		code = cudaErrorStreamCaptureUnsupported;
	}
	return code;
}

/* ---- captured operations --------------------------------------------------------- */

static void free_ops(struct fake_op *ops, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (ops[i].kind == FAKE_OP_LAUNCH)
			free(ops[i].launch.args);
	}
	free(ops);
}

cudaError_t fake__capture_op(struct fake_capture *c, const struct fake_op *op)
{
	if (c->broken)
		return cudaErrorStreamCaptureInvalidated;
	if (op->kind == FAKE_OP_ALLOC)
		return refuse(c, cudaErrorNotSupported);
	if (op->kind == FAKE_OP_FREE)
		/* A graph cannot free memory that was allocated outside of it (documented). */
		return cudaErrorInvalidValue;
	if (c->nr == c->room) {
		size_t room = c->room ? 2 * c->room : 16;
		struct fake_op *ops = realloc(c->ops, room * sizeof(*ops));

		if (!ops)
			return cudaErrorMemoryAllocation;
		c->ops = ops;
		c->room = room;
	}
	c->ops[c->nr++] = *op;
	return cudaSuccess;
}

uint64_t fake__capture_id(const struct fake_capture *c)
{
	return c->id;
}

cudaError_t fake__capture_record(struct fake_capture *c)
{
	return c->broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t fake__capture_wait_event(struct fake_stream *stream, uint64_t id)
{
	struct fake_capture *c = captures;

	if (!id)
		return refuse(stream->capture, cudaErrorStreamCaptureIsolation);
	while (c && c->id != id)
		c = c->next;
	if (!c)
		return cudaErrorCapturedEvent;
	if (c->broken)
		return cudaErrorStreamCaptureInvalidated;
	if (stream->capture && stream->capture != c)
		return refuse(c, cudaErrorStreamCaptureMerge);
	stream->capture = c;
	return cudaSuccess;
}

/* ---- begin, end ------------------------------------------------------------------ */

static cudaError_t begin(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
	struct fake_capture *c;
	struct fake_stream *stream;
	cudaError_t code;

	if (!handle || handle == cudaStreamLegacy)
		return cudaErrorStreamCaptureUnsupported;
	code = fake__stream_of(handle, &stream);
	if (code != cudaSuccess)
		return code;
	if (stream->capture)
		return cudaErrorIllegalState;
	c = calloc(1, sizeof(*c));
	if (!c)
		return cudaErrorMemoryAllocation;
	c->id = ++last_id;
	c->thread = pthread_self();
	c->origin = fake__stream_get(stream);
	c->mode = mode;
	c->next = captures;
	captures = c;
	stream->capture = c;
	return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	CALL(cudaStreamBeginCapture);
	SAID(begin(stream, mode));
}

static cudaError_t make_graph(struct fake_capture *c, cudaGraph_t *handle)
{
	struct graph *graph = calloc(1, sizeof(*graph));

	if (!graph || fake__enter(graph, sizeof(*graph), FAKE_GRAPH, graph)) {
		free(graph);
		return cudaErrorMemoryAllocation;
	}
	graph->ops = c->ops;
	graph->nr = c->nr;
	c->ops = NULL;
	c->nr = 0;
	*handle = (cudaGraph_t)graph;
	return cudaSuccess;
}

/* @planned: the call's error if it must fail.  The capture ends nonetheless, like a broken one. */
static cudaError_t end(cudaStream_t handle, cudaGraph_t *graph, cudaError_t planned)
{
	struct fake_capture *c, **at = &captures;
	struct fake_stream *stream;
	cudaError_t code;

	if (!graph)
		return cudaErrorInvalidValue;
	*graph = NULL;
	if (!handle || handle == cudaStreamLegacy)
		return cudaErrorIllegalState;
	code = fake__stream_of(handle, &stream);
	if (code != cudaSuccess)
		return code;
	c = stream->capture;
	if (!c)
		return cudaErrorIllegalState;
	if (c->origin != stream)
		return cudaErrorStreamCaptureUnmatched;
	if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
		return cudaErrorStreamCaptureWrongThread;
	code = planned != cudaSuccess ? planned :
	       c->broken ? cudaErrorStreamCaptureInvalidated : make_graph(c, graph);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	for (struct fake_stream *s = fake__streams; s; s = s->next)
		s->capture = s->capture == c ? NULL : s->capture;
	fake__stream_put(c->origin);
	free_ops(c->ops, c->nr);
	free(c);
	return code;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	cudaError_t planned = fake__call(FAKE_cudaStreamEndCapture);

	/* In a child the lock may be held; on a failed device there is nothing to end. */
	if (planned == cudaErrorInitializationError || fake__failed() != cudaSuccess)
		return fake__said(planned);
	SAID(end(stream, graph, planned));
}

/* ---- graphs ----------------------------------------------------------------------- */

static cudaError_t get_nodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *nr)
{
	struct graph *graph = fake__handle(handle, FAKE_GRAPH);

	/* A list of length 0 is refused (measured). */
	if (!graph || !nr || (nodes && !*nr))
		return cudaErrorInvalidValue;
	for (size_t i = 0; nodes && i < *nr; i++)
		nodes[i] = i < graph->nr ? (cudaGraphNode_t)&graph->ops[i] : NULL;
	if (!nodes || *nr > graph->nr)
		*nr = graph->nr;
	return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *nr)
{
	CALL(cudaGraphGetNodes);
	SAID(get_nodes(graph, nodes, nr));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
	const struct fake_op *op = (const struct fake_op *)(const void *)node;

	CALL(cudaGraphNodeGetType);
	if (!op || !type)
		return fake__said(cudaErrorInvalidValue);
	*type = op->kind == FAKE_OP_COPY ? cudaGraphNodeTypeMemcpy :
		op->kind == FAKE_OP_FILL ? cudaGraphNodeTypeMemset : cudaGraphNodeTypeKernel;
	return cudaSuccess;
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *parms)
{
	const struct fake_op *op = (const struct fake_op *)(const void *)node;

	CALL(cudaGraphMemcpyNodeGetParams);
	if (!op || op->kind != FAKE_OP_COPY || !parms)
		return fake__said(cudaErrorInvalidValue);
	*parms = (struct cudaMemcpy3DParms){ .kind = cudaMemcpyDefault };
	parms->srcPtr.ptr = (void *)(uintptr_t)op->copy.src;
	parms->dstPtr.ptr = op->copy.dst;
	parms->srcPtr.pitch = op->copy.src_pitch;
	parms->dstPtr.pitch = op->copy.dst_pitch;
	parms->extent.width = op->copy.width;
	parms->extent.height = op->copy.rows;
	parms->extent.depth = 1;
	return cudaSuccess;
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *params)
{
	const struct fake_op *op = (const struct fake_op *)(const void *)node;

	CALL(cudaGraphMemsetNodeGetParams);
	if (!op || op->kind != FAKE_OP_FILL || !params)
		return fake__said(cudaErrorInvalidValue);
	*params = (struct cudaMemsetParams){
		.dst = op->fill.dst, .value = (unsigned)op->fill.value, .elementSize = 1,
		.width = op->fill.bytes, .height = 1,
	};
	return cudaSuccess;
}

/* Copies operations with their arguments.  Returns NULL if there is no memory. */
static struct fake_op *copy_ops(const struct fake_op *from, size_t nr)
{
	struct fake_op *ops = calloc(nr ? nr : 1, sizeof(*ops));

	for (size_t i = 0; ops && i < nr; i++) {
		ops[i] = from[i];
		if (ops[i].kind != FAKE_OP_LAUNCH)
			continue;
		ops[i].launch.args = malloc(from[i].launch.bytes ? from[i].launch.bytes : 1);
		if (!ops[i].launch.args) {
			free_ops(ops, i);
			return NULL;
		}
		memcpy(ops[i].launch.args, from[i].launch.args, from[i].launch.bytes);
	}
	return ops;
}

static cudaError_t instantiate(cudaGraphExec_t *handle, cudaGraph_t graph_handle)
{
	struct graph *graph, *exec;

	if (fake__is_kind(graph_handle, FAKE_KERNEL_GRAPH))
		return fake__built_instantiate(handle, graph_handle);
	graph = fake__handle(graph_handle, FAKE_GRAPH);
	if (!graph || !handle)
		return cudaErrorInvalidValue;
	exec = calloc(1, sizeof(*exec));
	if (exec)
		exec->ops = copy_ops(graph->ops, graph->nr);
	if (!exec || !exec->ops || fake__enter(exec, sizeof(*exec), FAKE_GRAPH_EXEC, exec)) {
		if (exec && exec->ops)
			free_ops(exec->ops, graph->nr);
		free(exec);
		return cudaErrorMemoryAllocation;
	}
	exec->nr = graph->nr;
	exec->from = graph;
	*handle = (cudaGraphExec_t)exec;
	return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	CALL(cudaGraphInstantiate);
	if (flags)
		return fake__said(cudaErrorInvalidValue);
	SAID(instantiate(exec, graph));
}

struct fake_op *fake__captured(const void *handle, const void *node)
{
	const struct fake_thing *thing = fake__find(handle), *from;
	const struct graph *exec = thing && thing->kind == FAKE_GRAPH_EXEC ? thing->what : NULL;
	const struct fake_op *op = node;

	from = exec ? fake__find(exec->from) : NULL;
	if (!from || from->what != exec->from || op < exec->from->ops ||
	    op >= exec->from->ops + exec->from->nr)
		return NULL;
	return &exec->ops[op - exec->from->ops];
}

static cudaError_t launch(cudaGraphExec_t handle, cudaStream_t stream_handle)
{
	struct fake_stream *stream;
	struct graph *exec;
	struct fake_op *ops;
	cudaError_t code = cudaSuccess;
	size_t i = 0;

	if (fake__is_kind(handle, FAKE_KERNEL_EXEC))
		return fake__built_launch(handle, stream_handle);
	exec = fake__handle(handle, FAKE_GRAPH_EXEC);
	if (!exec)
		return cudaErrorInvalidValue;
	ops = copy_ops(exec->ops, exec->nr);
	if (!ops)
		return cudaErrorMemoryAllocation;
	for (; i < exec->nr && code == cudaSuccess; i += code == cudaSuccess) {
		code = fake__room(stream_handle, &stream);
		if (code == cudaSuccess)
			code = fake__issue(stream, &ops[i]);
	}
	for (; i < exec->nr; i++) {
		if (ops[i].kind == FAKE_OP_LAUNCH)
			free(ops[i].launch.args);
	}
	free(ops);
	return code;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	CALL(cudaGraphLaunch);
	SAID(launch(exec, stream));
}

static cudaError_t destroy(void *handle, enum fake_kind kind, enum fake_kind built)
{
	struct graph *graph;

	if (fake__is_kind(handle, built))
		return fake__built_destroy(handle, built);
	graph = fake__handle(handle, kind);
	if (!graph)
		return cudaErrorInvalidValue;
	fake__remove(graph);
	free_ops(graph->ops, graph->nr);
	free(graph);
	return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	CALL(cudaGraphExecDestroy);
	SAID(destroy(exec, FAKE_GRAPH_EXEC, FAKE_KERNEL_EXEC));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	CALL(cudaGraphDestroy);
	SAID(destroy(graph, FAKE_GRAPH, FAKE_KERNEL_GRAPH));
}
