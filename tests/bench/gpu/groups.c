/* SPDX-License-Identifier: MIT */
/*
 * J as an expert issues it: in groups, so that a call of CUDA is for many J.
 *
 * DESIGN
 *	The group of graphs is a graph that copies in, runs many parallel kernels, and copies out.
 *	A thread launches some graphs in turn. All nodes are set before each launch, to other memory than
 *	last time, like a server's J. J of a kernel and a size are neighbours, so most nodes keep both:
 *	other ones take the driver longer. One kernel copies for all J of a graph.
 *	The group of batched copies is a call that copies in, a launch for each J, and a call that
 *	copies out. It is better than graphs if J is large.
 *	A slab is a group of requests with adjacent memory: a copy in, a kernel, a copy out, or only
 *	a kernel that accesses the page-locked memory.
 *	Alone, J is such a kernel, too, or a graph of a mover, J's kernel and a mover: a graph whose
 *	copies are copy nodes is slower than the three calls.
 */
#include "gpu/work.h"

#define GRAPHS 4		/* graphs of a thread */
#define JOBS GPU_GROUP_JOBS
#define SLABS 3			/* slabs of a thread under way */

enum { IN, FIRST };		/* nodes; after the kernels, a mover out */

_Static_assert(JOBS <= GPU_MOVES, "a mover copies for all J of a graph");

const struct gpu_hand_variant gpu_groups = { GPU_EVENT, JOBS, GRAPHS * JOBS, JOBS };
const struct gpu_hand_variant gpu_groups_same = { GPU_EVENT, JOBS, GRAPHS * JOBS, 0 };

/* The group of a thread. */
struct group {
	unsigned nr;
	struct gpu_slot slots[JOBS];
};

/* Adds a slot.  Returns true if the group is full; the caller issues it. */
static bool fills(struct group *group, const struct gpu_slot *slot)
{
	group->slots[group->nr++] = *slot;
	if (group->nr < JOBS)
		return false;
	group->nr = 0;
	return true;
}

/* ---- graphs -------------------------------------------------------------- */

/* The state of a thread. */
struct issuer {
	struct gpu_graph graphs[GRAPHS];
	unsigned next;
	struct group group;
};

static void give_mover(struct gpu_graph *g, const struct gpu_slot *slots, unsigned nr, bool out)
{
	struct gpu_moves moves = { .nr_words = { 0 } };

	for (unsigned i = 0; i < nr; i++) {
		const struct gpu_slot *slot = &slots[i];

		moves.nr_words[i] = slot->nr_words;
		moves.dst[i] = out ? slot->out : slot->dev;
		moves.src[i] = out ? slot->dev : slot->in;
	}
	gpu_graph_set(g, out ? FIRST + nr : IN, gpu_mover, nr, GPU_WORK_THREADS, &moves, FIRST,
		      out ? nr : 0);
}

/* Launches the issuer's next graph, for these J. */
static void issue(struct issuer *is, const struct gpu_slot *slots, unsigned nr, cudaStream_t stream)
{
	struct gpu_graph *g = &is->graphs[is->next++ % GRAPHS];

	give_mover(g, slots, nr, false);
	for (unsigned i = 0; i < nr; i++) {
		struct gpu_work_args args = { slots[i].dev };

		gpu_graph_set(g, FIRST + i, gpu_works[slots[i].kernel],
			      slots[i].nr_words / GPU_WORK_THREADS, GPU_WORK_THREADS, &args, IN, 1);
	}
	give_mover(g, slots, nr, true);
	gpu_graph_launch(g, stream);
}

static bool comes_before(const struct gpu_slot *a, const struct gpu_slot *b)
{
	return a->kernel < b->kernel || (a->kernel == b->kernel && a->nr_words < b->nr_words);
}

static void sort_kinds(struct gpu_slot *slots, unsigned nr)
{
	for (unsigned i = 1; i < nr; i++) {
		const struct gpu_slot slot = slots[i];
		unsigned at = i;

		for (; at && comes_before(&slot, &slots[at - 1]); at--)
			slots[at] = slots[at - 1];
		slots[at] = slot;
	}
}

cudaError_t gpu_issue_graphs(const struct gpu_slot *slot, cudaStream_t stream)
{
	static _Thread_local struct issuer *is;

	if (!is)
		is = bench_alloc(sizeof(*is));
	if (!fills(&is->group, slot))
		return cudaSuccess;
	sort_kinds(is->group.slots, JOBS);
	issue(is, is->group.slots, JOBS, stream);
	return cudaSuccess;
}

/* ---- one J --------------------------------------------------------------- */

cudaError_t gpu_issue_graph(const struct gpu_slot *slot, cudaStream_t stream)
{
	static _Thread_local struct issuer *is;

	if (!is)
		is = bench_alloc(sizeof(*is));
	issue(is, slot, 1, stream);
	return cudaSuccess;
}

cudaError_t gpu_issue_reach(const struct gpu_slot *slot, cudaStream_t stream)
{
	return gpu_issue_rounds(slot->in, slot->out, slot->nr_words, 1, stream);
}

/* ---- batched copies ------------------------------------------------------ */

static cudaError_t copy_group(const struct group *group, bool out, cudaStream_t stream)
{
	const void *src[JOBS];
	void *dst[JOBS];
	size_t bytes[JOBS];

	for (unsigned i = 0; i < JOBS; i++) {
		const struct gpu_slot *slot = &group->slots[i];

		dst[i] = out ? slot->out : slot->dev;
		src[i] = out ? slot->dev : slot->in;
		bytes[i] = slot->nr_words * sizeof(uint32_t);
	}
#if CUDART_VERSION >= 13000
	struct cudaMemcpyAttributes order = { .srcAccessOrder = cudaMemcpySrcAccessOrderStream };
	size_t first = 0;

	return cudaMemcpyBatchAsync(dst, src, bytes, JOBS, &order, &first, 1, stream);
#else
	cudaError_t code = cudaSuccess;

	for (unsigned i = 0; i < JOBS && code == cudaSuccess; i++)
		code = cudaMemcpyAsync(dst[i], src[i], bytes[i], cudaMemcpyDefault, stream);
	return code;
#endif
}

cudaError_t gpu_issue_batches(const struct gpu_slot *slot, cudaStream_t stream)
{
	static _Thread_local struct group group;
	cudaError_t code;

	if (!fills(&group, slot))
		return cudaSuccess;
	code = copy_group(&group, false, stream);
	for (unsigned i = 0; i < JOBS && code == cudaSuccess; i++)
		code = gpu_issue_launch(&group.slots[i], stream);
	return code == cudaSuccess ? copy_group(&group, true, stream) : code;
}

/* ---- slabs --------------------------------------------------------------- */

static unsigned nr_of_slab;
static bool reached;

/* Copies to the device, or back; not if the kernel accesses page-locked memory. */
static cudaError_t copy_slab(uint32_t *dst, const uint32_t *src, uint64_t words,
			     cudaStream_t stream)
{
	return reached ? cudaSuccess : cudaMemcpyAsync(dst, src, words * sizeof(*dst),
						       cudaMemcpyDefault, stream);
}

static cudaError_t issue_slab(const struct gpu_slot *slot, cudaStream_t stream)
{
	static _Thread_local struct gpu_slot first;
	static _Thread_local unsigned nr;
	const uint64_t words = (uint64_t)nr_of_slab * slot->nr_words;
	cudaError_t code;

	if (!nr)
		first = *slot;
	if (++nr < nr_of_slab)
		return cudaSuccess;
	nr = 0;
	code = copy_slab(first.dev, first.in, words, stream);
	if (code == cudaSuccess)
		code = gpu_issue_rounds(reached ? first.in : first.dev,
					reached ? first.out : first.dev, words, 1, stream);
	return code == cudaSuccess ? copy_slab(first.out, first.dev, words, stream) : code;
}

struct gpu_team *gpu_slabs_start(int ordinal)
{
	const struct gpu_shape shape = { 1, 1, { GPU_WORDS } };
	const unsigned depth = SLABS * GPU_SLAB_MAX;
	const size_t bytes = (size_t)GPU_SLAB_TEAM * depth * GPU_WORDS * sizeof(uint32_t);
	struct gpu_team *team = gpu_team_start(ordinal, RNL_STREAM_PRIVATE, GPU_SLAB_TEAM,
					       issue_slab, true);

	gpu_team_shape(team, &shape, depth, gpu_pinned(2 * bytes), gpu_memory(bytes));
	gpu_team_kernel(team, GPU_ROUND);
	return team;
}

double gpu_slabs_rate(struct gpu_team *const *teams, unsigned nr_teams, unsigned nr, bool reach,
		      unsigned ms)
{
	const struct gpu_hand_variant variant = { GPU_EVENT, nr, SLABS * nr, 0 };

	nr_of_slab = nr;
	reached = reach;
	return gpu_teams_rate(teams, nr_teams, &variant, ms);
}
