/* SPDX-License-Identifier: MIT */
/*
 * A sketch of a graph: the nodes for steps of a gather, planned before any call of the driver.
 *
 * DESIGN
 *	Each job's kernels are a chain.  The chains are parallel, with movers before and after them.
 *	A graph that begins or ends with many nodes is slow, so an empty mover becomes its only
 *	first or last node.  If each chain is a single kernel, disabled nodes pad the chains to a
 *	power of two, so that groups of many sizes have few shapes.
 */
#ifndef RNL_CUDA_SKETCH_H
#define RNL_CUDA_SKETCH_H

#include <cuda.h>

#include <runnel/kernel.h>

#include "device/cuda_kernels.h"
#include "device/gather.h"

#if CUDART_VERSION >= 13000

#define RNL__CUDA_NODES_MAX 512u
#define RNL__CUDA_MOVERS_MAX 32u
#define RNL__CUDA_KNOWN 8u

/* A node's predecessors: none; all nodes without a successor; else the node of that number. */
enum { RNL__CUDA_AFTER_NONE = -1, RNL__CUDA_AFTER_ALL = -2 };

struct rnl__cuda_work {
	CUfunction function;
	struct rnl_dim grid, block;
	uint32_t args_bytes;
	bool off;
};

struct rnl__cuda_node {
	struct rnl__cuda_work work;
	const void *args;
};

/* A kernel whose function was found. */
struct rnl__cuda_known {
	const struct rnl_kernel *kernel;	/* NULL: none yet */
	CUfunction function;
};

struct rnl__cuda_sketch {
	CUfunction mover;
	struct rnl__cuda_known known[RNL__CUDA_KNOWN];
	unsigned nr, nr_movers;
	unsigned nr_on;			/* nodes that are enabled */
	unsigned nr_tails, tail;	/* nodes without a successor yet; the last one */
	int16_t after[RNL__CUDA_NODES_MAX];
	struct rnl__cuda_node nodes[RNL__CUDA_NODES_MAX];
	struct rnl__moves movers[RNL__CUDA_MOVERS_MAX];
};

/*
 * Sketches as many steps of a gather, from @step on, as fit into a graph.  Returns the first step
 * that is not in the sketch.
 */
unsigned rnl__cuda_sketch(struct rnl__cuda_sketch *sketch, const struct rnl__gather *gather,
			  unsigned step);

#endif

#endif
