/* SPDX-License-Identifier: MIT */
/* Pinned buffers; pinned.h has the design. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sys/atomic.h"
#include "sys/eventcount.h"
#include "memory/extents.h"
#include "sys/fence.h"
#include "memory/pinned.h"
#include "sys/sizes.h"
#include "sys/stack.h"
#include "sys/thread.h"

#define MIB (UINT64_C(1) << 20)
#define SMALLEST 256u
#define LARGEST (UINT64_C(64) << 30)
#define NR_CLASSES 113u
#define PAGES_FROM (UINT64_C(64) << 10)	/* from here on, aligned to pages */
#define NR_SHARDS 16u
#define EXTENT_FIRST MIB	/* bytes of a class's first extents, about */
#define EXTENT_FIRST_NR 64u
#define EXTENT_MAX (64 * MIB)	/* most bytes of an extent with several buffers */
#define NR_SLOTS RNL__NR_ROWS

enum { FREE, USED };		/* a node's state; USED: its buffer is in use */

/* An extent with buffers of a class.  The row with the slot's number has their nodes. */
struct pinned_slot {
	struct rnl__extent *extent;	/* NULL: none */
	char *first;			/* first buffer */
	uint32_t nr;			/* number of buffers */
	uint32_t nr_idle;		/* in a trim: buffers found on the stacks */
	unsigned class;
};

/* The 64 bytes before a buffer.  An overrun first hits a field at an end: both are checked. */
struct header {
	uint64_t check;
	uint32_t unused[13];
	uint32_t id;
};
_Static_assert(sizeof(struct header) == RNL__CACHE_LINE, "buffers are aligned");

struct rnl__pinned {
	struct rnl__stack stacks[NR_CLASSES][NR_SHARDS];
	_Alignas(RNL__CACHE_LINE) struct rnl__eventcount eventcount; /* a put wakes it */
	_Alignas(RNL__CACHE_LINE) struct rnl__rows *rows;
	struct pinned_slot *slots;
	struct rnl__extents extents;
	/* The lock protects extents (except holds()), slots, rows, and the fields below. */
	pthread_mutex_t lock;
	uint32_t nr_slots;		/* slots used so far */
	uint64_t nr_buffers[NR_CLASSES];
	uint32_t trimmed[NR_CLASSES];	/* sum of the stacks' tags at the class's last trim */
};

/* ---- classes -------------------------------------------------------------- */

static unsigned class_of(size_t bytes)
{
	unsigned bits;

	if (bytes <= SMALLEST)
		return 0;
	bits = 63 - (unsigned)__builtin_clzll(bytes - 1);
	return 4 * (bits - 8) + (unsigned)((bytes - 1) >> (bits - 2) & 3) + 1;
}

static size_t size_of(unsigned class)
{
	return (UINT64_C(4) + class % 4) << (6 + class / 4);
}

/* Returns the bytes before the first buffer of an extent, and between two buffers. */
static size_t lead_of(unsigned class)
{
	return size_of(class) < PAGES_FROM ? sizeof(struct header) : RNL__PAGE;
}

static size_t pinned_stride_of(unsigned class)
{
	return size_of(class) + lead_of(class);
}

static size_t extent_of(unsigned class, size_t nr)
{
	return rnl__round_up(nr * pinned_stride_of(class), RNL__PAGE);
}

/* ---- buffers -------------------------------------------------------------- */

static struct pinned_slot *pinned_slot_of(struct rnl__pinned *p, uint32_t id)
{
	return &p->slots[rnl__node_row(id)];
}

static void *buffer_of(const struct pinned_slot *slot, uint32_t index)
{
	return slot->first + index * pinned_stride_of(slot->class);
}

/* Returns the check of a header at that address, which other data is very unlikely to equal. */
static uint64_t check_of(const struct header *header, uint32_t id)
{
	uint64_t x = (uintptr_t)header ^ (uint64_t)id << 32;

	return (x ^ UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* Returns which of a class's stacks is the calling thread's. */
static unsigned own_shard(void)
{
	return rnl__thread_number() % NR_SHARDS;
}

/* Takes a free buffer.  Returns its id, or 0. */
static uint32_t pinned_pop(struct rnl__pinned *p, unsigned class)
{
	unsigned own = own_shard();
	uint32_t id = 0;

	for (unsigned i = 0; i < NR_SHARDS && !id; i++)
		id = rnl__stack_pop(&p->stacks[class][(own + i) % NR_SHARDS], p->rows);
	return id;
}

static void pinned_push(struct rnl__pinned *p, unsigned class, uint32_t first, uint32_t last)
{
	rnl__stack_push(&p->stacks[class][own_shard()], p->rows, first, last);
}

int rnl__pinned_put(struct rnl__pinned *p, void *buf)
{
	uintptr_t address = (uintptr_t)buf - sizeof(struct header);
	const struct header *header;
	uint32_t state = USED, id;
	struct rnl__node *node;

	if (address % RNL__CACHE_LINE || !rnl__extents_holds(&p->extents, address, 1))
		return -EINVAL;
	header = (const struct header *)buf - 1;
	id = header->id;
	if (header->check != check_of(header, id))
		return -EINVAL;
	node = rnl__node(p->rows, id);
	/* relaxed: the push publishes it; of two concurrent puts, the exchange accepts one */
	if (!atomic_compare_exchange_strong_explicit(&node->state, &state, FREE,
						     memory_order_relaxed, memory_order_relaxed))
		return -EINVAL;
	/* The slot cannot change until the buffer is on a stack. */
	pinned_push(p, pinned_slot_of(p, id)->class, id, id);
	/*
	 * [pinned.P1] full barrier (the exchange of the push, and this): the buffer is visible
	 * before we look for waiters; pairs with [eventcount.L2].
	 */
	rnl__mb_after_rmw();
	rnl__eventcount_wake(&p->eventcount);
	return 0;
}

bool rnl__pinned_holds(const struct rnl__pinned *p, const void *mem, size_t bytes)
{
	return rnl__extents_holds(&p->extents, (uintptr_t)mem, bytes);
}

/* ---- growing, under the lock ---------------------------------------------- */

/* Returns the free slot whose row fits best, or NULL.  Prefers a new slot to a longer row. */
static struct pinned_slot *find_slot(struct rnl__pinned *p, uint32_t nr)
{
	uint32_t best = NR_SLOTS, best_nr = 0;

	for (uint32_t i = 0; i < p->nr_slots; i++) {
		uint32_t has = rnl__row_nr(p->rows, i);

		if (p->slots[i].extent || (has < nr && p->nr_slots < NR_SLOTS))
			continue;
		if (best_nr < nr ? has >= best_nr : has >= nr && has < best_nr) {
			best = i;
			best_nr = has;
		}
	}
	if (best == NR_SLOTS && p->nr_slots < NR_SLOTS)
		best = p->nr_slots++;
	return best < NR_SLOTS && rnl__row_extend(p->rows, best, nr) ? &p->slots[best] : NULL;
}

/*
 * Cuts an extent of up to @nr buffers from free memory.  Takes one buffer and puts the others.
 * Returns the id of the taken one, or 0.
 */
static uint32_t pinned_cut(struct rnl__pinned *p, unsigned class, uint64_t nr)
{
	size_t fit = rnl__extents_largest(&p->extents) / pinned_stride_of(class);
	struct pinned_slot *slot;
	uint32_t row;

	nr = rnl__smaller(nr, fit);
	slot = nr ? find_slot(p, (uint32_t)nr) : NULL;
	if (slot)
		slot->extent = rnl__extents_take(&p->extents, extent_of(class, nr));
	if (!slot || !slot->extent)
		return 0;
	slot->first = slot->extent->begin + lead_of(class);
	slot->class = class;
	slot->nr = (uint32_t)nr;
	p->nr_buffers[class] += nr;
	row = (uint32_t)(slot - p->slots);
	for (uint32_t i = 0; i < nr; i++) {
		struct header *header = (struct header *)buffer_of(slot, i) - 1;
		uint32_t id = rnl__node_id(row, i);

		header->id = id;
		header->check = check_of(header, id);
		rnl__node_link(p->rows, id, id + 1);
		/* relaxed: the push publishes it */
		atomic_store_explicit(&rnl__node(p->rows, id)->state, FREE, memory_order_relaxed);
	}
	if (nr > 1)
		pinned_push(p, class, rnl__node_id(row, 1), rnl__node_id(row, (uint32_t)nr - 1));
	return rnl__node_id(row, 0);
}

/* Frees an extent whose buffers are all free; no valid header may stay in its memory. */
static void pinned_give_back(struct rnl__pinned *p, struct pinned_slot *slot)
{
	for (uint32_t i = 0; i < slot->nr; i++)
		((struct header *)buffer_of(slot, i) - 1)->check = 0;
	p->nr_buffers[slot->class] -= slot->nr;
	rnl__extents_give(slot->extent);
	slot->extent = NULL;
}

/* Puts back a list's buffers whose extents still exist.  Returns true if there was one. */
static bool pinned_put_back(struct rnl__pinned *p, struct rnl__stack *stack, uint32_t id)
{
	uint32_t first = 0, last = 0, next;

	for (; id; id = next) {
		next = rnl__node_next(p->rows, id);
		if (!pinned_slot_of(p, id)->extent)
			continue;
		if (last)
			rnl__node_link(p->rows, last, id);
		else
			first = id;
		last = id;
	}
	if (last)
		rnl__stack_push(stack, p->rows, first, last);
	return last;
}

/* Returns true if a buffer was put or got since the class was trimmed. */
static bool has_changed(struct rnl__pinned *p, unsigned class)
{
	uint32_t tags = 0;

	for (unsigned i = 0; i < NR_SHARDS; i++)
		tags += rnl__stack_tag(&p->stacks[class][i]);
	return tags != p->trimmed[class];
}

/* Frees a class's extents whose buffers are all free.  Returns true if there was one. */
static bool trim(struct rnl__pinned *p, unsigned class)
{
	uint64_t heads[NR_SHARDS];
	uint32_t tags = 0;		/* wraps like each tag */
	bool given = false;

	if (!p->nr_buffers[class] || !has_changed(p, class))
		return false;
	for (unsigned i = 0; i < NR_SHARDS; i++) {
		heads[i] = rnl__stack_take(&p->stacks[class][i]);
		tags += (uint32_t)(heads[i] >> 32) + !!(uint32_t)heads[i];
		for (uint32_t id = (uint32_t)heads[i]; id; id = rnl__node_next(p->rows, id))
			pinned_slot_of(p, id)->nr_idle++;
	}
	for (struct pinned_slot *slot = p->slots; slot < p->slots + p->nr_slots; slot++) {
		if (slot->extent && slot->class == class && slot->nr_idle == slot->nr) {
			pinned_give_back(p, slot);
			given = true;
		}
		slot->nr_idle = 0;
	}
	for (unsigned i = 0; i < NR_SHARDS; i++)
		tags += pinned_put_back(p, &p->stacks[class][i], (uint32_t)heads[i]);
	/* Concurrent puts and gets advance the tags beyond this sum. */
	p->trimmed[class] = tags;
	return given;
}

/* Returns how many buffers to add: few at first, later half as many as there are (large: 1/16). */
static uint64_t wanted(const struct rnl__pinned *p, unsigned class)
{
	uint64_t stride = pinned_stride_of(class), has = p->nr_buffers[class];
	uint64_t most = EXTENT_MAX / stride;
	uint64_t nr = EXTENT_FIRST / stride, more = nr ? has / 2 : has / 16;

	nr = rnl__larger(rnl__smaller(nr, EXTENT_FIRST_NR), more);
	return rnl__larger(rnl__smaller(nr, most), 1);
}

/* Gets a buffer of a class that has no free one.  Puts the other new buffers on a stack. */
static int grow(struct rnl__pinned *p, unsigned class, uint32_t *id)
{
	uint64_t nr = wanted(p, class);
	size_t one = extent_of(class, 1);
	int ret;

	*id = pinned_cut(p, class, nr);
	if (!*id && rnl__extents_largest(&p->extents) < one) {
		ret = rnl__extents_lock(&p->extents, one, extent_of(class, nr));
		if (ret && ret != -ENOMEM)
			return ret;
		if (!ret)
			*id = pinned_cut(p, class, nr);
	}
	/* Use memory that other classes do not use, large classes first: they have few buffers. */
	for (unsigned other = NR_CLASSES; !*id && other--;) {
		if (other != class && trim(p, other))
			*id = pinned_cut(p, class, nr);
	}
	if (*id)
		return 0;
	/* There is a free extent, so another region would not help. */
	if (rnl__extents_largest(&p->extents) >= one || !rnl__extents_unlock(&p->extents, one))
		return -ENOMEM;
	ret = rnl__extents_lock(&p->extents, one, 0);
	if (!ret)
		*id = pinned_cut(p, class, 1);
	return ret || *id ? ret : -ENOMEM;
}

/* ---- getting -------------------------------------------------------------- */

int rnl__pinned_get(struct rnl__pinned *p, size_t bytes, void **bufp)
{
	unsigned class;
	uint32_t id;
	int ret = 0;

	if (bytes > LARGEST)
		return -ENOMEM;
	class = class_of(bytes);
	id = pinned_pop(p, class);
	if (!id) {
		pthread_mutex_lock(&p->lock);
		/* Another thread may have grown the class, or put back trimmed buffers. */
		id = pinned_pop(p, class);
		if (!id)
			ret = grow(p, class, &id);
		pthread_mutex_unlock(&p->lock);
	}
	if (ret)
		return ret;
	/* relaxed: only the caller has the buffer until its put */
	atomic_store_explicit(&rnl__node(p->rows, id)->state, USED, memory_order_relaxed);
	*bufp = buffer_of(pinned_slot_of(p, id), rnl__node_index(id));
	return 0;
}

/* Returns true if no memory is locked: then no put will come. */
static bool is_bare(struct rnl__pinned *p)
{
	bool bare;

	pthread_mutex_lock(&p->lock);
	bare = !p->extents.locked;
	pthread_mutex_unlock(&p->lock);
	return bare;
}

int rnl__pinned_get_wait(struct rnl__pinned *p, size_t bytes, void **bufp, uint64_t deadline)
{
	int ret = rnl__pinned_get(p, bytes, bufp);

	while (ret == -ENOMEM) {
		uint32_t listened;

		if (bytes > LARGEST ||
		    extent_of(class_of(bytes), 1) + RNL__EXTENTS_SLOP > p->extents.max)
			return ret;
		listened = rnl__eventcount_prepare(&p->eventcount);
		ret = rnl__pinned_get(p, bytes, bufp);
		/* The device refused, although all unused memory was returned to it. */
		if (ret == -ENOMEM && is_bare(p))
			return ret;
		if (ret == -ENOMEM && rnl__eventcount_wait(&p->eventcount, listened, deadline))
			return -ETIMEDOUT;
	}
	return ret;
}

/* ---- create, destroy ------------------------------------------------------ */

int rnl__pinned_create(struct rnl__pinned **pinnedp, struct rnl__device *device, uint64_t max,
		       uint64_t preload)
{
	struct rnl__pinned *p = aligned_alloc(RNL__CACHE_LINE, sizeof(*p));
	int ret = -ENOMEM;

	if (!p)
		return ret;
	memset(p, 0, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	rnl__eventcount_init(&p->eventcount);
	for (unsigned i = 0; i < NR_CLASSES * NR_SHARDS; i++)
		rnl__stack_init(&p->stacks[i / NR_SHARDS][i % NR_SHARDS]);
	rnl__extents_init(&p->extents, device, max);
	p->rows = calloc(1, sizeof(*p->rows));
	p->slots = calloc(NR_SLOTS, sizeof(*p->slots));
	if (p->rows && p->slots)
		ret = preload ? rnl__extents_preload(&p->extents, preload) : 0;
	if (ret) {
		rnl__pinned_destroy(p);
		return ret;
	}
	*pinnedp = p;
	return 0;
}

void rnl__pinned_destroy(struct rnl__pinned *p)
{
	if (!p)
		return;
	rnl__extents_fini(&p->extents);
	if (p->rows)
		rnl__rows_fini(p->rows);
	free(p->rows);
	free(p->slots);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void rnl__pinned_figures(struct rnl__pinned *p, struct rnl__pinned_figures *f)
{
	pthread_mutex_lock(&p->lock);
	*f = (struct rnl__pinned_figures){ .locked = p->extents.locked, .max = p->extents.max };
	for (uint32_t row = 0; row < p->nr_slots; row++) {
		struct pinned_slot *slot = &p->slots[row];

		for (uint32_t i = 0; slot->extent && i < slot->nr; i++) {
			struct rnl__node *node = rnl__node(p->rows, rnl__node_id(row, i));

			if (rnl__figure_read(&node->state) == USED)
				f->used += size_of(slot->class);
		}
	}
	pthread_mutex_unlock(&p->lock);
}
