/* SPDX-License-Identifier: MIT */
/*
 * Threads that are not workers get and put pinned buffers and device memory, and copy on their own
 * streams.
 *
 * DESIGN
 *	A thread fills its buffer with a sign, and checks the sign before it puts the buffer. So a
 *	buffer that two threads had at the same time is noticed.
 */
#include "torture.h"

#include <string.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/thread.h>

#define NR_HELD 6
#define BYTES_MAX 150000

struct held {
	unsigned char *buf;
	size_t bytes;
	unsigned char sign;
};

static bool is_signed(const unsigned char *buf, size_t bytes, unsigned char sign)
{
	for (size_t i = 0; i < bytes; i++) {
		if (buf[i] != sign)
			return false;
	}
	return true;
}

static void put(struct seat *seat, struct held *h)
{
	if (!is_signed(h->buf, h->bytes, (unsigned char)(h->sign + options.wrong)))
		tally_wrong(MEMORY_SHARED, "a pinned buffer of %zu bytes", h->bytes);
	rnl_memory_put(seat->round->pool, h->buf);
	h->buf = NULL;
}

static void get(struct seat *seat, struct held *h)
{
	struct round *r = seat->round;
	void *buf = NULL;
	bool waits;
	int ret;

	h->bytes = 1 + draw(&seat->random, draw(&seat->random, 4) ? 5000 : BYTES_MAX);
	at(seat, "rnl_memory_get");
	waits = !draw(&seat->random, 4);
	ret = said(r, rnl_memory_get(r->pool, RNL_PINNED, h->bytes, &buf, waits ? MS / 4 : 0),
		   waits ? MAY_LACK | MAY_TIME_OUT : MAY_LACK, "rnl_memory_get");
	if (ret)
		return;
	tally_add(NR_BUFFERS, 1);
	h->buf = buf;
	h->sign = (unsigned char)draw(&seat->random, 256);
	memset(h->buf, h->sign, h->bytes);
}

/* Copies to a device, runs a kernel, copies to another device and back, on this thread's stream. */
static int round_trip(struct round *r, struct held *h, void *mem, void *other)
{
	const struct mix_args args = { mem, (uint32_t)h->bytes, 0, 0xff };
	const struct rnl_dim grid = { 8, 1, 1 }, block = { 64, 1, 1 };
	int ret = rnl_copy(mem, h->buf, h->bytes), waited;

	ret = ret ? ret : rnl_launch(&mix, grid, block, &args);
	if (other)
		ret = ret ? ret : rnl_copy(other, mem, h->bytes);
	ret = ret ? ret : rnl_copy(h->buf, other ? other : mem, h->bytes);
	waited = said(r, rnl_stream_wait(RNL_FOREVER), 0, "rnl_stream_wait");
	return ret ? ret : waited;
}

static void use_stream(struct seat *seat, struct held *h)
{
	struct round *r = seat->round;
	const unsigned device = draw(&seat->random, r->nr_devices);
	void *mem, *other = NULL;
	int ret;

	at(seat, "rnl_thread_attach");
	if (said(r, rnl_thread_attach(r->pool), MAY_LACK, "rnl_thread_attach"))
		return;
	at(seat, "a stream of its own");
	if (r->nr_devices > 1)
		other = memory_get(r, draw(&seat->random, r->nr_devices), h->bytes);
	mem = memory_get(r, device, h->bytes);
	if (mem) {
		ret = round_trip(r, h, mem, other);
		if (!ret)
			h->sign ^= 0xff;
		else if (!may_end_so(r, ret))
			tally_wrong(UNDOCUMENTED, "a stream of one's own: %d", ret);
		else	/* After an error the buffer's content is unknown. */
			memset(h->buf, h->sign, h->bytes);
		rnl_memory_put(r->pool, mem);
	}
	rnl_memory_put(r->pool, other);
	if (draw(&seat->random, 2))
		rnl_thread_attach(NULL);
}

static void use_memory(struct seat *seat)
{
	struct held held[NR_HELD] = { 0 };

	while (!seat->round->stop) {
		struct held *h = &held[draw(&seat->random, NR_HELD)];

		if (!h->buf)
			get(seat, h);
		else if (draw(&seat->random, 8))
			put(seat, h);
		else
			use_stream(seat, h);
		nap_us(draw(&seat->random, 100));
	}
	for (unsigned i = 0; i < NR_HELD; i++) {
		if (held[i].buf)
			put(seat, &held[i]);
	}
	rnl_thread_attach(NULL);
	seat->round->nr_stopped++;
}

void memory_begin(struct round *r)
{
	for (unsigned i = 1 + draw(&r->random, 2); i; i--)
		seat_take(r, "holder", MAKES, use_memory, NULL);
}
