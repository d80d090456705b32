/* SPDX-License-Identifier: MIT */
/*
 * J as an expert issues it: a graph that copies in, runs many parallel kernels, and copies out.
 *
 * DESIGN
 *	A thread launches some graphs in turn. All nodes are set before each launch, because a
 *	server's J has other memory each time. One kernel copies for all J of a graph.
 */
#include "gpu/work.h"

#include <cudaTypedefs.h>

#define GRAPHS 4		/* graphs of a thread */
#define JOBS GPU_GRAPH_JOBS

enum { IN, FIRST, OUT = JOBS + 1, NODES };

_Static_assert(JOBS <= GPU_MOVES, "a mover copies for all J of a graph");

const struct gpu_hand_variant gpu_graphs = { GPU_EVENT, JOBS, GRAPHS * JOBS };

struct graph {
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode nodes[NODES];
};

/* The state of a thread. */
struct issuer {
	PFN_cuGraphCreate_v10000 create;
	PFN_cuGraphAddKernelNode_v12000 add;
	PFN_cuGraphInstantiateWithFlags_v11040 instantiate;
	PFN_cuGraphExecKernelNodeSetParams_v12000 set;
	PFN_cuGraphLaunch_v10000 launch;
	void *works[GPU_KERNELS], *mover;	/* CUfunction */
	struct graph graphs[GRAPHS];
	unsigned next, nr;
	struct gpu_slot slots[JOBS];
};

static struct issuer *begin(void)
{
	struct issuer *is = bench_alloc(sizeof(*is));

	is->create = (PFN_cuGraphCreate_v10000)gpu_driver("cuGraphCreate", 10000);
	is->add = (PFN_cuGraphAddKernelNode_v12000)gpu_driver("cuGraphAddKernelNode", 12000);
	is->instantiate = (PFN_cuGraphInstantiateWithFlags_v11040)
		gpu_driver("cuGraphInstantiateWithFlags", 11040);
	is->set = (PFN_cuGraphExecKernelNodeSetParams_v12000)
		gpu_driver("cuGraphExecKernelNodeSetParams", 12000);
	is->launch = (PFN_cuGraphLaunch_v10000)gpu_driver("cuGraphLaunch", 10000);
	for (unsigned i = 0; i < GPU_KERNELS; i++)
		gpu_ok((cudaError_t)gpu_works[i]->cuda_function(&is->works[i]), "J's kernel");
	gpu_ok((cudaError_t)gpu_mover->cuda_function(&is->mover), "the mover");
	return is;
}

static void driver_ok(CUresult code, const char *what)
{
	bench_must(code == CUDA_SUCCESS, what);
}

/* Adds a node to a graph that is not instantiated yet; otherwise sets the node. */
static void give(const struct issuer *is, struct graph *g, unsigned node, void *function,
		 unsigned blocks, void *args)
{
	const CUDA_KERNEL_NODE_PARAMS params = {
		.func = function, .kernelParams = &args,
		.gridDimX = blocks, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = GPU_WORK_THREADS, .blockDimY = 1, .blockDimZ = 1,
	};
	const CUgraphNode *after = &g->nodes[node == OUT ? FIRST : IN];
	const size_t nr = node == IN ? 0 : node == OUT ? JOBS : 1;

	if (g->exec)
		driver_ok(is->set(g->exec, g->nodes[node], &params), "setting a node");
	else
		driver_ok(is->add(&g->nodes[node], g->graph, after, nr, &params), "adding a node");
}

static void give_mover(const struct issuer *is, struct graph *g, unsigned node)
{
	struct gpu_moves moves = { .nr_words = is->slots[0].nr_words };

	for (unsigned i = 0; i < JOBS; i++) {
		const struct gpu_slot *slot = &is->slots[i];

		moves.dst[i] = node == OUT ? slot->out : slot->dev;
		moves.src[i] = node == OUT ? slot->dev : slot->in;
	}
	give(is, g, node, is->mover, JOBS, &moves);
}

static void issue(const struct issuer *is, struct graph *g, cudaStream_t stream)
{
	if (!g->exec)
		driver_ok(is->create(&g->graph, 0), "cuGraphCreate");
	give_mover(is, g, IN);
	for (unsigned i = 0; i < JOBS; i++) {
		const struct gpu_slot *slot = &is->slots[i];
		struct gpu_work_args args = { slot->dev };

		give(is, g, FIRST + i, is->works[slot->kernel], slot->nr_words / GPU_WORK_THREADS,
		     &args);
	}
	give_mover(is, g, OUT);
	if (!g->exec)
		driver_ok(is->instantiate(&g->exec, g->graph, 0), "cuGraphInstantiateWithFlags");
	driver_ok(is->launch(g->exec, stream), "cuGraphLaunch");
}

cudaError_t gpu_issue_graphs(const struct gpu_slot *slot, cudaStream_t stream)
{
	static _Thread_local struct issuer *is;

	if (!is)
		is = begin();
	is->slots[is->nr++] = *slot;
	if (is->nr < JOBS)
		return cudaSuccess;
	is->nr = 0;
	issue(is, &is->graphs[is->next++ % GRAPHS], stream);
	return cudaSuccess;
}
