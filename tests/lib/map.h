/* SPDX-License-Identifier: MIT */
/*
 * Maps whose output is known: a model on the CPU computes it.
 *
 * DESIGN
 *	An output element is filled with copies of two input elements in turn: the element `before`
 *	places to the left, and the element `after` places to the right.  Elements beyond the
 *	array's ends are FILLER.  A map in place without halos only writes each chunk's number to
 *	the chunk's first byte.  All this needs only copies and fills, so it works on every device.
 *	Workers run these functions, so the functions must not assert.  They print an error and
 *	return it as the map's result.
 *	Calls that must not run concurrently use plain memory, so ThreadSanitizer reports them if
 *	they do.
 */
#ifndef MAP_H
#define MAP_H

#include <inttypes.h>

#include <runnel/map.h>
#include <runnel/memory.h>

#include "gate.h"
#include "sanitizers.h"
#include "skip.h"

#define FILLER 0xee
#define GUARD 64	/* bytes on both sides of an array; they must not change */
#define GUARDED 0x5a

/* Place of an array.  CALLED: a callback provides it.  NOWHERE: there is no output. */
enum where { PINNED, PAGEABLE, CALLED, IN_PLACE, NOWHERE };

/* Extra behaviour of the callback for one element: the callback waits, fails, or both. */
struct event {
	bool wanted;
	uint64_t element;
	struct gate *gate;	/* NULL: no gate */
	int error;		/* the call's return value */
};

struct task {
	/* set by the test */
	enum where in, out;
	uint64_t nr, chunk, before, after;
	size_t in_bytes, out_bytes;
	uint32_t flags;
	struct rnl_class *cls;
	bool reports;
	struct event at_fn, at_read, at_write;

	/* changes during the map */
	struct rnl_pool *pool;
	struct rnl_map map;
	struct rnl_map_report report;
	unsigned char *original, *from, *to; /* the input, and the arrays; NULL: no array */
	unsigned char *seen, *written;	/* for each element, the number of calls */
	_Atomic unsigned char *read;
	_Atomic uint64_t nr_fn, nr_read, nr_written; /* numbers of calls */
	_Atomic uint64_t found_chunk;	/* the size of the first chunk */
	uint64_t next_read, next_write;	/* for maps in order */
	bool in_read, in_write;
};

static inline int say(const char *what, uint64_t first, uint64_t nr)
{
	fprintf(stderr, "%s, at elements %" PRIu64 " + %" PRIu64 "\n", what, first, nr);
	return -EPROTO;
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline int meet(const struct event *e, uint64_t first, uint64_t nr)
{
	if (!e->wanted || e->element < first || e->element - first >= nr)
		return 0;
	if (e->gate)
		gate_wait(e->gate);
	return e->error;
}

/* ---- the callbacks ------------------------------------------------------- */

/* Copies one input element into each output element; @at: offset of its first byte there. */
static inline int move_part(const struct rnl_chunk *c, const struct task *t, size_t at)
{
	const bool right = (at / t->in_bytes + c->index) % 2;
	const int64_t shift = right ? (int64_t)least(t->after, t->nr) :
				      -(int64_t)least(t->before, t->nr);
	const int64_t nr = (int64_t)c->nr, width = (int64_t)t->in_bytes;
	int64_t first = -shift - (int64_t)c->before, end = nr + (int64_t)c->after - shift;
	const char *in = c->in;
	char *out = c->out;

	first = first < 0 ? 0 : first;
	end = end > nr ? nr : end;
	if (first >= end)
		return 0;
	in += (first + shift) * width;
	out += first * (int64_t)t->out_bytes + (int64_t)at;
	if (t->in_bytes == t->out_bytes)
		return rnl_copy(out, in, (size_t)(end - first) * t->in_bytes);
	return rnl_copy_2d(out, t->out_bytes, in, t->in_bytes,
			   least(t->in_bytes, t->out_bytes - at), (size_t)(end - first));
}

/* Checks that a chunk is as the header promises. */
static inline int look_at(const struct rnl_chunk *c, struct task *t)
{
	const uint64_t left = t->nr - c->first - c->nr;
	const bool last = !left;

	if (!c->index)
		t->found_chunk = c->nr;
	if (!c->nr || c->first > t->nr || c->nr > t->nr - c->first)
		return say("a chunk beyond the array", c->first, c->nr);
	if (t->chunk != RNL_MAP_AUTO &&
	    (c->first != c->index * t->chunk || (!last && c->nr != t->chunk) || c->nr > t->chunk))
		return say("a chunk in the wrong place", c->first, c->nr);
	if (c->before != least(t->before, c->first) || c->after != least(t->after, left))
		return say("halos of a wrong size", c->first, c->nr);
	if (!c->in || !c->out != !t->out_bytes)
		return say("memory that is missing, or there for nothing", c->first, c->nr);
	if ((uintptr_t)c->in % 256 || (uintptr_t)c->out % 256)
		return say("memory that is not aligned", c->first, c->nr);
	if (t->out == IN_PLACE && (c->in == c->out) != !(t->before || t->after))
		return say("in place, but not so on the device", c->first, c->nr);
	for (uint64_t i = c->first; i < c->first + c->nr; i++)
		t->seen[i]++;
	return 0;
}

static inline int task_fn(const struct rnl_chunk *c)
{
	struct task *t = c->arg;
	int ret = look_at(c, t);

	t->nr_fn++;
	if (!ret)
		ret = meet(&t->at_fn, c->first, c->nr);
	if (ret || !t->out_bytes)
		return ret;
	if (c->in == c->out)
		return rnl_fill(c->out, (uint8_t)c->index, 1);
	ret = rnl_fill(c->out, FILLER, c->nr * t->out_bytes);
	for (size_t at = 0; !ret && at < t->out_bytes; at += t->in_bytes)
		ret = move_part(c, t, at);
	return ret;
}

/* In order: this chunk must be the next one, with the right halos, and no other call may run. */
static inline int look_at_read(struct task *t, uint64_t first, uint64_t nr)
{
	const uint64_t before = least(t->before, t->next_read);
	const uint64_t chunk = t->chunk == RNL_MAP_AUTO ? nr : t->chunk;
	const uint64_t own = least(chunk, t->nr - t->next_read);
	const uint64_t after = least(t->after, t->nr - t->next_read - own);

	if (t->in_read)
		return say("two read", first, nr);
	if (first != t->next_read - before || nr != before + own + after)
		return say("read out of order", first, nr);
	t->next_read += own;
	return 0;
}

static inline int task_read(void *arg, void *buf, uint64_t first, uint64_t nr)
{
	struct task *t = arg;
	const bool in_order = t->flags & RNL_MAP_IN_ORDER;
	int ret = 0;

	t->nr_read++;
	if (!nr || first > t->nr || nr > t->nr - first)
		return say("read beyond the array", first, nr);
	if (in_order) {
		ret = look_at_read(t, first, nr);
		t->in_read = true;
	}
	for (uint64_t i = first; i < first + nr; i++)
		t->read[i]++;
	memcpy(buf, t->original + first * t->in_bytes, nr * t->in_bytes);
	if (!ret)
		ret = meet(&t->at_read, first, nr);
	if (in_order)
		t->in_read = false;
	return ret;
}

static inline int task_write(void *arg, const void *buf, uint64_t first, uint64_t nr)
{
	struct task *t = arg;
	const bool in_order = t->flags & RNL_MAP_IN_ORDER;
	int ret = 0;

	t->nr_written++;
	if (!nr || first > t->nr || nr > t->nr - first)
		return say("written beyond the array", first, nr);
	if (in_order) {
		if (t->in_write)
			ret = say("two write", first, nr);
		if (first != t->next_write)
			ret = say("written out of order", first, nr);
		t->next_write = first + nr;
		t->in_write = true;
	}
	for (uint64_t i = first; i < first + nr; i++)
		t->written[i]++;
	memcpy(t->to + first * t->out_bytes, buf, nr * t->out_bytes);
	if (!ret)
		ret = meet(&t->at_write, first, nr);
	if (in_order)
		t->in_write = false;
	return ret;
}

/* ---- memory -------------------------------------------------------------- */

/* AddressSanitizer itself checks the bytes after a malloc(), also for reads. */
static inline size_t guard_behind(enum where where)
{
	return where == PINNED || !SANITIZED ? GUARD : 0;
}

static inline unsigned char *array_get(struct rnl_pool *pool, enum where where, uint64_t bytes)
{
	const size_t whole = GUARD + bytes + guard_behind(where);
	void *mem;

	if (where == PINNED)
		must(rnl_memory_get(pool, RNL_PINNED, whole, &mem, 0));
	else
		mem = malloc(whole);
	ck_assert_ptr_nonnull(mem);
	memset(mem, GUARDED, whole);
	return (unsigned char *)mem + GUARD;
}

/* Checks that the bytes around an array are unchanged, and frees it. */
static inline void array_put(struct rnl_pool *pool, enum where where, unsigned char *array,
			     uint64_t bytes)
{
	ck_assert_bytes(array - GUARD, GUARD, GUARDED);
	ck_assert_bytes(array + bytes, guard_behind(where), GUARDED);
	if (where == PINNED)
		rnl_memory_put(pool, array - GUARD);
	else
		free(array - GUARD);
}

static inline unsigned char original_byte(uint64_t i)
{
	return (unsigned char)((i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

/* Prepares all of a map except its start. */
MUCH_DATA static inline void task_prepare(struct task *t, struct rnl_pool *pool)
{
	const uint64_t in_bytes = t->nr * t->in_bytes, out_bytes = t->nr * t->out_bytes;

	t->pool = pool;
	t->original = array_get(pool, PAGEABLE, in_bytes);
	for (uint64_t i = 0; i < in_bytes; i++)
		t->original[i] = original_byte(i);
	if (t->in != CALLED) {
		t->from = array_get(pool, t->in, in_bytes);
		memcpy(t->from, t->original, in_bytes);
	}
	if (t->out == IN_PLACE)
		t->to = t->from;
	else if (t->out != NOWHERE)
		t->to = array_get(pool, t->out, out_bytes);
	t->seen = calloc(t->nr + 1, 1);
	t->written = calloc(t->nr + 1, 1);
	t->read = calloc(t->nr + 1, 1);
	t->report = (struct rnl_map_report)RNL_MAP_REPORT_INIT;
	t->map = (struct rnl_map){
		.size = sizeof(t->map), .flags = t->flags | (t->reports ? RNL_MAP_TIMED : 0),
		.fn = task_fn, .arg = t, .nr = t->nr,
		.chunk = t->chunk, .halo_before = t->before, .halo_after = t->after,
		.in_bytes = t->in_bytes, .out_bytes = t->out_bytes, .in = t->from,
		.out = t->out == CALLED ? NULL : t->to, .read = t->in == CALLED ? task_read : NULL,
		.write = t->out == CALLED ? task_write : NULL,
		.report = t->reports ? &t->report : NULL, .cls = t->cls,
	};
}

static inline void task_end(struct task *t)
{
	array_put(t->pool, PAGEABLE, t->original, t->nr * t->in_bytes);
	if (t->from)
		array_put(t->pool, t->in, t->from, t->nr * t->in_bytes);
	if (t->to && t->to != t->from)
		array_put(t->pool, t->out, t->to, t->nr * t->out_bytes);
	free(t->seen);
	free(t->written);
	free((void *)t->read);
}

/* ---- the expected output ------------------------------------------------- */

static inline uint64_t chunk_of(const struct task *t)
{
	return t->chunk == RNL_MAP_AUTO ? t->found_chunk : least(t->chunk, t->nr);
}

static inline unsigned char expected_byte(const struct task *t, uint64_t i, size_t byte)
{
	const uint64_t chunk = chunk_of(t), index = i / chunk;
	const bool right = (byte / t->in_bytes + index) % 2;

	if (t->out == IN_PLACE && !t->before && !t->after)
		return i % chunk || byte ? t->original[i * t->in_bytes + byte] : (uint8_t)index;
	if (right ? t->after >= t->nr - i : t->before > i)
		return FILLER;
	i = right ? i + t->after : i - t->before;
	return t->original[i * t->in_bytes + byte % t->in_bytes];
}

/* Returns the number of chunks that an element is in, halos included. */
static inline unsigned times_read(const struct task *t, uint64_t i)
{
	const uint64_t chunk = chunk_of(t), first = i / chunk * chunk, next = first + chunk;

	return 1 + (next < t->nr && t->before >= next - i) + (first && t->after > i - first);
}

/* Returns the first wrong output element, or nr. */
static inline uint64_t wrong_element(const struct task *t)
{
	for (uint64_t i = 0; t->to && i < t->nr; i++) {
		for (size_t b = 0; b < t->out_bytes; b++) {
			if (t->to[i * t->out_bytes + b] != expected_byte(t, i, b))
				return i;
		}
	}
	return t->nr;
}

/* Returns the first element with too many or too few callbacks, or nr. */
static inline uint64_t wrong_times(const struct task *t)
{
	uint64_t i = 0;

	while (i < t->nr && t->seen[i] == 1 && t->written[i] == (t->out == CALLED) &&
	       t->read[i] == (t->in == CALLED ? times_read(t, i) : 0))
		i++;
	return i;
}

/* Checks the output of a map that is done, and the numbers of callbacks. */
MUCH_DATA static inline void task_verify(const struct task *t)
{
	uint64_t wrong = wrong_times(t);

	ck_assert_msg(wrong == t->nr, "element %" PRIu64 " was read %d, seen %d, written %d times",
		      wrong, t->read[wrong], t->seen[wrong], t->written[wrong]);
	wrong = wrong_element(t);
	ck_assert_msg(wrong == t->nr, "element %" PRIu64 " came out wrong", wrong);
	if (t->from && t->out != IN_PLACE)
		ck_assert_int_eq(memcmp(t->from, t->original, t->nr * t->in_bytes), 0);
}

static inline uint64_t nr_chunks_of(const struct task *t)
{
	return (t->nr + chunk_of(t) - 1) / chunk_of(t);
}

/* Checks the report of a map that is done: exact figures, and figures that must agree. */
static inline void task_check_report(const struct task *t)
{
	const struct rnl_map_report *r = &t->report;
	const uint64_t staged[] = { r->in_ns, r->kernel_ns, r->out_ns };
	/* A GPU's clock differs from the host's. */
	const uint64_t wall = on_host() ? r->wall_ns : r->wall_ns + r->wall_ns / 100 + 1000;
	uint64_t elements = 0, sum = 0, longest = 0;

	for (uint64_t i = 0; i < t->nr; i++)
		elements += times_read(t, i);
	ck_assert_uint_eq(r->size, sizeof(*r));
	ck_assert_uint_eq(r->chunks, nr_chunks_of(t));
	ck_assert_uint_eq(r->bytes_in, elements * t->in_bytes);
	ck_assert_uint_eq(r->bytes_out, t->nr * t->out_bytes);
	ck_assert_uint_ge(r->nr_jobs, 1);
	ck_assert_uint_le(r->nr_jobs, r->chunks);
	ck_assert_uint_gt(r->wall_ns, 0);
	for (unsigned i = 0; i < COUNT(staged); i++) {
		ck_assert_uint_le(staged[i], wall);
		sum += staged[i];
		longest = staged[i] > longest ? staged[i] : longest;
	}
	ck_assert_uint_eq(r->overlap_percent, 100 * sum / r->wall_ns);
	ck_assert_uint_eq(r->limit_percent, 100 * longest / r->wall_ns);
	if (t->in == PINNED)
		ck_assert_uint_eq(r->read_ns, 0);
	if (t->out == PINNED || t->out == NOWHERE || (t->out == IN_PLACE && t->in == PINNED))
		ck_assert_uint_eq(r->write_ns, 0);
}

/* Runs one map from start to end. */
static inline void task_run(struct task *t, struct rnl_pool *pool)
{
	struct rnl_barrier barrier;

	task_prepare(t, pool);
	must(rnl_barrier_init(&barrier, pool));
	must(rnl_map_start(pool, &t->map, &barrier));
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ck_assert_int_eq(barrier.result, 0);
	task_verify(t);
	if (t->reports)
		task_check_report(t);
	task_end(t);
}

#endif /* MAP_H */
