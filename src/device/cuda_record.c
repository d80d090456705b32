/* SPDX-License-Identifier: MIT */
/* Records of issued work, which can be issued again; cuda_record.h has the design. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>
#include <runnel/replay.h>

#include "device/cuda_calls.h"
#include "device/cuda_copies.h"
#include "device/cuda_driver.h"
#include "device/cuda_kernels.h"
#include "device/cuda_record.h"
#include "device/units.h"

static void destroy_exec(cudaGraphExec_t exec)
{
	/* CUDA frees a running graph when it has run. */
	if (exec)
		rnl__cuda_forget(cudaGraphExecDestroy(exec));
}

static cudaError_t launch_once(cudaGraph_t graph, cudaStream_t stream)
{
	cudaGraphExec_t exec = NULL;
	cudaError_t code = cudaGraphInstantiate(&exec, graph, 0);

	if (code == cudaSuccess)
		code = cudaGraphLaunch(exec, stream);
	destroy_exec(exec);
	rnl__cuda_destroy_graph(graph);
	return code;
}

#if CUDART_VERSION >= 13000

#define ARGS_MAX 4u

struct args_node {
	cudaGraphNode_t node;
	struct rnl__args args;		/* the executable graph's current arguments */
};

struct rnl__record {
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t *nodes;
	enum cudaGraphNodeType *types;
	size_t nr;
	void *writes;			/* function of the nodes that write arguments */
	unsigned nr_args;
	struct args_node args[ARGS_MAX];
};

/* ---- nodes --------------------------------------------------------------- */

/* Returns the parameters of a kernel node with one argument.  @argv: has room for its address. */
static CUDA_KERNEL_NODE_PARAMS kernel_params(void *function, struct rnl_dim grid,
					     struct rnl_dim block, const void *arg, void *argv[1])
{
	argv[0] = (void *)(uintptr_t)arg;
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = function, .kernelParams = argv,
		.gridDimX = grid.x, .gridDimY = grid.y, .gridDimZ = grid.z,
		.blockDimX = block.x, .blockDimY = block.y, .blockDimZ = block.z,
	};
}

static bool get_kernel(cudaGraphNode_t node, CUDA_KERNEL_NODE_PARAMS *params)
{
	return rnl__cuda_driver.get(node, params) == CUDA_SUCCESS;
}

/* Returns the arguments that a node writes; NULL: it is not a node of the library's kernel. */
static const struct rnl__args *args_of(const struct rnl__record *r,
				       const CUDA_KERNEL_NODE_PARAMS *params)
{
	return params->func == r->writes ? params->kernelParams[0] : NULL;
}

/* Compares parameters.  Returns false, too, if CUDA cannot list or describe them. */
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
	/* This code means that there is no parameter i. */
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

static bool record_same_copy(cudaGraphNode_t a_node, cudaGraphNode_t b_node)
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
		return record_same_copy(a->nodes[i], b->nodes[i]);
	case cudaGraphNodeTypeMemset:
		return same_fill(a->nodes[i], b->nodes[i]);
	default:
		return true;
	}
}

static bool record_same(const struct rnl__record *a, const struct rnl__record *b)
{
	bool same = a->nr == b->nr;

	for (size_t i = 0; same && i < a->nr; i++)
		same = same_node(a, b, i);
	(void)cudaGetLastError();
	return same;
}

/* ---- a record of a capture ----------------------------------------------- */

/* Remembers a node that writes arguments.  Returns false if there are too many. */
static bool note_args(struct rnl__record *r, cudaGraphNode_t node, const struct rnl__args *args)
{
	if (r->nr_args == ARGS_MAX)
		return false;
	r->args[r->nr_args++] = (struct args_node){ node, *args };
	return true;
}

/* Remembers a kernel that writes arguments.  Returns false, too, if CUDA cannot describe it. */
static bool look_at_kernel(struct rnl__record *r, cudaGraphNode_t node)
{
	const struct rnl__args *args;
	CUDA_KERNEL_NODE_PARAMS params;

	if (!get_kernel(node, &params))
		return false;
	args = args_of(r, &params);
	return !args || note_args(r, node, args);
}

/* Reads a captured graph.  Returns false if it cannot be a record. */
static bool read_nodes(struct rnl__record *r)
{
	int nr_alive = 0;	/* allocations that the graph does not free */

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
		if (r->types[i] == cudaGraphNodeTypeKernel && !look_at_kernel(r, r->nodes[i]))
			return false;
	}
	return nr_alive == 0;
}

void rnl__cuda_record_drop(struct rnl__record *r)
{
	destroy_exec(r->exec);
	rnl__cuda_destroy_graph(r->graph);
	free(r->nodes);
	free(r->types);
	free(r);
}

static cudaError_t set_args(struct rnl__record *r, struct args_node *node, const void *user)
{
	const struct rnl_dim grid = { 1, 1, 1 }, block = { RNL_JOB_ARGS_MAX / 4, 1, 1 };
	struct rnl__args args = node->args;
	CUDA_KERNEL_NODE_PARAMS params;
	void *argv[1];
	CUresult code;

	if (!memcmp(args.data, user, args.bytes))
		return cudaSuccess;
	memcpy(args.data, user, args.bytes);
	params = kernel_params(r->writes, grid, block, &args, argv);
	code = rnl__cuda_driver.set(r->exec, node->node, &params);
	if (code == CUDA_SUCCESS)
		node->args = args;
	/* The driver and the runtime have the same codes for these calls. */
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
	guarded->same = guarded->last && record_same(guarded->last, r);
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

/* ---- a record of notes --------------------------------------------------- */

/* The end of a graph that is a chain: the next node goes after `last`. */
struct node_chain {
	cudaGraph_t graph;
	cudaGraphNode_t last;
	size_t nr_before;		/* predecessors of the next node: 0 or 1 */
};

static cudaError_t add_kernel(struct node_chain *chain, void *function, struct rnl_dim grid,
		       struct rnl_dim block, const void *arg)
{
	void *argv[1];
	const CUDA_KERNEL_NODE_PARAMS params = kernel_params(function, grid, block, arg, argv);
	cudaGraphNode_t node;
	const CUresult code = rnl__cuda_driver.add(&node, chain->graph, &chain->last,
						   chain->nr_before, &params);

	if (code == CUDA_SUCCESS)
		chain->last = node;
	/* The driver and the runtime have the same codes for these calls. */
	return (cudaError_t)code;
}

/* A copy node slows a graph down; a mover node does not. */
static cudaError_t record_add_mover(struct node_chain *chain, const struct rnl__copy *c)
{
	const struct rnl__moves moves = { { { (uintptr_t)c->dst, (uintptr_t)c->src, c->width } } };
	const struct rnl_dim grid = { 1, 1, 1 }, block = { RNL__MOVER_THREADS, 1, 1 };
	CUfunction mover;
	const CUresult code = rnl__cuda_driver.function(&mover, (CUkernel)rnl__cuda_mover());

	return code == CUDA_SUCCESS ? add_kernel(chain, mover, grid, block, &moves) :
				      (cudaError_t)code;
}

static cudaError_t add_copy(struct node_chain *chain, const struct rnl__copy *c)
{
	const struct cudaMemcpy3DParms rows = {
		.srcPtr = { (void *)(uintptr_t)c->src, c->src_pitch, c->width, c->rows },
		.dstPtr = { c->dst, c->dst_pitch, c->width, c->rows },
		.extent = { c->width, c->rows, 1 },
		.kind = cudaMemcpyDefault,
	};
	cudaGraphNode_t node;
	cudaError_t code;

	if (rnl__cuda_moves(c))
		return record_add_mover(chain, c);
	code = c->rows == 1 ?
		cudaGraphAddMemcpyNode1D(&node, chain->graph, &chain->last, chain->nr_before, c->dst,
					 c->src, c->width, cudaMemcpyDefault) :
		cudaGraphAddMemcpyNode(&node, chain->graph, &chain->last, chain->nr_before, &rows);
	if (code == cudaSuccess)
		chain->last = node;
	return code;
}

static cudaError_t add_fill(struct node_chain *chain, const struct rnl__noted *noted)
{
	const struct cudaMemsetParams params = {
		.dst = noted->fill.dst, .value = noted->fill.value, .elementSize = 1,
		.width = noted->fill.bytes, .height = 1,
	};
	cudaGraphNode_t node;
	const cudaError_t code = cudaGraphAddMemsetNode(&node, chain->graph, &chain->last,
							chain->nr_before, &params);

	if (code == cudaSuccess)
		chain->last = node;
	return code;
}

static cudaError_t add_launch(struct rnl__record *r, struct node_chain *chain,
			      const struct rnl__noted *noted, const void *arg)
{
	const struct rnl_kernel *kernel = noted->launch.kernel;
	void *function;
	cudaError_t code;

	if (rnl__notes_writes_args(noted)) {
		code = add_kernel(chain, r->writes, noted->launch.grid, noted->launch.block, arg);
		return code != cudaSuccess || note_args(r, chain->last, arg) ? code :
									       cudaErrorNotSupported;
	}
	if (!kernel->cuda_function)
		return cudaErrorNotSupported;
	code = (cudaError_t)kernel->cuda_function(&function);
	if (code != cudaSuccess) {
		/* Clear the error in the unit's runtime, else the job would be blamed for it. */
		(void)rnl__units_error();
		return code;
	}
	return add_kernel(chain, function, noted->launch.grid, noted->launch.block, arg);
}

static cudaError_t record_build(struct rnl__record *r, const struct rnl__notes *notes)
{
	struct node_chain chain = { .graph = r->graph };
	cudaError_t code = cudaSuccess;

	for (size_t i = 0; code == cudaSuccess && i < notes->nr; i++) {
		const struct rnl__noted *noted = &notes->list[i];

		if (noted->kind == RNL__NOTED_COPY)
			code = add_copy(&chain, &noted->copy);
		else if (noted->kind == RNL__NOTED_FILL)
			code = add_fill(&chain, noted);
		else
			code = add_launch(r, &chain, noted, notes->args + noted->launch.args);
		chain.nr_before = 1;
	}
	return code == cudaSuccess ? cudaGraphInstantiate(&r->exec, r->graph, 0) : code;
}

struct rnl__record *rnl__cuda_record_create(const struct rnl__notes *notes)
{
	struct rnl__record *r = rnl__cuda_driver.complete ? calloc(1, sizeof(*r)) : NULL;
	cudaError_t code;

	if (!r)
		return NULL;
	code = (cudaError_t)rnl__cuda_args_function(&r->writes);
	if (code == cudaSuccess)
		code = (cudaError_t)rnl__cuda_driver.create(&r->graph, 0);
	if (code == cudaSuccess)
		code = record_build(r, notes);
	if (code == cudaSuccess)
		return r;
	rnl__cuda_forget(code);
	rnl__cuda_record_drop(r);
	return NULL;
}

#else	/* the library has no arguments kernel */

struct rnl__record *rnl__cuda_record_create(const struct rnl__notes *notes)
{
	(void)notes;
	return NULL;
}

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
