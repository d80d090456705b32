/* SPDX-License-Identifier: MIT */
/* Plans a graph of gathered work; cuda_sketch.h has the design. */
#include "config.h"

#include <string.h>

#include <runnel/kernel.h>

#include "device/cuda_copies.h"
#include "device/cuda_sketch.h"
#include "device/units.h"

#if CUDART_VERSION >= 13000

static const struct rnl__moves nothing;

/* Adds a node; the caller fills in its work.  Returns NULL if the sketch is full. */
static struct rnl__cuda_node *sketch_add(struct rnl__cuda_sketch *s, int after, const void *args)
{
	struct rnl__cuda_node *node = &s->nodes[s->nr];

	if (s->nr == RNL__CUDA_NODES_MAX)
		return NULL;
	node->args = args;
	s->after[s->nr++] = (int16_t)after;
	return node;
}

/* Adds a mover of one area.  @off: the node is disabled. */
static struct rnl__cuda_node *sketch_add_mover(struct rnl__cuda_sketch *s, int after,
					       const struct rnl__moves *moves, bool off)
{
	struct rnl__cuda_node *node = sketch_add(s, after, moves);

	if (!node)
		return NULL;
	node->work = (struct rnl__cuda_work){
		.function = s->mover, .grid = { 1, 1, 1 }, .off = off,
		.block = { RNL__MOVER_THREADS, 1, 1 }, .args_bytes = sizeof(*moves),
	};
	s->nr_on += !off;
	return node;
}

/* Adds a mover after all other nodes. */
static struct rnl__cuda_node *sketch_end_with(struct rnl__cuda_sketch *s,
					      const struct rnl__moves *moves)
{
	const int after = s->nr ? RNL__CUDA_AFTER_ALL : RNL__CUDA_AFTER_NONE;
	struct rnl__cuda_node *node = sketch_add_mover(s, after, moves, false);

	s->nr_tails = 1;
	s->tail = s->nr - 1;
	return node;
}

static bool sketch_add_copies(struct rnl__cuda_sketch *s, const struct rnl__gather *g,
			      unsigned step)
{
	struct rnl__moves *moves = NULL;
	struct rnl__cuda_node *node = NULL;

	for (unsigned i = 0; i < g->nr; i++) {
		const struct rnl__copy *c = &g->noted[i].copy;

		if (g->noted[i].step != step || g->noted[i].kind == RNL__NOTED_NONE)
			continue;
		if (g->noted[i].kind != RNL__NOTED_COPY || !rnl__cuda_moves(c))
			return false;
		if (!node || node->work.grid.x == RNL__MOVES_MAX) {
			if (s->nr_movers == RNL__CUDA_MOVERS_MAX)
				return false;
			moves = &s->movers[s->nr_movers++];
			*moves = nothing;
			node = sketch_end_with(s, moves);
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

/* Finds a kernel's function, once for its launches in a sketch.  Returns NULL if it has none. */
static CUfunction sketch_function_of(struct rnl__cuda_sketch *s, const struct rnl_kernel *kernel)
{
	struct rnl__cuda_known *known = &s->known[((uintptr_t)kernel >> 4) % RNL__CUDA_KNOWN];
	void *function;

	if (known->kernel == kernel)
		return known->function;
	if (kernel->cuda_function(&function) != cudaSuccess) {
		(void)rnl__units_error();
		return NULL;
	}
	*known = (struct rnl__cuda_known){ kernel, function };
	return function;
}

/* Adds a launch.  Returns false if the sketch is full, or a call must get the launch's error. */
static bool sketch_add_launch(struct rnl__cuda_sketch *s, int after, const struct rnl__noted *noted,
			      const char *args)
{
	const struct rnl_kernel *kernel = noted->launch.kernel;
	const struct rnl_dim grid = noted->launch.grid, block = noted->launch.block;
	struct rnl__cuda_node *node;
	CUfunction function;

	if (!kernel->cuda_function || block.z > 64 || grid.x > INT32_MAX || grid.y > UINT16_MAX ||
	    grid.z > UINT16_MAX)
		return false;
	function = sketch_function_of(s, kernel);
	node = function ? sketch_add(s, after, args + noted->launch.args) : NULL;
	if (!node)
		return false;
	node->work.function = function;
	node->work.grid = grid;
	node->work.block = block;
	node->work.args_bytes = (uint32_t)kernel->args_bytes;
	node->work.off = false;
	s->nr_on++;
	return true;
}

static bool is_launch(const struct rnl__noted *noted, unsigned step)
{
	return noted->step == step && noted->kind == RNL__NOTED_LAUNCH;
}

/* Returns the number of jobs that launch in the step; @nr_kernels: the number of their kernels. */
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

static bool sketch_add_launches(struct rnl__cuda_sketch *s, const struct rnl__gather *g,
				unsigned step)
{
	const struct rnl_job *last = NULL;
	unsigned nr_kernels, nr = count_chains(g, step, &nr_kernels), filled = nr;
	int gate;

	if (!nr)
		return true;
	if ((s->nr ? s->nr_tails > 1 : nr > 1) && !sketch_end_with(s, &nothing))
		return false;
	gate = s->nr ? (int)s->tail : RNL__CUDA_AFTER_NONE;
	for (unsigned i = 0; i < g->nr; i++) {
		const struct rnl__noted *noted = &g->noted[i];

		if (!is_launch(noted, step))
			continue;
		if (!sketch_add_launch(s, noted->job == last ? (int)s->nr - 1 : gate, noted, g->args))
			return false;
		last = noted->job;
	}
	while (nr > 1 && nr == nr_kernels && filled & (filled - 1)) {
		if (!sketch_add_mover(s, gate, &nothing, true))
			return false;
		filled++;
	}
	s->nr_tails = filled;
	s->tail = s->nr - 1;
	return true;
}

unsigned rnl__cuda_sketch(struct rnl__cuda_sketch *s, const struct rnl__gather *g, unsigned step)
{
	s->nr = s->nr_movers = s->nr_on = s->nr_tails = 0;
	/* A kernel's module may be unloaded between two sketches. */
	memset(s->known, 0, sizeof(s->known));
	for (; step <= g->last_step; step++) {
		const unsigned nr = s->nr, nr_on = s->nr_on, nr_tails = s->nr_tails, tail = s->tail;

		if (step & 1 ? sketch_add_launches(s, g, step) : sketch_add_copies(s, g, step))
			continue;
		s->nr = nr;
		s->nr_on = nr_on;
		s->nr_tails = nr_tails;
		s->tail = tail;
		break;
	}
	if (s->nr_tails > 1 && !sketch_end_with(s, &nothing))
		s->nr_on = 0;
	return step;
}

#endif
