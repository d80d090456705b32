/* SPDX-License-Identifier: MIT */
/* Gathered work as a graph of kernels; cuda_graphs.h has the design. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda_driver.h"
#include "device/cuda_graphs.h"
#include "device/cuda_sketch.h"
#include "sys/sizes.h"

#if CUDART_VERSION >= 13000

#define NODES_MIN 3u		/* fewer nodes are as fast with single launches */
#define GRAPHS_MAX 16u
#define TURNS_MAX 4u		/* graphs of one shape, which take turns */
#define IN_USE 256u		/* launches after which a graph may be replaced by one more of a shape */
#define TURNING_MAX 8u		/* with more threads, one graph of each shape was measured to be faster */
#define MORE_WAIT 64u		/* a shape recurs so often before it gets one more */
#define SHAPES_MAX 64u
#define WAIT_MAX 65536u

/* The current contents of a graph's node. */
struct kept {
	CUgraphNode handle;
	struct rnl__cuda_work work;
	void *args;
	size_t room;
};

struct graph {
	CUgraphExec exec;		/* NULL: the entry is free */
	CUgraph graph;
	uint64_t shape, used;
	unsigned nr;
	int16_t *after;
	struct kept *kept;
};

/* A shape that occurred; how often it must recur before a graph is built, now and the next time. */
struct seen {
	uint64_t shape;
	uint32_t wait, next_wait;
};

struct rnl__graphs {
	uint64_t clock;
	unsigned next_seen;
	struct rnl__cuda_sketch sketch;
	struct graph graphs[GRAPHS_MAX];
	struct seen seen[SHAPES_MAX];
};

/* ---- graphs -------------------------------------------------------------- */

static void graph_drop(struct graph *graph)
{
	if (graph->exec)
		(void)rnl__cuda_driver.exec_destroy(graph->exec);
	if (graph->graph)
		(void)rnl__cuda_driver.destroy(graph->graph);
	for (unsigned i = 0; graph->kept && i < graph->nr; i++)
		free(graph->kept[i].args);
	free(graph->kept);
	free(graph->after);
	*graph = (struct graph){ 0 };
}

static CUDA_KERNEL_NODE_PARAMS params_of(const struct rnl__cuda_node *node, void **argv)
{
	const struct rnl__cuda_work *w = &node->work;

	argv[0] = (void *)(uintptr_t)node->args;
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = w->function, .kernelParams = argv,
		.gridDimX = w->grid.x, .gridDimY = w->grid.y, .gridDimZ = w->grid.z,
		.blockDimX = w->block.x, .blockDimY = w->block.y, .blockDimZ = w->block.z,
	};
}

static bool graph_same_threads(const struct rnl__cuda_work *a, const struct rnl__cuda_work *b)
{
	return a->function == b->function && !memcmp(&a->block, &b->block, sizeof(a->block));
}

/* Returns true if CUDA would accept the work as a single launch, too.  @kept: work that it accepts. */
static bool graph_fits(const struct rnl__cuda_work *kept, const struct rnl__cuda_work *work)
{
	const uint64_t threads = (uint64_t)work->block.x * work->block.y * work->block.z;
	int most;

	if (graph_same_threads(kept, work))
		return true;
	return rnl__cuda_driver.attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, work->function) ==
		       CUDA_SUCCESS &&
	       threads <= (uint64_t)most;
}

static bool graph_same(const struct kept *kept, const struct rnl__cuda_node *node)
{
	const struct rnl__cuda_work *a = &kept->work, *b = &node->work;

	return graph_same_threads(a, b) && a->args_bytes == b->args_bytes &&
	       !memcmp(&a->grid, &b->grid, sizeof(a->grid)) &&
	       (!b->args_bytes || !memcmp(kept->args, node->args, b->args_bytes));
}

/* Stores the node's new contents.  Returns false if there is no memory. */
static bool graph_keep(struct kept *kept, const struct rnl__cuda_node *node)
{
	const size_t bytes = node->work.args_bytes;

	if (bytes > kept->room) {
		free(kept->args);
		kept->room = rnl__round_up(bytes, 64);
		kept->args = malloc(kept->room);
		if (!kept->args) {
			kept->room = 0;
			return false;
		}
	}
	if (bytes)
		memcpy(kept->args, node->args, bytes);
	kept->work = node->work;
	return true;
}

/* Lists the predecessors of node i in @after, which has room for all.  Returns their number. */
static size_t list_after(const struct graph *graph, unsigned i, CUgraphNode *after)
{
	size_t nr = 0;

	if (graph->after[i] >= 0)
		after[nr++] = graph->kept[graph->after[i]].handle;
	if (graph->after[i] != RNL__CUDA_AFTER_ALL)
		return nr;
	/* The tails (node j + 1 does not follow j), back to the last AFTER_ALL or AFTER_NONE. */
	for (unsigned j = i; j--;) {
		if (j + 1 == i || graph->after[j + 1] != (int)j)
			after[nr++] = graph->kept[j].handle;
		if (graph->after[j] == RNL__CUDA_AFTER_ALL ||
		    graph->after[j] == RNL__CUDA_AFTER_NONE)
			break;
	}
	return nr;
}

static bool add_node(struct graph *graph, unsigned i, const struct rnl__cuda_node *node)
{
	CUgraphNode after[RNL__CUDA_NODES_MAX];
	const size_t nr = list_after(graph, i, after);
	void *argv[1];
	const CUDA_KERNEL_NODE_PARAMS params = params_of(node, argv);

	return graph_fits(&graph->kept[i].work, &node->work) && graph_keep(&graph->kept[i], node) &&
	       rnl__cuda_driver.add(&graph->kept[i].handle, graph->graph, after, nr, &params) == CUDA_SUCCESS;
}

static bool graph_build(struct graph *graph, const struct rnl__cuda_sketch *s, uint64_t shape)
{
	*graph = (struct graph){
		.shape = shape, .nr = s->nr, .after = malloc(s->nr * sizeof(*graph->after)),
		.kept = calloc(s->nr, sizeof(*graph->kept)),
	};
	if (!graph->after || !graph->kept || rnl__cuda_driver.create(&graph->graph, 0) != CUDA_SUCCESS)
		return false;
	memcpy(graph->after, s->after, s->nr * sizeof(*graph->after));
	for (unsigned i = 0; i < s->nr; i++) {
		if (!add_node(graph, i, &s->nodes[i]))
			return false;
	}
	if (rnl__cuda_driver.instantiate(&graph->exec, graph->graph, 0) != CUDA_SUCCESS)
		return false;
	for (unsigned i = 0; i < s->nr; i++) {
		if (s->nodes[i].work.off &&
		    rnl__cuda_driver.enable(graph->exec, graph->kept[i].handle, 0) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

/* Gives a node of the graph the sketched contents. */
static bool graph_set(struct graph *graph, struct kept *kept, const struct rnl__cuda_node *node)
{
	const bool turned = kept->work.off != node->work.off;
	void *argv[1];
	CUDA_KERNEL_NODE_PARAMS params;

	if (turned && rnl__cuda_driver.enable(graph->exec, kept->handle, !node->work.off) != CUDA_SUCCESS)
		return false;
	kept->work.off = node->work.off;
	if (node->work.off || graph_same(kept, node))
		return true;
	params = params_of(node, argv);
	return graph_fits(&kept->work, &node->work) &&
	       rnl__cuda_driver.set(graph->exec, kept->handle, &params) == CUDA_SUCCESS &&
	       graph_keep(kept, node);
}

/* ---- the table ----------------------------------------------------------- */

/* FNV-1a, one step per node. */
static uint64_t shape_of(const struct rnl__cuda_sketch *s)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (unsigned i = 0; i < s->nr; i++)
		hash = (hash ^ (uint16_t)s->after[i]) * 0x100000001b3;
	return hash;
}

static bool has_shape(const struct graph *graph, const struct rnl__cuda_sketch *s, uint64_t shape)
{
	return graph->exec && graph->shape == shape && graph->nr == s->nr &&
	       !memcmp(graph->after, s->after, s->nr * sizeof(*s->after));
}

/* Returns the graph of the shape that was launched longest ago, or NULL; @nr: how many there are. */
static struct graph *graph_find(struct rnl__graphs *graphs, uint64_t shape, unsigned *nr)
{
	struct graph *oldest = NULL;

	*nr = 0;
	for (unsigned i = 0; i < GRAPHS_MAX; i++) {
		struct graph *graph = &graphs->graphs[i];

		if (!has_shape(graph, &graphs->sketch, shape))
			continue;
		++*nr;
		if (!oldest || graph->used < oldest->used)
			oldest = graph;
	}
	return oldest;
}

static struct seen *find_seen(struct rnl__graphs *graphs, uint64_t shape)
{
	struct seen *seen;

	for (unsigned i = 0; i < SHAPES_MAX; i++) {
		if (graphs->seen[i].next_wait && graphs->seen[i].shape == shape)
			return &graphs->seen[i];
	}
	seen = &graphs->seen[graphs->next_seen++ % SHAPES_MAX];
	*seen = (struct seen){ .shape = shape, .wait = 1, .next_wait = 2 };
	return seen;
}

static struct graph *least_used(struct rnl__graphs *graphs)
{
	struct graph *least = graphs->graphs;

	for (unsigned i = 1; i < GRAPHS_MAX; i++) {
		if (graphs->graphs[i].used < least->used)
			least = &graphs->graphs[i];
	}
	return least;
}

static _Atomic unsigned nr_tables;	/* of all threads */

/*
 * Returns a graph of the sketch's shape, or NULL.  Builds one, or one more, if the shape recurred often
 * enough.  One more takes no place of a graph that is in use.
 */
static struct graph *graph_get(struct rnl__graphs *graphs, uint64_t shape)
{
	unsigned nr;
	struct graph *graph = graph_find(graphs, shape, &nr), *least = least_used(graphs);
	struct seen *seen;

	if (graph && (nr == TURNS_MAX || least == graph || rnl__figure_read(&nr_tables) > TURNING_MAX ||
		      (least->exec && graphs->clock - least->used < IN_USE)))
		return graph;
	seen = find_seen(graphs, shape);
	/* A build takes the driver's lock for long. */
	if (graph && seen->next_wait < MORE_WAIT)
		seen->wait = seen->next_wait = MORE_WAIT;
	if (seen->wait) {
		seen->wait--;
		return graph;
	}
	seen->wait = seen->next_wait;
	seen->next_wait = (uint32_t)rnl__smaller(2 * seen->next_wait, WAIT_MAX);
	graph_drop(least);
	if (graph_build(least, &graphs->sketch, shape))
		return least;
	graph_drop(least);
	return graph;
}

/*
 * Returns the end of the nodes from @first on that may change places: they have the same predecessor,
 * and no successor of their own.
 */
static unsigned peers_end(const struct rnl__cuda_sketch *s, unsigned first)
{
	unsigned end = first + 1;

	while (end < s->nr && s->after[first] >= 0 && s->after[end] == s->after[first])
		end++;
	return end - first > 1 && end < s->nr && s->after[end] == (int)end - 1 ? end - 1 : end;
}

/* Returns true if the node's kernel and its dimensions are those of the work. */
static bool graph_has_kernel(const struct kept *kept, const struct rnl__cuda_work *work)
{
	return kept->work.off == work->off &&
	       (work->off || (graph_same_threads(&kept->work, work) &&
			      !memcmp(&kept->work.grid, &work->grid, sizeof(work->grid))));
}

/* Moves another peer's work to a node, if the node has its kernel already. */
static void exchange(const struct graph *graph, struct rnl__cuda_sketch *s, unsigned node, unsigned first,
		     unsigned end)
{
	const struct rnl__cuda_node work = s->nodes[node];

	for (unsigned i = first; i < end; i++) {
		if (!graph_has_kernel(&graph->kept[node], &s->nodes[i].work) ||
		    graph_has_kernel(&graph->kept[i], &s->nodes[i].work))
			continue;
		s->nodes[node] = s->nodes[i];
		s->nodes[i] = work;
		return;
	}
}

/*
 * Places work so that most nodes keep their kernels and dimensions.  To set another one was measured to
 * take the driver twice as long as to set other arguments.
 */
static void keep_kernels(const struct graph *graph, struct rnl__cuda_sketch *s)
{
	for (unsigned first = 0, end; first < s->nr; first = end) {
		end = peers_end(s, first);
		for (unsigned i = first; i < end; i++) {
			if (!graph_has_kernel(&graph->kept[i], &s->nodes[i].work))
				exchange(graph, s, i, first, end);
		}
	}
}

static bool graph_launch(struct graph *graph, struct rnl__cuda_sketch *s, cudaStream_t stream)
{
	keep_kernels(graph, s);
	for (unsigned i = 0; i < s->nr; i++) {
		if (!graph_set(graph, &graph->kept[i], &s->nodes[i]))
			return false;
	}
	return rnl__cuda_driver.launch(graph->exec, stream) == CUDA_SUCCESS;
}

unsigned rnl__cuda_graphs_replay(struct rnl__graphs *graphs, const struct rnl__gather *gather,
				 unsigned step, cudaStream_t stream)
{
	const unsigned end = rnl__cuda_sketch(&graphs->sketch, gather, step);
	struct rnl__cuda_sketch *s = &graphs->sketch;
	struct graph *graph;
	uint64_t shape;

	if (end == step || s->nr_on < NODES_MIN)
		return step;
	shape = shape_of(s);
	graph = graph_get(graphs, shape);
	if (!graph)
		return step;
	graph->used = ++graphs->clock;
	if (graph_launch(graph, s, stream))
		return end;
	graph_drop(graph);
	return step;
}

struct rnl__graphs *rnl__cuda_graphs_create(void)
{
	struct rnl__graphs *graphs;

	if (!rnl__cuda_driver.complete || !rnl__cuda_mover())
		return NULL;
	graphs = calloc(1, sizeof(*graphs));
	if (!graphs)
		return NULL;
	if (rnl__cuda_driver.function(&graphs->sketch.mover, (CUkernel)rnl__cuda_mover()) ==
	    CUDA_SUCCESS) {
		rnl__figure_add_any(&nr_tables, 1);
		return graphs;
	}
	free(graphs);
	return NULL;
}

void rnl__cuda_graphs_destroy(struct rnl__graphs *graphs)
{
	if (!graphs)
		return;
	for (unsigned i = 0; i < GRAPHS_MAX; i++)
		graph_drop(&graphs->graphs[i]);
	rnl__figure_add_any(&nr_tables, -1u);
	free(graphs);
}

#else	/* the library has no mover */

struct rnl__graphs *rnl__cuda_graphs_create(void)
{
	return NULL;
}

void rnl__cuda_graphs_destroy(struct rnl__graphs *graphs)
{
	(void)graphs;
}

unsigned rnl__cuda_graphs_replay(struct rnl__graphs *graphs, const struct rnl__gather *gather,
				 unsigned step, cudaStream_t stream)
{
	(void)graphs;
	(void)gather;
	(void)stream;
	return step;
}

#endif
