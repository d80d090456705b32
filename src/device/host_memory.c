/* SPDX-License-Identifier: MIT */
/* The host device's memory; host_memory.h has the design. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

#include "device/host_memory.h"
#include "sys/sizes.h"

#define ALIGNMENT 256u		/* like CUDA's */

struct range {
	uintptr_t begin;
	size_t bytes;
	enum rnl__memory kind;
	int owner;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *ranges;		/* sorted by address; they do not overlap */

/* A fork in the middle of a change would leave the child a lock that no thread releases. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_result;

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void drop_lock(void)
{
	pthread_mutex_unlock(&lock);
}

static void guard_forks(void)
{
	once_result = -pthread_atfork(take_lock, drop_lock, drop_lock);
}

/* Orders ranges; ranges that share a byte are equal. */
static int host_memory_compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->begin < y->begin)
		return y->begin - x->begin < x->bytes ? 0 : -1;
	return x->begin - y->begin < y->bytes ? 0 : 1;
}

static int remember(void *mem, size_t bytes, enum rnl__memory kind, int owner)
{
	struct range *range = malloc(sizeof(*range));
	void *node;

	if (!range)
		return -ENOMEM;
	*range = (struct range){
		.begin = (uintptr_t)mem, .bytes = bytes, .kind = kind,
		.owner = kind == RNL__DEVICE ? owner : -1,
	};
	take_lock();
	node = tsearch(range, &ranges, host_memory_compare);
	drop_lock();
	if (!node)
		free(range);
	return node ? 0 : -ENOMEM;
}

int rnl__host_memory_alloc(enum rnl__memory kind, int owner, size_t bytes, void **memp)
{
	const size_t whole = rnl__round_up(bytes, ALIGNMENT);
	void *mem;

	pthread_once(&once, guard_forks);
	if (once_result || whole < bytes)
		return -ENOMEM;
	mem = aligned_alloc(ALIGNMENT, whole);
	if (!mem)
		return -ENOMEM;
	if (remember(mem, whole, kind == RNL__PINNED ? RNL__PINNED : RNL__DEVICE, owner)) {
		free(mem);
		return -ENOMEM;
	}
	*memp = mem;
	return 0;
}

void rnl__host_memory_forget(void *mem)
{
	const struct range key = { .begin = (uintptr_t)mem, .bytes = 1 };
	struct range **node, *range = NULL;

	take_lock();
	node = tfind(&key, &ranges, host_memory_compare);
	if (node) {
		range = *node;
		tdelete(&key, &ranges, host_memory_compare);
	}
	drop_lock();
	free(range);
}

void rnl__host_memory_free(void *mem)
{
	free(mem);
}

/* Returns the range that contains the byte, or one of kind PAGEABLE. */
static struct range host_memory_find(const void *mem)
{
	const struct range key = { .begin = (uintptr_t)mem, .bytes = 1 };
	struct range found = { .kind = RNL__PAGEABLE, .owner = -1 };
	struct range *const *node;

	take_lock();
	node = tfind(&key, &ranges, host_memory_compare);
	if (node)
		found = **node;
	drop_lock();
	return found;
}

enum rnl__memory rnl__host_memory_kind(const void *mem)
{
	return host_memory_find(mem).kind;
}

int rnl__host_memory_owner(const void *mem)
{
	return host_memory_find(mem).owner;
}
