/* SPDX-License-Identifier: MIT */
/*
 * Stacks of numbered nodes, with lock-free push and pop by any thread.
 *
 * DESIGN
 *	Treiber's stack: the head names the first node, each node the next one.  The head also has a
 *	tag that changes with each push and pop.  So the exchange of a delayed pop fails even if the
 *	node that it read is first again (ABA).
 *	A delayed pop may read a node that was removed long ago, so a node's memory stays valid:
 *	nodes are in rows, a longer row replaces a row that is too short, and all rows are freed at
 *	the end.  A node's id is 1 + (its row, its index in the row); 0 is no node.
 *
 *		push	pop	take	extend	fini
 *	push	-	-	-	-	X	X: needs outside synchronisation
 *	pop	-	-	-	-	X
 *	take	-	-	-	-	X
 *	extend	-	-	-	X	X
 */
#ifndef RNL_STACK_H
#define RNL_STACK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "sys/atomic.h"
#include "sys/counter.h"
#include "sys/tsan.h"

#define RNL__NR_ROWS 4096u
#define RNL__ROW_BITS 20	/* a row has fewer than 2^20 nodes */

struct rnl__node {
	_Atomic uint32_t next;	/* id of the next node, or 0 */
	_Atomic uint32_t state;	/* for the stack's owner */
};

struct rnl__row {
	struct rnl__row *shorter; /* the row that this one replaced */
	uint32_t nr;
	struct rnl__node nodes[];
};

struct rnl__rows {
	_Atomic(struct rnl__row *) rows[RNL__NR_ROWS];
};

struct rnl__stack {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t head; /* tag << 32 | id */
};

/* ---- nodes ---------------------------------------------------------------- */

static inline uint32_t rnl__node_id(uint32_t row, uint32_t index)
{
	return (row << RNL__ROW_BITS | index) + 1;
}

static inline uint32_t rnl__node_row(uint32_t id)
{
	return (id - 1) >> RNL__ROW_BITS;
}

static inline uint32_t rnl__node_index(uint32_t id)
{
	return (id - 1) & ((1u << RNL__ROW_BITS) - 1);
}

static inline struct rnl__node *rnl__node(struct rnl__rows *rows, uint32_t id)
{
	/* [stack.R1] acquire: the nodes of a longer row; pairs with [stack.R2] */
	struct rnl__row *row = atomic_load_explicit(&rows->rows[rnl__node_row(id)],
						    memory_order_acquire);

	return &row->nodes[rnl__node_index(id)];
}

/* Returns the next node of a chain that only the caller uses. */
static inline uint32_t rnl__node_next(struct rnl__rows *rows, uint32_t id)
{
	/* relaxed: only the caller writes it; a delayed pop may read it */
	return atomic_load_explicit(&rnl__node(rows, id)->next, memory_order_relaxed);
}

static inline void rnl__node_link(struct rnl__rows *rows, uint32_t id, uint32_t next)
{
	/* relaxed: the push publishes it; a delayed pop may read it before */
	atomic_store_explicit(&rnl__node(rows, id)->next, next, memory_order_relaxed);
}

/* Returns the number of nodes in a row. */
static inline uint32_t rnl__row_nr(struct rnl__rows *rows, uint32_t row)
{
	/* relaxed: only the caller extends the row */
	struct rnl__row *now = atomic_load_explicit(&rows->rows[row], memory_order_relaxed);

	return now ? now->nr : 0;
}

/* Allocates a row of @nr nodes, which has no number yet.  Returns NULL if there is no memory. */
static inline struct rnl__row *rnl__row_new(uint32_t nr)
{
	struct rnl__row *row = calloc(1, sizeof(*row) + nr * sizeof(row->nodes[0]));

	if (row)
		row->nr = nr;
	return row;
}

/* Sets a row's number.  The row replaces a shorter row, whose nodes must not be in use. */
static inline void rnl__row_place(struct rnl__rows *rows, uint32_t row, struct rnl__row *longer)
{
	/* relaxed: only the caller extends the row */
	longer->shorter = atomic_load_explicit(&rows->rows[row], memory_order_relaxed);
	/*
	 * [stack.R2] release: the row's nodes, to a pop that still has an id; pairs with [stack.R1]
	 */
	atomic_store_explicit(&rows->rows[row], longer, memory_order_release);
}

/* Extends a row to at least @nr nodes, while no node of it is in use.  Returns false: no memory. */
static inline bool rnl__row_extend(struct rnl__rows *rows, uint32_t row, uint32_t nr)
{
	struct rnl__row *longer;

	if (rnl__row_nr(rows, row) >= nr)
		return true;
	longer = rnl__row_new(nr);
	if (!longer)
		return false;
	rnl__row_place(rows, row, longer);
	return true;
}

static inline void rnl__rows_fini(struct rnl__rows *rows)
{
	for (uint32_t i = 0; i < RNL__NR_ROWS; i++) {
		/* relaxed: no other thread uses the rows any more */
		struct rnl__row *row = atomic_load_explicit(&rows->rows[i], memory_order_relaxed);

		while (row) {
			struct rnl__row *shorter = row->shorter;

			free(row);
			row = shorter;
		}
	}
}

/* ---- stacks --------------------------------------------------------------- */

static inline void rnl__stack_init(struct rnl__stack *stack)
{
	atomic_init(&stack->head, RNL__START(32, 8) << 32);
}

/* Returns the head after a change, with a new tag. */
static inline uint64_t rnl__stack_head(uint64_t old, uint32_t id)
{
	return ((old >> 32) + 1) << 32 | id;
}

/* Pushes a chain, and sets the last node's link. */
static inline void rnl__stack_push(struct rnl__stack *stack, struct rnl__rows *rows, uint32_t first,
				   uint32_t last)
{
	uint64_t head = rnl__peek(&stack->head);

	rnl__tsan_release(stack);
	do {
		rnl__node_link(rows, last, (uint32_t)head);
		/*
		 * [stack.P1] release: the links, and the earlier accesses to the memory of the
		 * nodes; pairs with [stack.G1], [stack.T1].
		 */
	} while (!atomic_compare_exchange_weak_explicit(&stack->head, &head,
							rnl__stack_head(head, first),
							memory_order_release,
							memory_order_relaxed));
}

/* Pops a node.  Returns 0 if the stack is empty. */
static inline uint32_t rnl__stack_pop(struct rnl__stack *stack, struct rnl__rows *rows)
{
	/* [stack.G1] acquire: the link, and the memory of the node; pairs with [stack.P1] */
	uint64_t head = atomic_load_explicit(&stack->head, memory_order_acquire);
	uint32_t next;

	do {
		if (!(uint32_t)head)
			return 0;
		/* If another thread popped the node, the link is wrong, but the exchange fails. */
		next = rnl__node_next(rows, (uint32_t)head);
		/* [stack.G2] acquire: like [stack.G1]; pairs with [stack.P1] */
	} while (!atomic_compare_exchange_weak_explicit(&stack->head, &head,
							rnl__stack_head(head, next),
							memory_order_acquire,
							memory_order_acquire));
	rnl__tsan_acquire(stack);
	return (uint32_t)head;
}

/* Takes all nodes.  Returns the head before. */
static inline uint64_t rnl__stack_take(struct rnl__stack *stack)
{
	uint64_t head = rnl__peek(&stack->head);

	while ((uint32_t)head) {
		/* [stack.T1] acquire: like [stack.G1]; pairs with [stack.P1] */
		if (atomic_compare_exchange_weak_explicit(&stack->head, &head,
							  rnl__stack_head(head, 0),
							  memory_order_acquire,
							  memory_order_relaxed))
			break;
	}
	rnl__tsan_acquire(stack);
	return head;
}

/* Returns the number of changes of the stack so far, modulo 2^32. */
static inline uint32_t rnl__stack_tag(struct rnl__stack *stack)
{
	/* relaxed: the caller compares it with an earlier tag */
	return (uint32_t)(atomic_load_explicit(&stack->head, memory_order_relaxed) >> 32);
}

#endif
