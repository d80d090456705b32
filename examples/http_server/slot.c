/* SPDX-License-Identifier: MIT */
/*
 * Slots: what a request needs besides its connection, made at the start.
 *
 * DESIGN
 * Every slot has two pinned buffers of one size: the largest that a task needs.  Nothing is
 * page-locked under load, which would take a millisecond each time, and memory has a bound
 * that is known at the start.  On the device a job has its worker's scratch; with
 * --handler=sync there are no jobs, and a slot has memory there.
 *
 * A loop has slots of its own, so taking one needs no lock.  Slots take turns, so all of them
 * are used soon, and the memory of the process stays as it is.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <stdlib.h>

size_t slot_buffer_bytes(const struct options *opt)
{
	const size_t wc = wc_buffer_bytes(opt);
	const size_t edges = edges_buffer_bytes(opt);

	return slot_align(wc > edges ? wc : edges);
}

static int get_memory(const struct server *server, size_t bytes, struct slot *slot)
{
	struct rnl_pool *pool = server->pool;
	void *mem[4] = { NULL };
	int ret;

	ret = rnl_pinned_get(pool, bytes, &mem[0]);
	if (!ret)
		ret = rnl_pinned_get(pool, bytes, &mem[1]);
	if (!ret && server->opt.sync)
		ret = rnl_device_alloc(pool, bytes, &mem[2]);
	if (!ret && server->opt.sync)
		ret = rnl_device_alloc(pool, bytes, &mem[3]);
	slot->in = mem[0];
	slot->out = mem[1];
	slot->device_in = mem[2];
	slot->device_out = mem[3];
	return ret;
}

static void put(struct loop *loop, struct slot *slot)
{
	slot->next = NULL;
	*loop->free_tail = slot;
	loop->free_tail = &slot->next;
}

int slots_create(struct loop *loop, unsigned nr)
{
	struct server *server = loop->server;
	const size_t bytes = slot_buffer_bytes(&server->opt);
	int ret = 0;

	/* One more: its NULL `in` ends the array. */
	loop->slots = calloc(nr + 1, sizeof(*loop->slots));
	if (!loop->slots)
		return -ENOMEM;
	loop->free_tail = &loop->free_slots;
	for (unsigned i = 0; !ret && i < nr; i++) {
		struct slot *slot = &loop->slots[i];

		ret = get_memory(server, bytes, slot);
		put(loop, slot);
	}
	return ret;
}

void slots_destroy(struct loop *loop)
{
	struct rnl_pool *pool = loop->server->pool;

	for (struct slot *slot = loop->slots; slot && slot->in; slot++) {
		rnl_pinned_put(pool, slot->in);
		rnl_pinned_put(pool, slot->out);
		if (!loop->server->opt.sync)
			continue;
		rnl_device_free(pool, slot->device_in);
		rnl_device_free(pool, slot->device_out);
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
	put(loop, slot);
	atomic_fetch_sub(&loop->metrics.nr_slots_used, 1);
}
