/* SPDX-License-Identifier: MIT */
/*
 * Random graphs of jobs and barriers have the results of a sequential run.
 *
 * A graph is a list of groups. A group has a barrier and some jobs, which all depend on an earlier
 * group or on no group. A job's kernel is delayed, then stores a hash of its number and of all
 * values of the group before. So a missing or early join changes the result. tests/cuda/dag.cu
 * compiles this file again, with a kernel for the GPU.
 */
#include <errno.h>
#include <stdint.h>
#include <time.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/thread.h>

#include "seed.h"
#include "suite.h"
#include "submits.h"

#define NR_GRAPHS 1000
#define MAX_GROUPS 12
#define MAX_JOBS 6		/* in a group */

struct mix_args {
	const uint64_t *before;	/* values of the group before */
	unsigned nr_before;
	unsigned dawdle;
	uint64_t number;
	uint64_t *value;
};

#ifdef __CUDACC__
#define ON_BOTH __host__ __device__
#else
#define ON_BOTH
#endif

static ON_BOTH uint64_t mix(const struct mix_args *args)
{
	uint64_t hash = args->number;

	for (unsigned i = 0; i < args->nr_before; i++)
		hash = (hash ^ args->before[i]) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
	return hash;
}

static void mix_host(struct rnl_dim grid, struct rnl_dim block, const void *data)
{
	const struct mix_args *args = (const struct mix_args *)data;
	struct timespec ts = { 0, (long)args->dawdle * 1000 };

	(void)grid;
	(void)block;
	if (args->dawdle)
		nanosleep(&ts, NULL);
	*args->value = mix(args);
}

#ifdef __CUDACC__
#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>

static __global__ void mix_cuda(struct mix_args args)
{
	for (unsigned i = 0; i < args.dawdle; i++)
		__nanosleep(1000);
	*args.value = mix(&args);
}
RNL_KERNEL(dag_mix, mix_host, mix_cuda, struct mix_args);
#else
RNL_HOST_KERNEL(dag_mix, mix_host, struct mix_args);
#endif

struct node {
	struct rnl_job job;
	struct mix_args args;
};

struct group {
	struct rnl_barrier barrier;
	int before;		/* index of the group it depends on; -1: none */
	unsigned nr;
	struct node nodes[MAX_JOBS];
};

struct graph {
	unsigned nr;
	struct group groups[MAX_GROUPS];
	uint64_t expected[MAX_GROUPS * MAX_JOBS];
};

static uint64_t random_state;

static unsigned below(unsigned n)
{
	return draw(&random_state, n);
}

static int run(struct rnl_job *job)
{
	struct node *node = rnl_container_of(job, struct node, job);
	struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&dag_mix, one, one, &node->args);
}

/* Draws a graph. Its values will be in @values, which is device memory. */
static void draw_graph(struct graph *graph, struct rnl_pool *pool, uint64_t *values)
{
	graph->nr = 1 + below(MAX_GROUPS);
	for (unsigned g = 0; g < graph->nr; g++) {
		struct group *group = &graph->groups[g];

		group->before = g && below(8) ? (int)below(g) : -1;
		group->nr = 1 + below(MAX_JOBS);
		must(rnl_barrier_init(&group->barrier, pool));
		for (unsigned j = 0; j < group->nr; j++) {
			struct node *node = &group->nodes[j];

			must(rnl_job_init(&node->job, run));
			must(rnl_barrier_add(&group->barrier, &node->job));
			node->args.number = (uint64_t)g << 32 | j;
			node->args.dawdle = below(4) ? 0 : below(200);
			node->args.value = values + g * MAX_JOBS + j;
			node->args.before = NULL;
			node->args.nr_before = 0;
			if (group->before < 0)
				continue;
			must(rnl_job_set_after(&node->job, &graph->groups[group->before].barrier));
			node->args.before = values + group->before * MAX_JOBS;
			node->args.nr_before = graph->groups[group->before].nr;
		}
	}
}

static void run_in_order(struct graph *graph)
{
	for (unsigned g = 0; g < graph->nr; g++) {
		struct group *group = &graph->groups[g];

		for (unsigned j = 0; j < group->nr; j++) {
			struct mix_args args = group->nodes[j].args;

			if (args.nr_before)
				args.before = graph->expected + group->before * MAX_JOBS;
			graph->expected[g * MAX_JOBS + j] = mix(&args);
		}
	}
}

/* Submits the groups in order, and their jobs in any order, keyed or not. */
static void submit(struct graph *graph, struct rnl_pool *pool)
{
	for (unsigned g = 0; g < graph->nr; g++) {
		struct group *group = &graph->groups[g];

		for (unsigned j = 0; j < group->nr; j++) {
			struct rnl_job *job = &group->nodes[j].job;

			ck_assert_int_eq(below(3) ? rnl_submit(pool, job) :
						    submit_by_key(pool, job, below(4)), 0);
		}
	}
}

/* Waits on the host for some groups, and joins the others on this thread's stream. */
static void collect(struct graph *graph, const uint64_t *values, uint64_t *copy)
{
	for (unsigned g = 0; g < graph->nr; g++) {
		struct rnl_barrier *barrier = &graph->groups[g].barrier;

		ck_assert_int_eq(below(2) ? rnl_barrier_wait(barrier, RNL_FOREVER) :
					    rnl_barrier_join(barrier), 0);
	}
	must(rnl_copy(copy, values, sizeof(graph->expected)));
	must(rnl_stream_wait(RNL_FOREVER));
	/* The jobs live in the graph, so they must be done before it is freed. */
	for (unsigned g = 0; g < graph->nr; g++) {
		struct group *group = &graph->groups[g];

		must(rnl_barrier_wait(&group->barrier, RNL_FOREVER));
		ck_assert_int_eq(group->barrier.result, 0);
		for (unsigned j = 0; j < group->nr; j++) {
			unsigned at = g * MAX_JOBS + j;

			ck_assert_msg(copy[at] == graph->expected[at],
				      "group %u job %u has another value than in order", g, j);
		}
	}
}

static void run_graphs(unsigned nr, enum rnl_stream_kind stream)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct graph *graph = (struct graph *)malloc(sizeof(*graph));
	struct rnl_pool *pool;
	void *values, *copy;

	random_state = draws_of(test_seed(), 0);
	ck_assert_ptr_nonnull(graph);
	attr.nr_workers = 4;
	attr.device = test_device();
	attr.stream = stream;
	must(rnl_pool_create(&pool, &attr));
	must(rnl_thread_attach(pool));
	must(rnl_memory_get(pool, 0, sizeof(graph->expected), &values, 0));
	must(rnl_memory_get(pool, RNL_PINNED, sizeof(graph->expected), &copy, 0));
	for (unsigned i = 0; i < nr; i++) {
		/* Values of an earlier graph must not pass for this graph's. */
		must(rnl_fill(values, 0xa5, sizeof(graph->expected)));
		must(rnl_stream_wait(RNL_FOREVER));
		draw_graph(graph, pool, (uint64_t *)values);
		run_in_order(graph);
		submit(graph, pool);
		collect(graph, (const uint64_t *)values, (uint64_t *)copy);
	}
	rnl_memory_put(pool, copy);
	rnl_memory_put(pool, values);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
	free(graph);
}

/* _i: the kind of stream. */
TEST(random_graphs_give_what_running_them_in_order_gives, .timeout_s = 120, .loops = 2)
{
	run_graphs(NR_GRAPHS, (enum rnl_stream_kind)_i);
}

#ifndef __CUDACC__
int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (strcmp(test_device(), "host")) {
		printf("its kernel for %s is in cuda_dag.cu\n", test_device());
		return 77;
	}
	return SUITE_GOES_ON;
}
#endif
