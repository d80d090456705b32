/* SPDX-License-Identifier: MIT */
/* A heap linked through its nodes, compared with a list that is searched. */
#include <stdlib.h>

#include "seed.h"
#include "suite.h"
#include "sys/heap.h"

enum { NR = 500 };

struct node {
	uint32_t id;
	void *child;
	uint64_t at;
	void *next, *before;
	bool inside;
};

static struct node nodes[NR];

static struct rnl__heap heap_of_nodes(void)
{
	return (struct rnl__heap){
		.time = offsetof(struct node, at), .next = offsetof(struct node, next),
		.before = offsetof(struct node, before), .child = offsetof(struct node, child),
	};
}

static void count(void *steps)
{
	++*(unsigned *)steps;
}

static uint64_t first_time(void)
{
	uint64_t first = UINT64_MAX;

	for (int i = 0; i < NR; i++)
		if (nodes[i].inside && nodes[i].at < first)
			first = nodes[i].at;
	return first;
}

static void add(struct rnl__heap *heap, struct node *node, uint64_t at)
{
	node->at = at;
	node->inside = true;
	rnl__heap_add(heap, node);
	ck_assert_ptr_nonnull(node->before);
}

TEST(the_first_is_the_earliest_whoever_came_and_left, .loops = 4)
{
	struct rnl__heap heap = heap_of_nodes();
	uint64_t random = draws_of(test_seed(), (uint64_t)_i);
	unsigned steps = 0;

	for (unsigned round = 0; round < 40000; round++) {
		struct node *node = &nodes[draw(&random, _i ? NR : 8)];

		if (!node->inside) {
			add(&heap, node, draw(&random, _i == 2 ? 4 : 100000));
		} else {
			if (draw(&random, 2))
				node = heap.top;
			rnl__heap_cut(&heap, node, count, &steps);
			node->inside = false;
		}
		ck_assert_uint_eq(rnl__heap_time(&heap), first_time());
	}
}

TEST(many_that_came_leave_in_order)
{
	struct rnl__heap heap = heap_of_nodes();
	uint64_t random = draws_of(test_seed(), 0), before = 0;
	unsigned steps = 0;

	for (int i = 0; i < NR; i++)
		add(&heap, &nodes[i], draw(&random, 1000));
	for (int i = 0; i < NR; i++) {
		struct node *first = heap.top;

		ck_assert_uint_ge(first->at, before);
		before = first->at;
		rnl__heap_cut(&heap, first, count, &steps);
	}
	ck_assert_ptr_null(heap.top);
	ck_assert_uint_eq(rnl__heap_time(&heap), UINT64_MAX);
	/* About log2(500) for each node; a list would take 125,000. */
	ck_assert_uint_lt(steps, 20 * NR);
}

TEST(all_can_be_taken_in_any_order_and_put_in_again)
{
	struct rnl__heap heap = heap_of_nodes(), all;
	unsigned nr = 0;
	struct node *node;

	for (int i = 0; i < NR; i++)
		add(&heap, &nodes[i], (uint64_t)(i * 7919 % NR));
	all = heap;
	heap.top = NULL;
	while ((node = rnl__heap_take_any(&all)) != NULL) {
		ck_assert(node->inside);
		node->inside = false;
		if (nr++ % 2)
			add(&heap, node, node->at);
	}
	ck_assert_uint_eq(nr, NR);
	ck_assert_uint_eq(rnl__heap_time(&heap), first_time());
}
