/* SPDX-License-Identifier: MIT */
/* Gathered work as a graph of kernels; cuda_graphs.h has the design. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda_copies.h"
#include "device/cuda_driver.h"
#include "device/cuda_graphs.h"
#include "device/cuda_kernels.h"
#include "device/units.h"
#include "sys/sizes.h"

#if CUDART_VERSION >= 13000

#define NODES_MAX 512u
#define NODES_MIN 3u		/* fewer are launched as fast by themselves */
#define MOVERS_MAX 32u
#define GRAPHS_MAX 16u
#define SHAPES_MAX 64u
#define WAIT_MAX 65536u

enum { FIRST = -1, ALL = -2 };	/* a node comes after none; after all that have no successor */

struct work {
	CUfunction function;
	struct rnl_dim grid, block;
	uint32_t args_bytes;
	bool off;
};

struct node {
	struct work work;
	const void *args;
};

/* What is to be launched. */
struct sketch {
	unsigned nr, nr_movers;
	unsigned nr_on;
	unsigned nr_tails, tail;	/* nodes without a successor, from the last ALL on; the last */
	int16_t after[NODES_MAX];
	struct node nodes[NODES_MAX];
	struct rnl__moves movers[MOVERS_MAX];
};

/* What a graph's node has. */
struct kept {
	CUgraphNode handle;
	struct work work;
	void *args;
	size_t room;
};

struct graph {
	CUgraphExec exec;		/* NULL: the place is free */
	CUgraph graph;
	uint64_t shape, used;
	unsigned nr;
	int16_t *after;
	struct kept *kept;
};

/* A shape that was seen: how often it comes again before it gets a graph, this time and the next. */
struct seen {
	uint64_t shape;
	uint32_t wait, next_wait;
};

struct rnl__graphs {
	CUfunction mover;
	uint64_t clock;
	unsigned next_seen;
	struct sketch sketch;
	struct graph graphs[GRAPHS_MAX];
	struct seen seen[SHAPES_MAX];
};

static const struct rnl__moves nothing;

/* ---- the sketch ---------------------------------------------------------- */

/* NULL: it is full. */
static struct node *add(struct sketch *s, int after, const struct work *work, const void *args)
{
	struct node *node = &s->nodes[s->nr];

	if (s->nr == NODES_MAX)
		return NULL;
	*node = (struct node){ .work = *work, .args = args };
	s->after[s->nr++] = (int16_t)after;
	s->nr_on += !work->off;
	return node;
}

static struct work mover_work(const struct rnl__graphs *graphs, unsigned nr, bool off)
{
	return (struct work){
		.function = graphs->mover, .grid = { nr, 1, 1 }, .off = off,
		.block = { RNL__MOVER_THREADS, 1, 1 }, .args_bytes = sizeof(struct rnl__moves),
	};
}

static struct node *add_mover(struct rnl__graphs *graphs, const struct rnl__moves *moves)
{
	struct sketch *s = &graphs->sketch;
	const struct work work = mover_work(graphs, 1, false);
	struct node *node = add(s, s->nr ? ALL : FIRST, &work, moves);

	s->nr_tails = 1;
	s->tail = s->nr - 1;
	return node;
}

static bool add_copies(struct rnl__graphs *graphs, const struct rnl__gather *g, unsigned step)
{
	struct sketch *s = &graphs->sketch;
	struct rnl__moves *moves = NULL;
	struct node *node = NULL;

	for (unsigned i = 0; i < g->nr; i++) {
		const struct rnl__copy *c = &g->noted[i].copy;

		if (g->noted[i].step != step || g->noted[i].kind == RNL__NOTED_NONE)
			continue;
		if (g->noted[i].kind != RNL__NOTED_COPY || !rnl__cuda_moves(c))
			return false;
		if (!node || node->work.grid.x == RNL__MOVES_MAX) {
			if (s->nr_movers == MOVERS_MAX)
				return false;
			moves = &s->movers[s->nr_movers++];
			*moves = nothing;
			node = add_mover(graphs, moves);
			if (!node)
				return false;
			node->work.grid.x = 0;
		}
		moves->list[node->work.grid.x++] = (struct rnl__move){
			(uintptr_t)c->dst, (uintptr_t)c->src, c->width,
		};
	}
	return true;
}

/* What a graph has of a launch; false: it is issued by itself, and may get its own error. */
static bool look_up(const struct rnl__noted *noted, struct work *work)
{
	const struct rnl_kernel *kernel = noted->launch.kernel;
	const struct rnl_dim grid = noted->launch.grid, block = noted->launch.block;
	void *function;

	if (!kernel->cuda_function || block.z > 64 || grid.x > INT32_MAX || grid.y > UINT16_MAX ||
	    grid.z > UINT16_MAX)
		return false;
	if (kernel->cuda_function(&function) != cudaSuccess) {
		(void)rnl__units_error();
		return false;
	}
	*work = (struct work){ .function = function, .grid = grid, .block = block,
			       .args_bytes = (uint32_t)kernel->args_bytes };
	return true;
}

static bool is_launch(const struct rnl__noted *noted, unsigned step)
{
	return noted->step == step && noted->kind == RNL__NOTED_LAUNCH;
}

/* How many jobs launch in the step, and, in all, how many kernels. */
static unsigned count_chains(const struct rnl__gather *g, unsigned step, unsigned *nr_kernels)
{
	const struct rnl_job *last = NULL;
	unsigned nr = 0;

	*nr_kernels = 0;
	for (unsigned i = 0; i < g->nr; i++) {
		if (!is_launch(&g->noted[i], step))
			continue;
		++*nr_kernels;
		nr += g->noted[i].job != last;
		last = g->noted[i].job;
	}
	return nr;
}

static bool add_launches(struct rnl__graphs *graphs, const struct rnl__gather *g, unsigned step)
{
	const struct work none = mover_work(graphs, 1, true);
	struct sketch *s = &graphs->sketch;
	const struct rnl_job *last = NULL;
	unsigned nr_kernels, nr = count_chains(g, step, &nr_kernels), filled = nr;
	int gate;

	if (!nr)
		return true;
	if ((s->nr ? s->nr_tails > 1 : nr > 1) && !add_mover(graphs, &nothing))
		return false;
	gate = s->nr ? (int)s->tail : FIRST;
	for (unsigned i = 0; i < g->nr; i++) {
		const struct rnl__noted *noted = &g->noted[i];
		struct work work;

		if (!is_launch(noted, step))
			continue;
		if (!look_up(noted, &work) ||
		    !add(s, noted->job == last ? (int)s->nr - 1 : gate, &work,
			 g->args + noted->launch.args))
			return false;
		last = noted->job;
	}
	while (nr > 1 && nr == nr_kernels && filled & (filled - 1)) {
		if (!add(s, gate, &none, &nothing))
			return false;
		filled++;
	}
	s->nr_tails = filled;
	s->tail = s->nr - 1;
	return true;
}

/* Sketches as many steps as go into a graph; the first one that is left. */
static unsigned sketch(struct rnl__graphs *graphs, const struct rnl__gather *g, unsigned step)
{
	struct sketch *s = &graphs->sketch;

	s->nr = s->nr_movers = s->nr_on = s->nr_tails = 0;
	for (; step <= g->last_step; step++) {
		const unsigned nr = s->nr, nr_on = s->nr_on, nr_tails = s->nr_tails, tail = s->tail;

		if (step & 1 ? add_launches(graphs, g, step) : add_copies(graphs, g, step))
			continue;
		s->nr = nr;
		s->nr_on = nr_on;
		s->nr_tails = nr_tails;
		s->tail = tail;
		break;
	}
	if (s->nr_tails > 1 && !add_mover(graphs, &nothing))
		s->nr_on = 0;
	return step;
}

/* ---- graphs -------------------------------------------------------------- */

static void drop(struct graph *graph)
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

static CUDA_KERNEL_NODE_PARAMS params_of(const struct node *node, void **argv)
{
	const struct work *w = &node->work;

	argv[0] = (void *)(uintptr_t)node->args;
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = w->function, .kernelParams = argv,
		.gridDimX = w->grid.x, .gridDimY = w->grid.y, .gridDimZ = w->grid.z,
		.blockDimX = w->block.x, .blockDimY = w->block.y, .blockDimZ = w->block.z,
	};
}

/* Whether CUDA would launch it by itself, too. */
static bool fits(const struct work *work)
{
	const uint64_t threads = (uint64_t)work->block.x * work->block.y * work->block.z;
	int most;

	return rnl__cuda_driver.attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, work->function) ==
		       CUDA_SUCCESS &&
	       threads <= (uint64_t)most;
}

static bool same(const struct kept *kept, const struct node *node)
{
	const struct work *a = &kept->work, *b = &node->work;

	return a->function == b->function && a->args_bytes == b->args_bytes &&
	       !memcmp(&a->grid, &b->grid, sizeof(a->grid)) &&
	       !memcmp(&a->block, &b->block, sizeof(a->block)) &&
	       (!b->args_bytes || !memcmp(kept->args, node->args, b->args_bytes));
}

/* Remembers what the graph's node has now. */
static bool keep(struct kept *kept, const struct node *node)
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

/* The nodes that the node i comes after: @after has room for all. */
static size_t list_after(const struct graph *graph, unsigned i, CUgraphNode *after)
{
	size_t nr = 0;

	if (graph->after[i] >= 0)
		after[nr++] = graph->kept[graph->after[i]].handle;
	if (graph->after[i] != ALL)
		return nr;
	/* Back to the last one that came after all, a node's successor in a chain is behind it. */
	for (unsigned j = i; j--;) {
		if (j + 1 == i || graph->after[j + 1] != (int)j)
			after[nr++] = graph->kept[j].handle;
		if (graph->after[j] == ALL || graph->after[j] == FIRST)
			break;
	}
	return nr;
}

static bool add_node(struct graph *graph, unsigned i, const struct node *node)
{
	CUgraphNode after[NODES_MAX];
	const size_t nr = list_after(graph, i, after);
	void *argv[1];
	const CUDA_KERNEL_NODE_PARAMS params = params_of(node, argv);

	return fits(&node->work) && keep(&graph->kept[i], node) &&
	       rnl__cuda_driver.add(&graph->kept[i].handle, graph->graph, after, nr, &params) == CUDA_SUCCESS;
}

static bool build(struct graph *graph, const struct sketch *s, uint64_t shape)
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

/* Gives a node what is sketched. */
static bool set(struct graph *graph, struct kept *kept, const struct node *node)
{
	const bool turned = kept->work.off != node->work.off;
	void *argv[1];
	CUDA_KERNEL_NODE_PARAMS params;

	if (turned && rnl__cuda_driver.enable(graph->exec, kept->handle, !node->work.off) != CUDA_SUCCESS)
		return false;
	kept->work.off = node->work.off;
	if (node->work.off || same(kept, node))
		return true;
	params = params_of(node, argv);
	return fits(&node->work) &&
	       rnl__cuda_driver.set(graph->exec, kept->handle, &params) == CUDA_SUCCESS && keep(kept, node);
}

/* ---- the table ----------------------------------------------------------- */

/* FNV-1a, by node. */
static uint64_t shape_of(const struct sketch *s)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (unsigned i = 0; i < s->nr; i++)
		hash = (hash ^ (uint16_t)s->after[i]) * 0x100000001b3;
	return hash;
}

static struct graph *find(struct rnl__graphs *graphs, uint64_t shape)
{
	const struct sketch *s = &graphs->sketch;

	for (unsigned i = 0; i < GRAPHS_MAX; i++) {
		struct graph *graph = &graphs->graphs[i];

		if (graph->exec && graph->shape == shape && graph->nr == s->nr &&
		    !memcmp(graph->after, s->after, s->nr * sizeof(*s->after)))
			return graph;
	}
	return NULL;
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

/* The graph of the sketch's shape, made now if the shape came often enough; NULL: none. */
static struct graph *get(struct rnl__graphs *graphs, uint64_t shape)
{
	struct graph *graph = find(graphs, shape);
	struct seen *seen;

	if (graph)
		return graph;
	seen = find_seen(graphs, shape);
	if (seen->wait) {
		seen->wait--;
		return NULL;
	}
	seen->wait = seen->next_wait;
	seen->next_wait = (uint32_t)rnl__smaller(2 * seen->next_wait, WAIT_MAX);
	graph = least_used(graphs);
	drop(graph);
	if (build(graph, &graphs->sketch, shape))
		return graph;
	drop(graph);
	return NULL;
}

static bool launch(struct graph *graph, const struct sketch *s, cudaStream_t stream)
{
	for (unsigned i = 0; i < s->nr; i++) {
		if (!set(graph, &graph->kept[i], &s->nodes[i]))
			return false;
	}
	return rnl__cuda_driver.launch(graph->exec, stream) == CUDA_SUCCESS;
}

unsigned rnl__cuda_graphs_replay(struct rnl__graphs *graphs, const struct rnl__gather *gather,
				 unsigned step, cudaStream_t stream)
{
	const unsigned end = sketch(graphs, gather, step);
	const struct sketch *s = &graphs->sketch;
	struct graph *graph;
	uint64_t shape;

	if (end == step || s->nr_on < NODES_MIN)
		return step;
	shape = shape_of(s);
	graph = get(graphs, shape);
	if (!graph)
		return step;
	graph->used = ++graphs->clock;
	if (launch(graph, s, stream))
		return end;
	drop(graph);
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
	if (rnl__cuda_driver.function(&graphs->mover, (CUkernel)rnl__cuda_mover()) == CUDA_SUCCESS)
		return graphs;
	free(graphs);
	return NULL;
}

void rnl__cuda_graphs_destroy(struct rnl__graphs *graphs)
{
	for (unsigned i = 0; graphs && i < GRAPHS_MAX; i++)
		drop(&graphs->graphs[i]);
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
