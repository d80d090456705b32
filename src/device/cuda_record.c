/* SPDX-License-Identifier: MIT */
/* What a function issued under guard, to be issued once more; cuda_record.h has the design. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda_driver.h"
#include "device/cuda_kernels.h"
#include "device/cuda_record.h"

static void destroy(cudaGraph_t graph)
{
	if (graph && cudaGraphDestroy(graph) != cudaSuccess)
		(void)cudaGetLastError();
}

static void destroy_exec(cudaGraphExec_t exec)
{
	/* CUDA frees a graph that runs when it has run. */
	if (exec && cudaGraphExecDestroy(exec) != cudaSuccess)
		(void)cudaGetLastError();
}

static cudaError_t launch_once(cudaGraph_t graph, cudaStream_t stream)
{
	cudaGraphExec_t exec = NULL;
	cudaError_t code = cudaGraphInstantiate(&exec, graph, 0);

	if (code == cudaSuccess)
		code = cudaGraphLaunch(exec, stream);
	destroy_exec(exec);
	destroy(graph);
	return code;
}

#if CUDART_VERSION >= 13000

#define ARGS_MAX 4u

struct args_node {
	cudaGraphNode_t node;
	struct rnl__args args;		/* that the executable graph has now */
};

struct rnl__record {
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t *nodes;
	enum cudaGraphNodeType *types;
	size_t nr;
	void *writes;			/* the function of the nodes that write arguments */
	unsigned nr_args;
	struct args_node args[ARGS_MAX];
};

/* ---- nodes --------------------------------------------------------------- */

static bool get_kernel(cudaGraphNode_t node, CUDA_KERNEL_NODE_PARAMS *params)
{
	return rnl__cuda_driver.get(node, params) == CUDA_SUCCESS;
}

/* The arguments that a node writes; NULL: it is no node of the library's kernel. */
static const struct rnl__args *args_of(const struct rnl__record *r,
				       const CUDA_KERNEL_NODE_PARAMS *params)
{
	return params->func == r->writes ? params->kernelParams[0] : NULL;
}

/* Without parameters in an array, or a function that CUDA tells of, nothing is known. */
static bool same_params(const CUDA_KERNEL_NODE_PARAMS *a, const CUDA_KERNEL_NODE_PARAMS *b)
{
	CUresult code;

	for (size_t i = 0;; i++) {
		size_t offset, bytes;

		code = rnl__cuda_driver.param_info(a->func, i, &offset, &bytes);
		if (code != CUDA_SUCCESS)
			break;
		if (!a->kernelParams || !b->kernelParams ||
		    memcmp(a->kernelParams[i], b->kernelParams[i], bytes) != 0)
			return false;
	}
	/* There is no such parameter. */
	return code == CUDA_ERROR_INVALID_VALUE;
}

static bool same_kernel(const struct rnl__record *r, cudaGraphNode_t a_node, cudaGraphNode_t b_node)
{
	CUDA_KERNEL_NODE_PARAMS a, b;
	const struct rnl__args *to, *also;

	if (!get_kernel(a_node, &a) || !get_kernel(b_node, &b) || a.func != b.func ||
	    a.gridDimX != b.gridDimX || a.gridDimY != b.gridDimY || a.gridDimZ != b.gridDimZ ||
	    a.blockDimX != b.blockDimX || a.blockDimY != b.blockDimY ||
	    a.blockDimZ != b.blockDimZ || a.sharedMemBytes != b.sharedMemBytes)
		return false;
	to = args_of(r, &a);
	also = args_of(r, &b);
	if (to && also)
		return to->dst == also->dst && to->bytes == also->bytes;
	return same_params(&a, &b);
}

static bool same_copy(cudaGraphNode_t a_node, cudaGraphNode_t b_node)
{
	struct cudaMemcpy3DParms a, b;

	return cudaGraphMemcpyNodeGetParams(a_node, &a) == cudaSuccess &&
	       cudaGraphMemcpyNodeGetParams(b_node, &b) == cudaSuccess &&
	       a.srcPtr.ptr == b.srcPtr.ptr && a.dstPtr.ptr == b.dstPtr.ptr &&
	       a.srcPtr.pitch == b.srcPtr.pitch && a.dstPtr.pitch == b.dstPtr.pitch &&
	       a.srcArray == b.srcArray && a.dstArray == b.dstArray &&
	       !memcmp(&a.srcPos, &b.srcPos, sizeof(a.srcPos)) &&
	       !memcmp(&a.dstPos, &b.dstPos, sizeof(a.dstPos)) &&
	       !memcmp(&a.extent, &b.extent, sizeof(a.extent));
}

static bool same_fill(cudaGraphNode_t a_node, cudaGraphNode_t b_node)
{
	struct cudaMemsetParams a, b;

	return cudaGraphMemsetNodeGetParams(a_node, &a) == cudaSuccess &&
	       cudaGraphMemsetNodeGetParams(b_node, &b) == cudaSuccess && a.dst == b.dst &&
	       a.value == b.value && a.elementSize == b.elementSize && a.width == b.width &&
	       a.height == b.height && (a.height < 2 || a.pitch == b.pitch);
}

static bool same_node(const struct rnl__record *a, const struct rnl__record *b, size_t i)
{
	if (a->types[i] != b->types[i])
		return false;
	switch (a->types[i]) {
	case cudaGraphNodeTypeKernel:
		return same_kernel(a, a->nodes[i], b->nodes[i]);
	case cudaGraphNodeTypeMemcpy:
		return same_copy(a->nodes[i], b->nodes[i]);
	case cudaGraphNodeTypeMemset:
		return same_fill(a->nodes[i], b->nodes[i]);
	default:
		return true;
	}
}

static bool same(const struct rnl__record *a, const struct rnl__record *b)
{
	bool same = a->nr == b->nr;

	for (size_t i = 0; same && i < a->nr; i++)
		same = same_node(a, b, i);
	(void)cudaGetLastError();
	return same;
}

/* ---- a record ------------------------------------------------------------ */

/* Notes a node that writes arguments; false: CUDA does not tell, or there are too many. */
static bool note_args(struct rnl__record *r, cudaGraphNode_t node)
{
	const struct rnl__args *args;
	CUDA_KERNEL_NODE_PARAMS params;

	if (!get_kernel(node, &params))
		return false;
	args = args_of(r, &params);
	if (args && r->nr_args == ARGS_MAX)
		return false;
	if (args)
		r->args[r->nr_args++] = (struct args_node){ node, *args };
	return true;
}

/* Reads a captured graph; false: it is no record. */
static bool read_nodes(struct rnl__record *r)
{
	int nr_alive = 0;	/* allocations that the graph leaves */

	if (rnl__cuda_args_function(&r->writes) != cudaSuccess ||
	    cudaGraphGetNodes(r->graph, NULL, &r->nr) != cudaSuccess || !r->nr)
		return false;
	r->nodes = calloc(r->nr, sizeof(*r->nodes));
	r->types = calloc(r->nr, sizeof(*r->types));
	if (!r->nodes || !r->types ||
	    cudaGraphGetNodes(r->graph, r->nodes, &r->nr) != cudaSuccess)
		return false;
	for (size_t i = 0; i < r->nr; i++) {
		if (cudaGraphNodeGetType(r->nodes[i], &r->types[i]) != cudaSuccess)
			return false;
		nr_alive += r->types[i] == cudaGraphNodeTypeMemAlloc;
		nr_alive -= r->types[i] == cudaGraphNodeTypeMemFree;
		if (r->types[i] == cudaGraphNodeTypeKernel && !note_args(r, r->nodes[i]))
			return false;
	}
	return nr_alive == 0;
}

void rnl__cuda_record_drop(struct rnl__record *r)
{
	destroy_exec(r->exec);
	destroy(r->graph);
	free(r->nodes);
	free(r->types);
	free(r);
}

static cudaError_t set_args(struct rnl__record *r, struct args_node *node, const void *user)
{
	CUDA_KERNEL_NODE_PARAMS params;
	struct rnl__args args = node->args;
	void *argv[] = { &args };
	CUresult code;

	if (!memcmp(args.data, user, args.bytes))
		return cudaSuccess;
	code = rnl__cuda_driver.get(node->node, &params);
	if (code == CUDA_SUCCESS) {
		memcpy(args.data, user, args.bytes);
		params.kernelParams = argv;
		code = rnl__cuda_driver.set(r->exec, node->node, &params);
	}
	if (code == CUDA_SUCCESS)
		node->args = args;
	/* The codes of these calls are equal in the driver and the runtime. */
	return (cudaError_t)code;
}

cudaError_t rnl__cuda_record_launch(struct rnl__record *r, const void *user, cudaStream_t stream)
{
	cudaError_t code = r->nr_args && !user ? cudaErrorInvalidValue : cudaSuccess;

	for (unsigned i = 0; i < r->nr_args && code == cudaSuccess; i++)
		code = set_args(r, &r->args[i], user);
	return code == cudaSuccess ? cudaGraphLaunch(r->exec, stream) : code;
}

cudaError_t rnl__cuda_record(struct rnl__guarded *guarded, cudaGraph_t graph, cudaStream_t stream)
{
	struct rnl__record *r = guarded->records && rnl__cuda_driver.complete ?
				calloc(1, sizeof(*r)) : NULL;
	cudaError_t code;

	if (!r)
		return launch_once(graph, stream);
	r->graph = graph;
	if (!read_nodes(r)) {
		(void)cudaGetLastError();
		r->graph = NULL;
		rnl__cuda_record_drop(r);
		return launch_once(graph, stream);
	}
	guarded->same = guarded->last && same(guarded->last, r);
	if (guarded->same) {
		rnl__cuda_record_drop(r);
		return rnl__cuda_record_launch(guarded->last, guarded->user, stream);
	}
	code = cudaGraphInstantiate(&r->exec, graph, 0);
	if (code == cudaSuccess)
		code = cudaGraphLaunch(r->exec, stream);
	if (code == cudaSuccess)
		guarded->record = r;
	else
		rnl__cuda_record_drop(r);
	return code;
}

#else	/* the library has no kernel for the arguments */

cudaError_t rnl__cuda_record(struct rnl__guarded *guarded, cudaGraph_t graph, cudaStream_t stream)
{
	(void)guarded;
	return launch_once(graph, stream);
}

cudaError_t rnl__cuda_record_launch(struct rnl__record *r, const void *user, cudaStream_t stream)
{
	(void)r;
	(void)user;
	(void)stream;
	return cudaErrorNotSupported;
}

void rnl__cuda_record_drop(struct rnl__record *r)
{
	(void)r;
}

#endif
