/* SPDX-License-Identifier: MIT */
/* A heap with links in its nodes; heap.h has the design. */
#include "config.h"

#include <string.h>

#include "sys/heap.h"

/* Uses memcpy() because a node's type may declare other fields at this offset. */
static void *get(const void *node, size_t offset)
{
	void *value;

	memcpy(&value, (const char *)node + offset, sizeof(value));
	return value;
}

/* Sets a node's link.  Does nothing if @node is NULL. */
static void set(void *node, size_t offset, void *value)
{
	if (node)
		memcpy((char *)node + offset, &value, sizeof(value));
}

static uint64_t time_of(const struct rnl__heap *heap, const void *node)
{
	uint64_t at;

	memcpy(&at, (const char *)node + heap->time, sizeof(at));
	return at;
}

/* Melds two heaps into one; either may be empty. */
static void *meld(const struct rnl__heap *h, void *a, void *b)
{
	void *first = a, *under = b;

	if (!a || !b)
		return a ? a : b;
	if (time_of(h, b) < time_of(h, a)) {
		first = b;
		under = a;
	}
	set(under, h->next, get(first, h->child));
	set(get(under, h->next), h->before, under);
	set(under, h->before, first);
	set(first, h->child, under);
	return first;
}

/* Melds a list of heaps into one: first in pairs, then the pairs. */
static void *meld_all(const struct rnl__heap *h, void *list, rnl__heap_between_fn *between, void *arg)
{
	void *pairs = NULL, *all = NULL;

	while (list) {
		void *a = list, *b = get(a, h->next);

		between(arg);
		list = b ? get(b, h->next) : NULL;
		set(a, h->next, NULL);
		set(b, h->next, NULL);
		a = meld(h, a, b);
		set(a, h->next, pairs);
		pairs = a;
	}
	while (pairs) {
		void *next = get(pairs, h->next);

		between(arg);
		set(pairs, h->next, NULL);
		all = meld(h, all, pairs);
		pairs = next;
	}
	return all;
}

void rnl__heap_add(struct rnl__heap *h, void *node)
{
	set(node, h->next, NULL);
	set(node, h->child, NULL);
	set(node, h->before, h);
	h->top = meld(h, h->top, node);
}

void rnl__heap_cut(struct rnl__heap *h, void *node, rnl__heap_between_fn *between, void *arg)
{
	void *before = get(node, h->before), *next = get(node, h->next), *top = h->top;
	void *under = meld_all(h, get(node, h->child), between, arg);

	if (node == top) {
		h->top = under;
		return;
	}
	if (get(before, h->child) == node)
		set(before, h->child, next);
	else
		set(before, h->next, next);
	set(next, h->before, before);
	h->top = meld(h, top, under);
}

void *rnl__heap_take_any(struct rnl__heap *h)
{
	void *node = h->top, *child = node ? get(node, h->child) : NULL, *next;

	if (!node)
		return NULL;
	h->top = get(node, h->next);
	for (; child; child = next) {
		next = get(child, h->next);
		set(child, h->next, h->top);
		h->top = child;
	}
	return node;
}

uint64_t rnl__heap_time(const struct rnl__heap *heap)
{
	return heap->top ? time_of(heap, heap->top) : UINT64_MAX;
}
