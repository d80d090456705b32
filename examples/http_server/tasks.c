/* SPDX-License-Identifier: MIT */
/*
 * The tasks: POST /wc, POST /sobel, and, with --allow-crash, POST /crash and POST /hang.
 *
 * DESIGN
 * /wc counts the lines, words and bytes of a body with gwc's kernel: see gwc/count.h.  The kernel
 * counts pieces of the text, and the answer joins their summaries.  The table of pieces directly
 * follows the text, so that one copy moves both to the device.
 *
 * /sobel answers the edges of an image, as a grey PNG.  Decoding and encoding take milliseconds of
 * a CPU; in an event loop, that would delay all connections of the loop.  So workers do it, in two
 * jobs: the first decodes, and issues copy, kernel and copy; when it is done, the second encodes.
 * Between them, small pictures are computed in batches: see small.c.  While a worker decodes, it
 * completes no other job of its stream, and other workers steal the jobs in its queue.
 * --max-pixels limits that time.
 *
 * /crash is for tests: its kernel writes to an illegal address.  After that the process cannot use
 * the GPU any more; on the host device, where kernels are functions, the process ends.
 *
 * /hang is for tests, too: its function waits until its job is cancelled, or forever if there is a
 * body.
 *
 *	buffer	/wc			/sobel
 *	in	text, pieces		the file		then the edges
 *	out	summaries		the pixels, decoded	then the PNG
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <time.h>

#include <event2/buffer.h>
#include <jansson.h>

#include <runnel/kernel.h>

#include "gwc/count.h"
#include "kernels.h"

#define UNMAPPED 16	/* in the first page, which is not mapped on hosts and devices */

/* ---- /wc ----------------------------------------------------------------- */

size_t wc_buffer_bytes(const struct options *opt)
{
	const size_t pieces = gwc_nr_pieces(opt->max_body);
	const size_t in = gwc_align(opt->max_body) + pieces * sizeof(struct gwc_piece);
	const size_t out = pieces * sizeof(struct gwc_summary);

	return in > out ? in : out;
}

static int wc_issue(struct slot *slot)
{
	const size_t pieces_at = gwc_align(slot->bytes);
	const uint32_t nr = gwc_nr_pieces(slot->bytes);
	const struct gwc_args args = {
		.text = slot->device_in,
		.pieces = (const struct gwc_piece *)(void *)(slot->device_in + pieces_at),
		.summaries = (struct gwc_summary *)(void *)slot->device_out,
		.printable = RNL_WC_WORDS_PRINTABLE,
	};
	const struct rnl_dim grid = { nr, 1, 1 };
	const struct rnl_dim block = { GWC_THREADS, 1, 1 };
	int ret;

	if (!nr)	/* an empty body: the job issues nothing */
		return 0;
	gwc_cut((struct gwc_piece *)(void *)(slot->in + pieces_at), 0, slot->bytes);
	ret = rnl_copy(slot->device_in, slot->in, pieces_at + nr * sizeof(struct gwc_piece));
	if (!ret)
		ret = rnl_launch(&gwc_kernel, grid, block, &args);
	if (!ret)
		ret = rnl_copy(slot->out, slot->device_out, nr * sizeof(struct gwc_summary));
	return ret;
}

static const char *wc_write(struct slot *slot, struct evbuffer *out)
{
	const struct gwc_summary *sums = (const struct gwc_summary *)(void *)slot->out;
	const struct gwc_summary sum = gwc_join_all(sums, gwc_nr_pieces(slot->bytes));

	return answer_json(json_pack("{s:I, s:I, s:I}", "lines", (json_int_t)sum.lines,
				     "words", (json_int_t)sum.words,
				     "bytes", (json_int_t)slot->bytes), out);
}

const struct task wc_task = {
	.kind = SPAN_WORDS,
	.issue = wc_issue,
	.write = wc_write,
};

/* ---- /sobel -------------------------------------------------------------- */

/* Computes a row's first and last pixel separately, so that the compiler can vectorise the rest. */
void sobel_grid(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct sobel_args *a = (const struct sobel_args *)args;
	const uint32_t last = a->width - 1;

	(void)grid;
	(void)block;
	for (uint32_t y = 0; y < a->height; y++) {
		const unsigned char *row = a->pixels + (size_t)y * a->width;
		const unsigned char *above = y ? row - a->width : row;
		const unsigned char *below = y + 1 < a->height ? row + a->width : row;
		unsigned char *restrict edges = a->edges + (size_t)y * a->width;

		edges[0] = sobel_edge(above, row, below, 0, 0, last ? 1 : 0);
		for (uint32_t x = 1; x < last; x++)
			edges[x] = sobel_edge(above, row, below, x - 1, x, x + 1);
		if (last)
			edges[last] = sobel_edge(above, row, below, last - 1, last, last);
	}
}

void pictures_grid(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct pictures_args *a = args;

	for (uint32_t i = 0; i < a->nr; i++) {
		const struct sobel_args one = picture_of(a, i);

		sign_picture(a, i);
		sobel_grid(grid, block, &one);
	}
}

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
	slot->small = small_takes(slot->endpoint->loop->server, args.width, args.height);
	if (slot->small)	/* a batch will compute the edges */
		return 0;
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
	/* Copies, so that the slot is free immediately, even if the client reads slowly. */
	return evbuffer_add(out, slot->out, slot->image.png_bytes) ? NULL : "image/png";
}

const struct task edges_task = {
	.kind = SPAN_EDGES,
	.issue = edges_issue,
	.finish = edges_finish,
	.write = edges_write,
};

/* ---- /crash -------------------------------------------------------------- */

void crash_grid(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct crash_args *a = args;

	(void)grid;
	(void)block;
	*(volatile uint32_t *)a->where = 1;
}

static int crash_issue(struct slot *slot)
{
	const struct crash_args args = { .where = (uint32_t *)(uintptr_t)UNMAPPED };
	const struct rnl_dim one = { 1, 1, 1 };

	(void)slot;
	return rnl_launch(&crash_kernel, one, one, &args);
}

/* Called only if the write was legal after all. */
static const char *crash_write(struct slot *slot, struct evbuffer *out)
{
	(void)slot;
	return answer_json(json_pack("{s:b}", "survived", 1), out);
}

const struct task crash_task = {
	.issue = crash_issue,
	.write = crash_write,
};

/* ---- /hang --------------------------------------------------------------- */

static int hang_issue(struct slot *slot)
{
	const struct timespec nap = { 0, 5000000 };

	while (slot->bytes || rnl_job_is_cancelled(&slot->job) == 0)
		nanosleep(&nap, NULL);
	return -ECANCELED;
}

const struct task hang_task = {
	.issue = hang_issue,
	.write = crash_write,
};
