/* SPDX-License-Identifier: MIT */
/*
 * POST /sobel: the edges of an image, as a grey PNG.
 *
 * DESIGN
 * To decode and to encode an image takes a CPU for milliseconds.  An event loop
 * that did it would keep all of its connections waiting, so workers do it, in two
 * jobs: one decodes, and issues copy, kernel and copy; when it comes back, another
 * one encodes.  A worker that decodes tells nobody meanwhile that other jobs on
 * its stream are done: that is the price of one pool, and --max-pixels bounds it.
 * Jobs that wait in its queue are stolen by other workers.
 *
 * The buffers take turns:
 *
 *	in		the file		then the edges
 *	out		the pixels, decoded	then the PNG
 */
#include "config.h"

#include "server.h"

#include <event2/buffer.h>

#include "image.h"
#include "sobel.h"

size_t edges_buffer_bytes(const struct options *opt)
{
	const size_t png = image_png_bytes_max(opt->max_pixels);

	return png > opt->max_body ? png : opt->max_body;
}

static int edges_issue(struct slot *slot)
{
	const size_t max_pixels = slot->endpoint->loop->server->opt.max_pixels;
	struct sobel_args args = { .pixels = slot->device_in, .edges = slot->device_out };
	const struct rnl_dim block = { SOBEL_BLOCK_X, SOBEL_BLOCK_Y, 1 };
	struct rnl_dim grid = { 1, 1, 1 };
	size_t bytes;
	int ret;

	ret = image_decode(slot->in, slot->bytes, slot->out, max_pixels, &args.width,
			   &args.height);
	if (ret)
		return ret;
	slot->image.width = args.width;
	slot->image.height = args.height;
	bytes = (size_t)args.width * args.height;
	grid.x = (args.width + SOBEL_BLOCK_X - 1) / SOBEL_BLOCK_X;
	grid.y = (args.height + SOBEL_BLOCK_Y - 1) / SOBEL_BLOCK_Y;
	ret = rnl_copy(slot->device_in, slot->out, bytes);
	if (!ret)
		ret = rnl_launch(&sobel_kernel, grid, block, &args);
	if (!ret)
		ret = rnl_copy(slot->in, slot->device_out, bytes);
	return ret;
}

static int edges_finish(struct slot *slot)
{
	slot->image.png_bytes =
		image_png_bytes_max((size_t)slot->image.width * slot->image.height);
	return image_encode(slot->in, slot->image.width, slot->image.height, slot->out,
			    &slot->image.png_bytes);
}

static const char *edges_write(struct slot *slot, struct evbuffer *out)
{
	/* A copy: the slot is free at once, however slowly the client reads. */
	return evbuffer_add(out, slot->out, slot->image.png_bytes) ? NULL : "image/png";
}

const struct task edges_task = {
	.issue = edges_issue,
	.finish = edges_finish,
	.write = edges_write,
};
