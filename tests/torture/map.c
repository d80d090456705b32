/* SPDX-License-Identifier: MIT */
/*
 * Maps of all kinds: arrays in page-locked and pageable memory, and from callbacks; in place, with
 * a halo, in order. Some fail in the middle.
 *
 * DESIGN
 *	The output is the input, mixed. With a halo an element is made from the element before it;
 *	the first one has none. Each chunk's function is called once.
 */
#include "torture.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/memory.h>

#define ARRAY_MAX 60000		/* bytes */
#define CHUNKS_MAX 60
#define FAILURE (-ENOSPC)

/* Location of an array. CALLED: a callback provides it. */
enum where { PINNED, PAGEABLE, CALLED, IN_PLACE };

struct task {
	struct round *round;
	struct rnl_map map;
	enum where in, out;
	uint64_t seed, nr_chunks, fails_at; /* @fails_at: number of the failing chunk, if any. */
	size_t bytes;
	unsigned char *from, *to;
	_Atomic unsigned calls[CHUNKS_MAX];
	uint64_t next_read, next_written; /* in order: not atomic, because calls do not overlap */
};

/* ---- callbacks ------------------------------------------------------------------ */

static int change(struct task *t, unsigned char *bytes, size_t nr)
{
	const struct mix_args args = { bytes, (uint32_t)nr, 0, (uint8_t)t->seed };
	const struct rnl_dim grid = { 1 + (uint32_t)nr / 1024, 1, 1 }, block = { 128, 1, 1 };

	return rnl_launch(&mix, grid, block, &args);
}

static int run(const struct rnl_chunk *c)
{
	struct task *t = c->arg;
	const size_t size = t->map.in_bytes, bytes = c->nr * size;
	const bool halo = t->map.halo_before, first = !c->first;
	const unsigned char *in = c->in;
	unsigned char *out = c->out;
	int ret = 0;

	places_check(t->round, t->map.devices, "a chunk");
	if (c->index >= t->nr_chunks || c->first != c->index * t->map.chunk ||
	    c->first + c->nr > t->map.nr || c->before != (halo && !first) || c->after)
		tally_wrong(MAP_WRONG, "chunk %llu is not as the header has it",
			    (unsigned long long)c->index);
	else if (++t->calls[c->index] > (t->round->guarded ? 2 : 1))
		tally_wrong(MAP_WRONG, "chunk %llu again", (unsigned long long)c->index);
	if (c->index == t->fails_at)
		return FAILURE;
	if (halo && first)
		ret = rnl_copy(out, in, size);
	if (halo && first && !ret && bytes > size)
		ret = rnl_copy(out + size, in, bytes - size);
	else if (halo && !first)
		ret = rnl_copy(out, in - size, bytes);
	else if (!halo && in != out)
		ret = rnl_copy(out, in, bytes);
	return ret ? ret : change(t, out, bytes);
}

static int read_chunk(void *arg, void *buf, uint64_t first, uint64_t nr)
{
	struct task *t = arg;
	const size_t size = t->map.in_bytes;

	if (t->map.flags & RNL_MAP_IN_ORDER) {
		if (first > t->next_read || first + nr < t->next_read)
			tally_wrong(MAP_WRONG, "read out of order");
		t->next_read = first + nr;
	}
	for (size_t i = 0; i < nr * size; i++)
		((unsigned char *)buf)[i] = byte_of(t->seed, first * size + i);
	return 0;
}

static int write_chunk(void *arg, const void *buf, uint64_t first, uint64_t nr)
{
	struct task *t = arg;

	if (t->map.flags & RNL_MAP_IN_ORDER) {
		if (first != t->next_written)
			tally_wrong(MAP_WRONG, "written out of order");
		t->next_written = first + nr;
	}
	memcpy(t->to + first * t->map.out_bytes, buf, nr * t->map.out_bytes);
	return 0;
}

/* ---- a map ------------------------------------------------------------------------ */

static unsigned char *array_get(struct round *r, enum where *where, size_t bytes)
{
	bool pinned = *where == PINNED;
	void *mem = buffer_get(r, bytes, &pinned);

	if (*where == PINNED && !pinned)
		*where = PAGEABLE;
	return mem;
}

static void array_put(struct round *r, enum where where, unsigned char *array)
{
	if (where != IN_PLACE)
		buffer_put(r, array, where == PINNED);
}

static void draw_task(struct task *t, struct round *r, uint64_t *random)
{
	static const size_t sizes[] = { 1, 3, 4, 12, 100, 1024 };
	struct rnl_map *map = &t->map;

	*t = (struct task){ .round = r, .in = (enum where)draw(random, 3),
			    .out = (enum where)draw(random, 4), .map = RNL_MAP_INIT,
			    .seed = 1 + draw(random, 1 << 30) };
	if (t->in == CALLED && t->out == IN_PLACE)
		t->out = CALLED;
	map->flags = draw(random, 8);
	map->devices = places_draw_some(r, random);
	map->fn = run;
	map->arg = t;
	map->in_bytes = map->out_bytes = sizes[draw(random, COUNT(sizes))];
	map->nr = 1 + draw(random, (unsigned)(ARRAY_MAX / map->in_bytes));
	t->nr_chunks = 1 + draw(random, CHUNKS_MAX);
	map->chunk = (map->nr + t->nr_chunks - 1) / t->nr_chunks;
	t->nr_chunks = (map->nr + map->chunk - 1) / map->chunk;
	map->halo_before = !draw(random, 3);
	t->fails_at = draw(random, 10) ? UINT64_MAX : draw(random, (unsigned)t->nr_chunks);
	t->bytes = map->nr * map->in_bytes;
	t->from = t->in == CALLED ? NULL : array_get(r, &t->in, t->bytes);
	for (size_t i = 0; t->from && i < t->bytes; i++)
		t->from[i] = byte_of(t->seed, i);
	t->to = t->out == IN_PLACE ? t->from : array_get(r, &t->out, t->bytes);
	map->in = t->from;
	map->read = t->in == CALLED ? read_chunk : NULL;
	map->out = t->out == CALLED ? NULL : t->to;
	map->write = t->out == CALLED ? write_chunk : NULL;
}

static void verify(const struct task *t)
{
	const size_t size = t->map.in_bytes;
	const unsigned char salt = (unsigned char)(t->seed + options.wrong);

	for (uint64_t i = 0; i < t->nr_chunks; i++) {
		if (!t->calls[i])
			tally_wrong(MAP_WRONG, "chunk %llu never came", (unsigned long long)i);
	}
	for (size_t i = 0; i < t->bytes; i++) {
		const size_t was = t->map.halo_before && i >= size ? i - size : i;

		if (t->to[i] == (byte_of(t->seed, was) ^ salt))
			continue;
		tally_wrong(MAP_WRONG, "byte %zu of %zu, in %d, out %d, flags %u", i, t->bytes,
			    t->in, t->out, t->map.flags);
		return;
	}
	tally_add(NR_BYTES, t->bytes);
}

static void check_map(const struct task *t, int result)
{
	const int asked = t->fails_at < t->nr_chunks ? FAILURE : 0;

	if (result != asked && !may_end_so(t->round, result))
		tally_wrong(MAP_WRONG, "its result is %d, not %d", result, asked);
	if (!result)
		verify(t);
}

static void map_one(struct seat *seat, struct task *t)
{
	struct round *r = seat->round;
	struct rnl_barrier barrier;
	int ret = 0;

	draw_task(t, r, &seat->random);
	(void)rnl_barrier_init(&barrier, r->pool);
	at(seat, "rnl_map_start");
	ret = said(r, rnl_map_start(r->pool, &t->map, &barrier), MAY_AGAIN | MAY_SHUT | MAY_LACK,
		   "rnl_map_start");
	tally_add(NR_MAPS, !ret);
	if (!ret) {
		at(seat, "waiting for a map");
		if (said(r, rnl_barrier_wait(&barrier, long_ns()), 0, "rnl_barrier_wait"))
			give_up(r, "a map has not ended");
		check_map(t, barrier.result);
	}
	array_put(r, t->in, t->from);
	array_put(r, t->out, t->to);
}

static void map_all(struct seat *seat)
{
	struct task *t = must_alloc(sizeof(*t));

	while (!seat->round->stop) {
		map_one(seat, t);
		nap_us(draw(&seat->random, 2000));
	}
	free(t);
	seat->round->nr_stopped++;
}

void map_begin(struct round *r)
{
	r->others = true;
	for (unsigned i = 1 + draw(&r->random, 2); i; i--)
		seat_take(r, "mapper", MAKES, map_all, NULL);
}
