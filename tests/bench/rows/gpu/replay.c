/* SPDX-License-Identifier: MIT */
/*
 * The row replay: replayed jobs per second, of 10, 30 and 100 kernels, and of J of 4 KB; with 1 to
 * 16 threads or workers.
 *
 * DESIGN
 *	Replayed jobs are compared with hand-written threads that launch the kernels one by one, that
 *	have captured them once and launch the graph, or, with J, that launch graphs of many J
 *	(gpu/groups.c).  The pool has two ways. Recorded jobs use the addresses of their worker's slot. Jobs that
 *	also gather are called each time, with their own slot. Results are not checked here, because
 *	recorded jobs share a slot; tests/api/replay.c checks them.
 */
#include "gpu/work.h"

#include <stdlib.h>

#include <runnel/memory.h>

#define REQUESTS 32		/* for each worker */
#define PRODUCERS_MAX 8
#define DEPTH 128		/* limit of a hand-written thread */

enum { J = 3, LINES };		/* lines of the table */

static const unsigned nr_kernels[LINES] = { 10, 30, 100, 1 };
static const struct gpu_shape shape = { 1, 1, { GPU_WORDS } };

struct bench {
	const struct bench_options *opt;
	unsigned threads, producers, line;
	struct rnl_pool *pool;
	struct gpu_request *requests;
	struct gpu_team *team;
	uint32_t *pinned, *dev;			/* the pool's, then the team's */
};

static cudaError_t issue(const struct gpu_slot *slot, cudaStream_t stream)
{
	cudaError_t code = cudaSuccess;

	if (gpu_nr_kernels == 1)
		return gpu_issue_j(slot, stream);
	for (unsigned i = 0; i < gpu_nr_kernels && code == cudaSuccess; i++)
		code = gpu_issue_launch(slot, stream);
	return code;
}

/* Launches the thread's graph, which is captured with its first slot. */
static cudaError_t issue_graph(const struct gpu_slot *slot, cudaStream_t stream)
{
	static _Thread_local cudaGraphExec_t exec;
	static _Thread_local unsigned nr;
	cudaGraph_t graph;

	if (nr != gpu_nr_kernels) {
		gpu_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
		gpu_ok(issue(slot, stream), "captured work");
		gpu_ok(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
		gpu_ok(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
		nr = gpu_nr_kernels;
	}
	return cudaGraphLaunch(exec, stream);
}

static const struct {
	const char *name;
	gpu_issue_fn *issue;
	struct gpu_hand_variant variant;
} hands[] = {
	{ "launches", issue, { GPU_EVENT, 16, 32, 0 } },
	{ "a graph", issue_graph, { GPU_EVENT, 4, 32, 0 } },
	{ "a graph", issue_graph, { GPU_EVENT, 16, 32, 0 } },
	{ "a graph", issue_graph, { GPU_FLAG, 4, 32, 0 } },
	{ "graphs of 32 J", gpu_issue_graphs, { GPU_EVENT, GPU_GROUP_JOBS, DEPTH, 0 } },
};
#define HANDS (sizeof(hands) / sizeof(hands[0]))

enum { OF_J = HANDS - 1, RECORDED = HANDS, GATHERED, WAYS };

static void measure(void *arg, unsigned way, double *values)
{
	const struct bench *b = arg;
	const unsigned ms = b->opt->run_ms;

	gpu_nr_kernels = nr_kernels[b->line];
	if (way >= RECORDED) {
		values[0] = 1e-3 * gpu_pool_rate(b->pool, b->requests, b->threads * REQUESTS,
						 way == RECORDED ? GPU_CQ_RECORD : GPU_CQ_REPLAY,
						 b->producers, ms);
		return;
	}
	gpu_team_issue(b->team, hands[way].issue, false);
	values[0] = 1e-3 * gpu_team_rate(b->team, &hands[way].variant, ms);
}

static struct bench_figure *add_figure(const struct bench *b, struct bench_line *line, unsigned way)
{
	char hand[40], name[60];

	if (way >= RECORDED) {
		snprintf(name, sizeof(name), "cq, %s P%u q%u",
			 way == RECORDED ? "recorded" : "called", b->producers, REQUESTS);
		return bench_figure(line, BENCH_RUNNEL, name);
	}
	gpu_hand_name(&hands[way].variant, hand, sizeof(hand));
	snprintf(name, sizeof(name), "%s, %s", hands[way].name, hand);
	return bench_figure(line, BENCH_HAND, name);
}

static void run_line(const struct bench_run *run, struct bench *b, unsigned nr)
{
	struct bench_line *line = bench_line(run, nr, "%s", "");
	struct bench_way ways[WAYS];

	b->line = nr;
	for (unsigned i = 0; i < WAYS; i++)
		ways[i] = (struct bench_way){
			measure, i, { add_figure(b, line, i) }, i == OF_J && nr != J
		};
	bench_turns(run, ways, WAYS, b);
	bench_line_tell(run, line);
}

static void run_row(struct bench_run *run)
{
	const size_t nr = (size_t)run->threads * REQUESTS, words = nr * GPU_WORDS;
	const size_t team_bytes = (size_t)run->threads * DEPTH * GPU_WORDS * sizeof(uint32_t);
	struct bench b = {
		.opt = run->opt, .threads = run->threads,
		.producers = run->threads < 2 ? 1 : run->threads / 2,
	};
	void *mem;

	if (b.producers > PRODUCERS_MAX)
		b.producers = PRODUCERS_MAX;
	b.team = gpu_team_start(run->opt->info.ordinal, run->kind, run->threads, issue, false);
	gpu_team_shape(b.team, &shape, DEPTH, gpu_pinned(2 * team_bytes), gpu_memory(team_bytes));
	b.pool = gpu_pool(run->opt->device, run->kind, run->threads, NULL);
	bench_rnl(rnl_memory_get(b.pool, RNL_PINNED, 2 * words * sizeof(uint32_t), &mem, 0),
		  "rnl_memory_get");
	b.pinned = mem;
	bench_rnl(rnl_memory_get(b.pool, 0, words * sizeof(uint32_t), &mem, 0), "rnl_memory_get");
	b.dev = mem;
	b.requests = bench_alloc(nr * sizeof(*b.requests));
	gpu_slots_in(&b.requests->slot, nr, sizeof(*b.requests), &shape, b.pinned, b.dev);
	gpu_worker_requests = b.requests;
	for (unsigned i = 0; i < LINES; i++)
		run_line(run, &b, i);
	rnl_memory_put(b.pool, b.pinned);
	rnl_memory_put(b.pool, b.dev);
	rnl_pool_destroy(b.pool);
	free(b.requests);
}

const struct bench_work bench_replay = { .run = run_row };
