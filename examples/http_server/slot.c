/* SPDX-License-Identifier: MIT */
/*
 * Slots: the memory for the work of requests, allocated at the start.
 *
 * DESIGN
 * Every slot has two pinned buffers of the same size: the largest that a task needs.  So nothing
 * is page-locked under load, which would take a millisecond each time, and the maximum of memory
 * is known at the start.  On the device a job uses its worker's scratch.  Handlers other than async
 * have no jobs, so each slot has device memory of its own.
 *
 * Each loop has its own slots, so taking one needs no lock.  A loop takes the slot that was free
 * for longest, so all slots are used soon, and the process's memory stays constant.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <stdlib.h>

#include <runnel/memory.h>

size_t slot_buffer_bytes(const struct options *opt)
{
	const size_t wc = wc_buffer_bytes(opt);
	const size_t edges = edges_buffer_bytes(opt);

	return wc > edges ? wc : edges;
}

static int get_memory(const struct server *server, size_t bytes, struct slot *slot)
{
	unsigned char **const to[] = { &slot->in, &slot->out, &slot->device_in, &slot->device_out };
	int ret = 0;

	for (int i = 0; !ret && i < (server->opt.handler == ASYNC ? 2 : 4); i++) {
		void *mem = NULL;

		ret = rnl_memory_get(server->pool, i < 2 ? RNL_PINNED : 0, bytes, &mem, 0);
		*to[i] = mem;
	}
	return ret;
}

static unsigned nr_slots(const struct loop *loop)
{
	return loop->server->opt.slots / loop->server->opt.loops;
}

int slots_create(struct loop *loop)
{
	const size_t bytes = slot_buffer_bytes(&loop->server->opt);
	int ret = 0;

	loop->slots = calloc(nr_slots(loop), sizeof(*loop->slots));
	if (!loop->slots)
		return -ENOMEM;
	loop->free_tail = &loop->free_slots;
	atomic_store(&loop->metrics.nr_slots_used, nr_slots(loop));
	for (unsigned i = 0; !ret && i < nr_slots(loop); i++) {
		ret = get_memory(loop->server, bytes, &loop->slots[i]);
		slot_put(loop, &loop->slots[i]);
	}
	return ret;
}

void slots_destroy(struct loop *loop)
{
	struct rnl_pool *pool = loop->server->pool;

	for (unsigned i = 0; i < nr_slots(loop); i++) {
		struct slot *slot = &loop->slots[i];

		rnl_memory_put(pool, slot->in);
		rnl_memory_put(pool, slot->out);
		if (loop->server->opt.handler != ASYNC) {
			rnl_memory_put(pool, slot->device_in);
			rnl_memory_put(pool, slot->device_out);
		}
	}
	free(loop->slots);
}

struct slot *slot_get(struct loop *loop)
{
	struct slot *slot = loop->free_slots;

	if (slot) {
		loop->free_slots = slot->next;
		if (!slot->next)
			loop->free_tail = &loop->free_slots;
		atomic_fetch_add(&loop->metrics.nr_slots_used, 1);
	}
	return slot;
}

void slot_put(struct loop *loop, struct slot *slot)
{
	slot->next = NULL;
	*loop->free_tail = slot;
	loop->free_tail = &slot->next;
	atomic_fetch_sub(&loop->metrics.nr_slots_used, 1);
}

const struct slot *slot_find(const struct server *server, const struct rnl_job *job)
{
	for (unsigned i = 0; i < server->opt.loops; i++) {
		for (unsigned at = 0; at < nr_slots(&server->loops[i]); at++) {
			if (&server->loops[i].slots[at].job == job)
				return &server->loops[i].slots[at];
		}
	}
	return NULL;
}
