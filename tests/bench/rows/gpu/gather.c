/* SPDX-License-Identifier: MIT */
/*
 * The row gather: J per second by jobs that gather, for J of 1 to 256 KB, and for a mix of kernels
 * and sizes; with 1 to 16 threads or workers.
 *
 * DESIGN
 *	Gathered J are compared with hand-written threads, which issue groups of J (gpu/groups.c),
 *	or J one by one; threads that only issue J's kernel are shown, too. A part of the table has one number of
 *	threads and one kind of streams. All its lines have one pool, one team of hand-written
 *	threads, and memory for the largest J, which each line divides. The pool's J have memory of
 *	the pool, because a mover can copy it. For all sizes, the kernel has a thread for each word.
 */
#include "gpu/work.h"

#include <stdlib.h>

#include <runnel/memory.h>

#define KB (1024 / sizeof(uint32_t))	/* in words */
#define REQUESTS 128			/* for each worker */
#define PRODUCERS_MAX 8
#define DEPTH 160			/* slots of a hand-written thread */
#define LARGEST (256 * KB)		/* words of a J */

static const struct gpu_shape shapes[] = {
	{ 1, 1, { KB } }, { 1, 1, { 4 * KB } }, { 1, 1, { 16 * KB } }, { 1, 1, { 64 * KB } },
	{ 1, 1, { 256 * KB } }, { 4, GPU_KERNELS, { KB, 2 * KB, 4 * KB, 16 * KB } }
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static const struct gpu_hand_variant one_by_one = { GPU_EVENT, 8, 64, 0 };

static const struct {
	const char *name;
	enum bench_side side;
	gpu_issue_fn *issue;
	const struct gpu_hand_variant *variant;
	bool check;
} hands[] = {
	{ "graphs of 32 between movers", BENCH_HAND, gpu_issue_graphs, &gpu_groups, true },
	{ "batched copies of 32", BENCH_HAND, gpu_issue_batches, &gpu_groups, true },
	{ "a loop of copies", BENCH_HAND, gpu_issue_j, &one_by_one, true },
	{ "the same J in each node", BENCH_OTHER, gpu_issue_graphs, &gpu_groups_same, true },
	{ "launches alone", BENCH_OTHER, gpu_issue_launch, &gpu_groups, false },
};

enum { GATHERED = sizeof(hands) / sizeof(hands[0]), WAYS };

struct bench {
	const struct bench_options *opt;
	unsigned threads, producers;
	struct rnl_pool *pool;
	struct gpu_request *requests;
	uint32_t *pinned, *dev;			/* the pool's */
	struct gpu_team *team;
	uint32_t *team_pinned, *team_dev;
};

static void use(const struct bench *b, const struct gpu_shape *shape)
{
	gpu_team_shape(b->team, shape, DEPTH, b->team_pinned, b->team_dev);
	gpu_slots_in(&b->requests->slot, (size_t)b->threads * REQUESTS, sizeof(*b->requests),
		     shape, b->pinned, b->dev);
}

static void measure(void *arg, unsigned way, double *values)
{
	const struct bench *b = arg;
	const unsigned ms = b->opt->run_ms;

	if (way == GATHERED) {
		values[0] = 1e-3 * gpu_pool_rate(b->pool, b->requests, b->threads * REQUESTS,
						 GPU_CQ_GATHER, b->producers, ms);
		return;
	}
	gpu_team_issue(b->team, hands[way].issue, hands[way].check);
	values[0] = 1e-3 * gpu_team_rate(b->team, hands[way].variant, ms);
}

static struct bench_figure *add_figure(const struct bench *b, struct bench_line *line, unsigned way)
{
	char name[40];

	if (way != GATHERED)
		return bench_figure(line, hands[way].side, hands[way].name);
	snprintf(name, sizeof(name), "cq, gathered P%u q%u", b->producers, REQUESTS);
	return bench_figure(line, BENCH_RUNNEL, name);
}

static void run_line(const struct bench_run *run, struct bench *b, unsigned nr)
{
	struct bench_line *line = bench_line(run, nr, "%s", "");
	struct bench_way ways[WAYS];

	use(b, &shapes[nr]);
	for (unsigned i = 0; i < WAYS; i++)
		ways[i] = (struct bench_way){ measure, i, { add_figure(b, line, i) }, false };
	bench_turns(run, ways, WAYS, b);
	bench_line_tell(run, line);
}

static void begin(struct bench *b, const struct bench_run *run)
{
	const size_t nr = (size_t)run->threads * REQUESTS, bytes = LARGEST * sizeof(uint32_t);
	const size_t team_nr = (size_t)run->threads * DEPTH;
	void *mem;

	b->opt = run->opt;
	b->threads = run->threads;
	b->producers = run->threads < 2 ? 1 : run->threads / 2;
	if (b->producers > PRODUCERS_MAX)
		b->producers = PRODUCERS_MAX;
	b->team = gpu_team_start(run->opt->info.ordinal, run->kind, run->threads, gpu_issue_j, true);
	b->team_pinned = gpu_pinned(team_nr * 2 * bytes);
	b->team_dev = gpu_memory(team_nr * bytes);
	b->pool = gpu_pool(run->opt->device, run->kind, run->threads, NULL);
	bench_rnl(rnl_memory_get(b->pool, RNL_PINNED, nr * 2 * bytes, &mem, 0), "rnl_memory_get");
	b->pinned = mem;
	bench_rnl(rnl_memory_get(b->pool, 0, nr * bytes, &mem, 0), "rnl_memory_get");
	b->dev = mem;
	b->requests = bench_alloc(nr * sizeof(*b->requests));
}

static void run_row(struct bench_run *run)
{
	struct bench b;

	begin(&b, run);
	for (unsigned i = 0; i < SHAPES; i++)
		run_line(run, &b, i);
	rnl_memory_put(b.pool, b.pinned);
	rnl_memory_put(b.pool, b.dev);
	rnl_pool_destroy(b.pool);
	free(b.requests);
}

const struct bench_work bench_gather = { .run = run_row };
