/* SPDX-License-Identifier: MIT */
/*
 * Graphs that are built node by node: kernels, by the driver's calls, and copies and fills, by the
 * runtime's.
 *
 * DESIGN
 *	A node is an operation and a list of the nodes that it depends on. A launch of a graph
 *	issues its nodes in an order that the dependencies allow, the last nodes first. So a missing
 *	edge shows in the results, although a stream runs its operations one after the other.
 *	An executable graph has its own copy of the operations. Setters name nodes of the graph that
 *	it was made from: that graph must still exist.
 */
#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>

#include "internal.h"

#if CUDART_VERSION >= 13000

enum { NODES_MAX = 1024 };

struct launch {
	const struct fake_kernel *kernel;
	struct rnl_dim grid, block;
	void *args;
	bool off;
};

struct node {
	struct node **after;
	size_t nr_after;
	struct fake_op op;		/* a copy or a fill */
	struct launch launch;		/* kernel is NULL: not a kernel node */
};

struct kernel_graph {
	struct kernel_graph *from;	/* source of an executable graph */
	struct fake_point last;		/* end of its last launch; stream is NULL: none */
	size_t nr;
	struct node *nodes[NODES_MAX];
};

/* List of the kernels that fake__kernel_of() has returned. */
struct known {
	struct known *next;
	struct fake_kernel kernel;
};

const struct fake_kernel *fake__kernel_of(void (*fn)(struct rnl_dim grid, struct rnl_dim block,
						     const void *args),
					  size_t bytes)
{
	static struct known *_Atomic all;
	struct known *known = all, *new;

	for (; known; known = known->next) {
		if (known->kernel.fn == fn && known->kernel.bytes == bytes)
			return &known->kernel;
	}
	new = calloc(1, sizeof(*new));
	if (!new)
		return NULL;
	*new = (struct known){ .kernel = { FAKE_KERNEL_MAGIC, fn, bytes } };
	new->next = all;
	all = new;
	return &new->kernel;
}

static uint64_t nr_early_sets;

uint64_t fake_early_sets(void)
{
	uint64_t nr;

	fake__lock();
	nr = nr_early_sets;
	fake__unlock();
	return nr;
}

static bool is_kernel(const struct fake_kernel *kernel)
{
	return kernel && kernel->magic == FAKE_KERNEL_MAGIC;
}

static size_t find(const struct kernel_graph *graph, const void *node)
{
	size_t i = 0;

	while (i < graph->nr && graph->nodes[i] != node)
		i++;
	return i;
}

static void free_graph(struct kernel_graph *graph)
{
	for (size_t i = 0; i < graph->nr; i++) {
		free(graph->nodes[i]->after);
		free(graph->nodes[i]->launch.args);
		free(graph->nodes[i]);
	}
	if (graph->last.stream)
		fake__stream_put(graph->last.stream);
	free(graph);
}

static CUresult read_launch(struct launch *launch, const CUDA_KERNEL_NODE_PARAMS *params)
{
	const struct fake_kernel *kernel = (const struct fake_kernel *)(const void *)params->func;
	struct launch l = {
		.kernel = kernel, .off = launch->off,
		.grid = { params->gridDimX, params->gridDimY, params->gridDimZ },
		.block = { params->blockDimX, params->blockDimY, params->blockDimZ },
	};

	if (!is_kernel(kernel) || params->sharedMemBytes || params->extra || params->kern ||
	    !fake__fits(l.grid, l.block))
		return CUDA_ERROR_INVALID_VALUE;
	l.args = malloc(kernel->bytes ? kernel->bytes : 1);
	if (!l.args)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (kernel->bytes)
		memcpy(l.args, params->kernelParams[0], kernel->bytes);
	free(launch->args);
	*launch = l;
	return CUDA_SUCCESS;
}

/* ---- calls, with the lock held --------------------------------------------- */

static CUresult enter(struct kernel_graph *graph, enum fake_kind kind)
{
	if (graph && !fake__enter(graph, sizeof(*graph), kind, graph))
		return CUDA_SUCCESS;
	if (graph)
		free_graph(graph);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create(CUgraph *handle, unsigned flags)
{
	struct kernel_graph *graph = calloc(1, sizeof(*graph));
	CUresult code = flags ? CUDA_ERROR_INVALID_VALUE : enter(graph, FAKE_KERNEL_GRAPH);

	if (flags)
		free(graph);
	*handle = (CUgraph)(void *)graph;
	return code;
}

/* One of @params and @op is not NULL. */
static CUresult add(CUgraphNode *handle, CUgraph graph_handle, const CUgraphNode *after, size_t nr,
		    const CUDA_KERNEL_NODE_PARAMS *params, const struct fake_op *op)
{
	struct kernel_graph *graph = fake__handle(graph_handle, FAKE_KERNEL_GRAPH);
	struct node *node;
	CUresult code = CUDA_SUCCESS;

	if (!graph || graph->nr == NODES_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < nr; i++) {
		if (find(graph, after[i]) == graph->nr)
			return CUDA_ERROR_INVALID_VALUE;
	}
	node = calloc(1, sizeof(*node));
	if (node)
		node->after = calloc(nr + 1, sizeof(*node->after));
	if (!node || !node->after)
		code = CUDA_ERROR_OUT_OF_MEMORY;
	else if (params)
		code = read_launch(&node->launch, params);
	else
		node->op = *op;
	if (code != CUDA_SUCCESS) {
		if (node)
			free(node->after);
		free(node);
		return code;
	}
	for (size_t i = 0; i < nr; i++)
		node->after[i] = (struct node *)(void *)after[i];
	node->nr_after = nr;
	graph->nodes[graph->nr++] = node;
	*handle = (CUgraphNode)(void *)node;
	return CUDA_SUCCESS;
}

/* A node's memory must be allocated when the node is made. A fill's memory must not be pageable. */
static cudaError_t add_op(cudaGraphNode_t *handle, cudaGraph_t graph, const cudaGraphNode_t *after,
			  size_t nr, const struct fake_op *op)
{
	enum cudaMemoryType type;
	cudaError_t code = cudaSuccess;

	for (int i = 0; i < 2 && code == cudaSuccess; i++) {
		if (op->uses[i].bytes)
			code = fake__memory_of(op->uses[i], &type);
		if (code == cudaSuccess && op->kind == FAKE_OP_FILL && !i &&
		    type == cudaMemoryTypeUnregistered)
			code = cudaErrorInvalidValue;
	}
	return code == cudaSuccess ? (cudaError_t)add(handle, graph, after, nr, NULL, op) : code;
}

/* Copies a node.  The copy's dependencies are nodes of the source's graph. */
static struct node *copy_node(const struct node *from)
{
	struct node *node = calloc(1, sizeof(*node));
	const size_t bytes = from->launch.kernel ? from->launch.kernel->bytes : 0;

	if (!node)
		return NULL;
	*node = *from;
	node->after = calloc(from->nr_after + 1, sizeof(*node->after));
	node->launch.args = malloc(bytes + 1);
	if (!node->after || !node->launch.args) {
		free(node->after);
		free(node->launch.args);
		free(node);
		return NULL;
	}
	memcpy(node->after, from->after, from->nr_after * sizeof(*node->after));
	if (bytes)
		memcpy(node->launch.args, from->launch.args, bytes);
	return node;
}

static CUresult instantiate(CUgraphExec *handle, CUgraph graph_handle, unsigned long long flags)
{
	struct kernel_graph *graph = fake__handle(graph_handle, FAKE_KERNEL_GRAPH), *exec;

	if (!graph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->from = graph;
	for (size_t i = 0; i < graph->nr; i++) {
		exec->nodes[i] = copy_node(graph->nodes[i]);
		if (!exec->nodes[i]) {
			free_graph(exec);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		exec->nr++;
	}
	*handle = (CUgraphExec)(void *)exec;
	return enter(exec, FAKE_KERNEL_EXEC);
}

/* Returns the executable graph's launch of a node, or NULL; an unknown handle is a misuse. */
static struct launch *launch_of(CUgraphExec handle, CUgraphNode node)
{
	struct kernel_graph *exec = fake__handle(handle, FAKE_KERNEL_EXEC);
	struct kernel_graph *graph = exec ? fake__handle(exec->from, FAKE_KERNEL_GRAPH) : NULL;
	size_t i;

	if (!graph)
		return NULL;
	nr_early_sets += exec->last.stream && !fake__reached(&exec->last);
	i = find(graph, node);
	return i < exec->nr && exec->nodes[i]->launch.kernel ? &exec->nodes[i]->launch : NULL;
}

/* Sets a node of a captured graph: only its arguments may differ. */
static CUresult set_captured(struct fake_op *op, const CUDA_KERNEL_NODE_PARAMS *params)
{
	const struct fake_kernel *kernel = (const struct fake_kernel *)(const void *)params->func;

	if (op->kind != FAKE_OP_LAUNCH || !is_kernel(kernel) || kernel->fn != op->launch.fn ||
	    params->kern)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(op->launch.args, params->kernelParams[0], op->launch.bytes);
	return CUDA_SUCCESS;
}

static CUresult get(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
	struct fake_op *op = (struct fake_op *)(void *)node;

	if (!op || op->kind != FAKE_OP_LAUNCH)
		return CUDA_ERROR_INVALID_VALUE;
	*params = (CUDA_KERNEL_NODE_PARAMS){
		.func = (CUfunction)(uintptr_t)fake__kernel_of(op->launch.fn, op->launch.bytes),
		.gridDimX = op->launch.grid.x, .gridDimY = op->launch.grid.y,
		.gridDimZ = op->launch.grid.z, .blockDimX = op->launch.block.x,
		.blockDimY = op->launch.block.y, .blockDimZ = op->launch.block.z,
		.kernelParams = &op->launch.args,
	};
	return CUDA_SUCCESS;
}

static CUresult set(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct fake_op *op = fake__captured(exec, node);
	struct launch *launch;

	if (op)
		return set_captured(op, params);
	launch = launch_of(exec, node);

	return launch ? read_launch(launch, params) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult enable(CUgraphExec exec, CUgraphNode node, unsigned on)
{
	struct launch *launch = launch_of(exec, node);

	if (!launch)
		return CUDA_ERROR_INVALID_VALUE;
	launch->off = !on;
	return CUDA_SUCCESS;
}

static CUresult issue_op(const struct fake_op *op, CUstream handle)
{
	struct fake_stream *stream;
	cudaError_t code = fake__room(handle, &stream);

	return (CUresult)(code == cudaSuccess ? fake__issue(stream, op) : code);
}

static CUresult issue(const struct launch *l, CUstream handle)
{
	struct fake_op op = {
		.kind = FAKE_OP_LAUNCH,
		.launch = { l->kernel->fn, l->grid, l->block, NULL, l->kernel->bytes },
	};
	CUresult code;

	if (l->off)
		return CUDA_SUCCESS;
	op.launch.args = l->kernel == fake__mover() ?
				 fake__mover_args(l->grid.x, l->args, &op.launch.bytes) :
				 malloc(op.launch.bytes ? op.launch.bytes : 1);
	if (!op.launch.args)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (l->kernel != fake__mover())
		memcpy(op.launch.args, l->args, op.launch.bytes);
	code = issue_op(&op, handle);
	if (code != CUDA_SUCCESS)
		free(op.launch.args);
	return code;
}

static bool is_ready(const struct kernel_graph *graph, const struct node *node, const bool *done)
{
	for (size_t i = 0; i < node->nr_after; i++) {
		if (!done[find(graph, node->after[i])])
			return false;
	}
	return true;
}

static CUresult launch(CUgraphExec handle, CUstream stream)
{
	struct kernel_graph *exec = fake__handle(handle, FAKE_KERNEL_EXEC);
	struct fake_stream *on;
	bool done[NODES_MAX] = { false };
	CUresult code = CUDA_SUCCESS;

	if (!exec || fake__stream_of(stream, &on) != cudaSuccess)
		return CUDA_ERROR_INVALID_VALUE;
	/* A kernel node that was made from a function runs in the function's context (documented). */
	if (on->green)
		fake__misuse("a graph's kernels run on every SM, not on those of the stream");
	for (size_t left = exec->nr; left && code == CUDA_SUCCESS; left--) {
		size_t i = exec->nr - 1;

		while (done[i] || !is_ready(exec->from, exec->nodes[i], done))
			i--;
		code = exec->nodes[i]->launch.kernel ? issue(&exec->nodes[i]->launch, stream) :
						       issue_op(&exec->nodes[i]->op, stream);
		done[i] = true;
	}
	if (exec->last.stream)
		fake__stream_put(exec->last.stream);
	exec->last = (struct fake_point){ fake__stream_get(on), on->issued };
	return code;
}

static CUresult destroy(void *handle, enum fake_kind kind)
{
	struct kernel_graph *graph = fake__handle(handle, kind);

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	fake__remove(graph);
	free_graph(graph);
	return CUDA_SUCCESS;
}

/* ---- calls --------------------------------------------------------------- */

static CUresult graph_create(CUgraph *graph, unsigned flags)
{
	FAKE_DRIVER(cuGraphCreate, create(graph, flags));
}

static CUresult graph_add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t nr,
			  const CUDA_KERNEL_NODE_PARAMS *params)
{
	FAKE_DRIVER(cuGraphAddKernelNode, add(node, graph, after, nr, params, NULL));
}

static CUresult graph_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	FAKE_DRIVER(cuGraphInstantiateWithFlags, instantiate(exec, graph, flags));
}

static CUresult exec_set(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	FAKE_DRIVER(cuGraphExecKernelNodeSetParams, set(exec, node, params));
}

static CUresult exec_enable(CUgraphExec exec, CUgraphNode node, unsigned on)
{
	FAKE_DRIVER(cuGraphNodeSetEnabled, enable(exec, node, on));
}

static CUresult exec_launch(CUgraphExec exec, CUstream stream)
{
	FAKE_DRIVER(cuGraphLaunch, launch(exec, stream));
}

static CUresult exec_destroy(CUgraphExec exec)
{
	FAKE_DRIVER(cuGraphExecDestroy, destroy(exec, FAKE_KERNEL_EXEC));
}

static CUresult graph_destroy(CUgraph graph)
{
	FAKE_DRIVER(cuGraphDestroy, destroy(graph, FAKE_KERNEL_GRAPH));
}

static struct fake_op op_of_copy(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				 size_t width, size_t rows)
{
	return (struct fake_op){
		.kind = FAKE_OP_COPY,
		.uses = { { dst, (rows - 1) * dst_pitch + width }, { src, (rows - 1) * src_pitch + width } },
		.copy = { dst, src, dst_pitch, src_pitch, width, rows, NULL },
	};
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
				     const cudaGraphNode_t *after, size_t nr, void *dst,
				     const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
	const struct fake_op op = op_of_copy(dst, bytes, src, bytes, bytes, 1);

	CALL(cudaGraphAddMemcpyNode1D);
	if (kind != cudaMemcpyDefault || !bytes)
		return fake__said(cudaErrorInvalidValue);
	SAID(add_op(node, graph, after, nr, &op));
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
				   const cudaGraphNode_t *after, size_t nr,
				   const struct cudaMemcpy3DParms *p)
{
	const struct fake_op op = op_of_copy(p->dstPtr.ptr, p->dstPtr.pitch, p->srcPtr.ptr,
					     p->srcPtr.pitch, p->extent.width, p->extent.height);

	CALL(cudaGraphAddMemcpyNode);
	if (p->kind != cudaMemcpyDefault || p->extent.depth != 1 || !p->extent.height ||
	    !p->extent.width || p->dstArray || p->srcArray || p->dstPtr.pitch < p->extent.width ||
	    p->srcPtr.pitch < p->extent.width)
		return fake__said(cudaErrorInvalidValue);
	SAID(add_op(node, graph, after, nr, &op));
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
				   const cudaGraphNode_t *after, size_t nr,
				   const struct cudaMemsetParams *p)
{
	const struct fake_op op = {
		.kind = FAKE_OP_FILL, .uses = { { p->dst, p->width } },
		.fill = { p->dst, (int)p->value, p->width },
	};

	CALL(cudaGraphAddMemsetNode);
	if (p->elementSize != 1 || p->height != 1 || !p->width)
		return fake__said(cudaErrorInvalidValue);
	SAID(add_op(node, graph, after, nr, &op));
}

/* The runtime's calls for graphs of this file.  The runtime and the driver share the handles. */
cudaError_t fake__built_instantiate(cudaGraphExec_t *exec, cudaGraph_t graph)
{
	return (cudaError_t)instantiate(exec, graph, 0);
}

cudaError_t fake__built_launch(cudaGraphExec_t exec, cudaStream_t stream)
{
	return (cudaError_t)launch(exec, stream);
}

cudaError_t fake__built_destroy(void *handle, enum fake_kind kind)
{
	return (cudaError_t)destroy(handle, kind);
}

static CUresult most_threads(int *most, CUfunction function)
{
	if (!is_kernel((const struct fake_kernel *)(const void *)function))
		return CUDA_ERROR_INVALID_HANDLE;
	*most = 1024;
	return CUDA_SUCCESS;
}

static CUresult function_attribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
	FAKE_DRIVER(cuFuncGetAttribute, attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ?
					   most_threads(value, function) :
					   CUDA_ERROR_INVALID_VALUE);
}

static CUresult library_function(CUfunction *function, CUkernel kernel)
{
	*function = (CUfunction)(uintptr_t)fake__library_kernel(kernel);
	return *function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult kernel_function(CUfunction *function, CUkernel kernel)
{
	FAKE_DRIVER(cuKernelGetFunction, library_function(function, kernel));
}

/* A kernel has one parameter, its argument struct. */
static CUresult param_info(CUfunction function, size_t i, size_t *offset, size_t *bytes)
{
	const struct fake_kernel *kernel = (const struct fake_kernel *)(const void *)function;

	if (!is_kernel(kernel) || i || !kernel->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = 0;
	*bytes = kernel->bytes;
	return CUDA_SUCCESS;
}

static CUresult function_param_info(CUfunction function, size_t i, size_t *offset, size_t *bytes)
{
	FAKE_DRIVER(cuFuncGetParamInfo, param_info(function, i, offset, bytes));
}

static CUresult node_get(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
	FAKE_DRIVER(cuGraphKernelNodeGetParams, get(node, params));
}

void *fake__graph_function(const char *name)
{
	static const struct {
		const char *name;
		void *fn;
	} calls[] = {
		{ "cuFuncGetAttribute", (void *)function_attribute },
		{ "cuFuncGetParamInfo", (void *)function_param_info },
		{ "cuGraphAddKernelNode", (void *)graph_add },
		{ "cuGraphCreate", (void *)graph_create },
		{ "cuGraphDestroy", (void *)graph_destroy },
		{ "cuGraphExecDestroy", (void *)exec_destroy },
		{ "cuGraphExecKernelNodeSetParams", (void *)exec_set },
		{ "cuGraphInstantiateWithFlags", (void *)graph_instantiate },
		{ "cuGraphKernelNodeGetParams", (void *)node_get },
		{ "cuGraphLaunch", (void *)exec_launch },
		{ "cuGraphNodeSetEnabled", (void *)exec_enable },
		{ "cuKernelGetFunction", (void *)kernel_function },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (!strcmp(name, calls[i].name))
			return calls[i].fn;
	}
	return NULL;
}

#else

void *fake__graph_function(const char *name)
{
	(void)name;
	return NULL;
}

cudaError_t fake__built_instantiate(cudaGraphExec_t *exec, cudaGraph_t graph)
{
	(void)exec;
	(void)graph;
	return cudaErrorNotSupported;
}

cudaError_t fake__built_launch(cudaGraphExec_t exec, cudaStream_t stream)
{
	(void)exec;
	(void)stream;
	return cudaErrorNotSupported;
}

cudaError_t fake__built_destroy(void *handle, enum fake_kind kind)
{
	(void)handle;
	(void)kind;
	return cudaErrorNotSupported;
}

#endif
