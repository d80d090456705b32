/* SPDX-License-Identifier: MIT */
/*
 * Gathered work as a graph of kernels, on CUDA.
 *
 * DESIGN
 *	A launch takes the driver microseconds; a node of an existing graph takes a fraction of one.
 *	So the kernels and movers of a gather become nodes (cuda_sketch.h).
 *	The shape of a graph says which node comes after which.  Work of a known shape reuses the
 *	graph of that shape: a node's kernel, dimensions and arguments are set if they differ.
 *	Parallel kernels may change places, so most nodes keep their kernels and dimensions: others
 *	take the driver longer than other arguments.
 *	With up to 8 threads a shape has up to four graphs, of which the one launched longest ago is set and launched next:
 *	the launches of one graph run one after the other, and its last one may still run.
 *	Each thread has its own graphs.  There are few, and the least recently used one is replaced.
 *	After an error, the graph is dropped and the work is issued call by call: each job gets its
 *	own error.  A shape whose graph was dropped or replaced must recur twice as often as the
 *	last time before it gets another one.  For one more it must recur 64 times and more: a build takes
 *	the driver's lock for long, and short runs with many shapes would mostly build.
 *	The code calls the driver, not the runtime, because a kernel may belong to another runtime
 *	in the process.
 */
#ifndef RNL_CUDA_GRAPHS_H
#define RNL_CUDA_GRAPHS_H

#include <cuda_runtime_api.h>

#include "device/gather.h"

struct rnl__graphs;

/* Returns NULL if the driver has no graphs, or there is no mover or no memory. */
struct rnl__graphs *rnl__cuda_graphs_create(void);
void rnl__cuda_graphs_destroy(struct rnl__graphs *graphs);

/*
 * Launches steps of a gather, from @step on, as one graph.  Returns the first step that was not
 * launched, which is @step if the call launched nothing.
 */
unsigned rnl__cuda_graphs_replay(struct rnl__graphs *graphs, const struct rnl__gather *gather,
				 unsigned step, cudaStream_t stream);

#endif
