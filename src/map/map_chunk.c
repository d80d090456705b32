/* SPDX-License-Identifier: MIT */
/* Reads a chunk of a map, issues it, measures it, and writes it; map.h has the design. */
#include "config.h"

#include <errno.h>

#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/trace.h>

#include "map/map.h"
#include "pool/guard.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "sys/clock.h"
#include "sys/nontemporal.h"

#define BASE_NS (UINT64_C(1) << 63)	/* stands for the map's start in spans */

/* Counts bytes that a CPU copied from or to pageable memory. */
static void count_staged(uint64_t bytes)
{
	rnl__figure_add(&rnl__thread.worker->staging.staged, bytes);
}

/* Checks that a callback returned 0 or a negative errno; a positive result ends the map. */
static int success_or_errno(const char *callback, int ret)
{
	if (ret <= 0)
		return ret;
	return rnl__invalid(&rnl__thread.worker->pool->log, "a map's %s returned %d; it must return "
			    "0 or a negative errno", callback, ret);
}

/* ---- in ------------------------------------------------------------------ */

static struct rnl_chunk chunk_at(const struct rnl__map *map, uint64_t index)
{
	const struct rnl_map *spec = &map->spec;
	const uint64_t first = index * spec->chunk, left = spec->nr - first;
	const uint64_t nr = spec->chunk < left ? spec->chunk : left;

	return (struct rnl_chunk){
		.index = index,
		.first = first,
		.nr = nr,
		.before = spec->halo_before < first ? spec->halo_before : first,
		.after = spec->halo_after < left - nr ? spec->halo_after : left - nr,
		.arg = spec->arg,
	};
}

uint64_t rnl__map_chunk_bytes(const struct rnl__map *map, const struct rnl_chunk *c)
{
	return (c->before + c->nr + c->after) * map->spec.in_bytes;
}

/* A part of a chunk and its halos: together they are in up to three places of host memory. */
struct source {
	const unsigned char *mem;
	uint64_t bytes;
};

static unsigned sources_of(const struct rnl__map *map, const struct rnl_chunk *c,
			   struct source sources[3])
{
	const uint64_t element = map->spec.in_bytes;
	const unsigned char *in = (const unsigned char *)map->spec.in + c->first * element;
	unsigned nr = 0;

	if (!map->borders) {
		sources[0] = (struct source){ in - c->before * element,
					      rnl__map_chunk_bytes(map, c) };
		return 1;
	}
	if (c->before)
		sources[nr++] = (struct source){ rnl__map_border(map, c->index),
						 c->before * element };
	sources[nr++] = (struct source){ in, c->nr * element };
	if (c->after)
		sources[nr++] = (struct source){
			rnl__map_border(map, c->index + 1) + map->spec.halo_before * element,
			c->after * element,
		};
	return nr;
}

/* Reads or copies a chunk into the slot's pinned memory. */
static int chunk_read(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	const uint64_t start = rnl__now();
	unsigned char *to = slot->in;
	int ret = 0;

	if (map->spec.read) {
		ret = success_or_errno("read()", map->spec.read(map->spec.arg, to,
							     c->first - c->before,
							     c->before + c->nr + c->after));
	} else {
		struct source sources[3];
		const unsigned nr = sources_of(map, c, sources);

		for (unsigned i = 0; i < nr; i++) {
			rnl__nontemporal_copy(to, sources[i].mem, sources[i].bytes);
			to += sources[i].bytes;
			count_staged(sources[i].bytes);
		}
	}
	rnl__figure_add_any(&map->read_ns, rnl__now() - start);
	return ret;
}

int rnl__map_read(struct rnl__map *map, struct rnl__map_slot *slot, uint64_t index)
{
	slot->chunk = chunk_at(map, index);
	return map->stages_in ? chunk_read(map, slot) : 0;
}

/* ---- on the device ------------------------------------------------------- */

static const struct rnl__device_ops *chunk_ops(const struct rnl__map *map)
{
	return rnl__pool_any_device(map->pool)->ops;
}

static int chunk_copy(const struct rnl__map *map, void *dst, const void *src, uint64_t bytes)
{
	/* The host side is page-locked, or CUDA stages it. */
	return chunk_ops(map)->copy(&(struct rnl__copy){
		.dst = dst, .src = src, .width = bytes, .rows = 1,
	});
}

/* Allocates memory on the device.  The chunk is aligned, whatever the size of its halo. */
static int get_memory(struct rnl__map *map, struct rnl__map_slot *slot)
{
	struct rnl_chunk *c = &slot->chunk;
	const uint64_t halo = c->before * map->spec.in_bytes, lead = (halo + 255) / 256 * 256;
	void *mem;
	int ret = rnl_scratch(lead + (c->nr + c->after) * map->spec.in_bytes, &mem);

	if (ret)
		return ret;
	slot->device_in = (unsigned char *)mem + lead - halo;
	c->in = (unsigned char *)mem + lead;
	c->out = map->in_place ? (void *)(uintptr_t)c->in : NULL;
	if (map->in_place || !map->spec.out_bytes)
		return 0;
	return rnl_scratch(c->nr * map->spec.out_bytes, &c->out);
}

static int chunk_copy_in(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	unsigned char *to = slot->device_in;
	struct source sources[3];
	unsigned nr;
	int ret = 0;

	if (slot->in)
		return chunk_copy(map, to, slot->in, rnl__map_chunk_bytes(map, c));
	nr = sources_of(map, c, sources);
	for (unsigned i = 0; !ret && i < nr; i++) {
		ret = chunk_copy(map, to, sources[i].mem, sources[i].bytes);
		to += sources[i].bytes;
	}
	return ret;
}

static int chunk_call_fn(rnl__function *fn, const void *chunk)
{
	return success_or_errno("fn()", ((int (*)(const struct rnl_chunk *))fn)(chunk));
}

static int chunk_call(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl__guard_call call = {
		(rnl__function *)map->spec.fn, chunk_call_fn, &slot->chunk,
	};

	return rnl__unit_check(rnl__thread.worker, call.fn,
			       rnl__guard_call(rnl__thread.worker, &call));
}

static int chunk_copy_out(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	unsigned char *to = slot->out;

	if (!map->spec.out_bytes)
		return 0;
	if (!to)
		to = (unsigned char *)map->spec.out + c->first * map->spec.out_bytes;
	return chunk_copy(map, to, c->out, c->nr * map->spec.out_bytes);
}

/*
 * Issues a stage between its events.  If @begins is false, the previous stage's end is its begin.
 */
static int issue_stage(struct rnl__map *map, struct rnl__map_slot *slot, unsigned stage,
		       bool begins)
{
	static int (*const stages[])(struct rnl__map *map, struct rnl__map_slot *slot) = {
		[RNL__MAP_IN] = chunk_copy_in,
		[RNL__MAP_KERNEL] = chunk_call,
		[RNL__MAP_OUT] = chunk_copy_out,
	};
	int ret = 0;

	if (rnl__map_measured(map) && begins) {
		if (stage == RNL__MAP_IN)
			slot->issued = rnl__now();
		ret = chunk_ops(map)->event_record(slot->begin[stage]);
	}
	if (rnl__thread.worker->track && stage != RNL__MAP_KERNEL)
		rnl__track_issue(rnl__thread.worker->track);
	if (!ret)
		ret = stages[stage](map, slot);
	if (!ret && rnl__map_measured(map))
		ret = chunk_ops(map)->event_record(slot->end[stage]);
	/* rnl_launch() records the launches of the user's function. */
	if (!ret && stage != RNL__MAP_KERNEL && rnl__thread.worker->track)
		rnl__track_op(rnl__thread.worker->track,
			      stage == RNL__MAP_IN ? RNL__TRACK_IN : RNL__TRACK_OUT);
	return ret;
}

int rnl__map_issue(struct rnl__map *map, struct rnl__map_job *job)
{
	const bool copies_first = map->spec.flags & RNL_MAP_COPIES_FIRST;
	const unsigned nr = job->nr * RNL__MAP_STAGES;
	int ret = 0;

	for (unsigned i = 0; !ret && i < job->nr; i++)
		ret = get_memory(map, &job->slots[i]);
	for (unsigned i = 0; !ret && i < nr; i++) {
		const unsigned slot = copies_first ? i % job->nr : i / RNL__MAP_STAGES;
		const unsigned stage = copies_first ? i / job->nr : i % RNL__MAP_STAGES;

		ret = issue_stage(map, &job->slots[slot], stage, copies_first || !stage);
	}
	return ret;
}

/* ---- times --------------------------------------------------------------- */

/* Returns the base of a device's times: the first event of the first chunk measured there. */
static struct rnl__map_base base_of(struct rnl__map *map, struct rnl__map_slot *slot,
				    unsigned device)
{
	struct rnl__map_base *base = &map->bases[device], found;

	pthread_mutex_lock(&map->lock);
	if (!base->found) {
		struct rnl__event *spare = base->event;

		base->event = slot->begin[RNL__MAP_IN];
		slot->begin[RNL__MAP_IN] = spare;
		base->found = true;
		base->ns = slot->issued - map->start;
	}
	found = *base;
	pthread_mutex_unlock(&map->lock);
	return found;
}

void rnl__map_measure(struct rnl__map *map, struct rnl__map_slot *slot, unsigned device)
{
	const bool copies_first = map->spec.flags & RNL_MAP_COPIES_FIRST;
	struct rnl__map_span *span = &map->spans[slot->chunk.index];
	struct rnl__event *begin[RNL__MAP_STAGES];
	struct rnl__map_base base;

	for (int i = 0; i < RNL__MAP_STAGES; i++)
		begin[i] = i && !copies_first ? slot->end[i - 1] : slot->begin[i];
	base = base_of(map, slot, device);
	for (int i = 0; i < RNL__MAP_STAGES; i++, span += map->nr_chunks) {
		int64_t from, to;	/* negative: before the base */

		if (chunk_ops(map)->event_elapsed(base.event, begin[i], &from) ||
		    chunk_ops(map)->event_elapsed(base.event, slot->end[i], &to))
			continue;
		span->begin_ns = BASE_NS + base.ns + (uint64_t)from;
		span->end_ns = BASE_NS + base.ns + (uint64_t)to;
	}
}

/* ---- out ----------------------------------------------------------------- */

int rnl__map_write(struct rnl__map *map, struct rnl__map_slot *slot)
{
	const struct rnl_chunk *c = &slot->chunk;
	const uint64_t start = rnl__now();
	int ret = 0;

	if (map->spec.write) {
		ret = success_or_errno("write()", map->spec.write(map->spec.arg, slot->out,
							       c->first, c->nr));
	} else {
		const uint64_t element = map->spec.out_bytes;

		rnl__nontemporal_copy((char *)map->spec.out + c->first * element, slot->out,
				      c->nr * element);
		count_staged(c->nr * element);
	}
	rnl__figure_add_any(&map->write_ns, rnl__now() - start);
	return ret;
}
