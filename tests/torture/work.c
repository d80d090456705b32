/* SPDX-License-Identifier: MIT */
/*
 * A job's work on the device: bytes are copied in, changed or not, and copied out. The right output
 * is known in advance.
 */
#include "torture.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>

#define LEFT 0x5a

/* Draws a size. Most are small; some need several pieces of the pool's page-locked memory. */
static uint32_t draw_bytes(uint64_t *random)
{
	if (draw(random, 400) == 0)
		return 1 + draw(random, 1300000);
	if (draw(random, 20) == 0)
		return 1 + draw(random, 70000);
	return 1 + draw(random, 600);
}

void work_begin(struct work *w, struct round *r, uint64_t *random)
{
	work_forget(w);
	*w = (struct work){ .what = (enum what)draw(random, NR_WHATS + 1), .rows = 1,
			    .seed = 1 + draw(random, 1 << 30) };
	if (w->what == NR_WHATS)
		w->what = NOTHING;
	if (w->what < COPIES)
		return;
	w->bytes = draw_bytes(random);
	if (w->what == ROWS) {
		w->rows = 1 + draw(random, 8);
		w->bytes = (w->bytes + w->rows - 1) / w->rows * w->rows;
	}
	w->looks = !draw(random, 8);
	if (w->what == MIXES && !draw(random, 8))
		w->dawdle_us = draw(random, 300);
	/* Pinned buffers end with the pool, but output may be checked after that. */
	w->pinned_in = !r->leaves && draw(random, 2);
	w->pinned_out = !r->leaves && draw(random, 2);
	w->in = buffer_get(r, w->bytes, &w->pinned_in);
	w->out = buffer_get(r, w->bytes, &w->pinned_out);
	for (uint32_t i = 0; i < w->bytes; i++) {
		w->in[i] = byte_of(w->seed, i);
		w->out[i] = 0;
	}
}

static int change(const struct work *w, unsigned char *mem)
{
	const struct mix_args args = { mem, w->bytes, w->dawdle_us, (uint8_t)w->seed };
	const struct rnl_dim grid = { 1 + w->bytes / 1024, 1, 1 }, block = { 128, 1, 1 };

	if (w->what == MIXES)
		return rnl_launch(&mix, grid, block, &args);
	return w->what == FILLS ? rnl_fill(mem, (uint8_t)w->seed, w->bytes / 2) : 0;
}

/* Copies rows; on the device, a row is followed by as many unused bytes. */
static int move_rows(const struct work *w, unsigned char *mem)
{
	const size_t width = w->bytes / w->rows;
	int ret = rnl_copy_2d(mem, 2 * width, w->in, width, width, w->rows);

	return ret ? ret : rnl_copy_2d(w->out, width, mem, 2 * width, width, w->rows);
}

int work_issue(const struct work *w)
{
	void *mem;
	int ret;

	if (w->what < COPIES)
		return work_result(w);
	ret = rnl_scratch(w->what == ROWS ? 2 * (size_t)w->bytes : w->bytes, &mem);
	if (!ret && w->what == ROWS) {
		ret = move_rows(w, mem);
	} else if (!ret) {
		ret = rnl_copy(mem, w->in, w->bytes);
		if (w->looks)
			(void)rnl_stream();
		ret = ret ? ret : change(w, mem);
		ret = ret ? ret : rnl_copy(w->out, mem, w->bytes);
	}
	return ret ? ret : work_result(w);
}

int work_result(const struct work *w)
{
	return w->what == FAILS ? -EPROTO : (int)(w->seed & 0x7fff);
}

bool work_right(const struct work *w, bool ran)
{
	const unsigned char salt = (unsigned char)(w->seed + options.wrong);

	tally_add(NR_BYTES, w->bytes);
	for (uint32_t i = 0; i < w->bytes; i++) {
		unsigned char byte = byte_of(w->seed, i);

		if (!ran)
			byte = 0;
		else if (w->what == MIXES)
			byte ^= salt;
		else if (w->what == FILLS && i < w->bytes / 2)
			byte = salt;
		if (w->out[i] != byte)
			return false;
	}
	return true;
}

void work_end(struct work *w, struct round *r)
{
	if (!w->in)
		return;
	buffer_put(r, w->in, w->pinned_in);
	if (w->pinned_out) {
		buffer_put(r, w->out, true);
	} else {
		memset(w->out, LEFT, w->bytes);
		w->left = w->out;
		w->left_bytes = w->bytes;
	}
	w->in = w->out = NULL;
}

void work_forget(struct work *w)
{
	for (uint32_t i = 0; i < w->left_bytes; i++) {
		if (w->left[i] != LEFT) {
			tally_wrong(TOUCHED, "byte %u of %u", i, w->left_bytes);
			break;
		}
	}
	free(w->left);
	w->left = NULL;
	w->left_bytes = 0;
}
