/* SPDX-License-Identifier: MIT */
/* Copies from and to pageable memory; staging.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/flat.h"
#include "sys/sizes.h"
#include "device/gather.h"
#include "memory/staging.h"

#define PIECE_MAX (1u << 20)	/* bytes; a CPU copies a piece in about 100 us */
#define EVENT_MIN (256u << 10)	/* an event costs more than it saves for smaller pieces */
#define PIECES 1024	/* as many launches as a CUDA stream takes before it blocks the caller */

struct rnl__piece {
	void *buf;
	struct rnl__copy out;		/* copy from the buffer; width 0: the piece goes in */
	size_t bytes;
	uint64_t seq;
	struct rnl__event *event;	/* recorded after the piece; NULL: none */
};

void rnl__staging_init(struct rnl__staging *s, struct rnl__device *device,
		       struct rnl__pinned *pinned, uint64_t max)
{
	*s = (struct rnl__staging){ .device = device, .pinned = pinned, .max = max };
}

void rnl__staging_fini(struct rnl__staging *s)
{
	while (s->nr_spare)
		s->device->ops->event_destroy(s->spare[--s->nr_spare]);
	free(s->spare);
	free(s->pieces);
	s->spare = NULL;
	s->pieces = NULL;
}

/* ---- the ring ------------------------------------------------------------ */

static struct rnl__piece *piece_at(struct rnl__staging *s, unsigned i)
{
	return &s->pieces[(s->first + i) % PIECES];
}

static void staging_copy_rows(const struct rnl__copy *c)
{
	for (size_t i = 0; i < c->rows; i++)
		memcpy((char *)c->dst + i * c->dst_pitch,
		       (const char *)c->src + i * c->src_pitch, c->width);
}

/* Removes the oldest piece, which the device has completed, or never will. */
static void staging_pop(struct rnl__staging *s, bool copy_out)
{
	struct rnl__piece *piece = piece_at(s, 0);

	if (piece->out.width) {
		s->nr_out--;
		if (copy_out)
			staging_copy_rows(&piece->out);
	}
	(void)rnl__pinned_put(s->pinned, piece->buf);
	if (piece->event)
		s->spare[s->nr_spare++] = piece->event;
	s->bytes -= piece->bytes;
	s->first = (s->first + 1) % PIECES;
	s->nr--;
}

void rnl__staging_reached(struct rnl__staging *s, uint64_t seq)
{
	while (s->nr && piece_at(s, 0)->seq <= seq)
		staging_pop(s, true);
}

void rnl__staging_forget(struct rnl__staging *s)
{
	while (s->nr)
		staging_pop(s, false);
}

/* Sleeps until an event is reached.  Returns 1 or the device's error. */
static int await(struct rnl__staging *s, struct rnl__event *event)
{
	uint64_t nap_ns = 2000;
	int ret;

	while ((ret = s->device->ops->event_reached(event)) == 0) {
		rnl__nap(nap_ns);
		if (nap_ns < 200000)
			nap_ns += nap_ns / 4;
	}
	return ret;
}

/* Waits until the device has completed the first @nr pieces or more, and empties these pieces. */
static int empty_first(struct rnl__staging *s, unsigned nr)
{
	unsigned last = nr - 1;
	int ret;

	while (last < s->nr && !piece_at(s, last)->event)
		last++;
	if (last < s->nr) {
		ret = await(s, piece_at(s, last)->event);
	} else {
		last = s->nr - 1;
		rnl__gather_flush();
		ret = s->device->ops->wait(RNL__NEVER);
	}
	if (ret < 0)
		return ret;
	for (unsigned i = 0; i <= last; i++)
		staging_pop(s, true);
	return 0;
}

int rnl__staging_empty(struct rnl__staging *s, uint64_t deadline)
{
	int ret = 0;

	if (s->nr) {
		rnl__gather_flush();
		ret = s->device->ops->wait(deadline);
	}
	while (!ret && s->nr)
		staging_pop(s, true);
	return ret;
}

void rnl__staging_leave_out(struct rnl__staging *s, const struct rnl__copy *copy)
{
	for (unsigned i = 0; i < s->nr; i++) {
		struct rnl__piece *piece = piece_at(s, i);

		if (piece->buf != copy->dst || !piece->out.width)
			continue;
		piece->out.width = 0;
		s->nr_out--;
	}
}

/* ---- buffers ------------------------------------------------------------- */

static int make_ring(struct rnl__staging *s)
{
	if (!s->pieces)
		s->pieces = calloc(PIECES, sizeof(*s->pieces));
	if (!s->spare)
		s->spare = calloc(PIECES, sizeof(struct rnl__event *));
	return s->pieces && s->spare ? 0 : -ENOMEM;
}

/* Gets a buffer; waits for older pieces if necessary.  -ENOMEM: there is no piece to wait for. */
static int get_buffer(struct rnl__staging *s, size_t bytes, void **bufp)
{
	int ret;

	for (;;) {
		ret = -ENOMEM;
		if (s->nr < PIECES && (!s->nr || s->bytes + bytes <= s->max))
			ret = rnl__pinned_get(s->pinned, bytes, bufp);
		if (ret != -ENOMEM || !s->nr)
			return ret;
		ret = empty_first(s, 1);
		if (ret)
			return ret;
	}
}

/* Records an event after the issued work.  If that fails, *@eventp is NULL: wait for the stream. */
static int staging_record(struct rnl__staging *s, struct rnl__event **eventp)
{
	struct rnl__event *event = s->nr_spare ? s->spare[--s->nr_spare] : NULL;
	int ret = event ? 0 : rnl__device_event(s->device, false, &event);

	rnl__gather_flush();
	if (!ret)
		ret = s->device->ops->event_record(event);
	if (ret && event) {
		s->spare[s->nr_spare++] = event;
		event = NULL;
	}
	*eventp = event;
	return rnl__device_failed(s->device) ? ret : 0;
}

/* Adds a piece, whose copy was issued, to the ring. */
static int staging_push(struct rnl__staging *s, uint64_t seq, void *buf, size_t bytes,
			const struct rnl__copy *out)
{
	struct rnl__piece *piece = piece_at(s, s->nr);

	piece->buf = buf;
	piece->bytes = bytes;
	piece->seq = seq;
	piece->event = NULL;
	piece->out = out ? *out : (struct rnl__copy){ 0 };
	if (out) {
		s->nr_out++;
		s->last_out = seq;
	}
	s->nr++;
	s->bytes += bytes;
	return bytes < EVENT_MIN ? 0 : staging_record(s, &piece->event);
}

/* ---- kinds of memory ------------------------------------------------------- */

/* Returns how many pieces must be emptied before this memory has its contents in stream order. */
static unsigned pieces_before(struct rnl__staging *s, const void *mem, size_t bytes)
{
	unsigned nr = 0;

	for (unsigned i = 0; s->nr_out && i < s->nr; i++) {
		const struct rnl__copy *out = &piece_at(s, i)->out;

		if (out->width &&
		    rnl__overlaps(out->dst, rnl__copy_extent(out->dst_pitch, out), mem, bytes))
			nr = i + 1;
	}
	return nr;
}

static enum rnl__memory staging_kind_of(struct rnl__staging *s, const void *mem)
{
	if (rnl__device_has(s->device, mem, 1))
		return RNL__DEVICE;
	if (s->device->info.cuda && rnl__pinned_holds(s->pinned, mem, 1))
		return RNL__PINNED;
	return s->device->ops->kind_of(s->device, mem);
}

/* ---- copies -------------------------------------------------------------- */

/* Returns true if these bytes are known to be memory of the library. */
static bool ours(struct rnl__staging *s, const void *mem, size_t bytes)
{
	return rnl__device_has(s->device, mem, bytes) ||
	       rnl__pinned_holds(s->pinned, mem, bytes);
}

/*
 * Returns true if both sides are known to be memory of the library, for a copy that is noted or
 * captured; other copies do not use the answer.
 */
static bool known_as_ours(struct rnl__staging *s, const struct rnl__copy *c)
{
	return (rnl__gather_notes() || rnl__notes_taken() || rnl__thread.guard) && c->rows == 1 &&
	       ours(s, c->dst, c->width) && ours(s, c->src, c->width);
}

/* Makes a large copy; one between the host and the device in pieces, for which it waits. */
static int copy_cut(struct rnl__staging *s, struct rnl__cut *cut, unsigned rank, const struct rnl__copy *c)
{
	const enum rnl__memory dst = staging_kind_of(s, c->dst), src = staging_kind_of(s, c->src);

	if ((dst == RNL__DEVICE) == (src == RNL__DEVICE))
		return rnl__gather_copy(c);
	return rnl__cut_copy(dst == RNL__DEVICE ? &cut->in : &cut->out, rank, c);
}

/* Lets the device copy pageable memory itself; the copy is complete on return. */
static int copy_held(struct rnl__staging *s, const struct rnl__copy *c)
{
	int ret;

	rnl__gather_flush();
	ret = rnl__gather_error();
	if (!ret)
		ret = s->device->ops->copy(c);
	return ret ? ret : s->device->ops->wait(RNL__NEVER);
}

/* Copies one piece, whose rows fit into a buffer. */
static int stage(struct rnl__staging *s, uint64_t seq, const struct rnl__copy *c, bool in)
{
	const size_t bytes = c->width * c->rows;
	struct rnl__copy host = *c, device = *c;
	void *buf;
	int ret = get_buffer(s, bytes, &buf);

	if (ret && ret != -ENOMEM)
		return ret;
	rnl__figure_add(&s->staged, bytes);
	if (ret)
		return copy_held(s, c);
	/* One side of each copy is the buffer, whose rows are contiguous. */
	if (in) {
		host.dst = buf;
		device.src = buf;
		host.dst_pitch = device.src_pitch = c->width;
		staging_copy_rows(&host);
	} else {
		host.src = buf;
		device.dst = buf;
		host.src_pitch = device.dst_pitch = c->width;
	}
	device.ours = known_as_ours(s, &device);
	ret = rnl__gather_copy(&device);
	if (ret) {
		(void)rnl__pinned_put(s->pinned, buf);
		return ret;
	}
	return staging_push(s, seq, buf, bytes, in ? NULL : &host);
}

struct staged {
	struct rnl__staging *staging;
	uint64_t seq;
	bool in;
};

static int stage_piece(const struct rnl__copy *piece, void *arg)
{
	const struct staged *to = arg;

	return stage(to->staging, to->seq, piece, to->in);
}

static int stage_all(struct rnl__staging *s, uint64_t seq, const struct rnl__copy *c, bool in)
{
	struct staged to = { s, seq, in };
	int ret = make_ring(s);

	return ret ? ret : rnl__cut_each(c, PIECE_MAX, stage_piece, &to);
}

/* ---- ways of copies ------------------------------------------------------ */

/* How a copy is made: by the device (HELD: while the caller waits), or through buffers. */
enum staging_way { DIRECT, HELD, IN, OUT };

static enum staging_way way_of(struct rnl__staging *s, const struct rnl__copy *c)
{
	const bool noted = rnl__gather_notes() || rnl__notes_taken();
	enum rnl__memory dst, src;

	/*
	 * A query to the driver is slow, and CUDA itself checks the other side.  But a copy of
	 * pageable memory that is noted would be made too late.
	 */
	if (s->device->info.cuda && !noted &&
	    (rnl__pinned_holds(s->pinned, c->dst, 1) || rnl__pinned_holds(s->pinned, c->src, 1)))
		return DIRECT;
	src = staging_kind_of(s, c->src);
	if (s->device->info.cuda && !noted && src == RNL__PINNED)
		return DIRECT;
	dst = staging_kind_of(s, c->dst);
	if (src == RNL__PAGEABLE && dst == RNL__DEVICE)
		return IN;
	if (src == RNL__DEVICE && dst == RNL__PAGEABLE)
		return OUT;
	return src == RNL__PAGEABLE || dst == RNL__PAGEABLE ? HELD : DIRECT;
}

bool rnl__staging_pageable(struct rnl__staging *s, const struct rnl__copy *c)
{
	return way_of(s, c) != DIRECT;
}

/* Empties the pieces that have not written to that memory yet. */
static int await_pieces(struct rnl__staging *s, const void *mem, size_t bytes)
{
	const unsigned nr = s->nr_out ? pieces_before(s, mem, bytes) : 0;

	return nr ? empty_first(s, nr) : 0;
}

RNL__FLAT
int rnl__staging_copy(struct rnl__staging *s, uint64_t seq, struct rnl__copy *c,
		      struct rnl__cut *cut, unsigned rank)
{
	enum staging_way way;
	int ret;

	c->ours = known_as_ours(s, c);
	way = c->ours ? DIRECT : way_of(s, c);
	ret = await_pieces(s, c->src, rnl__copy_extent(c->src_pitch, c));

	/* For a copy out, the order of the ring is enough. */
	if (!ret && way != OUT)
		ret = await_pieces(s, c->dst, rnl__copy_extent(c->dst_pitch, c));
	if (ret)
		return ret;
	switch (way) {
	case DIRECT:
		return cut ? copy_cut(s, cut, rank, c) : rnl__gather_copy(c);
	case HELD:
		return copy_held(s, c);
	default:
		return stage_all(s, seq, c, way == IN);
	}
}
