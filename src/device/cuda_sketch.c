/* SPDX-License-Identifier: MIT */
/* Plans a graph of gathered work; cuda_sketch.h has the design. */
#include "config.h"

#include <runnel/kernel.h>

#include "device/cuda_copies.h"
#include "device/cuda_sketch.h"
#include "device/units.h"

#if CUDART_VERSION >= 13000

static const struct rnl__moves nothing;

/* Adds a node.  Returns NULL if the sketch is full. */
static struct rnl__cuda_node *sketch_add(struct rnl__cuda_sketch *s, int after,
					 const struct rnl__cuda_work *work, const void *args)
{
	struct rnl__cuda_node *node = &s->nodes[s->nr];

	if (s->nr == RNL__CUDA_NODES_MAX)
		return NULL;
	*node = (struct rnl__cuda_node){ .work = *work, .args = args };
	s->after[s->nr++] = (int16_t)after;
	s->nr_on += !work->off;
	return node;
}

static struct rnl__cuda_work mover_work(const struct rnl__cuda_sketch *s, bool off)
{
	return (struct rnl__cuda_work){
		.function = s->mover, .grid = { 1, 1, 1 }, .off = off,
		.block = { RNL__MOVER_THREADS, 1, 1 }, .args_bytes = sizeof(struct rnl__moves),
	};
}

static struct rnl__cuda_node *sketch_add_mover(struct rnl__cuda_sketch *s,
					       const struct rnl__moves *moves)
{
	const struct rnl__cuda_work work = mover_work(s, false);
	const int after = s->nr ? RNL__CUDA_AFTER_ALL : RNL__CUDA_AFTER_NONE;
	struct rnl__cuda_node *node = sketch_add(s, after, &work, moves);

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
			node = sketch_add_mover(s, moves);
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

/* Fills in @work for a launch.  Returns false if the launch must be a call, to get its error. */
static bool sketch_look_up(const struct rnl__noted *noted, struct rnl__cuda_work *work)
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
	*work = (struct rnl__cuda_work){
		.function = function, .grid = grid, .block = block,
		.args_bytes = (uint32_t)kernel->args_bytes,
	};
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
	const struct rnl__cuda_work none = mover_work(s, true);
	const struct rnl_job *last = NULL;
	unsigned nr_kernels, nr = count_chains(g, step, &nr_kernels), filled = nr;
	int gate;

	if (!nr)
		return true;
	if ((s->nr ? s->nr_tails > 1 : nr > 1) && !sketch_add_mover(s, &nothing))
		return false;
	gate = s->nr ? (int)s->tail : RNL__CUDA_AFTER_NONE;
	for (unsigned i = 0; i < g->nr; i++) {
		const struct rnl__noted *noted = &g->noted[i];
		struct rnl__cuda_work work;

		if (!is_launch(noted, step))
			continue;
		if (!sketch_look_up(noted, &work) ||
		    !sketch_add(s, noted->job == last ? (int)s->nr - 1 : gate, &work,
			 g->args + noted->launch.args))
			return false;
		last = noted->job;
	}
	while (nr > 1 && nr == nr_kernels && filled & (filled - 1)) {
		if (!sketch_add(s, gate, &none, &nothing))
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
	if (s->nr_tails > 1 && !sketch_add_mover(s, &nothing))
		s->nr_on = 0;
	return step;
}

#endif
