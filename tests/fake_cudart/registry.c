/* SPDX-License-Identifier: MIT */
/*
 * Live objects by address: memory of both kinds, streams, events, memory pools, graphs, green
 * contexts.
 *
 * DESIGN
 *	A tree of address ranges (tsearch) that do not overlap. A handle is the address of its
 *	object. A destroyed handle is not found, so it is never dereferenced.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "internal.h"

static void *things;
static unsigned nr[FAKE_NR_KINDS];
static uint64_t bytes_of[FAKE_NR_KINDS];

/* Ranges that share a byte are equal. */
static int compare(const void *a, const void *b)
{
	const struct fake_thing *x = a, *y = b;

	if (x->begin < y->begin)
		return y->begin - x->begin < x->bytes ? 0 : -1;
	return x->begin - y->begin < y->bytes ? 0 : 1;
}

int fake__enter(void *begin, size_t bytes, enum fake_kind kind, void *what)
{
	struct fake_thing *thing = malloc(sizeof(*thing));

	if (!thing)
		return -ENOMEM;
	*thing = (struct fake_thing){ (uintptr_t)begin, bytes, kind, what };
	if (!tsearch(thing, &things, compare)) {
		free(thing);
		return -ENOMEM;
	}
	nr[kind]++;
	bytes_of[kind] += bytes;
	return 0;
}

static struct fake_thing *find(const void *address)
{
	const struct fake_thing key = { .begin = (uintptr_t)address, .bytes = 1 };
	struct fake_thing *const *node = tfind(&key, &things, compare);

	return node ? *node : NULL;
}

const struct fake_thing *fake__find(const void *address)
{
	return find(address);
}

void fake__remove(const void *begin)
{
	struct fake_thing *thing = find(begin);

	if (!thing)
		return;
	tdelete(thing, &things, compare);
	nr[thing->kind]--;
	bytes_of[thing->kind] -= thing->bytes;
	free(thing);
}

void *fake__handle(const void *handle, enum fake_kind kind)
{
	static const char *const names[] = {
		[FAKE_DEVICE] = "device memory", [FAKE_PINNED] = "page-locked memory",
		[FAKE_REGISTERED] = "registered memory",
		[FAKE_STREAM] = "stream", [FAKE_EVENT] = "event", [FAKE_POOL] = "memory pool",
		[FAKE_GRAPH] = "graph", [FAKE_GRAPH_EXEC] = "executable graph",
		[FAKE_KERNEL_GRAPH] = "graph of kernels",
		[FAKE_KERNEL_EXEC] = "executable graph of kernels",
		[FAKE_GREEN] = "green context",
	};
	const struct fake_thing *thing = fake__find(handle);

	if (thing && thing->kind == kind && thing->begin == (uintptr_t)handle)
		return thing->what;
	fake__misuse("%p is no %s, or no more", handle, names[kind]);
	return NULL;
}

bool fake__is_kind(const void *handle, enum fake_kind kind)
{
	const struct fake_thing *thing = fake__find(handle);

	return thing && thing->kind == kind && thing->begin == (uintptr_t)handle;
}

unsigned fake__nr(enum fake_kind kind)
{
	return nr[kind];
}

uint64_t fake__bytes(enum fake_kind kind)
{
	return bytes_of[kind];
}
