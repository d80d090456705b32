/* SPDX-License-Identifier: MIT */
/*
 * A sketch of a graph: the nodes that steps of a gather need, before any call of the driver.
 *
 * DESIGN
 *	Each job's kernels are a chain, the chains are side by side, and movers stand before and
 *	behind them.  A graph that begins or ends with many nodes is slow, so it gets a mover of
 *	nothing there.  A row of single kernels is filled up to a power of two by nodes that are
 *	off, so that groups of many sizes have few shapes.
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

/* A node comes after none; after all that have no successor; or after the node of that number. */
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

struct rnl__cuda_sketch {
	CUfunction mover;
	unsigned nr, nr_movers;
	unsigned nr_on;			/* nodes that are not off */
	unsigned nr_tails, tail;	/* nodes without a successor yet; the last one */
	int16_t after[RNL__CUDA_NODES_MAX];
	struct rnl__cuda_node nodes[RNL__CUDA_NODES_MAX];
	struct rnl__moves movers[RNL__CUDA_MOVERS_MAX];
};

/*
 * Sketches as many steps of a gather as go into a graph, from @step on.
 * Return: the first step that is left.
 */
unsigned rnl__cuda_sketch(struct rnl__cuda_sketch *sketch, const struct rnl__gather *gather,
			  unsigned step);

#endif

#endif
