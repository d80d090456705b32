/* SPDX-License-Identifier: MIT */
/*
 * Graphs of kernels, by hand: all nodes are set before each launch, because a server's work has other
 * memory each time.
 */
#include "gpu/work.h"

#include <cudaTypedefs.h>

#define KNOWN 8			/* kernels of a thread */

static struct {
	PFN_cuGraphCreate_v10000 create;
	PFN_cuGraphAddKernelNode_v12000 add;
	PFN_cuGraphInstantiateWithFlags_v11040 instantiate;
	PFN_cuGraphExecKernelNodeSetParams_v12000 set;
	PFN_cuGraphLaunch_v10000 launch;
} driver;

static void find_driver(void)
{
	driver.create = (PFN_cuGraphCreate_v10000)gpu_driver("cuGraphCreate", 10000);
	driver.add = (PFN_cuGraphAddKernelNode_v12000)gpu_driver("cuGraphAddKernelNode", 12000);
	driver.instantiate = (PFN_cuGraphInstantiateWithFlags_v11040)
		gpu_driver("cuGraphInstantiateWithFlags", 11040);
	driver.set = (PFN_cuGraphExecKernelNodeSetParams_v12000)
		gpu_driver("cuGraphExecKernelNodeSetParams", 12000);
	driver.launch = (PFN_cuGraphLaunch_v10000)gpu_driver("cuGraphLaunch", 10000);
}

static void driver_ok(CUresult code, const char *what)
{
	bench_must(code == CUDA_SUCCESS, what);
}

static void begin(struct gpu_graph *g)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_driver);
	driver_ok(driver.create(&g->graph, 0), "cuGraphCreate");
}

/* Returns the kernel's CUfunction, of this thread's GPU. */
static void *function_of(const struct rnl_kernel *kernel)
{
	static _Thread_local struct {
		const struct rnl_kernel *kernel;
		void *function;
	} known[KNOWN];
	unsigned i = 0;

	while (i < KNOWN - 1 && known[i].kernel && known[i].kernel != kernel)
		i++;
	if (known[i].kernel != kernel) {
		known[i].kernel = kernel;
		gpu_ok((cudaError_t)kernel->cuda_function(&known[i].function), "a graph's kernel");
	}
	return known[i].function;
}

void gpu_graph_set(struct gpu_graph *g, unsigned node, const struct rnl_kernel *kernel,
		   unsigned blocks, unsigned threads, void *args, unsigned after, unsigned nr_after)
{
	const CUDA_KERNEL_NODE_PARAMS params = {
		.func = function_of(kernel), .kernelParams = &args,
		.gridDimX = blocks, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = threads, .blockDimY = 1, .blockDimZ = 1,
	};

	bench_must(node < GPU_GRAPH_NODES, "a node of the graph");
	if (!g->graph)
		begin(g);
	if (g->exec)
		driver_ok(driver.set(g->exec, g->nodes[node], &params), "setting a node");
	else
		driver_ok(driver.add(&g->nodes[node], g->graph, &g->nodes[after], nr_after, &params),
			  "adding a node");
}

void gpu_graph_launch(struct gpu_graph *g, cudaStream_t stream)
{
	if (!g->exec)
		driver_ok(driver.instantiate(&g->exec, g->graph, 0), "cuGraphInstantiateWithFlags");
	driver_ok(driver.launch(g->exec, stream), "cuGraphLaunch");
}
