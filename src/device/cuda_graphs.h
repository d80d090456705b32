/* SPDX-License-Identifier: MIT */
/*
 * Gathered work as a graph of kernels, on CUDA.
 *
 * DESIGN
 *	A launch takes the driver microseconds, a node of a graph that it has already takes a
 *	fraction of one.  So kernels and movers of a gather become nodes (cuda_sketch.h).
 *	The shape of a graph says which node comes after which.  Work of a shape that was seen
 *	before is given to the graph of that shape: what a node has, its kernel, its dimensions and
 *	its arguments, is set if it differs.
 *	Graphs are a thread's own.  There are few; the one that was not used for the longest time
 *	goes.  After an error the graph goes, too, the work is issued call by call, and each job
 *	gets its own error.  A shape whose graph went has to come twice as often as the last time
 *	before it gets another one.
 *	It is the driver's calls that are made, not the runtime's: a kernel may belong to another
 *	runtime in the process.
 */
#ifndef RNL_CUDA_GRAPHS_H
#define RNL_CUDA_GRAPHS_H

#include <cuda_runtime_api.h>

#include "device/gather.h"

struct rnl__graphs;

/* NULL: the driver has no graphs, or there is no memory. */
struct rnl__graphs *rnl__cuda_graphs_create(void);
void rnl__cuda_graphs_destroy(struct rnl__graphs *graphs);

/*
 * Launches steps of a gather, from @step on, as one graph.
 * Return: the first step that is left; @step: none was launched.
 */
unsigned rnl__cuda_graphs_replay(struct rnl__graphs *graphs, const struct rnl__gather *gather,
				 unsigned step, cudaStream_t stream);

#endif
